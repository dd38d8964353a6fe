"""What users can do is documented, and the documents speak of what exists."""

from __future__ import annotations

import re
from pathlib import Path

import click

from crawler.cli import main
from dedup.errors import WinnowError

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_and_option_is_in_the_readme() -> None:
    """A command or option that the README does not name fails the build."""
    assert isinstance(main, click.Group)
    for name, command in main.commands.items():
        assert f"`winnow {name} " in README
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert any(f"`{flag}" in README for flag in parameter.opts), f"{name}: {parameter.opts}"


def test_every_make_target_of_the_readme_exists() -> None:
    """What the README tells to make can be made."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= targets


def test_every_exit_code_is_in_the_readme() -> None:
    """An error's exit code is documented."""
    codes = {error.exit_code for error in _tree(WinnowError)} - {1}
    documented = README.partition("Exit codes:")[2].partition("\n\n")[0]
    assert all(re.search(rf"\b{code} ", documented) for code in codes)


def test_every_file_of_the_documents_exists() -> None:
    """Links lead somewhere."""
    for document in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def _tree(error: type[WinnowError]) -> set[type[WinnowError]]:
    return {error}.union(*(_tree(child) for child in error.__subclasses__()))
