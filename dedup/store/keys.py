"""Every key in the store, in one place.

    NAMESPACE:params                what the index was made with (one key, no hash tag)
    NAMESPACE:DIGEST:{TAG}          the stem of a group: a script gets it and appends
        :b  :b:N  :s:N              its buckets (leaves.lua)
        :p  :k:N  :d                its claims, its kept documents, and how many of these there are (states.lua)
        :c:SITE  :o:SITE            line census of a site; its pages that are counted but not done
    NAMESPACE:DIGEST:{TAG 0}:n      how many document numbers were given

DIGEST is that of SketchParams. TAG is one of 256 short texts chosen so that their Cluster slots are spread evenly:
any division of the slots among servers gets the same share of groups. A standalone server uses the same keys.
"""

from __future__ import annotations

import binascii
import functools
import hashlib

GROUPS = 256
CHUNK = 16  # documents a string of kept records; states.lua has the same
_SLOTS = 16384


@functools.cache
def tags() -> tuple[bytes, ...]:
    """Return a hash tag for each group, the tag of group g lying in the g-th 256th of the Cluster's slots.

    >>> len(set(tags()))
    256
    """
    found: dict[int, bytes] = {}
    number = 0
    while len(found) < GROUPS:
        tag = b"%x" % number
        found.setdefault(binascii.crc_hqx(tag, 0) % _SLOTS * GROUPS // _SLOTS, tag)
        number += 1
    return tuple(found[group] for group in range(GROUPS))


class Keys:
    """The keys of one index."""

    def __init__(self, namespace: str, digest: str) -> None:
        self.params = f"{namespace}:params".encode()
        stem = f"{namespace}:{digest}:".encode()
        self.stems = tuple(stem + b"{" + tag + b"}" for tag in tags())
        self.numbers = self.stems[0] + b":n"

    def group_of(self, number: bytes) -> bytes:
        """Return the stem of the group that holds a document's state: 16 neighbours share one, and a string there."""
        return self.stems[int.from_bytes(number, "big") // CHUNK % GROUPS]

    def census(self, site: str) -> tuple[bytes, bytes]:
        """Return the keys of a site's line counts and of its pages in flight, both in one slot."""
        name = site.encode("utf-8", "replace")
        stem = self.stems[hashlib.blake2b(name, digest_size=1).digest()[0]]
        return stem + b":c:" + name, stem + b":o:" + name
