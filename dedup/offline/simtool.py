"""simtool N M: which articles are near each sample, by SimHash over the N most frequent words and M bits.

A small tool with a fixed file format, exact to the byte. In the current folder it reads

    stopwords.txt   words that do not count
    hashvalue.txt   a line of 0s and 1s a feature: line i is the hash of the i-th most frequent word
    article.txt     pages separated by form feeds; the first line that is not blank is the page's id
    sample.txt      the same

and writes result.txt: for each sample its id, then for each distance from 0 to 3 that occurs a line
`2:id id ` with the articles at that distance, in article order. The first sample is shown on the screen too.

The fingerprint is Charikar's (2002), by the same kernel as the index; only the hash table is given. Words are
runs of ASCII letters in lower case, and an id is not part of its page's words. result.txt has the line
ends of sample.txt.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.errors import OutputError, UsageError, WinnowError
from dedup.simhash import fingerprint, hamming, signed_sums

USAGE = """\
usage: simtool N M

  N  how many of the most frequent words are features, 1 to 10000
  M  how many bits a fingerprint has, 1 to 128

Reads stopwords.txt, hashvalue.txt, article.txt and sample.txt in the current folder, writes result.txt.
Example: simtool 1000 16
"""
MAX_FEATURES, MAX_BITS, MAX_DISTANCE = 10_000, 128, 3
_WORD = re.compile(rb"[a-z]+")


class Counted(NamedTuple):
    """A page as its id and how often each word is in it."""

    name: bytes
    counts: Counter[bytes]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool in the current folder and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if any(a in ("-h", "--help") for a in arguments):
        sys.stdout.write(USAGE)
        return 0
    try:
        features, bits = _arguments(arguments)
        first = run(Path(), features, bits)
    except WinnowError as error:
        sys.stderr.write(f"simtool: {error}\n")
        return error.exit_code
    sys.stdout.buffer.write(first)
    sys.stdout.buffer.flush()
    return 0


def run(folder: Path, features: int, bits: int) -> bytes:
    """Write folder/result.txt and return what the screen shows: the first sample's lines."""
    stopwords = frozenset(_read(folder / "stopwords.txt").lower().split())
    articles = pages(_read(folder / "article.txt"), stopwords)
    raw_samples = _read(folder / "sample.txt")
    samples = pages(raw_samples, stopwords)
    ranks = rank(articles, features)
    hashes = hash_table(folder / "hashvalue.txt", len(ranks), bits)
    known = [(page.name, page_fingerprint(page, ranks, hashes)) for page in articles]
    blocks = [neighbours(page.name, page_fingerprint(page, ranks, hashes), known) for page in samples]
    text = b"".join(blocks)
    if b"\r\n" in raw_samples:
        text = text.replace(b"\n", b"\r\n")
    try:
        (folder / "result.txt").write_bytes(text)
    except OSError as error:
        raise OutputError(f"cannot write result.txt: {error.strerror}; run simtool where you may write") from error
    return blocks[0] if blocks else b""


def pages(raw: bytes, stopwords: frozenset[bytes]) -> list[Counted]:
    r"""Return the pages of a file; a page without an id (blank only) is none.

    >>> pages(b"\r\na-1\r\nThe cat, the CAT\n\f", frozenset([b"the"]))
    [Counted(name=b'a-1', counts=Counter({b'cat': 2}))]
    """
    found = []
    for page in raw.split(b"\f"):
        name, _, body = page.strip().partition(b"\n")
        if name:
            counts = Counter(_WORD.findall(body.lower()))
            for word in stopwords & counts.keys():
                del counts[word]
            found.append(Counted(name.rstrip(), counts))
    return found


def rank(articles: Sequence[Counted], features: int) -> dict[bytes, int]:
    """Return the most frequent words of all articles with their ranks: by count, then alphabetically."""
    total: Counter[bytes] = Counter()
    for page in articles:
        total.update(page.counts)
    ordered = sorted(total, key=lambda word: (-total[word], word))
    return {word: i for i, word in enumerate(ordered[:features])}


def hash_table(path: Path, features: int, bits: int) -> npt.NDArray[np.uint8]:
    """Return the first `bits` bits of the first `features` lines."""
    lines = _read(path).split()
    if len(lines) < features:
        raise UsageError(f"{path.name} has {len(lines)} lines for {features} features; give a smaller N or add lines")
    for number, line in enumerate(lines[:features], 1):
        if len(line) < bits or line.strip(b"01"):
            raise UsageError(
                f"{path.name} line {number} is not {bits} characters of 0 and 1; mend it or give a smaller M"
            )
    table = np.frombuffer(b"".join(line[:bits] for line in lines[:features]), np.uint8)
    return table.reshape(features, bits) - np.uint8(ord("0"))


def page_fingerprint(page: Counted, ranks: dict[bytes, int], hashes: npt.NDArray[np.uint8]) -> int:
    """Return the page's fingerprint; words that are no features have no vote."""
    votes = [(ranks[word], count) for word, count in page.counts.items() if word in ranks]
    rows = np.array([row for row, _ in votes], np.intp)
    weights = np.array([count for _, count in votes], np.int64)
    return fingerprint(signed_sums(weights, hashes[rows], hashes.shape[1]))


def neighbours(name: bytes, mark: int, known: Sequence[tuple[bytes, int]]) -> bytes:
    """Return a sample's lines: its id, and the articles at each distance up to 3."""
    near: list[list[bytes]] = [[] for _ in range(MAX_DISTANCE + 1)]
    for article, other in known:
        distance = hamming(mark, other)
        if distance <= MAX_DISTANCE:
            near[distance].append(article)
    lines = [b"%d:%b \n" % (distance, b" ".join(names)) for distance, names in enumerate(near) if names]
    return b"".join([name, b"\n", *lines])


def _arguments(arguments: Sequence[str]) -> tuple[int, int]:
    if len(arguments) != 2:
        raise UsageError(f"{len(arguments)} arguments given, 2 needed; try: simtool 1000 16")
    return _number("N", arguments[0], MAX_FEATURES), _number("M", arguments[1], MAX_BITS)


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise UsageError(f"{name} is {text!r}; give a whole number from 1 to {most}")
    return int(text)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UsageError(
            f"cannot read {path.name}: {error.strerror}; run simtool in the folder that holds it"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
