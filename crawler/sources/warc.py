"""WARC and WARC.gz: one item for each response and resource record, and one for each damaged stretch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import quote

from crawler.sources.gz import MAGIC, GzipFeed
from crawler.sources.http import Head, from_resource, from_response
from crawler.sources.records import Record, read_records
from crawler.sources.seam import MIB, Item, Job
from crawler.sources.sniff import peeked
from crawler.sources.when import epoch
from crawler.sources.window import Feed, PlainFeed, Window
from dedup.model import Unread

_COUNTED = frozenset(("warcinfo", "request", "metadata", "revisit", "conversion", "continuation"))
_UNSAFE = re.compile(r"[\x00-\x20\x7f]")  # no URL has these; archives do


def read_warc(stream: BinaryIO, job: Job) -> Iterator[Item]:
    """Yield the items of a WARC file, compressed or not: its first bytes tell."""
    head, stream = peeked(stream, len(MAGIC))
    feed: Feed = GzipFeed(stream) if head == MAGIC else PlainFeed(stream)
    ordinal = 0
    empty = True
    for found in read_records(Window(feed), hold=job.limits.max_body + MIB):
        empty = False
        if not isinstance(found, Record):
            if ordinal in job.wanted:
                url = clean_url(found.headers.get(b"warc-target-uri", b""))
                time = epoch(_text(found.headers.get(b"warc-date", b"")))
                yield Unread(url, job.place(ordinal, found.offset), found.reason, time=time, damaged=True)
            ordinal += 1
            continue
        kind = found.headers.get(b"warc-type", b"").lower()
        if kind not in (b"response", b"resource"):
            name = _text(kind)
            job.count(name if name in _COUNTED else "unknown")
            continue
        if ordinal in job.wanted:
            yield _item(found, kind, job, ordinal)
        ordinal += 1
    if empty and 0 in job.wanted:
        yield Unread("", job.place(0, 0), "damaged: empty archive", damaged=True)


def _item(record: Record, kind: bytes, job: Job, ordinal: int) -> Item:
    headers = record.headers
    head = Head(
        url=clean_url(headers.get(b"warc-target-uri", b"")),
        place=job.place(ordinal, record.offset),
        time=epoch(_text(headers.get(b"warc-date", b""))),
    )
    if b"warc-segment-number" in headers:
        return head.refuse("segmented record")  # half a page; the other half is a continuation elsewhere
    declared = _text(headers.get(b"content-type", b""))
    # Heritrix writes DNS and FTP answers as responses, under a type that is not HTTP's.
    is_http = not declared or declared.lower().startswith("application/http")
    if kind == b"response" and (is_http or record.buf.startswith(b"HTTP/", record.start, record.end)):
        return from_response(head, record, job.limits)
    return from_resource(head, record, job.limits, declared)


def clean_url(written: bytes) -> str:
    """Return a WARC-Target-URI without the angle brackets of old wget, its spaces quoted.

    >>> clean_url(b"<http://example.com/a b>")
    'http://example.com/a%20b'
    """
    url = _text(written).strip()
    if url.startswith("<") and url.endswith(">"):
        url = url[1:-1].strip()
    return _UNSAFE.sub(lambda match: quote(match[0]), url)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
