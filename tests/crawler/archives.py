"""Small archives as bytes, good and broken, for the tests of the sources."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from crawler.sources import Item, Limits, open_inputs

HTML = b"<!doctype html><title>A page</title><p>Some words of a page.</p>"
DATE = "2024-05-06T07:08:09Z"
EPOCH = 1714979289


def http(body: bytes = HTML, *, status: int = 200, headers: Iterable[str] = ("Content-Type: text/html",)) -> bytes:
    """Return an HTTP response."""
    lines = [f"HTTP/1.1 {status} Whatever", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def record(
    block: bytes | None = None,
    *,
    kind: str = "response",
    url: str = "http://example.com/",
    media: str = "application/http; msgtype=response",
    length: int | str | None = None,
    version: str = "1.1",
    extra: Iterable[str] = (),
) -> bytes:
    """Return a WARC record; `length` overrides the true Content-Length."""
    block = http() if block is None else block
    lines = [
        f"WARC/{version}",
        f"WARC-Type: {kind}",
        f"WARC-Target-URI: {url}",
        f"WARC-Date: {DATE}",
        f"Content-Type: {media}",
        f"Content-Length: {len(block) if length is None else length}",
        *extra,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def pages(count: int, size: int = 0) -> list[bytes]:
    """Return records of numbered pages: http://example.com/0, /1, ..."""
    return [
        record(http(HTML + b"<p>%d</p>" % n + b"lorem ipsum " * (size // 12)), url=f"http://example.com/{n}")
        for n in range(count)
    ]


def members(records: Iterable[bytes]) -> bytes:
    """Return the records as a WARC.gz, a gzip member each."""
    return b"".join(gzip.compress(one, mtime=0) for one in records)


def jsonl(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def read(
    path: Path, *, limits: Limits | None = None, start: int = 0, share: tuple[int, int] = (0, 1)
) -> tuple[list[Item], Counter[str]]:
    """Return the items of the one input at a path, and the counters of other records."""
    inputs, problems = open_inputs([str(path)])
    assert not problems
    other: Counter[str] = Counter()
    [one] = inputs
    return list(one.pages(limits=limits or Limits(), other=other, start=start, share=share)), other


def reason(item: Item) -> str:
    """Return why an item is no page, '' for a page."""
    return getattr(item, "reason", "")


def urls(items: Iterable[Item]) -> list[str]:
    """Return the last part of each page's URL; '!' for what is damaged, '-' for what is merely no page."""
    return [
        ("!" if getattr(item, "damaged", False) else "-") if reason(item) else item.url.rpartition("/")[2]
        for item in items
    ]
