"""WARC records become pages, or say why they are none."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from crawler.sources import Item, Limits
from dedup.model import Page
from tests.crawler.archives import EPOCH, HTML, http, members, pages, read, reason, record, urls


def one(tmp_path: Path, raw: bytes, limits: Limits | None = None) -> Item:
    path = tmp_path / "a.warc"
    path.write_bytes(raw)
    [item] = read(path, limits=limits)[0]
    return item


def body_of(tmp_path: Path, body: bytes, *headers: str, limits: Limits | None = None) -> bytes:
    item = one(tmp_path, record(http(body, headers=["Content-Type: text/html", *headers])), limits)
    assert isinstance(item, Page), item
    return item.body


def test_response(tmp_path: Path) -> None:
    """A response record gives the page's URL, status, headers, type, time and body."""
    item = one(tmp_path, record(http(headers=["Content-Type: text/html; charset=utf-8", "X-A: b"])))
    assert isinstance(item, Page)
    assert (item.url, item.status, item.time, item.body) == ("http://example.com/", 200, EPOCH, HTML)
    assert item.headers == (("Content-Type", "text/html; charset=utf-8"), ("X-A", "b"))
    assert item.content_type == "text/html; charset=utf-8"


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0", "1.1"])
def test_versions(tmp_path: Path, version: str) -> None:
    """Every WARC version in use is read."""
    assert isinstance(one(tmp_path, record(version=version)), Page)


def test_offsets_plain_and_gzip(tmp_path: Path) -> None:
    """The offset is the byte at which the record, or its gzip member, starts."""
    records = pages(3)
    for name, raw, parts in (
        ("a.warc", b"".join(records), records),
        ("b.warc.gz", members(records), [gzip.compress(r, mtime=0) for r in records]),
    ):
        (tmp_path / name).write_bytes(raw)
        items, _ = read(tmp_path / name)
        starts = [sum(map(len, parts[:n])) for n in range(3)]
        assert [item.place.offset for item in items] == starts


def test_single_member_gzip(tmp_path: Path) -> None:
    """A WARC that was compressed as one stream is read whole."""
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(b"".join(pages(5, 5000))))
    assert urls(read(tmp_path / "a.warc.gz")[0]) == list("01234")


def test_members_cut_anywhere(tmp_path: Path) -> None:
    """Members need not end where records do."""
    raw = b"".join(pages(5, 300))
    cut = b"".join(gzip.compress(raw[at : at + 200]) for at in range(0, len(raw), 200))
    (tmp_path / "a.warc.gz").write_bytes(cut)
    assert urls(read(tmp_path / "a.warc.gz")[0]) == list("01234")


def test_other_records_are_counted(tmp_path: Path) -> None:
    """Records that are no pages are counted by type, by the first share only."""
    kinds = ["warcinfo", "request", "metadata", "revisit", "conversion", "odd"]
    (tmp_path / "a.warc").write_bytes(b"".join(record(b"x", kind=k) for k in kinds) + record())
    items, other = read(tmp_path / "a.warc")
    assert len(items) == 1
    assert other == dict.fromkeys([*kinds[:-1], "unknown"], 1)
    assert not read(tmp_path / "a.warc", share=(1, 2))[1]


@pytest.mark.parametrize(
    ("status", "expected"), [(301, "redirect"), (304, "status 304"), (404, "status 404"), (503, "status 503")]
)
def test_status_comes_first(tmp_path: Path, status: int, expected: str) -> None:
    """A response that is no success says so, whatever its type, and keeps its status."""
    item = one(tmp_path, record(http(status=status, headers=["Content-Type: image/png"])))
    assert (reason(item), item.status, getattr(item, "damaged", None)) == (expected, status, False)


@pytest.mark.parametrize("media", ["image/png", "text/plain", "application/json", "text/html5"])
def test_not_html(tmp_path: Path, media: str) -> None:
    """Only text/html and application/xhtml+xml are pages."""
    assert reason(one(tmp_path, record(http(headers=[f"Content-Type: {media}"])))) == "not html"


def test_undeclared_type_is_sniffed(tmp_path: Path) -> None:
    """Without a Content-Type the body decides."""
    assert isinstance(one(tmp_path, record(http(headers=[]))), Page)
    assert reason(one(tmp_path, record(http(b"\x89PNG\0\0", headers=[])))) == "not html"


def test_resources(tmp_path: Path) -> None:
    """A resource's block is the body, and the record's type decides."""
    item = one(tmp_path, record(HTML, kind="resource", media="text/html"))
    assert isinstance(item, Page)
    assert item.body == HTML
    assert reason(one(tmp_path, record(b"hello", kind="resource", media="text/plain"))) == "not html"


