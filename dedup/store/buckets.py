"""Where a fingerprint stands in the store, and where to look for its like.

Every way to find a page comes down to a 64-bit bucket hash. Its top byte is the group; the low four bytes say where in
the group (leaves.lua has the layout):

    bits  0 to 1    the lowest bits of the place, which chooses the leaf
    bits  2 to 6    the cell of the leaf; of a SimHash quarter bits 2 to 4
    bits  8 to 31   the tag: of an exact text or a band, fourteen more bits of the place are in it, of a quarter eight

Exact texts and MinHash bands thus use 39 mixed bits: at 10^7 pages a probe meets a stranger in one of some two hundred
pages, and the stranger fails verification. SimHash quarters are looked for with one bit of tolerance: group, place and
cell say which quarter, the last two bytes of the tag are the other quarter of the same half as it is, so that all that
may match lie in one cell, and the script compares these other quarters bit by bit.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from dedup.model import I64, U64, Fingerprint
from dedup.simhash import blocks
from dedup.store.keys import GROUPS

QUARTERS = slice(-4, None)  # of a row of buckets, where there are more than two
_ALL = (1 << 64) - 1
_EXACT, _CONTENT, _SIMHASH = 1 << 62, 2 << 62, 3 << 60
_PLACE = 0xFF00_0000_0000_FF1F  # the bits that say which quarter it is
_CELLS, _QUARTER_CELLS = 32, 8  # that a leaf has for texts and bands, and for quarters
_FIRST_QUARTER_CELL = 32  # leaves.lua has the same


def buckets(fingerprint: Fingerprint) -> U64:
    """Return the buckets that a page stands in: exact, one a band, 4 quarters; or exact and content if it is short."""
    exact = _mix(int.from_bytes(fingerprint.exact, "little") ^ _EXACT)
    if not fingerprint.sketches:  # too short to resemble anything but its equal
        return np.array([exact, _mix(int.from_bytes(fingerprint.content, "little") ^ _CONTENT)], np.uint64)
    quarters = [
        _mix((table << 16 | quarter) ^ _SIMHASH) & _PLACE | sibling << 16
        for table, quarter, sibling in blocks(fingerprint.simhash)
    ]
    bands = (sketch.bands for sketch in fingerprint.sketches)
    return np.concatenate([np.array([exact], np.uint64), *bands, np.array(quarters, np.uint64)])


def meetings(rows: Sequence[U64]) -> list[tuple[int, int]]:
    """Return the pairs (i, j), j before i, of rows that a probe would bring together, in order."""
    hashes = np.concatenate(rows)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    pairs = _equal(hashes, owner)
    long = [i for i, row in enumerate(rows) if len(row) > 2]
    if long:
        quarters = np.concatenate([rows[i][QUARTERS] for i in long])
        place, sibling = quarters & np.uint64(_PLACE), (quarters >> np.uint64(16)).astype(np.uint16)
        near = _equal(place, np.arange(len(place)))
        off = np.bitwise_count(sibling[near[:, 0]] ^ sibling[near[:, 1]])
        pairs = np.concatenate([pairs, np.array(long)[near[off <= 1] // 4]])
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

    A query is place, cell and tag, with the document's number behind them if numbers are given. `who asked` gives, for
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
    """Return the groups that the rows touch, a byte a row that says if two of its buckets may lie in one cell, and the
    rows as claim.lua wants them.
    """
    hashes = np.concatenate(rows)
    groups, which = np.unique(hashes >> np.uint64(56), return_inverse=True)
    places = _places(rows)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    cells = np.sort(owner << 16 | which << 8 | places[:, 2])
    twice = np.zeros(len(rows), np.uint8)
    twice[cells[1:][cells[1:] == cells[:-1]] >> 16] = 1
    packed = np.concatenate([which.astype(np.uint8)[:, None], places], axis=1).tobytes()
    ends = accumulate(7 * len(row) for row in rows)
    return groups.tolist(), twice.tobytes(), [packed[first:last] for first, last in pairwise([0, *ends])]


def _places(rows: Sequence[U64]) -> npt.NDArray[np.uint8]:
    """Return place (2 bytes), cell (1) and tag (3) of each bucket of each row."""
    low = np.concatenate(rows).astype(np.uint32)
    is_quarter = np.concatenate([_quarters(len(row)) for row in rows])
    packed = np.empty((len(low), 6), np.uint8)
    place = (low & 3) | (low >> 8 & np.where(is_quarter, np.uint32(0xFF), np.uint32(0x3FFF))) << 2
    packed[:, :2] = place.astype("<u2").view(np.uint8).reshape(-1, 2)
    packed[:, 2] = np.where(is_quarter, _FIRST_QUARTER_CELL + (low >> 2) % _QUARTER_CELLS, (low >> 2) % _CELLS)
    tag = low.astype("<u4").view(np.uint8).reshape(-1, 4)[:, 1:]
    packed[:, 3:] = np.where(is_quarter[:, None], tag[:, [1, 0, 2]], tag)
    return packed


@functools.cache
def _quarters(count: int) -> npt.NDArray[np.bool_]:
    """Return which of so many buckets of a row are quarters."""
    flags = np.zeros(count, np.bool_)
    if count > 2:
        flags[QUARTERS] = True
    return flags
