"""Extraction: lines, links, languages, and pages made to hurt."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.extract import BLOCK_TAGS, INVISIBLE_TAGS, extract

# fmt: off
INLINE_TAGS = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "input", "ins", "kbd", "label", "map", "mark", "meter", "nobr", "output", "picture",
    "progress", "q", "rb", "rp", "rt", "ruby", "s", "samp", "slot", "small", "span", "strike", "strong",
    "sub", "sup", "time", "tt", "u", "var", "wbr",
]
# fmt: on
VOID_TAGS = {"br", "hr", "img", "input", "wbr"}


def lines(page: str | bytes) -> list[str]:
    """Return the page's lines that hold a word, blanks folded."""
    text = extract(page.encode() if isinstance(page, str) else page).text
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("tag", sorted(set(BLOCK_TAGS) - {"frameset", "body", "plaintext", "br", "hr"}))
def test_blocks_are_lines(tag: str) -> None:
    """The text of a block element is a line of its own."""
    if tag in {"caption", "tbody", "td", "tfoot", "th", "thead", "tr"}:
        cell = f"<{tag}>in</{tag}>" if tag in {"caption", "td", "th"} else f"<{tag}><td>in</{tag}>"
        assert lines(f"before<table>{cell}</table>after") == ["before", "in", "after"]
    else:
        assert lines(f"before<{tag}>in</{tag}>after") == ["before", "in", "after"]


@pytest.mark.parametrize("tag", INLINE_TAGS)
def test_inline_tags_split_nothing(tag: str) -> None:
    """An inline tag inside a word leaves the word whole."""
    assert lines(f"<p>win<{tag}>no</{tag}>w") == ["winnow"]


def test_no_inline_tag_shares_a_prefix() -> None:
    """Three letters tell block tags from inline ones, so the table needs no more."""
    assert not {name[:3] for name in BLOCK_TAGS if len(name) > 2} & {
        name[:3] for name in (*INLINE_TAGS, *INVISIBLE_TAGS, "title", "link", "meta")
    }


def test_case_and_attributes_do_not_matter() -> None:
    """Upper-case tags and tags with attributes break lines all the same."""
    assert lines("<DIV id=a>one</DIV><P\nclass=b>two<BR/>three") == ["one", "two", "three"]


def test_source_newlines_are_blanks() -> None:
    """How the source is wrapped does not show, whatever its line ends."""
    assert lines("<p>one\ntwo\r\nthree\rfour\ffive") == ["one two three four five"]


def test_pre_keeps_its_lines() -> None:
    """Inside <pre> a source line is a line; after it newlines are blanks again."""
    assert lines("<pre>one\ntwo</pre><p>three\nfour") == ["one", "two", "three four"]


def test_cells_are_lines() -> None:
    """A table gives a line a cell, so that labels can repeat while values differ."""
    assert lines("<table><tr><td>Height<td>12 m<tr><th>Age</th><td>7</table>") == [
        "Height",
        "12 m",
        "Age",
        "7",
    ]


@pytest.mark.parametrize("tag", sorted(set(INVISIBLE_TAGS)))
def test_invisible_elements_are_out(tag: str) -> None:
    """What a reader does not see is not text."""
    assert lines(f"<p>one</p><{tag}>hidden</{tag}><p>two") == ["one", "two"]


@pytest.mark.parametrize("hidden", ["<!-- <p>x -->", "<script>if (a<b) '<p>x'</script>", "<b title='<p>x'></b>"])
def test_tags_that_are_none(hidden: str) -> None:
    """Tags in comments, scripts and attribute values break no line and show no text."""
    assert " ".join(lines(f"<p>one {hidden} two")) == "one two"


def test_entities() -> None:
    """Character references are characters; an escaped tag is text."""
    assert lines("<p>a &amp; b &lt;p&gt; &#1095;&#x430;&#1081;") == ["a & b <p> чай"]


def test_title_and_language() -> None:
    """Title and language come from the head, blanks folded; the title is not text."""
    page = extract(b"<html lang=ru><title> Tea \n time</title><p>x")
    assert (page.title, page.language, page.text.strip()) == ("Tea time", "ru", "x")


def test_canonical_is_absolute() -> None:
    """The canonical URL is resolved against the page's, without its fragment."""
    assert extract(b"<LINK REL=Canonical href='../c#x'>", url="http://h/a/b").canonical == "http://h/c"


def test_canonical_after_noscript() -> None:
    """A tracking image in the head's <noscript> does not hide the canonical URL."""
    page = b"<head><noscript><img src=x></noscript><link rel=canonical href=/c></head>"
    assert extract(page, url="http://h/").canonical == "http://h/c"


def test_links() -> None:
    """Links are absolute http(s), in order, once each, without fragments."""
    body = b"<a href=b#1>x</a><a href='/c'>y</a><a href=b#2>z</a><a href=mailto:x@y>m</a><a href='http://['>w</a>"
    assert extract(body, url="http://h/a/", links=True).links == ("http://h/a/b", "http://h/c")
    assert extract(body, url="http://h/a/").links == ()  # replay does not pay for them


def test_links_obey_base() -> None:
    """<base href> is what links are relative to, itself relative to the page."""
    assert extract(b"<base href='/d/'><a href=e>", url="http://h/a", links=True).links == ("http://h/d/e",)