def test_dns_response(tmp_path: Path) -> None:
    """A DNS answer that Heritrix stored as a response is no damage."""
    item = one(tmp_path, record(b"20240506\nexample.com. A 1.2.3.4", url="dns:example.com", media="text/dns"))
    assert (reason(item), getattr(item, "damaged", None)) == ("not html", False)


@pytest.mark.parametrize("written", ["<http://e.com/a>", " http://e.com/a ", "http://e.com/a"])
def test_target_uri_is_cleaned(tmp_path: Path, written: str) -> None:
    """Angle brackets and blanks around a URL are dropped."""
    assert one(tmp_path, record(url=written)).url == "http://e.com/a"


def _zstd(body: bytes) -> bytes:
    return zstandard.compress(body)


def _raw_deflate(body: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(body) + deflate.flush()


CODED = {
    "gzip": gzip.compress(HTML),
    "x-gzip": gzip.compress(HTML[:20]) + gzip.compress(HTML[20:]),
    "deflate": zlib.compress(HTML),
    "Deflate": _raw_deflate(HTML),
    "br": brotli.compress(HTML),
    "zstd": _zstd(HTML),
    "gzip, br": brotli.compress(gzip.compress(HTML)),
    "identity": HTML,
}


@pytest.mark.parametrize("coding", CODED)
def test_content_codings(tmp_path: Path, coding: str) -> None:
    """Bodies are decoded from every coding browsers know."""
    assert body_of(tmp_path, CODED[coding], f"Content-Encoding: {coding}") == HTML


@pytest.mark.parametrize("coding", CODED)
def test_coding_that_is_not_there(tmp_path: Path, coding: str) -> None:
    """A body that is not coded as it claims is taken as it is."""
    assert body_of(tmp_path, HTML, f"Content-Encoding: {coding}") == HTML


def test_unknown_coding(tmp_path: Path) -> None:
    """A coding nobody knows is named, and is no damage."""
    item = one(tmp_path, record(http(headers=["Content-Type: text/html", "Content-Encoding: sdch"])))
    assert (reason(item), getattr(item, "damaged", None)) == ("content-encoding sdch not supported", False)


def test_corrupt_coding(tmp_path: Path) -> None:
    """Half a page is not judged: a coding that breaks is damage."""
    broken = bytearray(gzip.compress(HTML * 50))
    broken[-6] ^= 0xFF
    item = one(tmp_path, record(http(bytes(broken), headers=["Content-Type: text/html", "Content-Encoding: gzip"])))
    assert reason(item) == "damaged: the gzip coding of the body is corrupt"


def test_chunked(tmp_path: Path) -> None:
    """Chunk framing is removed, chunk extensions and the missing last chunk forgiven."""
    framed = b"5;x=y\r\n<p>He\r\n6\r\nllo</p\r\n1\r\n>\r\n"
    for tail in (b"0\r\n\r\n", b""):
        assert body_of(tmp_path, framed + tail, "Transfer-Encoding: chunked") == b"<p>Hello</p>"


def test_not_really_chunked(tmp_path: Path) -> None:
    """A body that is not chunked as it claims is taken as it is."""
    assert body_of(tmp_path, HTML, "Transfer-Encoding: chunked") == HTML


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_bomb(tmp_path: Path, coding: str) -> None:
    """A body that decodes to more than the cap is too large, and is not decoded further."""
    make = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": _zstd}
    headers = ["Content-Type: text/html", f"Content-Encoding: {coding}"]
    item = one(tmp_path, record(http(make[coding](bytes(1 << 24)), headers=headers)), Limits(max_body=1 << 16))
    assert (reason(item), getattr(item, "damaged", None)) == ("too large", False)


@pytest.mark.parametrize("packed", [False, True])
def test_large_record_is_skipped(tmp_path: Path, packed: bool) -> None:
    """A block over what may be held is passed over, and the next record is read."""
    records = [*pages(1), record(http(bytes(3 << 20))), *pages(2)]
    path = tmp_path / "a.warc"
    path.write_bytes(gzip.compress(b"".join(records)) if packed else b"".join(records))
    items, _ = read(path, limits=Limits(max_body=1000))
    assert [reason(item) for item in items] == ["", "too large", "", ""]


def test_no_http(tmp_path: Path) -> None:
    """A response without an HTTP block is damage, unless it plainly is HTML."""
    assert reason(one(tmp_path, record(b"nothing"))) == "damaged: no HTTP response"
    assert isinstance(one(tmp_path, record(HTML)), Page)


def test_bare_newlines(tmp_path: Path) -> None:
    """Headers that end in bare newlines are read."""
    head, _, rest = record(http().replace(b"\r\n", b"\n")).partition(b"\r\n\r\n")
    bare = head.replace(b"\r\n", b"\n") + b"\n\n" + rest.replace(b"\r\n", b"\n")
    assert isinstance(one(tmp_path, bare), Page)
