"""Every key in the store, in one place.

    NAMESPACE:params                      what the index was made with (one key, no hash tag)
    NAMESPACE:DIGEST:{TAG}:b              root of a bucket group; its shards are ...:b:0, ...:b:1, ...
    NAMESPACE:DIGEST:{TAG}:s              states of the documents of a group
    NAMESPACE:DIGEST:{TAG}:c:SITE         line census of a site
    NAMESPACE:DIGEST:{TAG}:o:SITE         pages of a site that are counted but not done

DIGEST is that of SketchParams. TAG is one of 256 short texts chosen so that their Cluster slots are spread evenly:
any division of the slots among servers gets the same share of groups. A standalone server uses the same keys.
"""

from __future__ import annotations

import binascii
import functools
import hashlib

GROUPS = 256
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
        self.buckets = tuple(stem + b"{" + tag + b"}:b" for tag in tags())
        self.states = tuple(stem + b"{" + tag + b"}:s" for tag in tags())
        self._stem = stem

    def state_of(self, document: bytes) -> bytes:
        """Return the key that holds a document's state; ids are digests, so their last byte is a fair group."""
        return self.states[document[-1]]

    def census(self, site: str) -> tuple[bytes, bytes]:
        """Return the keys of a site's line counts and of its pages in flight, both in one slot."""
        name = site.encode("utf-8", "replace")
        tag = tags()[hashlib.blake2b(name, digest_size=1).digest()[0]]
        stem = self._stem + b"{" + tag + b"}:"
        return stem + b"c:" + name, stem + b"o:" + name
