"""Where a fingerprint stands in the store, and where to look for its like.

Every way to find a page comes down to a 64-bit bucket hash: its top byte is the group, its low four bytes the tag in
the group's leaves. Exact digests and MinHash bands use 40 mixed bits: at 10^7 pages a probe meets a stranger in one of
about 10^3 pages, and the stranger fails verification.

SimHash quarters are looked for with one bit of tolerance. Their group and the low half of their tag say which quarter,
the high half of the tag is the other quarter of the same half as it is: all that may match lie in one leaf, and the
script compares the high halves bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dedup.model import I64, U64, Fingerprint
from dedup.simhash import blocks
from dedup.store.keys import GROUPS

QUARTERS = slice(1, 5)  # of a row of buckets, where there are more than two
_ALL = (1 << 64) - 1
QUARTER, EXACT = 1, 2  # kinds of buckets, a band's is 0; claim.lua has the same
_EXACT, _CONTENT, _SIMHASH = 1 << 62, 2 << 62, 3 << 60
_PLACE = 0xFF00_0000_0000_FFFF  # the bits that choose a quarter's group and leaf: its like has the same
_KINDS = np.zeros(1024, np.uint8)  # of the buckets of a row, in order
_KINDS[0], _KINDS[QUARTERS] = EXACT, QUARTER
_SHORT = np.array([EXACT, 0], np.uint8)
_BACKWARDS: I64 = np.zeros(1 << 16, np.int64)  # the 16 bits of a number, reversed
for _bit in range(16):
    _BACKWARDS |= (np.arange(1 << 16) >> _bit & 1) << (15 - _bit)


def buckets(fingerprint: Fingerprint) -> U64:
    """Return the buckets that a page stands in: exact, 4 quarters, one a band; or exact and content if it is short."""
    exact = _mix(int.from_bytes(fingerprint.exact, "little") ^ _EXACT)
    if not fingerprint.sketches:  # too short to resemble anything but its equal
        return np.array([exact, _mix(int.from_bytes(fingerprint.content, "little") ^ _CONTENT)], np.uint64)
    own = [exact]
    for table, quarter, sibling in blocks(fingerprint.simhash):
        own.append(_mix((table << 16 | quarter) ^ _SIMHASH) & _PLACE | sibling << 16)
    return np.concatenate([np.array(own, np.uint64), *(sketch.bands for sketch in fingerprint.sketches)])


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

    A query is a byte that is 1 for a quarter, and twice the 4-byte tag, with the document's number behind them if
    numbers are given. `who asked` gives, for each query in the packed order, the index of its row.
    """
    if not rows:
        return []
    hashes, owner, kind, group = _by_group(rows)
    tags = hashes.astype("<u4").view(np.uint8).reshape(-1, 4)
    columns = [(kind == QUARTER).view(np.uint8)[:, None], tags, tags]
    if numbers is not None:
        columns.append(np.frombuffer(b"".join(numbers), np.uint8).reshape(-1, 4)[owner.astype(np.int64)])
    return [(g, packed, owner[first:last]) for g, packed, first, last in _packed(columns, group)]


def entries(rows: Sequence[U64]) -> list[tuple[int, bytes, bytes]]:
    """Return (group, entries of exact texts, other entries) for each group, packed as claim.lua wants them."""
    hashes, owner, kind, group = _by_group(rows)
    tags = hashes.astype("<u4").view(np.uint8).reshape(-1, 4)
    whose = owner.astype(np.uint8)[:, None]
    exact = kind == EXACT
    first = {g: packed for g, packed, _, _ in _packed([whose[exact], tags[exact], tags[exact]], group[exact])}
    rest = ~exact
    columns = [whose[rest], kind[rest, None], tags[rest], tags[rest]]
    others = {g: packed for g, packed, _, _ in _packed(columns, group[rest])}
    return [(g, first.get(g, b""), others.get(g, b"")) for g in sorted(first.keys() | others.keys())]


def _packed(columns: Sequence[npt.NDArray[np.uint8]], group: I64) -> Iterator[tuple[int, bytes, int, int]]:
    """Yield each group that occurs, its rows as bytes, and where these begin and end."""
    rows = np.concatenate(columns, axis=1)
    packed, width = rows.tobytes(), rows.shape[1]
    edges = np.searchsorted(group, np.arange(GROUPS + 1)).tolist()
    for g, (first, last) in enumerate(pairwise(edges)):
        if last > first:
            yield g, packed[first * width : last * width], first, last


def _by_group(rows: Sequence[U64]) -> tuple[U64, U64, npt.NDArray[np.uint8], I64]:
    """Return all buckets of all rows, whose they are, their kinds and their groups, in the order of leaves.lua."""
    owner = np.repeat(np.arange(len(rows), dtype=np.uint64), [len(row) for row in rows])
    kind = np.concatenate([_KINDS[: len(row)] if len(row) > 2 else _SHORT for row in rows])
    hashes = np.concatenate(rows)
    group = (hashes >> np.uint64(56)).astype(np.int64)
    order = np.argsort(group << 16 | _BACKWARDS[hashes.astype(np.uint16)], kind="stable")
    return hashes[order], owner[order], kind[order], group[order]
