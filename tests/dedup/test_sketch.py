"""Fingerprints, and the relation between two of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.model import Content, Fingerprint, Sketch, SketchParams, Stored
from dedup.simhash import simhash64
from dedup.sketch import digest, similarity, sketch, verify, widths_for
from dedup.text import shingles, tokenize

PARAMS = SketchParams()


def content(text: str, stripped: str | None = None) -> Content:
    whole = tokenize(text)
    words = whole.words if stripped is None else tokenize(stripped).words
    return Content(words, whole.words, np.ones(len(whole.lines), bool), whole.row)


def fingerprint(text: str, stripped: str | None = None) -> Fingerprint:
    return sketch(content(text, stripped), PARAMS)


def stored(f: Fingerprint) -> Stored:
    packed = tuple((s.width, s.packed) for s in f.sketches)
    return Stored(f.exact, f.content, f.simhash, f.words, packed, "http://a/", None, bytes(8))


def prose(words: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("abcdefghij", k=6)) for _ in range(words)]


@pytest.mark.parametrize(
    ("words", "widths"),
    [
        (0, ()),
        (6, ()),
        (7, (3,)),
        (9, (3,)),
        (10, (3,)),
        (139, (3,)),
        (140, (3, 5)),
        (199, (3, 5)),
        (200, (5,)),
    ],
)
def test_the_length_chooses_the_widths(words: int, widths: tuple[int, ...]) -> None:
    """3 words a shingle below 200 words, 5 from there on, both a little below the boundary."""
    f = fingerprint(" ".join(prose(words)))
    assert widths_for(words, PARAMS) == widths
    assert tuple(s.width for s in f.sketches) == widths


@given(st.integers(1, 5000), st.floats(0.75, 1.0))
def test_lengths_of_twins_share_a_width(longer: int, ratio: float) -> None:
    """Two word counts whose ratio is that of twins have a width in common, unless both are very short."""
    shorter = round(longer * ratio)
    common = set(widths_for(longer, PARAMS)) & set(widths_for(shorter, PARAMS))
    assert common or longer < 10


@pytest.mark.parametrize(("shorter", "longer"), [(190, 205), (9, 11), (9, 10), (160, 201)])
def test_twins_on_either_side_of_a_boundary_meet(shorter: int, longer: int) -> None:
    """A text and its beginning are copies although the length rule gives them different widths."""
    words = prose(longer)
    match = verify(fingerprint(" ".join(words)), fingerprint(" ".join(words[:shorter])))
    assert match is not None


def test_a_sketch_has_the_sizes_of_the_parameters() -> None:
    """64 bytes to decide on and 12 bucket hashes to be found by."""
    (only,) = fingerprint(" ".join(prose(300))).sketches
    assert (len(only.packed), len(only.bands)) == (64, 12)


def test_simhash_is_over_the_smallest_width_at_any_length() -> None:
    """A long text's SimHash is comparable with a short one's."""
    words = tokenize(" ".join(prose(400))).words
    assert fingerprint(" ".join(prose(400))).simhash == simhash64(shingles(words, 3))


def test_no_words_no_sketch() -> None:
    """An empty page has digests, SimHash 0 and no sketch."""
    f = fingerprint("")
    assert (f.simhash, f.words, f.sketches) == (0, 0, ())
    assert len(f.exact) == len(f.content) == 8


def test_digests_tell_the_page_from_what_is_left_of_it() -> None:
    """`exact` is of all words, `content` of those that survived."""
    f = fingerprint("menu the news", "the news")
    assert f.exact == digest(tokenize("menu the news").words)
    assert f.content == digest(tokenize("the news").words)


def test_equal_texts_are_exact() -> None:
    """The same words, at any length and in any case, are the same text."""
    match = verify(fingerprint("Hello  World"), fingerprint("hello world"))
    assert match is not None
    assert (match.how, match.rule, match.distance, match.jaccard) == ("exact", "same text", 0, 1.0)


def test_equal_content_is_exact_once_stripped() -> None:
    """Two pages that differ in their template alone are exact copies, and the rule says how."""
    match = verify(fingerprint("menu the news", "the news"), fingerprint("the news footer", "the news"))
    assert match is not None
    assert (match.how, match.rule) == ("exact", "same text once stripped")


def test_pages_stripped_to_nothing_are_not_copies() -> None:
    """Two different pages of which nothing is left have no content in common."""
    assert verify(fingerprint("one menu", ""), fingerprint("another menu", "")) is None


def test_short_texts_match_exactly_or_not_at_all() -> None:
    """Below 10 words a changed word makes another text."""
    assert verify(fingerprint("a b c d e f g h i"), fingerprint("a b c d e f g h j")) is None


def test_one_changed_word_is_found_by_simhash() -> None:
    """In a long text one changed word moves few bits, and the rule gives the distance."""
    words = prose(3000)
    match = verify(fingerprint(" ".join(words)), fingerprint(" ".join([*words[:-1], "other"])))
    assert match is not None
    assert match.how == "simhash"
    assert match.rule == f"simhash distance {match.distance} <= 3"


def test_a_tenth_of_new_text_is_found_by_minhash() -> None:
    """A tenth more text is a copy by MinHash, and the rule gives estimate and threshold."""
    words = prose(550)
    match = verify(fingerprint(" ".join(words[:500])), fingerprint(" ".join(words)))
    assert match is not None
    assert match.how == "minhash"
    assert match.rule == f"minhash jaccard {match.jaccard:.2f} >= 0.75"
    assert match.jaccard == pytest.approx(0.9, abs=0.08)


def test_half_of_the_text_is_no_copy() -> None:
    """A similarity of a half stays below the threshold."""
    words = prose(1000)
    assert verify(fingerprint(" ".join(words[:500])), fingerprint(" ".join(words))) is None


def test_simhash_alone_does_not_decide() -> None:
    """Equal SimHashes with a Jaccard estimate below the floor are no match."""
    a, b = (fingerprint(" ".join(prose(300, seed))) for seed in (1, 2))
    assert verify(a, Fingerprint(b.exact, b.content, a.simhash, b.words, b.sketches)) is None


def test_without_a_common_width_there_is_no_similarity() -> None:
    """Texts of 50 and 500 words are not compared."""
    a, b = fingerprint(" ".join(prose(50))), fingerprint(" ".join(prose(500)))
    assert similarity(a, b) is None
    assert verify(a, b) is None


prints = st.builds(
    Fingerprint,
    exact=st.sampled_from([b"e" * 8, b"f" * 8]),
    content=st.sampled_from([b"c" * 8, b"d" * 8]),
    simhash=st.sampled_from([0, 1, 7, 15, 2**64 - 1]),
    words=st.sampled_from([0, 5, 9, 10, 199, 500]),
    sketches=st.lists(
        st.builds(
            lambda width, tail: Sketch(width, bytes(128 - tail) + b"\xff" * tail, np.empty(0, np.uint64)),
            st.sampled_from([3, 5]),
            st.sampled_from([0, 5, 20, 40, 60, 128]),
        ),
        max_size=2,
        unique_by=lambda s: s.width,
    ).map(tuple),
)


@given(prints, prints, st.sampled_from([lambda f: f, stored]))
def test_the_relation_is_symmetric(
    a: Fingerprint, b: Fingerprint, form: Callable[[Fingerprint], Fingerprint | Stored]
) -> None:
    """verify(a, b) equals verify(b, a), whichever of them is stored."""
    assert verify(a, form(b)) == verify(b, form(a)) == verify(form(b), form(a))


@given(prints)
def test_a_page_is_its_own_copy(a: Fingerprint) -> None:
    """The relation is reflexive."""
    match = verify(a, stored(a))
    assert match is not None
    assert match.how == "exact"
