"""What an input is: by its name where that says enough, else by its first bytes.

To add a format: give it a line in `NAMES` and `_MAGICS`, and a reader in `opening.READERS`.
"""

from __future__ import annotations

import io
import re
import zlib
from typing import BinaryIO, cast

GZIP = b"\x1f\x8b"
HEAD = 1024  # bytes that decide

# Endings of names, without .gz: compression is always told by the bytes.
NAMES = {
    ".warc": "warc",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".html": "page",
    ".htm": "page",
    ".xhtml": "page",
    ".txt": "page",
    ".arc": "arc",
    ".wacz": "wacz",
    ".zip": "zip",
    ".tar": "tar",
    ".tgz": "tar",
    ".tar.xz": "tar",
    ".tar.zst": "tar",
    ".warc.zst": "zst",
    ".warc.lz4": "lz4",
}
# A folder's files of these kinds are inputs of their own. A .zip in a saved mirror is a download.
ARCHIVES = frozenset(("warc", "jsonl", "arc", "wacz", "zst", "lz4"))
TITLES = {
    "arc": "an ARC file",
    "wacz": "a WACZ file",
    "zip": "a zip file",
    "tar": "a tar file",
    "zst": "compressed with zstd",
    "lz4": "compressed with lz4",
    "xz": "compressed with xz",
    "protobuf": "a stream of protobuf documents",
}
_MAGICS = (
    (b"WARC/", "warc"),
    (b"filedesc://", "arc"),
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xfd7zXZ\x00", "xz"),
)
# The tags by which the WHATWG sniffing standard knows HTML, each ended by a blank or '>'.
_TAG = re.compile(
    rb"<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>]|<!--", re.I
)
_DEEPER = re.compile(rb"<(?:!doctype html|html|head|title|body)[\s>]", re.I)  # after a comment, XML or stray text
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def kind_of_name(name: str) -> str:
    """Return the format that a file's name promises, '' where it promises none.

    >>> kind_of_name("a.warc.gz"), kind_of_name("A.HTML"), kind_of_name("b.gz"), kind_of_name("c.warc.zst")
    ('warc', 'page', '', 'zst')
    """
    lower = name.lower().removesuffix(".gz")
    stem, dot, last = lower.rpartition(".")
    _, dot2, before = stem.rpartition(".")
    if dot2 and (double := NAMES.get(f".{before}.{last}")):
        return double
    return NAMES.get(f".{last}", "") if dot else ""


def kind_of_bytes(head: bytes) -> str:
    """Return the format that an input's first bytes show; what is nothing else is a page."""
    zipped = head.startswith(GZIP)
    if zipped:
        head = _gunzipped(head)
    for magic, kind in _MAGICS:
        if head.startswith(magic):
            return kind
    if head[257:262] == b"ustar":
        return "tar"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        return "jsonl"
    # 4 bytes of length, then field 1 (url) as a string
    if zipped and len(head) > 8 and head[3] == 0 and head[4] == 0x0A:
        return "protobuf"
    return "page"


def _gunzipped(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(head, HEAD)
    except zlib.error:
        return b""


def looks_html(head: bytes) -> bool:
    """Is this the beginning of an HTML page?

    >>> looks_html(b"  <!DOCTYPE html>"), looks_html(b"<?xml version='1.0'?><html>"), looks_html(b"GIF89a")
    (True, True, False)
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16
        head = head[2:].replace(b"\0", b"")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _BINARY.search(head):
        return False
    return _TAG.match(head) is not None or _DEEPER.search(head) is not None


def looks_binary(head: bytes) -> bool:
    return not head.startswith((b"\xff\xfe", b"\xfe\xff")) and _BINARY.search(head) is not None


def peeked(stream: BinaryIO, count: int) -> tuple[bytes, BinaryIO]:
    """Return the first bytes of a stream and a stream that still has them."""
    head = stream.read(count)
    if stream.seekable():
        stream.seek(-len(head), io.SEEK_CUR)
        return head, stream
    return head, cast(BinaryIO, io.BufferedReader(_Prefixed(head, stream), 1 << 17))


class _Prefixed(io.RawIOBase):
    """A pipe with bytes put back in front of it."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._read = getattr(rest, "read1", rest.read)  # what has come by now, not a full buffer

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview, /) -> int:  # type: ignore[override]
        block = self._head[: len(into)] if self._head else self._read(len(into))
        self._head = self._head[len(block) :]
        into[: len(block)] = block
        return len(block)
