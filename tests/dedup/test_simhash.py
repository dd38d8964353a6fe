"""SimHash against a loop over bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.simhash import TABLES, blocks, fingerprint, hamming, hamming_many, signed_sums, simhash64

u64 = st.integers(0, 2**64 - 1)


def naive_sums(weights: list[int], hashes: list[int], width: int) -> list[int]:
    pairs = list(zip(weights, hashes, strict=True))
    return [sum(w if h >> i & 1 else -w for w, h in pairs) for i in range(width)]


def bits_of(hashes: list[int], width: int) -> np.ndarray:
    return np.array([[h >> i & 1 for i in range(width)] for h in hashes], np.uint8).reshape(-1, width)


@given(
    st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 2**128 - 1)), max_size=20),
    st.integers(1, 128),
)
def test_signed_sums_are_those_of_the_loop(features: list[tuple[int, int]], width: int) -> None:
    """The kernel adds +weight for a 1 and -weight for a 0, at any width."""
    weights, hashes = [w for w, _ in features], [h for _, h in features]
    sums = signed_sums(np.array(weights, np.int64), bits_of(hashes, width), width)
    assert sums.tolist() == naive_sums(weights, hashes, width)


def test_signed_sums_take_fractions() -> None:
    """Weights may be floats, and what cancels is exactly 0."""
    sums = signed_sums(np.array([0.1, 0.2, 0.3, 0.3]), np.array([[1, 1], [1, 0], [0, 1], [1, 0]], bool), 2)
    assert sums == pytest.approx([0.3, -0.1])
    assert signed_sums(np.array([0.7, 0.7]), np.array([[1], [0]], bool), 1).tolist() == [0.0]


def test_signed_sums_refuse_another_shape() -> None:
    """Bits that do not fit weights and width are an error that says so."""
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        signed_sums(np.array([1, 2]), np.zeros((2, 3), np.uint8), 4)


def test_a_tie_is_a_zero() -> None:
    """A sum of 0 gives bit 0, and the first column is the lowest bit."""
    assert fingerprint(np.array([1, 0, -1, 7, 0, 0, 0, 0, 1])) == 0b1_0000_1001


@given(st.lists(u64, max_size=40), st.integers(1, 40))
def test_simhash64_equals_the_kernel(hashes: list[int], repeats: int) -> None:
    """The fast path equals the generic kernel, with repeats as weights, also over several blocks."""
    many = hashes * repeats
    kernel = fingerprint(signed_sums(np.full(len(hashes), repeats), bits_of(hashes, 64), 64))
    assert simhash64(np.array(many, np.uint64)) == kernel


def test_255_ones_do_not_overflow_a_byte() -> None:
    """Hashes of all ones in any number give all ones."""
    for count in (1, 254, 255, 256, 511, 70_000):
        assert simhash64(np.full(count, 2**64 - 1, np.uint64)) == 2**64 - 1


def test_no_hashes_give_zero() -> None:
    """The fingerprint of nothing is 0."""
    assert simhash64(np.empty(0, np.uint64)) == 0


@given(u64, st.lists(u64, max_size=10))
def test_hamming_counts_differing_bits(a: int, others: list[int]) -> None:
    """One pair and many at once count the same bits as a string comparison."""
    naive = [sum(x != y for x, y in zip(f"{a:064b}", f"{b:064b}", strict=True)) for b in others]
    assert [hamming(a, b) for b in others] == naive
    assert hamming_many(a, np.array(others, np.uint64)).tolist() == naive


@given(u64, st.sets(st.integers(0, 63), max_size=3))
def test_within_distance_3_two_blocks_meet(a: int, flipped: set[int]) -> None:
    """hamming(a, b) <= 3 implies a table where their keys are equal and their third parts differ in at most a bit."""
    b = a
    for bit in flipped:
        b ^= 1 << bit
    pairs = list(zip(blocks(a), blocks(b), strict=True))
    assert any(one[:2] == other[:2] and hamming(one[2], other[2]) <= 1 for one, other in pairs)


@given(u64)
def test_blocks_hold_all_of_a_half(a: int) -> None:
    """A key and its third part have no bit in common, and together all bits of their half: 21 or 22, and 10 or 11."""
    assert len(blocks(a)) == TABLES
    full = list(zip(blocks(a), blocks(2**64 - 1), strict=True))
    for (table, key, third), (_, mask, most) in full:
        assert mask.bit_count() + most.bit_count() == 32
        assert key & mask == key and third <= most
        assert key.bit_count() + third.bit_count() == (a >> 32 * (table // 3) & 0xFFFF_FFFF).bit_count()


def test_tables_do_not_mix() -> None:
    """Equal halves are looked for in tables of their own."""
    assert len({table for table, _, _ in blocks(0x0007_0007_0007_0007)}) == TABLES
