"""Where a fingerprint stands in the store, and where to look for its like.

Every way to find a page (exact digest, SimHash half, MinHash band) comes down to a 64-bit bucket hash: its top byte
is the group, its low four bytes the tag in the group's shards. 40 bits in all: at 10^7 pages a probe of 88 buckets
meets a stranger in one of about 10^3 pages, and the stranger fails verification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dedup.model import U64, Fingerprint
from dedup.simhash import probe_keys
from dedup.store.keys import GROUPS

_EXACT, _CONTENT, _SIMHASH = np.uint64(1 << 62), np.uint64(2 << 62), np.uint64(3 << 60)
_STANDING = [0, 1, 34]  # of exact, low half and its 32 neighbours, high half and its: those not off by a bit


def buckets(fingerprint: Fingerprint) -> tuple[U64, U64]:
    """Return the buckets that a kept page stands in (3 and one a band), and those to look for its like in.

    The second are the first and the SimHash halves one bit away.
    """
    exact = np.frombuffer(fingerprint.exact, np.uint64) ^ _EXACT
    if not fingerprint.sketches:  # too short to resemble anything but its equal
        content = np.frombuffer(fingerprint.content, np.uint64) ^ _CONTENT
        both = _mix(np.concatenate([exact, content]))
        return both, both
    mixed = _mix(np.concatenate([exact, probe_keys(fingerprint.simhash) ^ _SIMHASH]))
    bands = [sketch.bands for sketch in fingerprint.sketches]
    return np.concatenate([mixed[_STANDING], *bands]), np.concatenate([mixed, *bands])


def _mix(values: U64) -> U64:
    """Spread small or patterned values over all 64 bits (the splitmix64 finaliser)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def grouped(rows: Sequence[U64], ids: Sequence[bytes] | None = None) -> list[tuple[int, bytes, U64]]:
    """Return (group, packed queries, who asked) for each group that the rows of bucket hashes touch.

    Without ids a query is the 4-byte tag; with them it is the 12-byte record tag + id. `who asked` gives, for each
    query in the packed order, the index of its row.
    """
    sizes = [len(row) for row in rows]
    if not sum(sizes):
        return []
    hashes = np.concatenate(rows)
    owner = np.repeat(np.arange(len(rows), dtype=np.uint64), sizes)
    group = (hashes >> np.uint64(56)).astype(np.int64)
    order = np.argsort(group, kind="stable")
    hashes, owner, group = hashes[order], owner[order], group[order]
    tags = hashes.astype(np.uint32).view(np.uint8).reshape(-1, 4)
    if ids is not None:
        of = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 8)[owner.astype(np.int64)]
        tags = np.concatenate([tags, of], axis=1)
    packed, width = tags.tobytes(), tags.shape[1]
    edges = np.searchsorted(group, np.arange(GROUPS + 1))
    return [
        (g, packed[edges[g] * width : edges[g + 1] * width], owner[edges[g] : edges[g + 1]])
        for g in (edges[1:] > edges[:-1]).nonzero()[0].tolist()
    ]
