"""JSONL, one page a line: {"url", "html" or "text", "status"?, "time"?}. Other fields are ignored.

A line that cannot be used is one damaged item, and the next line is read. Lines are cut off at a cap, so
memory does not depend on what is in the file.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

import msgspec

from crawler.sources.seam import MIB, Item, Job, status_refusal
from crawler.sources.sniff import GZIP, peeked
from crawler.sources.when import epoch
from dedup.model import Page, Place, Unread

_SKIP = 1 << 16
_BOM = b"\xef\xbb\xbf"


class _Line(msgspec.Struct):
    url: str
    html: str | None = None
    text: str | None = None
    status: int | None = None
    time: str | int | float | None = None


_decode = msgspec.json.Decoder(_Line).decode


def read_jsonl(stream: BinaryIO, job: Job) -> Iterator[Item]:
    """Yield an item for each line that is not blank, compressed or not: the first bytes tell."""
    head, stream = peeked(stream, len(GZIP))
    if head == GZIP:
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    cap = 2 * job.limits.max_body + MIB  # JSON escapes may double a body
    ordinal = offset = 0
    while True:
        try:
            line = stream.readline(cap + 1)
            length = len(line)
            if length > cap and not line.endswith(b"\n"):
                line = b""
                length += _skip_line(stream)
        except (EOFError, zlib.error, OSError) as error:
            if ordinal in job.wanted:
                yield Unread("", job.place(ordinal, offset), _fault(error), damaged=True)
            return
        if not length:
            return
        if offset == 0:
            line = line.removeprefix(_BOM)
        if line and line.isspace():
            offset += length
            continue
        if ordinal in job.wanted:
            place = job.place(ordinal, offset)
            yield _item(line, place, job) if line else Unread("", place, "too large")
        ordinal += 1
        offset += length


def _skip_line(stream: BinaryIO) -> int:
    """Read to the end of the line without keeping it. Return how many bytes that were."""
    skipped = 0
    while piece := stream.readline(_SKIP):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _fault(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "truncated: the gzip stream ends early"
    if isinstance(error, OSError) and error.errno:
        return f"cannot be read: {error.strerror}"
    return "damaged: the gzip stream is corrupt"


def _item(line: bytes, place: Place, job: Job) -> Item:
    try:
        found = _decode(line)
    except msgspec.ValidationError as error:
        return Unread("", place, f"damaged: {_lower(error)}", damaged=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unread("", place, f"damaged: the line is not JSON: {_lower(error)}", damaged=True)
    time = epoch(found.time)
    status = 200 if found.status is None else found.status
    body = found.text if found.html is None else found.html
    if not found.url.strip() or body is None:
        missing = "no url" if body is not None else "neither html nor text"
        return Unread(found.url, place, f"damaged: the line has {missing}", status, time, damaged=True)
    if refusal := status_refusal(status):
        return Unread(found.url, place, refusal, status, time)
    raw = body.encode()
    if len(raw) > job.limits.max_body:
        return Unread(found.url, place, "too large", status, time)
    plain = found.html is None
    kind = "text/plain" if plain else "text/html"
    return Page(found.url, place, raw, status, (), f"{kind}; charset=utf-8", time, plain)


def _lower(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]
