"""Words, lines and shingles, against plain regular expressions."""

from __future__ import annotations

import re
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup import codepoints
from dedup import text as module
from dedup.model import Tokens
from dedup.text import distinct, finalise, shingles, surviving_text, tokenize

ENGLISH = "The quick brown fox, 3 times over!\n\n  It's the DOG's  day: 12:30 on 2024-05-06.\nmenu | home | more"
RUSSIAN = "Съешь ещё этих мягких французских булок.\nДА ВЫПЕЙ ЧАЮ — 15 раз!\n\nЁлка й"
CHINESE = "北京大学的新闻页面，内容很多。\n第３页 ABC公司\n他說：「好」"
THAI = "ภาษาไทยไม่มีวรรค\nหน้า ๑๒ English คำ"
SAMPLES = [
    ENGLISH,
    RUSSIAN,
    CHINESE,
    THAI,
    "한국어 단어 둘",
    "مرحبا بالعالم ١٢",
    "हिन्दी शब्द",
    "𠀀𠀁 ab\U000e0100c",
]

SINGLE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\U00020000-\U0003ffff]"
)
ALPHABET = "aAbZ09 \n\t.-'_éÉ\u00a0\u00adßяЯёЁ\u0301中文，３日ไท๑한글ﬁ²Ⅳ\u200d\u2026σςΣ\U00020000\ufe0f😀"
texts = st.text(alphabet=ALPHABET, max_size=80) | st.text(max_size=60)


def naive_words(line: str) -> list[str]:
    """Return the words of a line, by asking about one character after another."""
    out, word = [], ""
    for c in unicodedata.normalize("NFKC", line):
        kind = unicodedata.category(c)
        if kind == "Cf" or "\ufe00" <= c <= "\ufe0f" or "\U000e0000" <= c <= "\U000e0fff":
            continue
        if SINGLE.match(c) and (kind[0] in "LMN" or c >= "\U00020000"):
            out += [word, c]
            word = ""
        elif kind[0] in "LMN":
            word += {"İ": "i"}.get(c, c.lower()).replace("ς", "σ")
        else:
            out.append(word)
            word = ""
    return [w for w in [*out, word] if w]


def naive_hash(values: list[int]) -> int:
    total = sum(v * pow(module.BASE, i, 1 << 64) for i, v in enumerate(values)) % (1 << 64)
    return int(finalise(np.array([total], np.uint64))[0])


def naive_word(word: str) -> int:
    # A word's first power is 1 and not 0: the running sum is read at the code point before it.
    return naive_hash([0, *map(ord, word)])


def naive_lines(text: str) -> list[tuple[int, list[str]]]:
    rows = ((i, naive_words(line)) for i, line in enumerate(text.split("\n")))
    return [(i, words) for i, words in rows if words]


def same(a: Tokens, b: Tokens) -> bool:
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in Tokens.__struct_fields__)


def in_range(text: str) -> bool:
    """Say whether the naive words know every script of the text."""
    return not re.search("[\u2e80-\u2fdf\u3021-\u3029\ua9e0-\ua9ff\uaa60-\uaa7f\U00010000-\U0001ffff]", text)


@pytest.mark.parametrize("text", SAMPLES)
def test_samples_have_the_words_of_the_naive_reading(text: str) -> None:
    """English, Russian, Chinese, Thai and more split into the words a character loop finds."""
    expected = [naive_word(w) for _, words in naive_lines(text) for w in words]
    assert tokenize(text).words.tolist() == expected


@given(texts.filter(in_range))
def test_any_text_has_the_words_and_lines_of_the_naive_reading(text: str) -> None:
    """Words, first and row agree with a character loop on any text."""
    lines = naive_lines(unicodedata.normalize("NFKC", text))
    tokens = tokenize(text)
    assert tokens.words.tolist() == [naive_word(w) for _, words in lines for w in words]
    assert tokens.row.tolist() == [row for row, _ in lines]
    assert tokens.first.tolist() == [sum(len(w) for _, w in lines[:i]) for i in range(len(lines))]


@given(texts.filter(in_range))
def test_a_line_is_the_polynomial_of_its_words_with_numbers_folded(text: str) -> None:
    """A line's hash is that of its word hashes in order, with one constant for words that hold a digit."""
    expected = []
    for _, words in naive_lines(unicodedata.normalize("NFKC", text)):
        digit = [any(unicodedata.category(c) == "Nd" for c in w) for w in words]
        hashes = [int(module.NUMBER) if d else naive_word(w) for w, d in zip(words, digit, strict=True)]
        expected.append(naive_hash(hashes))
    assert tokenize(text).lines.tolist() == expected


def test_ascii_words_hash_alike_on_ascii_and_other_pages() -> None:
    """The fast path for ASCII gives the hashes of the general one."""
    plain, mixed = tokenize(ENGLISH), tokenize(ENGLISH + "\nё")
    assert np.array_equal(plain.words, mixed.words[:-1])
    assert np.array_equal(plain.lines, mixed.lines[:-1])


