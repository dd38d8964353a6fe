"""Which characters the bytes of a page mean.

The order of evidence: a byte order mark (it wins over everything, as in browsers), the HTTP header, the
page's own meta tag, detection. Two departures from browsers, as declarations are wrong more often than bytes:
a body that is valid UTF-8 with more than a handful of sequences is UTF-8 whatever it declares (text in
another charset practically never is), and one that declares UTF-8 but mostly is not gets detected.

A page that is UTF-8 already is not re-encoded: lexbor reads its bytes. Invariant: `utf8` always gives valid
UTF-8, and nothing here raises on any body or header.
"""

from __future__ import annotations

import codecs
import re

import charset_normalizer
from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom

SURE = 16  # continuation bytes in a valid UTF-8 body that outweigh any declaration
SAMPLE = 8192
FALLBACK = "cp1252"

# What detection chooses from: what the web still serves without saying so.
_SUSPECTS = ["cp1251", "koi8_r", "gb18030", "cp932", "euc_jp", "cp949", "big5hkscs", "cp1252", "cp1253"]
_NOT_FOR_PAGES = frozenset({"utf-7", "idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "hz"})
_MARKUP = re.compile(rb"(?is)<(script|style)\b.*?(?:</\1|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>?|&#?\w+;|\s+")
_HIGH, _LATIN = re.compile(rb"[\x80-\xff]"), re.compile(rb"[a-zA-Z]")


def utf8(body: bytes, content_type: str = "", *, markup: bool = True) -> bytes:
    """Return the body as valid UTF-8 without a byte order mark; the same object where it is that already."""
    read = _read(body, content_type, markup)
    return read if isinstance(read, bytes) else read.encode("utf-8", "replace")


def decode(body: bytes, content_type: str = "", *, markup: bool = True) -> str:
    """Return the body's text; `markup` allows its tags to have a say."""
    read = _read(body, content_type, markup)
    return read if isinstance(read, str) else read.decode("utf-8", "replace")


def _read(body: bytes, content_type: str, markup: bool) -> bytes | str:
    """Return the body itself where it is valid UTF-8, else its text."""
    encoding, mark = read_bom(body)
    if encoding and mark:
        body = body[len(mark) :]
        return body if encoding == "utf-8" and _is_utf8(body) else body.decode(encoding, "replace")
    wide = b"\0" in body or b"\x1b" in body  # UTF-16 and ISO-2022 look like ASCII otherwise
    if not wide and _is_utf8(body, at_least=SURE):
        return body
    for declared in (
        http_content_type_encoding(content_type),
        html_body_declared_encoding(body) if markup else None,
    ):
        text = _obey(declared, body, content_type)
        if text is not None:
            return text
    return body if _is_utf8(body) and not _looks_utf16(body) else _detect(body, markup)


def _is_utf8(body: bytes, at_least: int = 0) -> bool:
    """Is the body UTF-8: ASCII alone, or with at least so many continuation bytes?"""
    if body.isascii():
        return True
    try:
        return len(body) - len(body.decode("utf-8")) >= at_least
    except UnicodeDecodeError:
        return False


def _obey(declared: str | None, body: bytes, content_type: str) -> str | None:
    """Return the text by the declared charset; None where the declaration can't be true."""
    if declared is None:
        return None
    try:
        encoding = codecs.lookup(declared).name
        if encoding in _NOT_FOR_PAGES:
            return None
        if encoding.startswith(("utf-16", "utf-32")):
            # Read from a meta tag it refutes itself: a UTF-16 page has no ASCII meta tag.
            return _wide(encoding, body) if http_content_type_encoding(content_type) == declared else None
        text = body.decode(encoding, "replace")
    except (LookupError, ValueError):
        return None
    if encoding != "utf-8":
        return text
    lost = text.count("\ufffd")
    return text if lost * 100 <= len(text) or lost <= len(body) - len(text) else None


def _wide(encoding: str, body: bytes) -> str | None:
    high, low = _zeros(body)
    if encoding == "utf-16":
        encoding = "utf-16-be" if high > low else "utf-16-le"
    elif encoding == "utf-32":
        encoding = "utf-32-le" if body[1:4] == b"\0\0\0" else "utf-32-be"
    return body.decode(encoding, "replace") if high or low or not body.isascii() else None


def _zeros(body: bytes) -> tuple[int, int]:
    """Return the zeros on even and on odd places: the high bytes of blanks and Latin letters in UTF-16."""
    head = body[:1024]
    return head[0::2].count(0), head[1::2].count(0)


def _looks_utf16(body: bytes) -> bool:
    return len(body) >= 32 and max(_zeros(body)) * 4 >= min(len(body), 1024) and min(_zeros(body)) == 0


def _detect(body: bytes, markup: bool) -> str:
    if _looks_utf16(body):
        return _wide("utf-16", body) or ""
    text = body.decode("utf-8", "replace")
    if text.count("\ufffd") * 8 < len(body) - len(text):
        return text  # UTF-8 with a little damage
    sample = _MARKUP.sub(b" ", body[: SAMPLE * 8]) if markup else body
    # Start a few words before the first byte that is not ASCII: only those tell charsets apart.
    first = _HIGH.search(sample)
    start = max(0, first.start() - 64) if first else 0
    return body.decode(_guess(sample[start : start + SAMPLE]), "replace")


def _guess(sample: bytes) -> str:
    if len(_HIGH.findall(sample)) * 4 < len(_LATIN.findall(sample)):
        return FALLBACK  # accents and typographic quotes among Latin letters
    best = charset_normalizer.from_bytes(sample, cp_isolation=_SUSPECTS, enable_fallback=False).best()
    return best.encoding if best is not None else FALLBACK
