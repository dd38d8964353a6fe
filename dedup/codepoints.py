"""Code points and their classes: what is a letter, a digit, a blank, a word of its own.

Words are runs of letters, marks and numbers after NFKC and lower case. Scripts written without spaces (Han, kana, Thai,
Lao, Khmer, Myanmar) give a word a code point, so that their shingles are character n-grams. Invisible code points (soft
hyphen, joiners, variation selectors) are not there at all.

One table look-up answers every question, NFKC and lower case included; the table is filled as texts need it. Where NFKC
makes several code points of one, or marks may compose, the text is normalised as a whole.
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import numpy.typing as npt

from dedup.model import I64

U8 = npt.NDArray[np.uint8]

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


def code_points(text: str) -> tuple[npt.NDArray[np.unsignedinteger], U8]:
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