def test_link_with_markup_in_it() -> None:
    """A '<p>' inside an href is part of the URL, not a line break."""
    assert extract(b"<a href='/?q=<p>'>x", url="http://h/", links=True).links == ("http://h/?q=<p>",)


def test_frameset() -> None:
    """A frameset has a title and links to its frames, and no text."""
    page = extract(b"<title>t</title><frameset><frame src=f></frameset>", url="http://h/", links=True)
    assert (page.title, page.text, page.links) == ("t", "", ("http://h/f",))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"tea", "tea"),
        (b"<p>a<b>b", "ab"),
        (b"<p>a<script>b", "a"),
        (b"<p>a<!-- b", "a"),
        (b"a\0b", "ab"),
    ],
)
def test_odd_pages(body: bytes, text: str) -> None:
    """Empty, tagless, unclosed and NUL-ridden pages give the text a browser shows."""
    assert " ".join(lines(body)) == text


def test_plain() -> None:
    """A text file keeps its lines, and its '<' is a character."""
    assert extract("один <p>\r\nдва".encode(), plain=True).text == "один <p>\nдва"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ascii", "The kettle sang while the station master counted parcels for the northern line."),
        ("windows-1251", "Чайник пел, пока начальник станции считал посылки для северной линии."),
        ("koi8-r", "Чайник пел, пока начальник станции считал посылки для северной линии."),
        ("gb18030", "水壶唱着歌，站长正在清点北线的包裹，窗外又下起了大雪。"),
    ],
)
def test_languages(name: str, text: str) -> None:
    """The same page in another charset is the same text, line for line."""
    page = f"<meta charset={name}><ul><li>{text}<li>{text[:9]}</ul>"
    assert lines(page.encode(name)) == [text, " ".join(text[:9].split())]


def test_pieces_read_like_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page parsed in pieces has the text and links it has when parsed at once."""
    row = "<tr><td>la<b>be</b>l {0}<td><a href=/{0}>val</a>ue <i>{0}</i></tr><!-- <p> --><script>'<p>'</script>"
    page = ("<table>" + "".join(row.format(n) for n in range(400)) + "</table>").encode()
    whole = lines(page), extract(page, url="http://h/", links=True).links
    monkeypatch.setattr("dedup.extract.MANY_TAGS", 100)
    assert (lines(page), extract(page, url="http://h/", links=True).links) == whole


HOSTILE = {
    "div": "'<div>' * 100000",
    "lists": "'<ul><li>' * 50000",
    "b": "'<b>' * 100000",
    "tables": "'<table>' * 100000",
    "cells": "'<table><td>' * 50000",
    "masked": "'<div><object></div></object>' * 50000",
    "commented": "'<div><!--</div>-->' * 50000",
    "fonts": "'<p>' + ''.join(f'<font a={i}>' for i in range(5000)) + '<p>x' * 5000",
    "attributes": "'<div ' + ' '.join(f'a{i}' for i in range(100000)) + '>'",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_quick(name: str) -> None:
    """Nesting, reopened formatting and endless attributes neither crash the process nor hold it up."""
    code = (
        "import time; from dedup.extract import extract\n"
        f"body = ({HOSTILE[name]} + '<p>end').encode(); start = time.process_time()\n"
        "assert 'end' in extract(body).text\n"
        "print(time.process_time() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) < 2  # twice the promise, for a busy machine


def test_ten_megabytes() -> None:
    """A page of 10 MiB is read whole, in seconds."""
    start = time.process_time()
    assert len(lines(b"<div><p>tea <b>and</b> toast</p></div>\n" * 270_000)) == 270_000
    assert time.process_time() - start < 10


soup = st.lists(
    st.one_of(
        st.sampled_from([f"<{s}{t}>" for t in (*BLOCK_TAGS, *INLINE_TAGS, *INVISIBLE_TAGS) for s in ("", "/")]),
        st.sampled_from(["<", ">", "<!--", "-->", "<p a='", '"', "\0", "\f", "\n", "&#0;", "&", "<?", "]]>"]),
        st.text(st.characters(codec="utf-8"), max_size=5),
    ),
    max_size=40,
).map("".join)
words = st.text(alphabet="abcdefghij", min_size=1, max_size=8)
blocks = st.sampled_from(["p", "div", "li", "h2", "section", "blockquote", "article", "dd", "address"])


@given(st.one_of(soup.map(str.encode), st.binary(max_size=300)))
def test_soup_never_raises(body: bytes) -> None:
    """Any tag soup, and any bytes at all, give an Extract."""
    extract(body, url="http://h/", links=True)


@given(st.lists(st.tuples(words, st.sampled_from(INLINE_TAGS)), min_size=1, max_size=8))
def test_inline_soup_is_one_line(parts: list[tuple[str, str]]) -> None:
    """However inline tags cut a word up, it stays on one line, in one piece."""
    page = "".join(f"{word}<{tag}>" + ("" if tag in VOID_TAGS else f"</{tag}>") for word, tag in parts)
    assert lines(f"<p>{page}</p>") == ["".join(word for word, _ in parts)]


@given(st.lists(st.tuples(words, blocks), min_size=1, max_size=8))
def test_each_block_its_line(parts: list[tuple[str, str]]) -> None:
    """Blocks side by side are lines in the same order, with and without blanks between them."""
    page = "".join(f"<{tag}>{word}</{tag}>" for word, tag in parts)
    assert lines(page) == [word for word, _ in parts]
