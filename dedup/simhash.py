"""SimHash: near texts have fingerprints that differ in few bits.

Charikar (2002), as used on web pages by Manku, Jain & Das Sarma (2007). Every feature votes on every bit:
plus its weight where its hash has a 1, minus its weight where it has a 0; the fingerprint keeps the signs.
Here features are shingle hashes and the weight of one is how often it occurs.

Finding all fingerprints within distance 3 needs no scan: of two 32-bit halves one holds at most one of the three
differing bits, so of that half's three parts two hold none. A page is stored under each two parts of a half, six
times in all, and looked up there among those whose third part differs in at most one bit.

Invariant: hamming(a, b) <= 3 implies that blocks(a) and blocks(b) share a table and its key, where their third parts
differ in at most one bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dedup.model import I64, U64, Bools

Sums = npt.NDArray[np.int64] | npt.NDArray[np.float64]

MAX_DISTANCE = 3  # what the tables can promise
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


def blocks(simhash: int) -> list[tuple[int, int, int]]:
    """Return what a page is stored under: table, key (two parts of a half, as they lie), and the half's third part.

    >>> [(table, hex(key), hex(third)) for table, key, third in blocks(0xFFFF_FFFF)[:3]]
    [(0, '0xfffffc00', '0x3ff'), (1, '0xffe003ff', '0x7ff'), (2, '0x1fffff', '0x7ff')]
    """
    found = []
    for half in range(2):
        bits = simhash >> 32 * half & 0xFFFF_FFFF
        for part, (shift, mask) in enumerate(_PARTS):
            found.append((len(_PARTS) * half + part, bits & ~(mask << shift), bits >> shift & mask))
    return found


_PARTS = (0, 0x3FF), (10, 0x7FF), (21, 0x7FF)  # of a half: where they begin, and their bits
TABLES = 2 * len(_PARTS)
