"""The bytes of a document in the store: its record, and the state around it (see register.lua)."""

from __future__ import annotations

import struct
from typing import Literal

import msgspec

from dedup.errors import StoreError
from dedup.model import Fingerprint, Stored

Kind = Literal["P", "W", "K", "V"]  # pending, won, kept, void

_HEAD = struct.Struct("<8s8sQII8sB")  # exact, content, simhash, words, time, payload, number of signatures
_CLAIM = struct.Struct("<IId8sB")  # epoch, version, deadline, owner, number of challengers


class State(msgspec.Struct, frozen=True):
    """S[d] of the claim protocol, as read."""

    kind: Kind
    epoch: int = 0
    version: int = 0
    challengers: tuple[bytes, ...] = ()
    record: bytes = b""
    since: float = 0.0  # of kept: when, by the server's clock


def pack(stored: Stored) -> bytes:
    """Return a record; times before 1970 or after 2106 are not remembered."""
    time = stored.time if stored.time is not None and 0 < stored.time < 2**32 else 0
    head = _HEAD.pack(
        stored.exact, stored.content, stored.simhash, stored.words, time, stored.payload, len(stored.packed)
    )
    signatures = b"".join(bytes([width]) + packed for width, packed in stored.packed)
    return head + signatures + stored.url.encode("utf-8", "replace")


def unpack(record: bytes, signature_bytes: int) -> Stored:
    """Return what a record says, or StoreError where it can't be one of ours."""
    try:
        exact, content, simhash, words, time, payload, count = _HEAD.unpack_from(record)
    except struct.error:
        raise StoreError("a document in the index is damaged: another program wrote into this namespace") from None
    at, packed = _HEAD.size, []
    for _ in range(count):
        packed.append((record[at], record[at + 1 : at + 1 + signature_bytes]))
        at += 1 + signature_bytes
    url = record[at:].decode("utf-8", "replace")
    return Stored(exact, content, simhash, words, tuple(packed), url, time or None, payload)


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
        return State("K", since=struct.unpack_from("<d", value, 1)[0], record=value[9:])
    if kind == "V":
        return State("V", epoch=struct.unpack_from("<I", value, 1)[0])
    if kind in "PW":
        epoch, version, _deadline, _owner, count = _CLAIM.unpack_from(value, 1)
        at = 1 + _CLAIM.size
        ids = tuple(value[at + 8 * i : at + 8 * i + 8] for i in range(count))
        return State("P" if kind == "P" else "W", epoch, version, ids, value[at + 8 * count :])
    raise StoreError(f"a document in the index has the unknown state {kind!r}: was it written by a newer Winnow?")
