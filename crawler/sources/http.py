"""From the block of a response record to a Page, or to the reason why it is none.

The cheap tests come first: status, then type, and only then is the body copied and decoded.
"""

from __future__ import annotations

import re

import msgspec

from crawler.sources.coding import TooLargeError, UndecodableError, UnsupportedError, dechunk, decode
from crawler.sources.records import Record, after_blank_line
from crawler.sources.seam import Item, Limits, status_refusal
from crawler.sources.sniff import looks_html
from dedup.model import Page, Place, Unread

_STATUS = re.compile(rb"HTTP/\d+(?:\.\d+)?[ \t]+(\d{3})(?!\d)")
_HTML = frozenset(("text/html", "application/xhtml+xml"))
_UNDECLARED = frozenset(("", "*/*", "unknown/unknown", "application/unknown"))  # as browsers have it

Fields = tuple[tuple[str, str], ...]


class Head(msgspec.Struct, frozen=True):
    """What the record says before its body."""

    url: str
    place: Place
    time: int | None

    def refuse(self, reason: str, status: int | None = None, *, damaged: bool = False) -> Unread:
        return Unread(self.url, self.place, reason, status, self.time, damaged)


def from_response(head: Head, record: Record, limits: Limits) -> Item:
    """Read the HTTP response that is the record's block."""
    block, start, end = record.buf, record.start, record.end
    match = _STATUS.match(block, start, end)
    if match is None:
        if record.whole and looks_html(bytes(block[start : min(end, start + 1024)])):
            return _page(head, record, start, (), limits)
        return head.refuse("damaged: no HTTP response", damaged=True)
    status = int(match[1])
    if refusal := status_refusal(status):
        return head.refuse(refusal, status)
    body_start = after_blank_line(block, match.end(), end)
    if body_start < 0:
        body_start = end
    headers = _fields(bytes(block[match.end() : body_start]))
    media = _media_type(_value(headers, "content-type"))
    if media not in _HTML and media not in _UNDECLARED:
        return head.refuse("not html", status)
    if not record.whole:
        return head.refuse("too large", status)
    return _page(head, record, body_start, headers, limits, status)


def from_resource(head: Head, record: Record, limits: Limits, content_type: str) -> Item:
    """Read a resource: the block is the body, and the record's own Content-Type is its type."""
    media = _media_type(content_type)
    if media not in _HTML and media not in _UNDECLARED:
        return head.refuse("not html")
    if not record.whole:
        return head.refuse("too large")
    headers = (("Content-Type", content_type),) if content_type else ()
    return _page(head, record, record.start, headers, limits)


def _page(head: Head, record: Record, start: int, headers: Fields, limits: Limits, status: int = 200) -> Item:
    body = bytes(memoryview(record.buf)[start : record.end])
    try:
        if "chunked" in _value(headers, "transfer-encoding").lower():
            body = dechunk(body)
        body = decode(body, _value(headers, "content-encoding"), limits.max_body)
    except TooLargeError:
        return head.refuse("too large", status)
    except UnsupportedError as error:
        return head.refuse(str(error), status)
    except UndecodableError as error:
        return head.refuse(str(error), status, damaged=True)
    content_type = _value(headers, "content-type")
    if _media_type(content_type) in _UNDECLARED and body and not looks_html(body[:1024]):
        return head.refuse("not html", status)
    return Page(head.url, head.place, body, status, headers, content_type, head.time)


def _fields(block: bytes) -> Fields:
    """Return the header fields as sent. A folded line belongs to the one before it."""
    fields: list[tuple[str, str]] = []
    for line in block.decode("latin-1").split("\n")[1:]:
        if line[:1] in (" ", "\t") and fields:
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}".strip())
            continue
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.strip(), value.strip()))
    return tuple(fields)


def _value(fields: Fields, wanted: str) -> str:
    """Return a field's value; several of a name make one list, but the first type counts."""
    size = len(wanted)  # most names differ in length: cheaper than lower() on each
    values = [value for name, value in fields if len(name) == size and name.lower() == wanted]
    if len(values) > 1 and wanted != "content-type":
        return ", ".join(values)
    return values[0] if values else ""


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].partition(",")[0].strip().lower()
