"""MinHash by one-permutation hashing with seeded rounds: the same kernel at every length, exactly unbiased.

MinHash (Broder 1997) lets two sets agree in a slot with the probability of their Jaccard similarity J. One
permutation hashing (Li, Owen & Zhang 2012) fills all K slots from one hash of each element: the top bits
name the slot, the rest compete for its minimum. Short texts leave slots empty, and borrowing from a neighbour
('densifying', Shrivastava 2017) costs spread. So elements are thrown again, remixed with the round's seed,
and a slot keeps the minimum of the *first* round in which anything fell into it.

Why that is unbiased: take a slot, the first round in which the union of A and B has an element there, and
the smallest such element. If it lies in both sets, both have it as their value: neither had anything there
in an earlier round, as the union had not. If it lies in A alone, the value of B is another element's or
another round's, and values of different rounds differ. Which element of the union is that smallest one is a
fair draw, so it lies in both sets with probability J.

Invariant: rounds go on until every slot is filled, so a signature depends on the set alone, not on repeats
nor on how many rounds were tried at once. After 4,096 rounds the slots still empty (for a single shingle, in
one set of some 30,000) borrow from the next one, mixed with the distance.

Bands of rows find candidates; a packed signature of b bits a slot (Li & König 2010) decides, with the chance
agreement of 2**-b taken out. All arithmetic is wrapping 64-bit mixing, never (a*x + b) modulo a prime.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from dedup.model import U64
from dedup.text import distinct, finalise

ROUND_BITS = 12
ROUNDS = 1 << ROUND_BITS  # at most
FILL = 8  # elements thrown a slot at once: 1 set in 12 then needs a second batch for its last slots
PIECE = 1 << 18  # shingles sorted at once: bounds memory, and far more than need a second round
_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's step
_MASK = (1 << 64) - 1
_MIX_1, _MIX_2 = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xA0761D6478BD642F)


def signature(shingles: U64, slots: int = 256, seed: int = 1) -> U64:
    """Return the value of each slot: uniform in its low bits, the round and the slot in the high ones.

    Empty for no shingles.

    >>> a, b = (np.arange(n, dtype=np.uint64) for n in (900, 1000))
    >>> float(np.mean(signature(a) == signature(b)))  # the true Jaccard is 0.9
    0.88671875
    """
    if slots & (slots - 1) or not 2 <= slots <= 1 << 16:
        raise ValueError(f"minhash slots = {slots}: give a power of two from 2 to 65536")
    if not len(shingles):
        return np.empty(0, np.uint64)
    best = _throw(shingles[:PIECE], slots, seed, 0, _rounds(len(shingles), slots))
    for at in range(PIECE, len(shingles), PIECE):
        other = _throw(shingles[at : at + PIECE], slots, seed, 0, _rounds(len(shingles), slots))
        best = np.minimum(best - np.uint64(1), other - np.uint64(1)) + np.uint64(1)  # 0, nothing, counts as most
    if not best.all():
        _fill(best, distinct(shingles), slots, seed, _rounds(len(shingles), slots))
    return best


def _rounds(count: int, slots: int) -> int:
    return min(ROUNDS, -(-FILL * slots // count))


def _throw(shingles: U64, slots: int, seed: int, start: int, stop: int) -> U64:
    """Return each slot's smallest slot|round|value key in rounds start to stop, 0 where nothing fell.

    A key is 0 only by a chance of 2**-56 an element, which is then treated as absent.
    """
    slot_bits = slots.bit_length() - 1
    keys = (shingles ^ _seeds(seed, start, stop)[:, None]).ravel()
    keys ^= keys >> np.uint64(32)
    keys *= _MIX_1
    keys ^= keys >> np.uint64(29)
    keys *= _MIX_2
    # The top bits are the slot, the low ones the value; the round goes between them.
    keys &= np.uint64(~(ROUNDS - 1 << 64 - slot_bits - ROUND_BITS) & _MASK)
    if stop > 1:
        numbers = np.arange(start, stop, dtype=np.uint64) << np.uint64(64 - slot_bits - ROUND_BITS)
        keys.reshape(stop - start, -1)[...] |= numbers[:, None]
    keys.sort()
    starts = _slot_starts(slots)
    at = keys.searchsorted(starts)
    best = keys.take(at, mode="clip")
    best[best - starts >= np.uint64(1 << (64 - slot_bits))] = 0  # a later slot's, or past the end
    return best


def _fill(best: U64, shingles: U64, slots: int, seed: int, start: int) -> None:
    """Go on with later rounds for the slots that are still empty; at the end let them borrow."""
    while start < ROUNDS and not best.all():
        stop = min(ROUNDS, start + _rounds(len(shingles), slots))
        best[...] = np.where(best, best, _throw(shingles, slots, seed, start, stop))
        start = stop
    empty = np.flatnonzero(best == 0)
    if len(empty):
        full = np.flatnonzero(best)
        lender = full.take(np.searchsorted(full, empty), mode="wrap")
        distance = ((lender - empty) % slots).astype(np.uint64)
        best[empty] = best[lender] ^ finalise(distance * np.uint64(_GOLDEN))


@functools.lru_cache(maxsize=64)
def _seeds(seed: int, start: int, stop: int) -> U64:
    steps = np.arange(start + 1, stop + 1, dtype=np.uint64)
    return finalise(steps * np.uint64(_GOLDEN) + np.uint64(seed * 0xBF58476D1CE4E5B9 & _MASK))


@functools.cache
def _slot_starts(slots: int) -> U64:
    return np.arange(slots, dtype=np.uint64) << np.uint64(65 - slots.bit_length())


@functools.cache
def _band_numbers(bands: int) -> U64:
    return np.arange(1, bands + 1, dtype=np.uint64) * np.uint64(_GOLDEN)


@functools.cache
def _row_powers(rows: int) -> U64:
    return np.array([pow(_GOLDEN, i + 1, 1 << 64) for i in range(rows)], np.uint64)


def bands(sig: U64, bands: int, rows: int) -> U64:
    """Return a bucket hash a band of `rows` slots; bands share no slot, and the band's number is mixed in.

    >>> len(bands(np.arange(256, dtype=np.uint64), 21, 6))
    21
    """
    if bands * rows > len(sig):
        raise ValueError(f"{bands} bands of {rows} rows need {bands * rows} slots; there are {len(sig)}")
    # Slots are uniform, so that a sum of odd multiples of them is, too: there is nothing left to mix.
    out: U64 = sig[: bands * rows].reshape(bands, rows) @ _row_powers(rows)
    out += _band_numbers(bands)
    return out


def pack(sig: U64, bits: int) -> bytes:
    """Return the lowest `bits` (1, 2, 4 or 8) of each slot, the first slot in a byte's lowest bits.

    >>> pack(np.array([1, 2, 3, 4], np.uint64), 4).hex()
    '2143'
    """
    _check_bits(bits)
    per_byte = 8 // bits
    low = sig.astype(np.uint8)
    low &= np.uint8((1 << bits) - 1)
    packed = low[0::per_byte]
    for i in range(1, per_byte):
        packed = packed | low[i::per_byte] << np.uint8(bits * i)
    return packed.tobytes()


def jaccard(a: bytes, b: bytes, bits: int) -> float:
    """Return the estimate of two packed signatures, not clipped: below 0 when fewer agree than by chance.

    >>> jaccard(bytes(128), bytes(128), 4)
    1.0
    """
    differ = int.from_bytes(a, "little") ^ int.from_bytes(b, "little")
    shift = 1
    while shift < bits:
        differ |= differ >> shift
        shift *= 2
    slots = len(a) * 8 // bits
    return _corrected(slots - (differ & _lowest(len(a), bits)).bit_count(), slots, bits)


def jaccard_many(a: bytes, others: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.float64]:
    """Return the estimate of one packed signature against each row of `others`, not clipped."""
    _check_bits(bits)
    differ = others ^ np.frombuffer(a, np.uint8)
    shift = 1
    while shift < bits:
        differ |= differ >> np.uint8(shift)
        shift *= 2
    differ &= np.uint8(0xFF // ((1 << bits) - 1))
    slots = len(a) * 8 // bits
    mismatches = np.bitwise_count(differ).sum(axis=1, dtype=np.int64)
    chance = 2.0**-bits
    estimates: npt.NDArray[np.float64] = ((slots - mismatches) / slots - chance) / (1 - chance)
    return estimates


def clip(estimate: float) -> float:
    """Return the estimate as a similarity, from 0 to 1."""
    return min(1.0, max(0.0, estimate))


def _corrected(matches: int, slots: int, bits: int) -> float:
    chance = 2.0**-bits
    return (matches / slots - chance) / (1 - chance)


def _check_bits(bits: int) -> None:
    if bits not in (1, 2, 4, 8):
        raise ValueError(f"minhash bits = {bits}: give 1, 2, 4 or 8")


@functools.cache
def _lowest(size: int, bits: int) -> int:
    """Return the number of `size` bytes that has a 1 in the lowest bit of each slot."""
    _check_bits(bits)
    return int.from_bytes(bytes([0xFF // ((1 << bits) - 1)]) * size, "little")
