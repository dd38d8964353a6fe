"""JSONL lines become pages; a bad line is one damaged item."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.sources import Item, Limits
from dedup.model import Page
from tests.crawler.archives import jsonl, read, reason, urls


def items_of(tmp_path: Path, raw: bytes, limits: Limits | None = None) -> list[Item]:
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)
    items, _ = read(path, limits=limits)
    assert [item.place.ordinal for item in items] == list(range(len(items)))
    return items


def line(n: int) -> dict[str, object]:
    return {"url": f"http://e.com/{n}", "html": f"<p>page {n}</p>"}


def test_html_and_text(tmp_path: Path) -> None:
    """html is markup, text is plain; both are UTF-8 and say so."""
    html, text = items_of(tmp_path, jsonl({"url": "u", "html": "<p>é"}, {"url": "v", "text": "é", "title": 1}))
    assert isinstance(html, Page)
    assert isinstance(text, Page)
    assert (html.body, html.plain, html.content_type) == ("<p>é".encode(), False, "text/html; charset=utf-8")
    assert (text.body, text.plain, text.content_type) == ("é".encode(), True, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T01:01:00+01:00", 60),
        (60.9, 60),
        (60, 60),
        ("no", None),
        (None, None),
    ],
)
def test_time(tmp_path: Path, time: object, expected: int | None) -> None:
    """Times are ISO 8601 or seconds; one that cannot be read is no time."""
    [item] = items_of(tmp_path, jsonl({"url": "u", "html": "x", "time": time}))
    assert item.time == expected


def test_offsets_and_blank_lines(tmp_path: Path) -> None:
    """Blank lines are no items, and offsets are those of the bytes."""
    first, second = jsonl(line(0)), jsonl(line(1))
    items = items_of(tmp_path, b"\xef\xbb\xbf" + first + b"\n \r\n" + second)
    assert [(i.place.ordinal, i.place.offset) for i in items] == [(0, 0), (1, 3 + len(first) + 4)]
    assert urls(items) == ["0", "1"]


def test_status(tmp_path: Path) -> None:
    """A status that is no success is the item's reason."""
    items = items_of(tmp_path, jsonl(*({**line(0), "status": s} for s in (200, 301, 404))))
    assert [reason(item) for item in items] == ["", "redirect", "status 404"]


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b'{"url": "u"}',
        b'{"html": "x"}',
        b'{"url": "", "html": "x"}',
        b'{"url": 3, "html": "x"}',
        b'{"url": "u", "html": 1}',
        b'{"url": "u", "html": "x", "status": "200"}',
        b'{"url": "\xff", "html": "x"}',
        b'{"url": "u", "html": "\\ud800"}',
        b"\0\0\0",
        b"[" * 100_000,
    ],
)
def test_bad_line(tmp_path: Path, bad: bytes) -> None:
    """A line that is no page is one damaged item with a reason, and the next line is read."""
    items = items_of(tmp_path, bad + b"\n" + jsonl(line(1)))
    assert urls(items) == ["!", "1"]
    assert reason(items[0]).startswith("damaged: ")


def test_long_line(tmp_path: Path) -> None:
    """A line over the cap is too large, is no damage, and the next line is read."""
    long = jsonl({"url": "u", "html": "x" * 5_000_000})
    items = items_of(tmp_path, long + jsonl(line(1)), Limits(max_body=1000))
    assert [reason(item) for item in items] == ["too large", ""]
    assert items[1].place.offset == len(long)


def test_large_body(tmp_path: Path) -> None:
    """A body over the cap in a line below it is too large."""
    [item] = items_of(tmp_path, jsonl({"url": "u", "html": "x" * 1001}), Limits(max_body=1000))
    assert (reason(item), item.url) == ("too large", "u")


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(jsonl(*map(line, range(3)))), b"".join(gzip.compress(jsonl(line(n))) for n in range(3))],
)
def test_gzip(tmp_path: Path, packed: bytes) -> None:
    """Gzip is told by its bytes, one member or several."""
    assert urls(items_of(tmp_path, packed)) == ["0", "1", "2"]


def test_corrupt_gzip(tmp_path: Path) -> None:
    """Bytes after the gzip stream that are none are one damaged item."""
    items = items_of(tmp_path, gzip.compress(jsonl(line(0))) + b"garbage")
    assert urls(items) == ["0", "!"]


MANY = [jsonl({**line(n), "x": "".join(chr(97 + n * k * k % 26) for k in range(300))}) for n in range(20)]


@given(st.integers(1, len(gzip.compress(b"".join(MANY), mtime=0)) - 1))
@settings(max_examples=60, deadline=None)
def test_truncated_gzip(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Of a cut gzip stream all whole lines are read, and then comes one damaged item."""
    path = tmp_path_factory.getbasetemp() / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(MANY), mtime=0)[:cut])
    items, _ = read(path)
    assert urls(items) == [*map(str, range(len(items) - 1)), "!"]
    assert reason(items[-1]).startswith("truncated: ") or cut < 2


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever bytes a line has, the lines around it are read, and shares agree with the full pass."""
    raw = data.draw(st.binary(max_size=60)).replace(b"\n", b"")
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(jsonl(line(0)) + raw + b"\n" + jsonl(line(1), line(2)))
    full, _ = read(path)
    blank = not raw or raw.isspace()
    assert urls(full) == (["0", "1", "2"] if blank else ["0", "!", "1", "2"])
    start, of = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 3))
    for k in range(of):
        got, _ = read(path, start=start, share=(k, of))
        assert got == [i for i in full if i.place.ordinal >= start and i.place.ordinal % of == k]


@given(st.text(max_size=200), st.text(min_size=1, max_size=50).filter(str.strip))
@settings(max_examples=100, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, html: str, url: str) -> None:
    """Any text that JSON can say arrives as it is."""
    path = tmp_path_factory.getbasetemp() / "trip.jsonl"
    path.write_bytes(json.dumps({"url": url, "html": html}).encode())
    [item] = read(path)[0]
    assert isinstance(item, Page)
    assert (item.url, item.body) == (url, html.encode())
