"""A single page in a file or on a pipe: HTML, or text that is text already."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from crawler.sources.seam import Item, Job
from crawler.sources.sniff import GZIP, HEAD, looks_binary, looks_html, peeked
from dedup.model import Page, Unread

_HTML_NAMES = (".html", ".htm", ".xhtml", ".shtml")


def read_page(stream: BinaryIO, job: Job) -> Iterator[Item]:
    """Yield the one item of the stream."""
    if 0 in job.wanted:
        yield page_of(stream, job, 0)


def page_of(stream: BinaryIO, job: Job, ordinal: int, size: int | None = None) -> Item:
    """Return the stream as a page; never more than the cap is read. A size known beforehand saves room for the cap."""
    place = job.place(ordinal)
    head, stream = peeked(stream, len(GZIP))
    if head == GZIP:
        stream, size = cast(BinaryIO, gzip.GzipFile(fileobj=stream)), None
    try:
        body = stream.read((job.limits.max_body if size is None else size) + 1)
    except (EOFError, zlib.error, OSError) as error:
        strange = isinstance(error, OSError) and error.errno
        reason = f"cannot be read: {error}" if strange else "damaged: the gzip stream is corrupt"
        return Unread(job.url, place, reason, time=job.time, damaged=True)
    if len(body) > job.limits.max_body:
        return Unread(job.url, place, "too large", time=job.time)
    name = job.url.partition("?")[0].lower().removesuffix(".gz")
    start = body[:HEAD]
    if name.endswith(_HTML_NAMES) or job.url.lower().endswith(_HTML_NAMES):
        plain = False
    elif looks_binary(start):
        return Unread(job.url, place, "not html", time=job.time)
    else:
        plain = name.endswith(".txt") or not looks_html(start)
    return Page(job.url, place, body, time=job.time, plain=plain)
