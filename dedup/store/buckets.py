"""Where a fingerprint stands in the store, and where to look for its like.

Every way to find a page comes down to a 64-bit bucket hash, of which 39 bits are used (leaves.lua has the layout):

    bits  0 to 23   the tag; its lowest fourteen bits are the place, which chooses the leaf of the group
    bits 40 to 55   the row, one of 125; in a larger group the place's first bits say which one of some rows that is
    bits 56 to 63   the group

At 10^7 pages a probe thus meets a stranger in one of some eight hundred pages, and the stranger fails verification.
SimHash is looked for with one bit of tolerance: of its tags the last ten bits are some of the part of the fingerprint
that is not in the key, as they are, and the script takes records where one of them differs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from dedup.model import I64, U64, Bools, Fingerprint
from dedup.simhash import TABLES, blocks
from dedup.store.keys import GROUPS

_SIMHASHES = slice(-TABLES, None)  # of a row of buckets, where there are more than two
_ALL = (1 << 64) - 1
_EXACT, _CONTENT, _SIMHASH = 1 << 62, 2 << 62, 3 << 60
_THIRD, _THIRD_BITS = 14, 0x3FF  # where SimHash's own bits lie in the tag
_KEY = _ALL ^ _THIRD_BITS << _THIRD
_PLACE, _ROWS, _TOLERANT = 0x3FFF, 125, 0x8000  # as in leaves.lua


def buckets(fingerprint: Fingerprint) -> U64:
    """Return the buckets that a page stands in: exact, one a band, six of SimHash; of a short one exact and content."""
    exact = _mix(int.from_bytes(fingerprint.exact, "little") ^ _EXACT)
    if not fingerprint.sketches:  # too short to resemble anything but its equal
        return np.array([exact, _mix(int.from_bytes(fingerprint.content, "little") ^ _CONTENT)], np.uint64)
    near = [
        _mix((table << 32 | key) ^ _SIMHASH) & _KEY | (third & _THIRD_BITS) << _THIRD
        for table, key, third in blocks(fingerprint.simhash)
    ]
    bands = (sketch.bands for sketch in fingerprint.sketches)
    return np.concatenate([np.array([exact], np.uint64), *bands, np.array(near, np.uint64)])


def meetings(rows: Sequence[U64]) -> list[tuple[int, int]]:
    """Return the pairs (i, j), j before i, of rows that a probe would bring together, in order."""
    hashes = np.concatenate(rows)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    pairs = _equal(hashes, owner)
    long = [i for i, row in enumerate(rows) if len(row) > 2]
    if long:
        near = np.concatenate([rows[i][_SIMHASHES] for i in long])
        alike = _equal(near & np.uint64(_KEY), np.arange(len(near)))
        off = np.bitwise_count(near[alike[:, 0]] ^ near[alike[:, 1]])
        pairs = np.concatenate([pairs, np.array(long)[alike[off <= 1] // TABLES]])
    pairs = np.sort(pairs, axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    return sorted((i, j) for j, i in pairs.tolist())


def _equal(keys: U64, owner: I64) -> I64:
    """Return the pairs of owners of equal keys."""
    order = np.argsort(keys, kind="stable")
    keys, owner = keys[order], owner[order]
    found = [np.empty((0, 2), np.int64)]
    for step in range(1, len(keys)):
        same = (keys[step:] == keys[:-step]).nonzero()[0]
        if not len(same):
            break
        found.append(np.stack([owner[same], owner[same + step]], axis=1))
    return np.concatenate(found)


def _mix(value: int) -> int:
    """Spread a small or patterned value over all 64 bits (the splitmix64 finaliser)."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _ALL
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _ALL
    return value ^ value >> 31


def grouped(rows: Sequence[U64], numbers: Sequence[bytes] | None = None) -> list[tuple[int, bytes, U64]]:
    """Return (group, packed queries, who asked) for each group that the rows of buckets touch.

    A query is place, row and tag, with the document's number behind them if numbers are given. `who asked` gives, for
    each query in the packed order, the index of its row.
    """
    if not rows:
        return []
    hashes = np.concatenate(rows)
    owner = np.repeat(np.arange(len(rows), dtype=np.uint64), [len(row) for row in rows])
    group = (hashes >> np.uint64(56)).astype(np.int64)
    order = np.argsort(group, kind="stable")
    owner = owner[order]
    columns = [_places(rows)[order]]
    if numbers is not None:
        columns.append(np.frombuffer(b"".join(numbers), np.uint8).reshape(-1, 4)[owner.astype(np.int64)])
    table = np.concatenate(columns, axis=1)
    packed, width = table.tobytes(), table.shape[1]
    edges = np.searchsorted(group[order], np.arange(GROUPS + 1)).tolist()
    return [
        (g, packed[first * width : last * width], owner[first:last])
        for g, (first, last) in enumerate(pairwise(edges))
        if last > first
    ]


def entries(rows: Sequence[U64]) -> tuple[list[int], bytes, list[bytes]]:
    """Return the groups that the rows touch, a byte a row that says if two of its buckets may lie in one row, and the
    rows as claim.lua wants them.
    """
    hashes = np.concatenate(rows)
    groups, which = np.unique(hashes >> np.uint64(56), return_inverse=True)
    places = _places(rows)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    spots = np.sort(owner << 24 | which << 16 | _row_numbers(hashes))
    twice = np.zeros(len(rows), np.uint8)
    twice[spots[1:][spots[1:] == spots[:-1]] >> 24] = 1
    packed = np.concatenate([which.astype(np.uint8)[:, None], places], axis=1).tobytes()
    ends = accumulate(8 * len(row) for row in rows)
    return groups.tolist(), twice.tobytes(), [packed[first:last] for first, last in pairwise([0, *ends])]


def _places(rows: Sequence[U64]) -> npt.NDArray[np.uint8]:
    """Return place (2 bytes; with a flag where a bit may differ), row (2) and tag (3) of each bucket of each row."""
    hashes = np.concatenate(rows)
    low = hashes.astype("<u4")
    packed = np.empty((len(low), 7), np.uint8)
    flags = np.concatenate([_tolerant(len(row)) for row in rows])
    place = (low & _PLACE) + _TOLERANT * flags
    packed[:, :2] = place.astype("<u2").view(np.uint8).reshape(-1, 2)
    packed[:, 2:4] = _row_numbers(hashes).astype("<u2").view(np.uint8).reshape(-1, 2)
    packed[:, 4:] = low.view(np.uint8).reshape(-1, 4)[:, :3]
    return packed


def _row_numbers(hashes: U64) -> I64:
    """Return in which row of its leaf each bucket lies."""
    return (hashes >> np.uint64(40) & np.uint64(0xFFFF)).astype(np.int64) * _ROWS >> 16


@functools.cache
def _tolerant(count: int) -> Bools:
    """Return which of so many buckets of a row are looked for with a bit of tolerance."""
    flags = np.zeros(count, np.bool_)
    if count > 2:
        flags[_SIMHASHES] = True
    return flags
