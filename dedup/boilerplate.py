"""Which lines are template: those that stand on most pages of their site.

A line is compared in its normal form (case, digits and blanks folded, see text.tokenize) and counted once a page. The
counts live in the store (dedup/store/census.py); here is the decision, which is pure.

Invariant: a line at or below the share is never stripped, and nothing is stripped before the site has shown enough
pages.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dedup.model import I64, U64, Bools, Content, Tokens


class SiteLines(msgspec.Struct, frozen=True):
    """What the census knows of some lines of a site."""

    pages: int
    lines: U64  # sorted
    counts: I64  # on how many pages each of them stands

    def frequent(self, *, share: float, min_pages: int) -> U64:
        """Return the lines that are template, sorted; none before the site has shown enough pages."""
        if self.pages < min_pages:
            return self.lines[:0]
        return self.lines.compress(self.counts > share * self.pages)


def site_of(url: str) -> str:
    """Return whose template a page wears: its host, or its folder for a file.

    >>> site_of("http://Example.org:8080/a"), site_of("file:///home/me/page.html")
    ('example.org:8080', 'file:/home/me')
    """
    scheme, _, rest = url.partition("://")
    host, _, _ = rest.partition("/")
    if host:
        return host.partition("?")[0].partition("#")[0].rpartition("@")[2].lower()
    return f"{scheme}:{rest.rpartition('/')[0]}"


def surviving(tokens: Tokens, frequent: U64) -> Bools:
    """Return for each line of a page whether it is content, given the site's frequent lines."""
    if not len(frequent):
        return np.ones(len(tokens.lines), np.bool_)
    kept: Bools = frequent.take(frequent.searchsorted(tokens.lines), mode="clip") != tokens.lines
    return kept


def strip(tokens: Tokens, kept: Bools) -> Content:
    """Return the words of the surviving lines, in order."""
    if kept.all():
        return Content(tokens.words, tokens.words, kept, tokens.row)
    sizes = np.empty(len(kept), np.int64)
    np.subtract(tokens.first[1:], tokens.first[:-1], out=sizes[:-1])
    sizes[-1] = len(tokens.words) - tokens.first[-1]
    return Content(tokens.words.compress(np.repeat(kept, sizes)), tokens.words, kept, tokens.row)
