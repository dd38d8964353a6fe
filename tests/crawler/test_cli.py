"""The command line: help, version, settings, compare, and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from crawler.version import VERSION
from tests.crawler.running import replay, save_jsonl, web, winnow
from tests.texts import edited, text

# the contract's common options and exit codes
REPLAY_OPTIONS = ["--out", "--redis", "--workers", "--quiet", "--config", "--set", "--json", "--help"]
EXIT_CODES = [0, 2, 3, 4, 5, 8, 11, 13]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_jsonl(tmp_path / "pages.jsonl", web(10))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "a.html", tmp_path / "b.html"
    lines = [text(n, 40) for n in range(8)]
    one.write_text("".join(f"<p>{line}</p>" for line in [*lines, "only in the first one"]))
    other.write_text("".join(f"<p>{line}</p>" for line in [*lines, "this is the second"]))
    return one, other


def test_help_lists_the_commands() -> None:
    """`winnow --help`: commands, examples and every exit code."""
    done = winnow("--help")
    assert done.code == 0
    assert re.search(r"^ +replay ", done.out, re.M) and re.search(r"^ +compare ", done.out, re.M)
    assert "winnow replay crawl.warc.gz --out out" in done.out
    assert [code for code in EXIT_CODES if not re.search(rf"\b{code} [a-z]", done.out)] == []


def test_help_lists_the_options_of_replay() -> None:
    """`winnow replay --help` names every option, and the formats it reads."""
    done = winnow("replay", "--help")
    assert done.code == 0
    assert [option for option in REPLAY_OPTIONS if option not in done.out] == []
    assert ".warc.gz" in done.out and ".jsonl" in done.out and "standard input" in done.out


def test_version() -> None:
    """`winnow --version` prints it."""
    assert winnow("--version")[:2] == (0, f"winnow, version {VERSION}\n")


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["replay"], "PATH"),
        (["replay", "x"], "--out"),
        (["replay", "x", "--out", "y", "--workers", "0"], "--workers"),
        (["replay", "x", "--out", "y", "--worker"], "--worker"),
        (["compare", "x"], "B"),
        (["reply"], "reply"),
    ],
)
def test_usage_errors(args: list[str], named: str) -> None:
    """A command line that makes no sense is exit 2 and names the part."""
    done = winnow(*args)
    assert done.code == 2 and named in done.err


# Settings


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("kept.wrac=false", "did you mean kept.warc?"),
        ("keep.warc=false", "unknown section [keep]; did you mean kept?"),
        ("kept.level=99", "kept.level must be 0 to 9"),
        ("kept.warc", "expected section.key=value"),
    ],
)
def test_bad_settings(saved: Path, out: Path, override: str, message: str) -> None:
    """Exit 4 with the setting and the fix, before anything is made."""
    done = replay(saved, "--set", override, out=out)
    assert done.code == 4 and message in done.err
    assert not out.exists()


def test_a_missing_config_file(saved: Path, tmp_path: Path, out: Path) -> None:
    """Exit 4 and the file's name."""
    done = replay(saved, "--config", tmp_path / "none.toml", out=out)
    assert done.code == 4 and f"{tmp_path}/none.toml" in done.err and "check --config" in done.err


def test_flags_win_over_the_file(saved: Path, tmp_path: Path, out: Path) -> None:
    """--set wins over --config, and both over the defaults."""
    config = tmp_path / "winnow.toml"
    config.write_text("[kept]\nwarc = false\ntext = false\n")
    assert replay(saved, "--config", config, "--set", "kept.text=true", out=out).code == 0
    assert [file.suffixes for file in (out / "kept").iterdir()] == [[".jsonl", ".gz"]]


def test_redis_wins_over_the_file(saved: Path, tmp_path: Path, out: Path, valkey_url: str, namespace: str) -> None:
    """A command's own flag wins over the setting of the same meaning."""
    config = tmp_path / "winnow.toml"
    config.write_text(f'[store]\nurl = "redis://nowhere.invalid/0"\n[index]\nnamespace = "{namespace}"\n')
    assert replay(saved, "--config", config, "--redis", valkey_url, out=out).code == 0


# compare


def test_compare_copies(files: tuple[Path, Path]) -> None:
    """Two files that are copies: the verdict, similarity, distance, and the lines that differ."""
    done = winnow("compare", *files)
    assert done.code == 0
    assert "copies of each other" in done.out and "8 shared, 1 only in A, 1 only in B" in done.out
    assert "- only in the first one" in done.out and "+ this is the second" in done.out
    assert re.search(r"similarity +0\.9\d estimated by the index, 0\.9\d exact", done.out)
    assert re.search(r"distance +\d+ of 64", done.out)


def test_compare_as_json(files: tuple[Path, Path]) -> None:
    """--json has the same, whole."""
    found = json.loads(winnow("compare", *files, "--json").out)
    assert (found["duplicate"], found["shared_lines"]) == (True, 8)
    assert (found["only_a"], found["only_b"]) == (["only in the first one"], ["this is the second"])
    assert abs(found["jaccard"] - found["exact_jaccard"]) < 0.1 and found["words"] == [325, 324]


def test_compare_identical_files(files: tuple[Path, Path]) -> None:
    """A file with itself: everything shared, distance 0."""
    found = json.loads(winnow("compare", files[0], files[0], "--json").out)
    assert (found["duplicate"], found["jaccard"], found["exact_jaccard"], found["distance"]) == (
        True,
        1.0,
        1.0,
        0,
    )
    assert (found["only_a"], found["only_b"]) == ([], [])


def test_compare_different_files(tmp_path: Path) -> None:
    """Two texts with nothing in common are different pages, and the rule says why."""
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        (tmp_path / name).write_text(text(seed))
    done = winnow("compare", tmp_path / "a.txt", tmp_path / "b.txt")
    assert done.code == 0 and "different pages" in done.out and "< 0.75" in done.out


def test_compare_obeys_the_settings(tmp_path: Path) -> None:
    """A higher threshold makes of a near copy another page."""
    (tmp_path / "a.txt").write_text(text(1))
    (tmp_path / "b.txt").write_text(edited(text(1), 1, 6))
    args = ("compare", tmp_path / "a.txt", tmp_path / "b.txt", "--json")
    assert json.loads(winnow(*args).out)["duplicate"] is True
    strict = ("--set", "sketch.threshold=0.99", "--set", "sketch.max_distance=0")
    assert json.loads(winnow(*args, *strict).out)["duplicate"] is False


@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe", b"[bold]no markup[/nonsense]", "Привет, мир 你好".encode()])
def test_compare_odd_files(tmp_path: Path, content: bytes) -> None:
    """Empty, binary, and files that look like our own markup are compared as they are."""
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_bytes(b"other words")
    assert winnow("compare", tmp_path / "a", tmp_path / "b").code == 0
    assert json.loads(winnow("compare", tmp_path / "a", tmp_path / "a", "--json").out)["duplicate"] is True


@pytest.mark.parametrize("name", ["missing.html", "."])
def test_compare_what_cannot_be_read(files: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    """Exit 5, the path and the cause."""
    done = winnow("compare", files[0], tmp_path / name)
    assert done.code == 5 and f"{tmp_path / name} cannot be read" in done.err
