"""The warm-up: a site's first pages wait until the census knows its template (DESIGN decision 5).

A held page is counted already, but it is not done: its place in the input stays open, so a crash only means that it is
read again. What is held is bounded over all sites; at a bound the site that has waited longest is judged with what is
known, and is not held again. In replay every bound is a count, so the same input is always judged alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from crawler.ledger import Position
from dedup.boilerplate import SiteLines, strip, surviving
from dedup.model import Content, Extract, Page, Tokens
from dedup.settings import CensusSettings
from dedup.store.census import LineCensus, Sighting


class Reading(msgspec.Struct, frozen=True):
    """A page that was read: its text, and the lines the census counts."""

    position: Position
    page: Page
    extract: Extract
    tokens: Tokens
    sighting: Sighting


Stripped = tuple[Reading, Content]


class WarmUp:
    """Holds pages of sites that are not known yet."""

    def __init__(self, census: LineCensus, settings: CensusSettings) -> None:
        self._census = census
        self._settings = settings
        self._held: dict[str, list[Reading]] = {}  # the site that waits longest comes first
        self._since: dict[str, int] = {}  # pages read when a site's first page was held
        self._pages, self._bytes, self._read = 0, 0, 0
        self._cold: set[str] = set()  # judged before they were known: not held again

    async def admit(self, readings: Sequence[Reading]) -> list[Stripped]:
        """Count these pages; return all that can be judged now, in input order."""
        self._read += len(readings)
        if not self._settings.enabled:
            return [(r, strip(r.tokens, np.ones(len(r.tokens.lines), np.bool_))) for r in readings]
        if not readings:
            return []
        sites = await self._census.observe([r.sighting for r in readings])
        ready: list[Reading] = []
        warm = {site for site, lines in sites.items() if lines.pages >= self._settings.min_pages}
        for reading in readings:
            site = reading.sighting.site
            if site in warm or site in self._cold:
                ready.append(reading)
            else:
                self._hold(reading)
        released = [r for site in sites if site in warm for r in self._release(site)]
        while self._over_bounds():
            site = next(iter(self._held))
            self._cold.add(site)
            released += self._release(site)
        return await self._strip(ready, sites, released)

    async def flush(self) -> list[Stripped]:
        """Return all that is held: the input has ended."""
        released = [r for site in list(self._held) for r in self._release(site)]
        return await self._strip([], {}, released)

    def _hold(self, reading: Reading) -> None:
        site = reading.sighting.site
        self._since.setdefault(site, self._read)
        self._held.setdefault(site, []).append(reading)
        self._pages += 1
        self._bytes += _size(reading)

    def _release(self, site: str) -> list[Reading]:
        self._since.pop(site, None)
        released = self._held.pop(site, [])
        self._pages -= len(released)
        self._bytes -= sum(map(_size, released))
        return released

    def _over_bounds(self) -> bool:
        if not self._held:
            return False
        s = self._settings
        waited = self._read - self._since[next(iter(self._held))]
        return self._pages > s.hold_pages or self._bytes > s.hold_bytes or waited > s.hold_window

    async def _strip(
        self, ready: Sequence[Reading], sites: dict[str, SiteLines], released: Sequence[Reading]
    ) -> list[Stripped]:
        known = await self._census.frequent([r.sighting for r in released]) if released else {}
        stripped = [*self._contents(ready, sites), *self._contents(released, known)]
        return sorted(stripped, key=lambda pair: pair[0].position)

    def _contents(self, readings: Sequence[Reading], sites: dict[str, SiteLines]) -> Iterator[Stripped]:
        s = self._settings
        template = {site: lines.frequent(share=s.share, min_pages=s.min_pages) for site, lines in sites.items()}
        for reading in readings:
            yield reading, strip(reading.tokens, surviving(reading.tokens, template[reading.sighting.site]))


def _size(reading: Reading) -> int:
    # body, text, and 8 bytes a word with its line
    return len(reading.page.body) + 2 * len(reading.extract.text) + 16 * len(reading.tokens.words)
