"""The seam of all sources: what a format has to offer, and what it is told.

A format is one function, a `Reader`: given an open stream it yields every item of that stream, in the
order of the file. Ordinals are identity, so a reader numbers all items, also those that `Wanted` refuses;
it only saves the work of making them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

import msgspec

from dedup.model import Page, Place, Unread

Item = Page | Unread

MIB = 1 << 20


class Limits(msgspec.Struct, frozen=True):
    """What a source may hold in memory for one page."""

    max_body: int = 10 * MIB  # of a body after every decompression


class Wanted(msgspec.Struct, frozen=True):
    """The items one pass is asked for: from `start` on, and of those each `of`-th."""

    start: int = 0
    share: int = 0
    of: int = 1

    def __contains__(self, ordinal: int) -> bool:
        return ordinal >= self.start and ordinal % self.of == self.share


class Job(msgspec.Struct, frozen=True):
    """Everything a reader needs to know besides the bytes."""

    name: str  # the source, as the user gave it
    url: str  # of the stream itself, for formats that are one page
    wanted: Wanted
    limits: Limits
    other: Counter[str]  # records that are no items, by type
    time: int | None = None  # when the file was last written

    def place(self, ordinal: int, offset: int = 0) -> Place:
        return Place(source=self.name, ordinal=ordinal, offset=offset)

    def count(self, kind: str) -> None:
        """Count a record that is no item; only the first share does, so that workers add up."""
        if self.wanted.share == 0:
            self.other[kind] += 1


Reader = Callable[[BinaryIO, Job], Iterator[Item]]


class Input(Protocol):
    """One thing to replay: an archive, a file, a folder, or standard input."""

    @property
    def name(self) -> str:
        """The source as the user gave it: half of a page's identity."""

    @property
    def size(self) -> int | None:
        """Bytes to read, where that can be known beforehand."""

    def pages(
        self, *, limits: Limits, other: Counter[str], start: int = 0, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Item]:
        """Yield the items with ordinal >= start and ordinal % share[1] == share[0]."""


def status_refusal(status: int) -> str:
    """Return why a response with this status is no page, or '' if it is one.

    >>> status_refusal(200), status_refusal(301), status_refusal(304), status_refusal(404)
    ('', 'redirect', 'status 304', 'status 404')
    """
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400 and status != 304:
        return "redirect"
    return f"status {status}"
