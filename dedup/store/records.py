"""The bytes of a document in the store: its record, and the state around it (see states.lua)."""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

from dedup.errors import StoreError
from dedup.model import Fingerprint, Stored

Kind = Literal["P", "W", "K"]  # pending, won, kept

_HEAD = struct.Struct("<8s8sQII8s")  # page, exact, simhash, words and number of signatures, time, payload
_STRIPPED = 1 << 31  # set in the words where the content's digest follows: it is another than that of the whole text
_CLAIM = struct.Struct("<d8sH")  # deadline, owner, number of challengers
_SIGNATURES = 28  # their number is in bits 28 to 30
_MOST_WORDS = (1 << _SIGNATURES) - 1


class State(msgspec.Struct, frozen=True):
    """S[d] of the claim protocol, as read."""

    kind: Kind
    challengers: tuple[bytes, ...] = ()
    record: bytes = b""
    since: int = 0  # of kept: when, in seconds by the server's clock

    @property
    def page(self) -> bytes:
        """Return whose record it is: the id of the page, the same after a crash."""
        return self.record[:8]


def pack(page: bytes, stored: Stored) -> bytes:
    """Return a record; times before 1970 or after 2106 are not remembered."""
    time = stored.time if stored.time is not None and 0 < stored.time < 2**32 else 0
    words = min(stored.words, _MOST_WORDS) | len(stored.packed) << _SIGNATURES
    content = b"" if stored.content == stored.exact else stored.content
    words |= _STRIPPED if content else 0
    head = _HEAD.pack(page, stored.exact, stored.simhash, words, time, stored.payload) + content
    signatures = b"".join(bytes([width]) + packed for width, packed in stored.packed)
    return head + signatures + stored.url.encode("utf-8", "replace")


def unpack(record: bytes, signature_bytes: int) -> Stored:
    """Return what a record says, or StoreError where it can't be one of ours."""
    try:
        _page, exact, simhash, words, time, payload = _HEAD.unpack_from(record)
    except struct.error:
        raise StoreError("a document in the index is damaged: another program wrote into this namespace") from None
    at, packed, content = _HEAD.size, [], exact
    if words & _STRIPPED:
        at, content = at + 8, record[at : at + 8]
    for _ in range(words >> _SIGNATURES & 7):
        packed.append((record[at], record[at + 1 : at + 1 + signature_bytes]))
        at += 1 + signature_bytes
    url = record[at:].decode("utf-8", "replace")
    return Stored(exact, content, simhash, words & _MOST_WORDS, tuple(packed), url, time or None, payload)


def stored(fingerprint: Fingerprint, *, url: str, time: int | None, payload: bytes) -> Stored:
    """Return what the index shall remember of a page with this fingerprint."""
    packed = tuple((sketch.width, sketch.packed) for sketch in fingerprint.sketches)
    return Stored(
        fingerprint.exact,
        fingerprint.content,
        fingerprint.simhash,
        fingerprint.words,
        packed,
        url,
        time,
        payload,
    )


def state(value: bytes | None) -> State | None:
    """Return a state as a value, None where the document is unknown."""
    if not value:
        return None
    kind = chr(value[0])
    if kind == "K":
        return State("K", since=int.from_bytes(value[1:5], "little"), record=value[5:])
    if kind in "PW":
        _deadline, _owner, count = _CLAIM.unpack_from(value, 1)
        at = 1 + _CLAIM.size
        numbers = tuple(value[at + 4 * i : at + 4 * i + 4] for i in range(count))
        return State("P" if kind == "P" else "W", numbers, value[at + 4 * count :])
    raise StoreError(f"a document in the index has the unknown state {kind!r}: was it written by a newer Winnow?")
