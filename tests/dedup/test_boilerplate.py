"""Which lines are template, and what is left without them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.boilerplate import SiteLines, site_of, strip, surviving
from dedup.text import tokenize

PAGE = "Menu of the site\nA story nobody else has\nFooter 2024\nThe end of it"


def site(pages: int, *counted: tuple[str, int]) -> SiteLines:
    """Return what a census would know of some lines."""
    known = sorted((int(tokenize(line).lines[0]), count) for line, count in counted)
    return SiteLines(
        pages,
        np.array([line for line, _ in known], np.uint64),
        np.array([count for _, count in known], np.int64),
    )


def kept(pages: int, *counted: tuple[str, int], share: float = 0.5, min_pages: int = 10) -> list[bool]:
    frequent = site(pages, *counted).frequent(share=share, min_pages=min_pages)
    return surviving(tokenize(PAGE), frequent).tolist()


def test_frequent_lines_go() -> None:
    """A line on more than the share of its site's pages is template, whatever its digits and case."""
    assert kept(20, ("MENU of the site", 20), ("Footer 1999", 11), ("The end of it", 3)) == [
        False,
        True,
        False,
        True,
    ]


def test_the_share_itself_is_content() -> None:
    """A line at the share, not above it, is never stripped."""
    assert kept(20, ("Menu of the site", 10)) == [True] * 4
    assert kept(20, ("Menu of the site", 11)) == [False, True, True, True]


def test_nothing_goes_before_the_site_is_known() -> None:
    """Below the minimum of pages every line is content."""
    assert kept(9, ("Menu of the site", 9)) == [True] * 4
    assert kept(10, ("Menu of the site", 10)) == [False, True, True, True]


def test_a_site_without_lines() -> None:
    """Nothing known, nothing stripped."""
    assert kept(50) == [True] * 4


def test_a_share_of_one_strips_nothing() -> None:
    """No line stands on more than all pages."""
    assert kept(20, ("Menu of the site", 20), share=1.0) == [True] * 4


def test_stripped_words_are_those_of_the_lines_left() -> None:
    """What survives is word for word the page without its template lines."""
    tokens = tokenize(PAGE)
    content = strip(tokens, np.array([False, True, False, True]))
    assert content.words.tolist() == tokenize("A story nobody else has\nThe end of it").words.tolist()
    assert content.whole.tolist() == tokens.words.tolist()
    assert (content.lines, content.stripped) == (4, 2)


def test_blank_lines_are_no_lines() -> None:
    """Lines without words are neither counted nor stripped."""
    tokens = tokenize("\n\nOne line\n  \n--\nAnother line\n")
    assert len(tokens.lines) == 2
    assert strip(tokens, np.array([True, True])).stripped == 0


@given(st.lists(st.sampled_from(["a b", "c", "d e f", "", "--"]), max_size=20), st.data())
def test_any_choice_of_lines_can_be_stripped(lines: list[str], data: st.DataObject) -> None:
    """Whatever lines go, the words left are those of the others."""
    tokens = tokenize("\n".join(lines))
    choice = data.draw(st.lists(st.booleans(), min_size=len(tokens.lines), max_size=len(tokens.lines)))
    rest = [lines[row] for row, keep in zip(tokens.row.tolist(), choice, strict=True) if keep]
    content = strip(tokens, np.array(choice, np.bool_))
    assert content.words.tolist() == tokenize("\n".join(rest)).words.tolist()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://Example.ORG/a/b", "example.org"),
        ("https://example.org:8443/", "example.org:8443"),
        ("http://user:secret@example.org/", "example.org"),
        ("http://[2001:db8::1]:80/", "[2001:db8::1]:80"),
        ("file:///home/me/page.html", "file:/home/me"),
        ("http://example.org?q=http://other.example/", "example.org"),
    ],
)
def test_sites(url: str, expected: str) -> None:
    """A site is a host, or the folder of a file."""
    assert site_of(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url at all",
        "urn:isbn:1",
        "http://[broken/",
        "http://a]b/",
        "http://e\u2100xample/",
        "http://\0/\r\n",
    ],
)
def test_sites_of_urls_that_are_none(url: str) -> None:
    """A URL that cannot be parsed is a site of its own, not an error."""
    assert isinstance(site_of(url), str)
