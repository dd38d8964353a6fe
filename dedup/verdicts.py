"""Verdicts in words: what happened to a page, why, and by which rule."""

from __future__ import annotations

import datetime
from typing import TypedDict

from dedup.judge import Novel, Outcome
from dedup.model import Content, Page, Place, Stored, Tokens, Unread, Verdict

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def judged(stored: Stored, content: Content, outcome: Outcome, *, page: Page | None = None) -> Verdict:
    """Return the verdict on a page that was compared with the index."""
    if isinstance(outcome, Novel):
        return Verdict(
            url=stored.url,
            verdict="novel",
            cluster=stored.cluster,
            rule="no kept page is like it",
            lines=content.lines,
            stripped=content.stripped,
            words=len(content.words),
            **_origin(page),
        )
    match = outcome.match
    return Verdict(
        url=stored.url,
        verdict="duplicate",
        how=match.how,
        of=outcome.of.url,
        cluster=outcome.of.cluster,
        distance=match.distance,
        jaccard=match.jaccard,
        rule=match.rule,
        lines=content.lines,
        stripped=content.stripped,
        words=len(content.words),
        **_origin(page),
    )


def thin(url: str, tokens: Tokens, content: Content | None = None, *, page: Page | None = None) -> Verdict:
    """Return the verdict on a page that says nothing, or nothing but its site's template."""
    rule = "no words on the page" if content is None else "nothing left once stripped"
    lines = len(tokens.lines)
    return Verdict(
        url=url, verdict="thin", rule=rule, lines=lines, stripped=lines if content else 0, words=0, **_origin(page)
    )


def failed(unread: Unread) -> Verdict:
    """Return the verdict on a record that is no page."""
    return Verdict(
        url=unread.url,
        verdict="failed",
        reason=unread.reason,
        **_where(unread.status, unread.time, unread.place),
    )


def iso(time: int | None) -> str | None:
    """Return seconds since 1970 as ISO 8601.

    >>> iso(0)
    '1970-01-01T00:00:00Z'
    """
    if time is None:
        return None
    try:
        return (_EPOCH + datetime.timedelta(seconds=time)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return None


class _Where(TypedDict, total=False):
    """The fields of a verdict that say which record it is about."""

    status: int | None
    time: str | None
    source: str
    offset: int


def _origin(page: Page | None) -> _Where:
    return {} if page is None else _where(page.status, page.time, page.place)


def _where(status: int | None, time: int | None, place: Place) -> _Where:
    return {"status": status, "time": iso(time), "source": place.source, "offset": place.offset}
