"""Page bytes -> Extract: the text a reader sees, one line a block element.

Line breaks are decided in the *source*: a form feed goes in front of every block-level tag before lexbor
parses the page. To an HTML parser a form feed is white space like any other, so it survives in text, may
stand inside tables (any other sentinel would be moved out of them) and does no harm inside tags. After the
parse, source newlines become blanks and form feeds become newlines. Finding the tags is numpy over the bytes:
no Python step a node, a line or a word.

Table cells are lines of their own, not rows: in layout tables a row holds the navigation next to the article,
and in data tables the label cell repeats from page to page while the value beside it does not. A line census
can only tell the two apart if they are different lines. Buttons and options are lines for the same reason.

Lexbor is quadratic in the nesting depth and in the attributes of one tag, and repeats unclosed formatting
tags in each paragraph after them; a page that could hurt is parsed in pieces. Invariant: any bytes give an
Extract, in about linear time, and never an exception.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from urllib.parse import urldefrag, urljoin

import numpy as np
import numpy.typing as npt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from dedup import charset
from dedup.model import Extract

# fmt: off
BLOCK_TAGS = (
    "address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd",
    "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
    "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "legend", "li", "listing",
    "main", "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre", "search", "section",
    "summary", "table", "tbody", "td", "textarea", "tfoot", "th", "thead", "tr", "ul", "xmp",
)
INVISIBLE_TAGS = (
    "script", "style", "template", "noscript", "svg", "iframe", "noembed", "noframes", "object", "canvas",
    "audio", "video", "datalist",
)
FORMATTING_TAGS = ("b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u")
# fmt: on

# Kinds of tags; from _HIDE on, each invisible tag has its own.
_PLAIN, _BLOCK, _PRE, _FORMAT, _HIDE = range(5)
_NOSCRIPT = INVISIBLE_TAGS.index("noscript")
_SPOT = 1  # a byte that pages don't use: stands for a tag's '<' until the form feed is put before it
_OTHER = 63  # the class of a byte that neither is part of a block's name nor ends one

MANY_TAGS = 8192  # nested that deep, a parse takes a fifth of a second
COPIES = 1_000_000  # formatting elements that the parser may have to reopen
LONG_TAG = 16384  # bytes without '<' in which a tag may list its attributes

# Formatting tags with attributes; the group holds those simple enough to be told apart by their bytes.
_FORMATTING = re.compile(
    rb"(?i)<(?=(\w+(?:\s+[\w-]+=(?:\"[^\"<>]*\"|'[^'<>]*'))+>)?)(?:%s)[\s/]" % "|".join(FORMATTING_TAGS).encode()
)
_HIDDEN = re.compile(rb"<(?:(!--)|(%s)(?=[\s/>]))" % "|".join(INVISIBLE_TAGS).encode())
_ENDLESS_TAG = re.compile(rb"(<[a-zA-Z][^\s/<>]{0,99}+)[^<>]{%d,}+>?" % LONG_TAG)


def _byte_classes() -> npt.NDArray[np.int32]:
    classes = np.full(256, _OTHER, np.int32)
    classes[65:91] = classes[97:123] = np.arange(1, 27)
    classes[49:55] = np.arange(27, 33)  # h1 to h6
    classes[list(b" \t\n\r\f/>")] = 0
    return classes


def _kinds_by_prefix(classes: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """Return what the first three bytes of a tag's name say, indexed by their classes.

    Names of one or two letters need the delimiter after them; of longer ones three letters are enough, as no
    inline element of HTML shares them (a test holds that).
    """
    kinds = np.full(1 << 18, _PLAIN, np.uint8)
    named = dict.fromkeys(FORMATTING_TAGS, _FORMAT) | dict.fromkeys(BLOCK_TAGS, _BLOCK)
    named |= dict.fromkeys(("pre", "textarea", "listing", "xmp"), _PRE)
    named |= {name: _HIDE + number for number, name in enumerate(INVISIBLE_TAGS)}
    for name, kind in named.items():
        one, two, three = (int(part) for part in classes[list(name.encode().ljust(3)[:3])])
        prefix = (one << 12) + (two << 6)
        kinds[prefix : prefix + 64 if len(name) == 1 else prefix] = kind  # after '<p ' comes anything
        kinds[prefix + three] = kind
    return kinds


_CLASSES = _byte_classes()
_FIRST, _SECOND = _CLASSES << 12, _CLASSES << 6
_KINDS = _kinds_by_prefix(_CLASSES)


def _tag_kinds(body: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint8]]:
    """Return where each '<' stands, and the kind of the tag that it starts."""
    source = np.frombuffer(body + b"    ", np.uint8)
    starts = (source == 60).nonzero()[0]
    names = starts + 1
    names += source.take(names) == 47
    key = _FIRST.take(source.take(names))  # take() costs half of indexing
    names += 1
    key += _SECOND.take(source.take(names))
    names += 1
    key += _CLASSES.take(source.take(names))
    return starts, _KINDS.take(key)


def _mark(body: bytes) -> tuple[bytes, list[int]]:
    """Return the body with a form feed before each block-level tag, and how many tags it has of each kind."""
    if b"\f" in body or _SPOT in body:
        body = body.replace(b"\f", b" ").replace(bytes([_SPOT]), b" ")
    starts, kinds = _tag_kinds(body)
    if len(body) > LONG_TAG and _has_gap(starts, len(body)):
        body = _ENDLESS_TAG.sub(rb"\1>", body)
        starts, kinds = _tag_kinds(body)
    counts: list[int] = np.bincount(kinds, minlength=_HIDE + len(INVISIBLE_TAGS)).tolist()
    if counts[_FORMAT] * len(starts) > COPIES:
        counts[_FORMAT] = _with_attributes(np.frombuffer(body, np.uint8), starts[kinds == _FORMAT])
    marked = bytearray(body)
    source = np.frombuffer(marked, np.uint8)
    if counts[_PRE]:
        _keep_lines(source, starts.compress(kinds == _PRE))
    source[starts.compress((kinds == _BLOCK) | (kinds == _PRE))] = _SPOT
    del source  # as long as it is looked at, the array keeps its length
    return bytes(marked.replace(bytes([_SPOT]), b"\f<")), counts


def _has_gap(starts: npt.NDArray[np.intp], end: int) -> bool:
    """Is there a stretch without '<' in which one tag could list thousands of attributes?"""
    gap = (starts[1:] - starts[:-1]).max(initial=0)
    return bool(len(starts)) and max(int(gap), end - int(starts[-1])) > LONG_TAG


def _keep_lines(source: npt.NDArray[np.uint8], tags: npt.NDArray[np.intp]) -> None:
    """Make form feeds of the newlines between a <pre> and the next <pre> or </pre>."""
    newlines = (source == 10).nonzero()[0]
    before = tags.searchsorted(newlines) - 1
    opens = source.take(tags + 1, mode="clip") != 47
    source[newlines.compress(opens.take(before, mode="clip") & (before >= 0))] = 12


def _with_attributes(source: npt.NDArray[np.uint8], starts: npt.NDArray[np.intp]) -> int:
    """Return how many of these formatting tags do not end right after their name."""
    heads = source[np.minimum(starts[:, None] + np.arange(1, 9), len(source) - 1)]
    heads = heads[heads[:, 0] != 47]
    delimiters = heads[np.arange(len(heads)), (_CLASSES[heads] == 0).argmax(axis=1)]
    return int(np.count_nonzero(delimiters != 62))


def _tags_a_parse(body: bytes, counts: list[int]) -> int:
    """Return how many tags one parse may take: 0 for all of them, as nothing in this page can explode."""
    tags = sum(counts)
    if counts[_FORMAT] * tags > COPIES:
        found = _FORMATTING.findall(body)
        # Three alike is all that the parser ever reopens.
        if (3 * len(set(found)) + found.count(b"")) * tags > COPIES:
            return 32
    return 512 if tags > MANY_TAGS else 0


def _pieces(body: bytes, tags: int) -> Iterator[bytes]:
    """Cut a page before every so many tags; what is cut apart only loses its element, not its text."""
    body = b" ".join(_visible(body))
    starts = np.flatnonzero(np.frombuffer(body, np.uint8) == 60)[tags::tags].tolist()
    for number, (start, end) in enumerate(itertools.pairwise([0, *starts, len(body)])):
        yield b"<body>" + body[start:end] if number else body[:end]


def _visible(body: bytes) -> Iterator[bytes]:
    """Yield what stands between the comments and the invisible elements, so that no cut can open one."""
    lower = body.lower()
    start = 0
    while found := _HIDDEN.search(lower, start):
        yield body[start : found.start()]
        end = lower.find(b"-->" if found[1] else b"</" + found[2], found.end() - 2)  # <!--> is a comment
        start = (lower.find(b">", end + 2) + 1 if end >= 0 else 0) or len(body)
    yield body[start:]


def _text(tree: LexborHTMLParser, hidden: list[str]) -> str:
    tree.strip_tags(hidden)
    body = tree.body  # None for framesets
    return body.text() if body is not None else ""


def _attribute(node: LexborNode | None, name: str) -> str:
    value = node.attributes.get(name) if node is not None else None
    return value.replace("\f", "").strip() if value else ""


def _absolute(base: str, href: str) -> str:
    """Return the link as an absolute http(s) URL without fragment; '' for anything else."""
    try:
        whole = urldefrag(urljoin(base, href)).url
    except ValueError:  # such as an unclosed IPv6 bracket
        return ""
    return whole if whole.startswith(("http://", "https://")) else ""


def _hrefs(tree: LexborHTMLParser) -> Iterator[str]:
    for node in tree.css("a[href], area[href], frame[src]"):
        yield _attribute(node, "src" if node.tag == "frame" else "href").replace("\n", "")


def _head(tree: LexborHTMLParser, noscript: int, url: str, links: bool) -> tuple[str, str, str, str]:
    """Return title, base URL (where links or a canonical URL need it), canonical URL and language."""
    root = tree if noscript or tree.head is None else tree.head  # a <noscript> may end the head early
    title = root.css_first("title")
    canonical = _attribute(root.css_first('link[rel~="canonical" i][href]'), "href")
    base = _attribute(root.css_first("base[href]"), "href") if links or canonical else ""
    base = (_absolute(url, base) if base else "") or url
    return (
        " ".join(title.text().split()) if title is not None else "",
        base,
        _absolute(base, canonical) if canonical else "",
        _attribute(tree.root, "lang") or _attribute(tree.root, "xml:lang"),
    )


def extract(body: bytes, *, content_type: str = "", url: str = "", links: bool = False, plain: bool = False) -> Extract:
    """Return what a reader of the page sees; `links` asks for its links too, `plain` says it is no markup."""
    if plain:
        lines = charset.decode(body, content_type, markup=False).replace("\r\n", "\n").replace("\r", "\n")
        return Extract(text=lines.replace("\f", " "))
    body, counts = _mark(charset.utf8(body, content_type))
    step = _tags_a_parse(body, counts)
    hidden = [name for name, count in zip(INVISIBLE_TAGS, counts[_HIDE:], strict=True) if count]
    texts, hrefs = list[str](), list[str]()
    for tree in map(LexborHTMLParser, _pieces(body, step) if step else [body]):
        if not texts:
            title, base, canonical, language = _head(tree, counts[_HIDE + _NOSCRIPT], url, links)
        if links:
            hrefs.extend(_hrefs(tree))
        texts.append(_text(tree, hidden))
    found = dict.fromkeys(_absolute(base, href) for href in hrefs)
    found.pop("", None)
    return Extract("".join(texts).replace("\n", " ").replace("\f", "\n"), title, tuple(found), canonical, language)
