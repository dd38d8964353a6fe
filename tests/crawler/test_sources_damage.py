"""Damage in a WARC is one item at its place, and what is sound around it is read."""

from __future__ import annotations

import gzip
import io
import random
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.sources import Item, Limits
from crawler.sources.seam import Job, Wanted
from crawler.sources.warc import read_warc
from tests.crawler.archives import http, members, pages, read, reason, record, urls

FIVE = pages(5, 400)


def items_of(tmp_path: Path, raw: bytes) -> list[Item]:
    path = tmp_path / "a.warc"
    path.write_bytes(raw)
    items, _ = read(path)
    assert [item.place.ordinal for item in items] == list(range(len(items)))
    return items


def test_cut_in_a_record(tmp_path: Path) -> None:
    """A file that ends in a record loses that record only, at its offset."""
    items = items_of(tmp_path, b"".join(FIVE)[:-100])
    assert urls(items) == ["0", "1", "2", "3", "!"]
    assert items[4].place.offset == sum(map(len, FIVE[:4]))
    assert reason(items[4]).startswith("truncated: ")
    assert items[4].url == "http://example.com/4"


def test_cut_in_a_header(tmp_path: Path) -> None:
    """A file that ends in a header has one damaged item for it."""
    items = items_of(tmp_path, FIVE[0] + FIVE[1][:40])
    assert urls(items) == ["0", "!"]
    assert reason(items[1]) == "truncated: in the WARC header"


def test_cut_in_a_request(tmp_path: Path) -> None:
    """A cut record is damage also where its type would only be counted."""
    assert urls(items_of(tmp_path, FIVE[0] + record(b"GET / HTTP/1.1" * 9, kind="request")[:-30])) == [
        "0",
        "!",
    ]


@pytest.mark.parametrize("cut", [5, 9, 60, 200])
def test_truncated_gzip(tmp_path: Path, cut: int) -> None:
    """A gzip member without its end is damage, also where only its checksum is missing."""
    items = items_of(tmp_path, members(FIVE)[:-cut])
    assert urls(items) == ["0", "1", "2", "3", "!"]
    assert reason(items[4]).startswith("truncated: ")
    assert items[4].place.offset == len(members(FIVE[:4]))


