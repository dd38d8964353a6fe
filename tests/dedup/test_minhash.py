"""The MinHash estimator against exact Jaccard similarity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.estimator import Row, measure, planted_pair
from dedup import minhash
from dedup.minhash import bands, clip, jaccard, jaccard_many, pack, signature
from dedup.model import U64

hashes = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40)


def array(values: list[int]) -> U64:
    return np.array(values, np.uint64)


@pytest.mark.parametrize("size", [20, 50, 200, 1000, 5000])
def test_the_estimate_is_unbiased_and_as_sharp_as_independent_slots(size: int) -> None:
    """Before clipping, over J from .1 to .95: |mean error| < .005, and sd <= 1.2 of independent slots."""
    row = measure(size, pairs=400, seed=7)
    assert abs(row.mean_error) < 0.005
    assert row.ratio <= 1.2


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.12), (0.5, 0.52), (0.74, 0.76), (0.94, 0.95)])
def test_the_estimate_is_unbiased_at_each_similarity(low: float, high: float) -> None:
    """No narrow range of similarities hides a bias behind another one's."""
    row: Row = measure(1000, pairs=400, seed=11, low=low, high=high)
    assert abs(row.mean_error) < 0.007


@given(hashes, st.integers(0, 2**32))
def test_repeats_and_order_do_not_matter(values: list[int], seed: int) -> None:
    """A signature is that of the set."""
    shuffled = np.random.default_rng(seed).permutation(array(values * 3 + values[:1] * 4000))
    assert np.array_equal(signature(array(values)), signature(shuffled))


@given(hashes)
def test_every_slot_is_filled(values: list[int]) -> None:
    """However small the set, there are as many values as slots, and all differ."""
    assert len(np.unique(signature(array(values)))) == 256


def test_a_slot_keeps_the_first_round_with_an_element() -> None:
    """The signature equals a loop over rounds, elements and slots."""
    shingles = planted_pair(np.random.default_rng(3), 60, 0.5)[0]
    best: dict[int, int] = {}
    for number in range(minhash.ROUNDS):
        thrown = minhash._throw(shingles, 256, 1, number, number + 1).tolist()
        for slot, key in enumerate(thrown):
            if key:
                best.setdefault(slot, key)
        if len(best) == 256:
            break
    expected = array([best[slot] for slot in range(256)])
    assert np.array_equal(signature(shingles), expected)


def test_empty_slots_borrow_at_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rounds run out, slots are densified: all filled, all different, one result a set."""
    monkeypatch.setattr(minhash, "ROUNDS", 2)
    shingles = array([11, 12, 13])
    assert len(np.unique(signature(shingles))) == 256
    assert np.array_equal(signature(shingles), signature(shingles[::-1]))


def test_pieces_give_the_signature_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that is sorted in pieces has the signature of the set sorted at once."""
    shingles = planted_pair(np.random.default_rng(9), 5000, 0.5)[0]
    whole = signature(shingles)
    monkeypatch.setattr(minhash, "PIECE", 300)
    assert np.array_equal(signature(shingles), whole)


def test_no_shingles_no_signature() -> None:
    """The empty set has no values."""
    assert len(signature(array([]))) == 0


def test_seeds_give_independent_signatures() -> None:
    """Another seed is another hash family: no slot agrees."""
    shingles = planted_pair(np.random.default_rng(5), 500, 0.5)[0]
    assert not (signature(shingles, seed=1) == signature(shingles, seed=2)).any()


@pytest.mark.parametrize("slots", [0, 1, 100, 1 << 17])
def test_slots_are_a_power_of_two(slots: int) -> None:
    """Other slot counts are refused with a message that names the fix."""
    with pytest.raises(ValueError, match="power of two"):
        signature(array([1]), slots)


@pytest.mark.parametrize("similarity", [0.75, 0.85])
def test_bands_are_hit_as_often_as_the_formula_says(similarity: float) -> None:
    """21 bands of 6 rows meet with probability 1 - (1 - J**6)**21."""
    rng = np.random.default_rng(17)
    hits, pairs = 0, 1500
    for _ in range(pairs):
        a, b = planted_pair(rng, 1000, similarity)
        hits += bool((bands(signature(a), 21, 6) == bands(signature(b), 21, 6)).any())
    expected = 1 - (1 - similarity**6) ** 21
    # Slots of one permutation are a little less than independent: three deviations, and never less than 1%.
    assert hits / pairs == pytest.approx(expected, abs=max(0.01, 3 * (expected * (1 - expected) / pairs) ** 0.5))


def test_bands_share_no_slot() -> None:
    """A change in one slot changes one band, and slots past the last band none."""
    sig = signature(array([1, 2, 3]))
    before = bands(sig, 21, 6)
    for slot in range(256):
        changed = sig.copy()
        changed[slot] ^= np.uint64(1)
        differ = np.flatnonzero(bands(changed, 21, 6) != before).tolist()
        assert differ == ([slot // 6] if slot < 126 else [])


def test_equal_rows_in_different_bands_are_different_buckets() -> None:
    """The band's number is part of its hash."""
    assert len(np.unique(bands(np.zeros(256, np.uint64), 21, 6))) == 21


def test_too_many_bands_are_refused() -> None:
    """More rows than slots are an error that counts them."""
    with pytest.raises(ValueError, match="need 300 slots"):
        bands(np.zeros(256, np.uint64), 50, 6)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@given(seed=st.integers(0, 2**32), agree=st.integers(0, 256))
def test_jaccard_is_the_corrected_share_of_equal_slots(bits: int, seed: int, agree: int) -> None:
    """The packed comparison counts what a loop over slots counts, for one pair and for many."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2**64, 256, dtype=np.uint64)
    b = rng.integers(0, 2**64, 256, dtype=np.uint64)
    b[:agree] = a[:agree]
    low = np.uint64(2**bits - 1)
    matches = sum(int(x) == int(y) for x, y in zip(a & low, b & low, strict=True))
    expected = (matches / 256 - 2**-bits) / (1 - 2**-bits)
    packed_a, packed_b = pack(a, bits), pack(b, bits)
    assert len(packed_a) == 256 * bits // 8
    assert jaccard(packed_a, packed_b, bits) == pytest.approx(expected)
    rows = np.frombuffer(packed_b + packed_a, np.uint8).reshape(2, -1)
    assert jaccard_many(packed_a, rows, bits) == pytest.approx([expected, 1.0])


def test_only_whole_shares_of_a_byte_are_packed() -> None:
    """Three bits a slot are refused."""
    with pytest.raises(ValueError, match="1, 2, 4 or 8"):
        pack(np.zeros(256, np.uint64), 3)


def test_clip_keeps_a_similarity_in_range() -> None:
    """Estimates below 0 are 0, above 1 are 1."""
    assert [clip(x) for x in (-0.07, 0.4, 1.01)] == [0.0, 0.4, 1.0]
