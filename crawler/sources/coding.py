"""Transfer and content codings of an HTTP body, undone with a cap on what may come out.

Tolerant as browsers are: a body that does not carry the coding its headers claim is taken as it is, and
a coded body that ends early gives what is there. A coding that breaks in the middle is an error, for half a
page must not be judged. Never more than the cap and a block are in memory, whatever a bomb claims.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]
import zstandard

_STEP = 1 << 20
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")


class TooLargeError(Exception):
    """The decoded body is over the cap."""


class UndecodableError(Exception):
    """The body cannot be decoded; the message is the reason of the verdict."""


class UnsupportedError(UndecodableError):
    """The coding is one that this version does not know."""


def dechunk(body: bytes) -> bytes:
    r"""Return the body without its chunk framing; a body that is not chunked is returned as it is.

    >>> dechunk(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), dechunk(b"<html>")
    (b'abcde', b'<html>')
    """
    pieces: list[bytes] = []
    at = 0
    while (match := _CHUNK_SIZE.match(body, at)) is not None:
        size = int(match[1], 16)
        start = match.end()
        if size == 0:
            return b"".join(pieces)
        pieces.append(body[start : start + size])
        at = start + size
        at += 2 if body.startswith(b"\r\n", at) else int(body.startswith(b"\n", at))
    if not pieces or at < len(body):  # framing broke off: what follows is text that was never framed
        pieces.append(body[at:])
    return b"".join(pieces)


def decode(body: bytes, codings: str, cap: int) -> bytes:
    """Undo the codings of a Content-Encoding header, the last one first."""
    for coding in reversed([name.strip().lower() for name in codings.split(",")]):
        if coding in ("", "identity", "none", "utf-8", "binary", "8bit"):
            continue
        decoder = _DECODERS.get(coding)
        if decoder is None:
            raise UnsupportedError(f"content-encoding {coding[:40]} not supported")
        if body:
            body = decoder(body, cap)
    if len(body) > cap:
        raise TooLargeError
    return body


def _gzip(body: bytes, cap: int) -> bytes:
    if not body.startswith(b"\x1f\x8b"):
        return body
    return _collect(_inflated(body, 31), cap, "gzip")


def _deflate(body: bytes, cap: int) -> bytes:
    """Undo zlib framing, or bare deflate as some servers send it, or nothing."""
    for bits in (15, -15):
        try:
            return _collect(_inflated(body, bits), cap, "deflate")
        except UndecodableError:
            continue
    if _is_text(body):
        return body
    raise UndecodableError("damaged: the deflate coding of the body is corrupt")


def _brotli(body: bytes, cap: int) -> bytes:
    try:
        return _collect(_brotli_pieces(body), cap, "br")
    except UndecodableError:
        if _is_text(body):
            return body
        raise


def _zstd(body: bytes, cap: int) -> bytes:
    if not body.startswith(b"\x28\xb5\x2f\xfd"):
        return body
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(body), read_across_frames=True)
    return _collect(iter(lambda: reader.read(_STEP), b""), cap, "zstd")


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}


def _collect(pieces: Iterator[bytes], cap: int, coding: str) -> bytes:
    out = bytearray()
    try:
        for piece in pieces:
            out += piece
            if len(out) > cap:
                raise TooLargeError
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise UndecodableError(f"damaged: the {coding} coding of the body is corrupt") from error
    return bytes(out)


def _inflated(body: bytes, bits: int) -> Iterator[bytes]:
    """Yield the bytes of each member; what follows the last one is ignored."""
    while body:
        inflate = zlib.decompressobj(bits)
        while not inflate.eof:
            piece = inflate.decompress(body, _STEP)
            yield piece
            body = inflate.unconsumed_tail
            if not piece and not body:
                break
        body = inflate.unused_data
        if bits != 31 or not body.startswith(b"\x1f\x8b"):
            return


def _brotli_pieces(body: bytes) -> Iterator[bytes]:
    inflate = brotli.Decompressor()
    piece = inflate.process(body, output_buffer_limit=_STEP)
    while piece:
        yield piece
        if inflate.is_finished():
            return
        piece = inflate.process(b"", output_buffer_limit=_STEP)


def _is_text(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<" and b"\0" not in body[:512]
