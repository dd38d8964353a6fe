"""Words, lines and shingles of a text as arrays of 64-bit hashes, without a Python object a word.

A text becomes code points, a table gives each code point its class, and class changes are word edges.
A word's hash is the polynomial c[i] * B**i over its code points, modulo 2**64 (Karp & Rabin 1987), read
from one running sum over the text: (P[end] - P[start]) * B**-start; B is odd and so has an inverse.
A finaliser then spreads it over all 64 bits. Lines and shingles are the same polynomial over word hashes
(shingles as in Broder 1997).

Words are runs of letters, marks and numbers after NFKC and lower case. Scripts written without spaces (Han,
kana, Thai, Lao, Khmer, Myanmar) give a word a code point, so that their shingles are character n-grams.
Invisible code points (soft hyphen, joiners, variation selectors) are not there at all.

Invariant: hashes depend on the text alone, not on the machine, the run, or what else stands on the page.
A word longer than a piece (2**20 code points) may be cut in two, nothing else is.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dedup.model import I64, U64, Bools, Tokens

U8 = npt.NDArray[np.uint8]

PIECE = 1 << 20  # code points worked on at once: bounds both the power tables and the peak of memory
BASE = 0x9E6C63D0676A9A9B  # odd, 3 modulo 8: its powers repeat only after 2**62
BASE_INVERSE = pow(BASE, -1, 1 << 64)
NUMBER = np.uint64(0x5BD1E995A3C59AC3)  # the word that stands for any word with a digit, in a line

_SHIFT, _MIX_1, _MIX_2 = np.uint64(33), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)

# Classes are bits, so that one table look-up answers every question.
WORD, SINGLE, DIGIT, NEWLINE, HIDDEN, COMPOSED, UNKNOWN = 1, 2, 4, 8, 16, 32, 64
# Every single is a word too; ranges are inclusive.
SPACELESS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # Han iteration marks and zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3041, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0xA9E0, 0xA9FF),  # Myanmar extended
    (0xAA60, 0xAA7F),
    (0x1AFF0, 0x1B16F),  # kana of plane 1
)
# (first, last, class) of blocks too large to ask about one by one.
BLOCKS = (
    (0x3400, 0x4DBF, WORD | SINGLE),  # Han extension A
    (0x4E00, 0x9FFF, WORD | SINGLE),  # Han
    (0xAC00, 0xD7A3, WORD),  # Hangul is written with spaces
    (0xD800, 0xF8FF, 0),  # surrogates, private use
    (0x17000, 0x18CFF, WORD | SINGLE),  # Tangut
    (0x20000, 0x3FFFF, WORD | SINGLE),  # Han of planes 2 and 3
)
HIDDEN_RANGES = ((0xFE00, 0xFE0F), (0xE0000, 0xE0FFF))  # variation selectors and tags
TABLE_END = 0x20000  # planes above hold Han and selectors only: ranges do


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
    values, classes = _code_points(text)
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


def _code_points(text: str) -> tuple[npt.NDArray[np.unsignedinteger], U8]:
    """Return the folded code points and their classes; a blank on either side gives every word two edges."""
    try:
        latin = b" %b " % text.encode("latin-1")
    except UnicodeEncodeError:
        return _wide_points(text)
    kinds, lower = _latin_tables()
    classes = np.frombuffer(latin.translate(kinds), np.uint8)
    if not text.isascii() and (classes & (HIDDEN | COMPOSED)).any():
        return _wide_points(text)
    return np.frombuffer(latin.translate(lower), np.uint8), classes


def _wide_points(text: str) -> tuple[npt.NDArray[np.unsignedinteger], U8]:
    points, classes = _classified(text)
    if (classes & COMPOSED).any() or points.max() >= TABLE_END:
        # rare: NFKC takes ten times as long as all the rest
        points, classes = _classified(unicodedata.normalize("NFKC", text))
        classes &= ~np.uint8(COMPOSED)
    values = _tables()[1].take(points, mode="clip")
    if points.max() >= TABLE_END:
        values = np.where(points < TABLE_END, values, points).astype(np.uint32)
        for first, last, kind in (*BLOCKS, *((a, b, HIDDEN) for a, b in HIDDEN_RANGES)):
            if last >= TABLE_END:
                classes[(points >= first) & (points <= last)] = kind
    if (classes & HIDDEN).any():
        seen = classes != HIDDEN
        values, classes = values[seen], classes[seen]
    return values, classes


def _classified(text: str) -> tuple[I64, U8]:
    points = np.frombuffer(f" {text} ".encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
    table = _tables()[0]
    classes = table.take(points, mode="clip")
    unknown = points.compress(classes == UNKNOWN)
    if len(unknown):
        _learn(unknown)
        classes = table.take(points, mode="clip")
    return points, classes


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
    return Tokens(
        np.concatenate(all_words), np.concatenate([none, *firsts]), hashes, np.concatenate([none, *rows])
    )


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


@functools.cache  # there are 30 categories
def _class_of(category: str) -> int:
    if category == "Nd":
        return WORD | DIGIT
    if category == "Cf":
        return HIDDEN
    return WORD if category[0] in "LMN" else 0


@functools.cache
def _latin_tables() -> tuple[bytes, bytes]:
    """Return classes and folded values of Latin-1, for bytes.translate; what folds to elsewhere counts as composed."""
    described = [_describe(chr(point)) for point in range(256)]
    kinds = bytes(kind if value < 256 else COMPOSED for kind, value in described)
    return kinds, bytes(value if value < 256 else 0 for _, value in described)


@functools.cache
def _tables() -> tuple[U8, npt.NDArray[np.uint32]]:
    """Return the class of each code point of planes 0 and 1, and what NFKC and lower case make of it.

    All but the large blocks is UNKNOWN until a text has it: few texts use more than a handful of pages of Unicode.
    """
    classes = np.full(TABLE_END, UNKNOWN, np.uint8)
    for first, last, kind in BLOCKS:
        classes[first : last + 1] = kind
    classes[-1] = 0  # what lies above is clipped to this one, which is no character
    return classes, np.arange(TABLE_END, dtype=np.uint32)


def _learn(points: I64) -> None:
    """Fill in the rows of 64 code points that these stand in."""
    classes, fold = _tables()
    for row in set((points >> 6).tolist()):
        for point in range(row << 6, (row + 1) << 6):
            if classes[point] == UNKNOWN:
                classes[point], fold[point] = _describe(chr(point))


def _describe(c: str) -> tuple[int, int]:
    """Return the class of a code point, and the one it is folded to.

    NFKC is worked in where it makes one code point of one, and flagged where it does not. What only ever becomes blanks
    and punctuation needs no flag: all of them separate words alike. Marks and the vowels and finals of Hangul are
    flagged, as they may compose with what stands before them.
    """
    became = unicodedata.normalize("NFKC", c)
    if became != c and not _class(c) and not any(map(_class, became)):
        return 0, ord(c)
    single = became if len(became) == 1 else c
    composed = len(became) != 1 or ord(single) >= TABLE_END or unicodedata.category(single)[0] == "M"
    composed = composed or 0x1161 <= ord(c) <= 0x1175 or 0x11A8 <= ord(c) <= 0x11C2
    # İ alone has a lower case of two code points, ς one that depends on its place in the word.
    lower = single.replace("İ", "i").lower().replace("ς", "σ")
    return _class(single) | (COMPOSED if composed else 0), ord(lower)


def _class(c: str) -> int:
    if c == "\n":
        return NEWLINE
    point = ord(c)
    if any(first <= point <= last for first, last in HIDDEN_RANGES):
        return HIDDEN
    kind = next((kind for first, last, kind in BLOCKS if first <= point <= last), None)
    if kind is None:
        kind = _class_of(unicodedata.category(c))
        if kind & WORD and any(first <= point <= last for first, last in SPACELESS):
            kind |= SINGLE
    return kind
