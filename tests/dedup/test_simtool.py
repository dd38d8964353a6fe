"""simtool against an independent, slow computation, on data made here."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from dedup.offline.simtool import main

STOPWORDS = ["the", "of", "and"]


def make(folder: Path, newline: str = "\n", words: int = 60, seed: int = 3) -> None:
    """Write the four files: 40 articles, the samples being the first three of them."""
    rng = random.Random(seed)
    vocabulary = [*STOPWORDS, *("".join(rng.choices("abcde", k=rng.randint(2, 5))) for _ in range(words))]
    articles = [
        newline.join([f"1-{i}", *(" ".join(rng.choices(vocabulary, k=9)).capitalize() + ", 12!" for _ in range(4))])
        for i in range(1, 41)
    ]
    samples = [f"Sample-{i}{newline}{articles[i].partition(newline)[2]} extra" for i in range(3)]
    hashes = ["".join(rng.choices("01", k=128)) for _ in range(200)]
    for name, text in {
        "stopwords.txt": newline.join(STOPWORDS),
        "hashvalue.txt": newline.join(hashes) + newline,
        "article.txt": f"{newline}\f{newline}".join(articles) + newline,
        "sample.txt": newline + f"{newline}\f{newline}".join(samples) + newline + "\f",
    }.items():
        (folder / name).write_bytes(text.encode())


def naive(folder: Path, features: int, bits: int) -> str:
    """Return what result.txt must hold, with \\n, by loops over words and bits."""

    def text(name: str) -> str:
        return (folder / name).read_text()

    def read(name: str) -> list[tuple[str, list[str]]]:
        out = []
        for page in text(name).split("\f"):
            lines = page.strip().splitlines()
            if lines:
                found = re.findall("[A-Za-z]+", "\n".join(lines[1:]))
                out.append((lines[0], [w.lower() for w in found if w.lower() not in STOPWORDS]))
        return out

    articles = read("article.txt")
    every = [w for _, words in articles for w in words]
    top = sorted(set(every), key=lambda w: (-every.count(w), w))[:features]
    table = text("hashvalue.txt").split()

    def mark(words: list[str]) -> str:
        sums = [
            sum(words.count(w) if table[i][bit] == "1" else -words.count(w) for i, w in enumerate(top))
            for bit in range(bits)
        ]
        return "".join("1" if s > 0 else "0" for s in sums)

    marks = [(name, mark(words)) for name, words in articles]
    result = ""
    for name, words in read("sample.txt"):
        own = mark(words)
        result += name + "\n"
        for distance in range(4):
            near = [a for a, m in marks if sum(x != y for x, y in zip(own, m, strict=True)) == distance]
            if near:
                result += f"{distance}:" + "".join(a + " " for a in near) + "\n"
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("features", "bits"), [(1, 1), (10, 8), (30, 16), (60, 5), (10_000, 128)])
def test_the_result_is_that_of_the_slow_computation(folder: Path, features: int, bits: int) -> None:
    """result.txt is exact to the byte for any N and M, also with fewer words than N."""
    assert main([str(features), str(bits)]) == 0
    assert (folder / "result.txt").read_bytes() == naive(folder, features, bits).encode()


def test_the_first_sample_is_shown(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The screen shows the first sample's lines and no other's."""
    main(["30", "8"])
    shown = capfdbinary.readouterr().out
    assert shown == naive(folder, 30, 8).partition("Sample-1")[0].encode()


def test_crlf_files_give_a_crlf_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with CRLF are read, and the result has the line ends of the samples."""
    make(tmp_path, "\r\n")
    monkeypatch.chdir(tmp_path)
    assert main(["30", "16"]) == 0
    assert (tmp_path / "result.txt").read_bytes() == naive(tmp_path, 30, 16).replace("\n", "\r\n").encode()


def test_ties_go_by_the_alphabet(folder: Path) -> None:
    """Words as frequent as each other are features in alphabetical order."""
    (folder / "article.txt").write_text("a-1\nzebra\n\fa-2\nant\n")
    (folder / "sample.txt").write_text("s\nant\n")
    (folder / "hashvalue.txt").write_text("1111\n0000\n")
    main(["1", "4"])
    assert (folder / "result.txt").read_text() == "s\n0:a-2 \n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "2 needed"),
        (["1"], "2 needed"),
        (["1", "2", "3"], "2 needed"),
        (["x", "16"], "N is 'x'"),
        (["0", "16"], "from 1 to 10000"),
        (["10001", "16"], "from 1 to 10000"),
        (["10", "129"], "from 1 to 128"),
        (["10", "-1"], "M is '-1'"),
        (["10", "²"], "M is '²'"),
    ],
)
def test_wrong_arguments_exit_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Arguments out of place are one line on stderr that names the fix."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


@pytest.mark.parametrize("name", ["stopwords.txt", "hashvalue.txt", "article.txt", "sample.txt"])
def test_a_missing_file_exits_2(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A file that is not there is named."""
    (folder / name).unlink()
    assert main(["10", "8"]) == 2
    assert f"cannot read {name}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "words"),
    [("0101\n" * 3, "3 lines for 30 features"), ("01" * 64 + "\n" + "01x1\n" * 99, "line 2 is not")],
)
def test_a_bad_hash_table_exits_2(folder: Path, capsys: pytest.CaptureFixture[str], table: str, words: str) -> None:
    """Too few hashes, or one that is not 0s and 1s, are named with the line."""
    (folder / "hashvalue.txt").write_text(table)
    assert main(["30", "4"]) == 2
    assert words in capsys.readouterr().err


def test_a_result_that_cannot_be_written_exits_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where result.txt cannot be written the error says so."""
    (folder / "result.txt").mkdir()
    assert main(["10", "8"]) == 2
    assert "cannot write result.txt" in capsys.readouterr().err


def test_help_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    """--help explains both numbers."""
    assert main(["--help"]) == 0
    assert "usage: simtool N M" in capsys.readouterr().out
