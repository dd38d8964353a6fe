"""WARC 1.1 records as bytes: one gzip member each, so that any record can be read, cut off or skipped alone.

Bodies are written decoded, as they were judged. The headers that spoke of the encoded body are kept under
X-Archive-Orig-*, the name that replay tools know.
"""

from __future__ import annotations

import base64
import hashlib
import http
import uuid
import zlib

from dedup.model import Page, Stored
from dedup.verdicts import iso

IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NEAR = "urn:winnow:revisit:near-duplicate:1"  # the text is a copy, the bytes are not

_OF_THE_ENCODED_BODY = {"content-encoding", "transfer-encoding", "content-length"}


def warcinfo(name: str, *, version: str, time: int) -> bytes:
    block = f"software: Winnow {version}\r\nformat: WARC File Format 1.1\r\n".encode()
    headers = {
        "WARC-Type": "warcinfo",
        "WARC-Record-ID": _record_id("warcinfo", name),
        "WARC-Date": iso(time) or "",
        "WARC-Filename": name,
        "Content-Type": "application/warc-fields",
    }
    return _record(headers, block)


def page(page: Page, document: bytes, *, now: int) -> bytes:
    """Return a response record, or a resource record where the source kept no HTTP headers."""
    headers = {
        "WARC-Type": "response" if page.headers else "resource",
        "WARC-Record-ID": _record_id("page", document.hex()),
        "WARC-Date": iso(page.time if page.time is not None else now) or "",
        "WARC-Target-URI": _uri(page.url),
        "WARC-Payload-Digest": payload_digest(page.body),
    }
    if page.headers:
        headers["Content-Type"] = "application/http;msgtype=response"
        return _record(headers, _http(page) + page.body)
    headers["Content-Type"] = page.content_type or ("text/plain" if page.plain else "text/html")
    return _record(headers, page.body)


def revisit(page: Page, document: bytes, of: Stored, *, now: int) -> bytes:
    """Return a revisit record: this page is a copy of a kept one, byte for byte or nearly."""
    digest = hashlib.sha1(page.body, usedforsecurity=False).digest()
    headers = {
        "WARC-Type": "revisit",
        "WARC-Record-ID": _record_id("revisit", document.hex()),
        "WARC-Date": iso(page.time if page.time is not None else now) or "",
        "WARC-Target-URI": _uri(page.url),
        "WARC-Payload-Digest": _sha1(digest),
        "WARC-Profile": IDENTICAL if payload(page.body) == of.payload else NEAR,
        "WARC-Refers-To-Target-URI": _uri(of.url),
    }
    if of.time is not None:
        headers["WARC-Refers-To-Date"] = iso(of.time) or ""
    headers["Content-Type"] = "application/http;msgtype=response"
    return _record(headers, _http(page) if page.headers else b"")


def payload(body: bytes) -> bytes:
    """Return the part of a body's digest that the index remembers."""
    return hashlib.sha1(body, usedforsecurity=False).digest()[:8]


def payload_digest(body: bytes) -> str:
    return _sha1(hashlib.sha1(body, usedforsecurity=False).digest())


def _sha1(digest: bytes) -> str:
    return "sha1:" + base64.b32encode(digest).decode()


def gzip_member(content: bytes, level: int) -> bytes:
    """Return one gzip member without time or name: the same content gives the same bytes."""
    squeeze = zlib.compressobj(level, zlib.DEFLATED, 31)
    return squeeze.compress(content) + squeeze.flush()


def _record(headers: dict[str, str], block: bytes) -> bytes:
    lines = [f"{name}: {_one_line(value)}\r\n" for name, value in headers.items() if value]
    head = "WARC/1.1\r\n" + "".join(lines) + f"Content-Length: {len(block)}\r\n\r\n"
    return head.encode("utf-8", "replace") + block + b"\r\n\r\n"


def _http(page: Page) -> bytes:
    try:
        phrase = http.HTTPStatus(page.status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {page.status} {phrase}\r\n"]
    for name, value in page.headers:
        kept = f"X-Archive-Orig-{name}" if name.lower() in _OF_THE_ENCODED_BODY else name
        lines.append(f"{_one_line(kept)}: {_one_line(value)}\r\n")
    lines.append(f"Content-Length: {len(page.body)}\r\n\r\n")
    return "".join(lines).encode("utf-8", "replace")


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


def _uri(url: str) -> str:
    return url.replace(" ", "%20")


def _record_id(kind: str, name: str) -> str:
    return f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'winnow:{kind}:{name}')}>"
