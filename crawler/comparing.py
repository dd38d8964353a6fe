"""`winnow compare A B`: two files side by side, by the rules of the index, and exactly."""

from __future__ import annotations

import sys
from difflib import SequenceMatcher
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console
from rich.text import Text

from dedup.charset import decode
from dedup.errors import InputError
from dedup.library import compare, read_text
from dedup.settings import Settings
from dedup.text import shingles, tokenize

_SHOWN = 40  # differing lines on the screen; --json has them all


class Compared(msgspec.Struct, frozen=True):
    """The answer, as --json prints it."""

    a: str
    b: str
    duplicate: bool
    jaccard: float  # as the index estimates it
    distance: int
    rule: str
    exact_jaccard: float  # of the sets of 5-word shingles
    words: tuple[int, int]
    shared_lines: int
    only_a: list[str]
    only_b: list[str]


def compare_files(a: Path, b: Path, settings: Settings, *, as_json: bool) -> None:
    """Print how alike two files are."""
    result = compared(a, b, settings)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    else:
        _print(result)


def compared(a: Path, b: Path, settings: Settings) -> Compared:
    one, other = _read(a), _read(b)
    comparison = compare(one, other, settings)
    lines_a, lines_b = (_lines(read_text(text).text) for text in (one, other))
    words_a, words_b = (tokenize(read_text(text).text).words for text in (one, other))
    only_a: list[str] = []
    only_b: list[str] = []
    shared = 0
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, lines_a, lines_b, autojunk=False).get_opcodes():
        if tag == "equal":
            shared += a2 - a1
        else:
            only_a += lines_a[a1:a2]
            only_b += lines_b[b1:b2]
    return Compared(
        str(a),
        str(b),
        comparison.duplicate,
        comparison.jaccard,
        comparison.distance,
        comparison.rule,
        _exact(shingles(words_a, 5), shingles(words_b, 5)),
        (len(words_a), len(words_b)),
        shared,
        only_a,
        only_b,
    )


def _exact(a: np.ndarray[tuple[int], np.dtype[np.uint64]], b: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    union = len(np.union1d(a, b))
    return round(len(np.intersect1d(a, b)) / union, 4) if union else 1.0


def _read(path: Path) -> str:
    try:
        return decode(path.read_bytes(), "")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; check the path") from None


def _lines(text: str) -> list[str]:
    return [line for line in (" ".join(raw.split()) for raw in text.split("\n")) if line]


def _print(result: Compared) -> None:
    console = Console(highlight=False)
    verdict = "[bold yellow]copies of each other" if result.duplicate else "[bold green]different pages"
    console.print(f"{verdict}[/]  ({result.rule})")
    console.print(
        f"similarity   {result.jaccard:.2f} estimated by the index, {result.exact_jaccard:.2f} exact (5-word shingles)"
    )
    console.print(f"distance     {result.distance} of 64 SimHash bits")
    console.print(f"words        {result.words[0]:,} and {result.words[1]:,}")
    only = f"{len(result.only_a):,} only in A, {len(result.only_b):,} only in B"
    console.print(f"lines        {result.shared_lines:,} shared, {only}")
    for sign, style, lines in (("-", "red", result.only_a), ("+", "green", result.only_b)):
        for line in lines[:_SHOWN]:
            console.print(Text(f"{sign} {line}", style))
        if len(lines) > _SHOWN:
            console.print(f"[dim]{sign} ... and {len(lines) - _SHOWN:,} more; --json prints all[/]")