def test_case_blanks_and_digits_do_not_change_a_line() -> None:
    """Lines that differ in case, blanks and numbers have one hash."""
    lines = tokenize("Page 7 of 12\n\tPAGE  1234 of\u00a09 \npage a7 OF 3").lines
    assert len(set(lines.tolist())) == 1


def test_word_order_changes_a_line() -> None:
    """Lines of the same words in another order differ."""
    a, b = tokenize("home about news\nnews about home").lines
    assert a != b


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("co\u00adoperate", "cooperate"),
        ("zero\u200dwidth", "zerowidth"),
        ("e\u0301te\u0301", "été"),
        ("ﬁne Ｗｉｄｅ", "fine wide"),
        ("葛\U000e0100城", "葛城"),
        ("ΟΔΟΣ", "οδος"),
        ("ЁЛКА", "ёлка"),
    ],
)
def test_spellings_of_one_word_are_one(a: str, b: str) -> None:
    """Invisible characters, composition, width and case do not make another word."""
    assert tokenize(a).words.tolist() == tokenize(b).words.tolist()


def test_no_words_no_lines() -> None:
    """A text without words gives empty arrays."""
    for text in ("", "\n\n", " .,!\n—"):
        assert [len(getattr(tokenize(text), f)) for f in Tokens.__struct_fields__] == [0, 0, 0, 0]


def test_hashes_are_pinned() -> None:
    """The hash of a word and of a line never change: stored indexes depend on them."""
    tokens = tokenize("Привет, world\n页 7")
    assert tokens.words.tolist() == PINNED_WORDS
    assert tokens.lines.tolist() == PINNED_LINES


@given(text=st.text(alphabet="ab7 \nяё", max_size=120), piece=st.integers(12, 40))
def test_pieces_join_to_the_same_tokens(text: str, piece: int) -> None:
    """A text read in pieces gives the tokens of the text read whole, if no word is longer than a piece."""
    text = re.sub(r"(\w{8})(?=\w)", r"\1 ", text)
    whole = tokenize(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        assert same(tokenize(text), whole)


def test_a_10_mib_page_is_read_within_bounds() -> None:
    """Ten million code points with neither newline nor blank pass, and the power tables stay below 64 MB."""
    tokens = tokenize("字" * (10 << 20))
    assert len(tokens.words) == 10 << 20
    assert len(tokens.lines) == 1
    assert sum(t.nbytes for t in module._power_tables) < 64e6


def test_tables_are_built_quickly() -> None:
    """The class tables take milliseconds, not a noticeable start."""
    best = min(_seconds_to_build() for _ in range(3))
    assert best < 0.15  # 0.03 on a quiet machine


def _seconds_to_build() -> float:
    codepoints._tables.cache_clear()
    start = time.perf_counter()
    codepoints._tables()
    return time.perf_counter() - start


@given(st.lists(st.integers(0, 2**64 - 1), max_size=12), st.integers(1, 6))
def test_shingles_are_the_runs_of_words(words: list[int], width: int) -> None:
    """There is a shingle a run, equal runs have equal hashes and different runs different ones."""
    runs = [tuple(words[i : i + width]) for i in range(max(1, len(words) - width + 1))] if words else []
    hashes = shingles(np.array(words, np.uint64), width).tolist()
    assert len(hashes) == len(runs)
    assert len(set(hashes)) == len(set(runs))


@given(st.lists(st.integers(0, 9)))
def test_distinct_is_the_set(values: list[int]) -> None:
    """distinct() sorts and drops repeats."""
    assert distinct(np.array(values, np.uint64)).tolist() == sorted(set(values))


def test_many_words_have_no_collision() -> None:
    """Half a million short words have as many hashes, and each bit is set in half of them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    hashes = tokenize(" ".join(words)).words
    assert len(np.unique(hashes)) == len(words)
    bits = np.unpackbits(hashes.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert abs(bits - 0.5).max() < 0.005


def test_finalise_is_one_to_one_and_in_place() -> None:
    """The finaliser writes into its argument and keeps values apart."""
    x = np.arange(1000, dtype=np.uint64)
    assert finalise(x) is x
    assert len(np.unique(x)) == 1000


def test_surviving_text_keeps_the_lines_that_were_kept() -> None:
    """The kept rows are joined with their blanks collapsed, rows without words left out."""
    text = "Menu\n\n  The \t news  today\n***\nFooter\nEnd"
    tokens = tokenize(text)
    kept = np.array([False, True, False, True])
    assert surviving_text(text, tokens.row, kept) == "The news today\nEnd"


PINNED_WORDS = [9108926421137985508, 11856172929741825385, 10362705211513738928, 10366680026581305203]
PINNED_LINES = [16721622513009015408, 7061608767825005303]
