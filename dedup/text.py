"""Words, lines and shingles of a text as arrays of 64-bit hashes, without a Python object a word.

A text becomes code points, a table gives each code point its class, and class changes are word edges.
A word's hash is the polynomial c[i] * B**i over its code points, modulo 2**64 (Karp & Rabin 1987), read
from one running sum over the text: (P[end] - P[start]) * B**-start; B is odd and so has an inverse.
A finaliser then spreads it over all 64 bits. Lines and shingles are the same polynomial over word hashes
(shingles as in Broder 1997).

What a word is, in any script, dedup/codepoints.py says.

Invariant: hashes depend on the text alone, not on the machine, the run, or what else stands on the page.
A word longer than a piece (2**20 code points) may be cut in two, nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dedup.codepoints import DIGIT, NEWLINE, SINGLE, U8, WORD, code_points
from dedup.model import I64, U64, Bools, Tokens

PIECE = 1 << 20  # code points worked on at once: bounds both the power tables and the peak of memory
BASE = 0x9E6C63D0676A9A9B  # odd, 3 modulo 8: its powers repeat only after 2**62
BASE_INVERSE = pow(BASE, -1, 1 << 64)
NUMBER = np.uint64(0x5BD1E995A3C59AC3)  # the word that stands for any word with a digit, in a line

_SHIFT, _MIX_1, _MIX_2 = np.uint64(33), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def tokenize(text: str) -> Tokens:
    r"""Return the words and lines of a text whose lines are separated by \n.

    >>> t = tokenize("One two\n\nPage 7\npage 12")
    >>> len(t.words), t.first.tolist(), t.row.tolist(), bool(t.lines[1] == t.lines[2])
    (6, [0, 2, 4], [0, 2, 3], True)
    """
    if len(text) <= PIECE:
        words, first, sums, row, _ = _tokenize_piece(text)
        return Tokens(words, first, finalise(sums), row)
    return _join(_tokenize_piece(piece) for piece in _pieces(text))


def shingles(words: U64, width: int, runs: dict[int, U64] | None = None) -> U64:
    """Return a hash for each run of `width` words, in order; a shorter text is one shingle of all its words.

    `runs` remembers sums over shorter runs between calls for the same words: widths 3 and 5 share most of the work.

    >>> len(shingles(np.arange(7, dtype=np.uint64), 5)), len(shingles(np.arange(2, dtype=np.uint64), 5))
    (3, 1)
    """
    if not len(words):
        return np.empty(0, np.uint64)
    sums = _sums(min(width, len(words)), {1: words} if runs is None else runs)
    return finalise(sums.copy())


def _sums(width: int, runs: dict[int, U64]) -> U64:
    """Return sum(word * BASE ** (width - 1 - i)) over each run, made of the sums over its two parts."""
    if width not in runs:
        last = width // 2
        first, rest = _sums(width - last, runs), _sums(last, runs)
        count = len(rest) - (width - last)
        sums = first[:count] * np.uint64(pow(BASE, last, 1 << 64))
        sums += rest[width - last :]
        runs[width] = sums
    return runs[width]


def polynomial(words: U64) -> int:
    """Return one hash of all words and their order: the line hash of a text in one line, digits kept.

    >>> words = np.arange(1, 4, dtype=np.uint64)
    >>> polynomial(words) == polynomial(words[::-1])
    False
    """
    total = 0
    for at in range(0, len(words), PIECE):
        part = words[at : at + PIECE]
        total = total * pow(BASE, len(part), 1 << 64) + int(np.dot(part, _powers(len(part))[0][: len(part)]))
    # the length sets a text apart from one that starts with words of hash 0
    total = (total + len(words)) % 2**64
    total = (total ^ total >> 33) * int(_MIX_1) % 2**64
    return total ^ total >> 33


def distinct(hashes: U64) -> U64:
    """Return the hashes as a set: sorted, each once."""
    ordered: U64 = np.sort(hashes)
    # np.unique would do, but its first call imports numpy.ma: a tenth of a second
    first: Bools = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    return ordered.compress(first)


def surviving_text(text: str, content_row: I64, kept: Bools) -> str:
    r"""Return the lines that survived, with blanks collapsed.

    >>> surviving_text("menu\n\n the  news ", np.array([0, 2]), np.array([False, True]))
    'the news'
    """
    lines = text.split("\n")
    return "\n".join(" ".join(lines[r].split()) for r in content_row[kept].tolist())


def finalise(x: U64) -> U64:
    """Spread every bit of x over all 64 (MurmurHash3's finaliser), in place; one-to-one."""
    x ^= x >> _SHIFT
    x *= _MIX_1
    x ^= x >> _SHIFT
    x *= _MIX_2
    x ^= x >> _SHIFT
    return x


# words and line sums of one piece ---------------------------------------------------------------------------

_Piece = tuple[U64, I64, U64, I64, int]  # words, first, line sums not yet finalised, row, newlines


def _tokenize_piece(text: str) -> _Piece:
    values, classes = code_points(text)
    starts, ends = _edges(classes)
    powers, inverses = _powers(len(values))
    running = values * powers[: len(values)]
    np.cumsum(running, out=running)
    words = running[ends]
    words -= running[starts]
    words *= inverses[starts]
    finalise(words)

    newlines = (classes == NEWLINE).nonzero()[0]
    bounds = np.zeros(len(newlines) + 2, np.int64)  # words before each line, and in all
    bounds[1:-1] = starts.searchsorted(newlines)
    bounds[-1] = len(words)
    row = (bounds[1:] > bounds[:-1]).nonzero()[0]
    first = bounds[row]

    folded = words * powers[: len(words)]
    digits = (classes & DIGIT).nonzero()[0]
    if len(digits):
        numbers = starts.searchsorted(digits) - 1
        folded[numbers] = powers[numbers] * NUMBER
    sums = np.add.reduceat(folded, first) if len(first) else folded[:0]
    sums *= inverses[first]
    return words, first, sums, row, len(newlines)


def _edges(classes: U8) -> tuple[I64, I64]:
    """Return the index before each word's first code point, and that of its last one."""
    inside = (classes & WORD).view(np.bool_)
    before, after = inside[:-1], inside[1:]
    if not (classes & SINGLE).max():
        edges = (before != after).nonzero()[0]
        return edges[0::2], edges[1::2]
    single = (classes & SINGLE).astype(np.bool_)
    cut = single[:-1] | single[1:]
    return np.flatnonzero(after & (cut | ~before)), np.flatnonzero(before & (cut | ~after))


# texts longer than a piece ----------------------------------------------------------------------------------


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + PIECE
        if end < len(text):
            # After a newline or else a blank; only a blob without either is cut through.
            end = (text.rfind("\n", at, end) + 1) or (text.rfind(" ", at, end) + 1) or end
        yield text[at:end]
        at = end


def _join(pieces: Iterator[_Piece]) -> Tokens:
    """Join pieces so that a line which spans several hashes as if it had been seen whole."""
    all_words: list[U64] = []
    firsts: list[I64] = []
    sums: list[U64] = []
    rows: list[I64] = []
    seen = newlines = open_first = 0
    open_row = -1
    for words, starts, line_sums, lines, breaks in pieces:
        first, row = starts + seen, lines + newlines
        skip = 0
        if len(row) and row[0] == open_row:
            shift = np.uint64(pow(BASE, seen - open_first, 1 << 64))
            sums[-1][-1:] += line_sums[:1] * shift
            skip = 1
        if len(row) > skip:
            firsts.append(first[skip:])
            sums.append(line_sums[skip:])
            rows.append(row[skip:])
            open_first, open_row = int(first[-1]), int(row[-1])
        all_words.append(words)
        seen += len(words)
        newlines += breaks
    none: I64 = np.empty(0, np.int64)
    hashes = finalise(np.concatenate([np.empty(0, np.uint64), *sums]))
    return Tokens(np.concatenate(all_words), np.concatenate([none, *firsts]), hashes, np.concatenate([none, *rows]))


# tables, made when first needed -----------------------------------------------------------------------------

_power_tables: tuple[U64, U64] = (np.empty(0, np.uint64), np.empty(0, np.uint64))


def _powers(count: int) -> tuple[U64, U64]:
    """Return tables of at least `count` powers of BASE and of its inverse; never much longer than a piece."""
    global _power_tables  # noqa: PLW0603  a cache that grows; replaced whole, so that threads see either
    if len(_power_tables[0]) < count:
        size = max(1 << 15, 1 << (count - 1).bit_length())
        _power_tables = (_doubled(BASE, size), _doubled(BASE_INVERSE, size))
    return _power_tables


def _doubled(base: int, size: int) -> U64:
    """Return the powers 0 to size - 1, the second half of a table from its first: an accumulate would be serial."""
    table = np.empty(size, np.uint64)
    table[0] = 1
    known = 1
    while known < size:
        np.multiply(table[:known], np.uint64(pow(base, known, 1 << 64)), out=table[known : 2 * known])
        known *= 2
    return table
