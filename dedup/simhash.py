"""SimHash: near texts have fingerprints that differ in few bits.

Charikar (2002), as used on web pages by Manku, Jain & Das Sarma (2007). Every feature votes on every bit:
plus its weight where its hash has a 1, minus its weight where it has a 0; the fingerprint keeps the signs.
Here features are shingle hashes and the weight of one is how often it occurs.

Finding all fingerprints within distance 3 needs no scan: of two 32-bit halves one holds at most one of the
three differing bits, and of that half's two quarters one holds none. So a page is stored under its 4 quarters, and
looked up under each quarter where the other quarter of the same half differs in at most one bit.

Invariant: hamming(a, b) <= 3 implies that block_keys(a) and probe_keys(b) share a value.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dedup.model import I64, U64, Bools

Sums = npt.NDArray[np.int64] | npt.NDArray[np.float64]

MAX_DISTANCE = 3  # what the quarters can promise
_BLOCK = 255  # the most ones that a byte can count
_PIECE = _BLOCK << 8  # hashes taken apart at once: 64 bytes each


def signed_sums(
    weights: npt.NDArray[np.integer | np.floating], bits: npt.NDArray[np.uint8] | Bools, width: int
) -> Sums:
    """Return, for each of `width` columns, the sum of +weight where the bit is 1 and -weight where it is 0.

    >>> signed_sums(np.array([2, 1]), np.array([[1, 0, 1], [0, 0, 1]], np.uint8), 3).tolist()
    [1, -3, 3]
    """
    if bits.shape != (len(weights), width):
        raise ValueError(f"bits have shape {bits.shape}; {len(weights)} weights need ({len(weights)}, {width})")
    if weights.dtype.kind == "f":
        # Signs first: 2 * (sum of +w) - total would round where +w and -w cancel exactly.
        signed = np.where(bits, weights[:, None], -weights[:, None])
        return np.asarray(signed.sum(axis=0, dtype=np.float64))
    whole = weights.astype(np.int64)
    sums: I64 = 2 * (whole @ bits.astype(np.int64)) - whole.sum()
    return sums


def fingerprint(sums: Sums) -> int:
    """Return the signs as a number: bit i, counted from the lowest, is 1 where sums[i] > 0. Any width.

    >>> fingerprint(np.array([5, -1, 0, 2]))
    9
    """
    return int.from_bytes(np.packbits(sums > 0, bitorder="little").tobytes(), "little")


def simhash64(hashes: U64) -> int:
    """Return the 64-bit fingerprint of hashes, each occurrence with weight 1; 0 when there are none.

    Bit i of the fingerprint is the vote on bit i of the hashes.

    >>> hex(simhash64(np.array([0xF0, 0xF0, 0x0F], np.uint64)))
    '0xf0'
    """
    if not len(hashes):
        return 0
    ones = _count_ones(hashes[:_PIECE])
    for at in range(_PIECE, len(hashes), _PIECE):
        ones += _count_ones(hashes[at : at + _PIECE])
    return fingerprint(2 * ones - len(hashes))


def _count_ones(hashes: U64) -> I64:
    """Return how many hashes have a 1 in each bit."""
    count = len(hashes)
    rows = -(-count // _BLOCK)
    # Zeros fill up the last block: they have no ones to count.
    padded = np.zeros(_BLOCK * rows, "<u8")
    padded[:count] = hashes
    bits = np.unpackbits(padded.view(np.uint8), bitorder="little").reshape(_BLOCK, rows * 64)
    # Bytes add up 32 at a time where wider integers would not, and 255 of them cannot overflow one.
    ones: I64 = np.add.reduce(bits, axis=0, dtype=np.uint8).reshape(rows, 64).sum(axis=0, dtype=np.int64)
    return ones


def hamming(a: int, b: int) -> int:
    """Return in how many bits two fingerprints differ.

    >>> hamming(0b1010, 0b0011)
    2
    """
    return (a ^ b).bit_count()


def hamming_many(a: int, others: U64) -> I64:
    """Return the distance from a 64-bit fingerprint to each of many."""
    distances: I64 = np.bitwise_count(others ^ np.uint64(a)).astype(np.int64)
    return distances


def quarters(simhash: int) -> tuple[int, int, int, int]:
    """Return the four 16-bit quarters, the lowest first.

    >>> quarters(0x0004_0003_0002_0001)
    (1, 2, 3, 4)
    """
    return simhash & 0xFFFF, simhash >> 16 & 0xFFFF, simhash >> 32 & 0xFFFF, simhash >> 48


def blocks(simhash: int) -> tuple[tuple[int, int, int], ...]:
    """Return what a page is stored under, 4 times: table number + 1, a quarter, and its half's other quarter."""
    a, b, c, d = quarters(simhash)
    return (1, a, b), (2, b, a), (3, c, d), (4, d, c)


def block_keys(simhash: int) -> U64:
    """Return the blocks as one value each."""
    return np.array([table << 32 | quarter << 16 | sibling for table, quarter, sibling in blocks(simhash)], np.uint64)


def probe_keys(simhash: int) -> U64:
    """Return the 68 values that hold every page within distance 3: each key, and with one bit of its sibling off."""
    return (block_keys(simhash)[:, None] ^ FLIPS).ravel()


FLIPS: U64 = np.concatenate([np.zeros(1, np.uint64), np.uint64(1) << np.arange(16, dtype=np.uint64)])