def test_truncated_single_member(tmp_path: Path) -> None:
    """Of a cut single-member file, all records before the cut are read."""
    random.seed(1)
    noise = [record(http(random.randbytes(500).hex().encode()), url=f"http://e.com/{n}") for n in range(5)]
    packed = gzip.compress(b"".join(noise))
    assert urls(items_of(tmp_path, packed[: len(packed) // 2])) in (["0", "1", "!"], ["0", "!"])


@pytest.mark.parametrize("wrap", [lambda r: r, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("length", [20, 1000, 2000, 50_000, 10**12, "-1", "many", ""])
def test_wrong_length(tmp_path: Path, wrap: object, length: int | str) -> None:
    """A Content-Length too short, too long or absurd costs its own record, and no other."""
    assert callable(wrap)
    bad = record(http(b"<p>some text</p>" * 20), length=length)
    raw = b"".join(map(wrap, [FIVE[0], bad, *FIVE[1:]]))
    assert urls(items_of(tmp_path, raw)) == ["0", "!", "1", "2", "3", "4"]


def test_garbage_between_records(tmp_path: Path) -> None:
    """Bytes that are no record are one item; the records around them are read."""
    for garbage in (b"garbage\r\n", bytes(range(1, 256)) * 3000, b"WARC/1.0 is a format\r\n\r\n"):
        items = items_of(tmp_path, FIVE[0] + garbage + FIVE[1])
        assert urls(items) == ["0", "!", "1"]
        assert items[1].place.offset == len(FIVE[0])


def test_garbage_between_members(tmp_path: Path) -> None:
    """Bytes that are no gzip member are one item; the members around them are read."""
    items = items_of(tmp_path, members(FIVE[:2]) + b"\x1f\x8b\x08 not really" + members(FIVE[2:]))
    assert urls(items) == ["0", "1", "!", "2", "3", "4"]
    assert items[2].place.offset == len(members(FIVE[:2]))


def test_padding_is_no_damage(tmp_path: Path) -> None:
    """Zeros and newlines between records are passed."""
    assert urls(items_of(tmp_path, FIVE[0] + b"\r\n\r\n\n" + FIVE[1] + bytes(500))) == ["0", "1"]
    assert urls(items_of(tmp_path, members(FIVE[:1]) + bytes(500) + members(FIVE[1:2]) + bytes(500))) == [
        "0",
        "1",
    ]


def test_corrupt_member(tmp_path: Path) -> None:
    """A broken member in the middle is one item at its offset."""
    parts = [gzip.compress(one, mtime=0) for one in FIVE]
    for at in (12, len(parts[2]) // 2, len(parts[2]) - 6):
        broken = bytearray(parts[2])
        broken[at] ^= 0xFF
        items = items_of(tmp_path, b"".join([*parts[:2], bytes(broken), *parts[3:]]))
        assert urls(items) == ["0", "1", "!", "3", "4"]
        assert items[2].place.offset == len(parts[0]) + len(parts[1])


def test_header_without_end(tmp_path: Path) -> None:
    """A header that never ends is one item, and the next record is found."""
    endless = b"WARC/1.0\r\n" + b"X-Y: z\r\n" * 20_000
    assert urls(items_of(tmp_path, FIVE[0] + endless + FIVE[1])) == ["0", "!", "1"]


@pytest.mark.parametrize("raw", [b"", gzip.compress(b""), b"\r\n\r\n"])
def test_empty(tmp_path: Path, raw: bytes) -> None:
    """An archive without any record is one damaged item."""
    [item] = items_of(tmp_path, raw)
    assert (reason(item), item.place.offset) == ("damaged: empty archive", 0)


def test_no_warc_at_all(tmp_path: Path) -> None:
    """A file that is no WARC is one damaged item."""
    assert urls(items_of(tmp_path, b"<html>hello</html>\n" * 50_000)) == ["!"]


def test_a_page_about_warc(tmp_path: Path) -> None:
    """A sound page that quotes a WARC record is one page."""
    quoting = record(http(b"<pre>\n" + FIVE[0] + b"</pre>"), url="http://e.com/q")
    assert urls(items_of(tmp_path, quoting + FIVE[1])) == ["q", "1"]


ARCHIVES = {
    "plain": (b"".join(FIVE), FIVE),
    "gzip": (members(FIVE), [gzip.compress(one, mtime=0) for one in FIVE]),
    "single": (single := gzip.compress(b"".join(FIVE), mtime=0), [single]),
}


@st.composite
def broken_archives(draw: st.DrawFn) -> tuple[bytes, int]:
    """Return an archive, broken at one spot or cut, and how many records are sound before that spot."""
    raw, parts = ARCHIVES[draw(st.sampled_from(sorted(ARCHIVES)))]
    at = draw(st.integers(0, len(raw) - 1))
    end = draw(st.integers(at, min(len(raw), at + 2000)))
    put = draw(st.one_of(st.just(b""), st.binary(max_size=40)))
    rest = raw[end:] if draw(st.booleans()) else b""
    sound = 0
    while sum(map(len, parts[: sound + 1])) <= at and sound < len(parts):
        sound += 1
    return raw[:at] + put + rest, sound


@settings(max_examples=300, deadline=None)
@given(broken_archives())
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, broken: tuple[bytes, int]) -> None:
    """Whatever breaks, nothing raises and all records before the damage are there."""
    raw, sound = broken
    path = tmp_path_factory.getbasetemp() / "broken.warc"
    path.write_bytes(raw)
    items, _ = read(path)
    assert [item.place.ordinal for item in items] == list(range(len(items)))
    # The last sound record may lose its tail to what was put behind it.
    assert urls(items)[: max(sound - 1, 0)] == [str(n) for n in range(max(sound - 1, 0))]


class Pipe(io.BytesIO):
    """Bytes that cannot be sought, as on standard input."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation("seek")


@pytest.mark.parametrize("name", ARCHIVES)
def test_pipe(name: str) -> None:
    """From a pipe come the same pages as from a file."""
    job = Job("-", "", Wanted(), Limits(), Counter())
    assert urls(read_warc(Pipe(ARCHIVES[name][0]), job)) == list("01234")


@settings(max_examples=150, deadline=None)
@given(broken_archives(), st.sampled_from([100, 2000]))
def test_any_damage_in_a_pipe(broken: tuple[bytes, int], max_body: int) -> None:
    """Whatever breaks in a pipe, nothing raises and every item has its number."""
    job = Job("-", "", Wanted(), Limits(max_body=max_body), Counter())
    items = list(read_warc(Pipe(broken[0]), job))
    assert [item.place.ordinal for item in items] == list(range(len(items)))


def test_memory(tmp_path: Path) -> None:
    """Neither a huge block nor endless garbage is held in memory."""
    noise = gzip.compress(bytes(1 << 26))
    start, _, _ = record(b"", length=1 << 26).rpartition(b"\r\n\r\n")
    for raw in (gzip.compress(start) + noise + gzip.compress(b"\r\n\r\n"), members(FIVE[:1]) + noise[:-9]):
        path = tmp_path / "a.warc.gz"
        path.write_bytes(raw)
        tracemalloc.start()
        assert read(path, limits=Limits(max_body=1000))[0]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 23


@settings(max_examples=150, deadline=None)
@given(broken_archives(), st.integers(0, 7), st.integers(1, 4))
def test_any_share(tmp_path_factory: pytest.TempPathFactory, broken: tuple[bytes, int], start: int, of: int) -> None:
    """Passes that start late or take a share give the items of the full pass, broken or not."""
    path = tmp_path_factory.getbasetemp() / "share.warc"
    path.write_bytes(broken[0])
    limits = Limits(max_body=2000)
    full, _ = read(path, limits=limits)
    for k in range(of):
        got, _ = read(path, limits=limits, start=start, share=(k, of))
        assert got == [item for item in full if item.place.ordinal >= start and item.place.ordinal % of == k]
