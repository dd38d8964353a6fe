"""LineCensus: on how many pages of its site each line stands, shared by all workers.

A page is counted when it is read, and stays in its site's in-flight set until its verdict is on disk: read again
after a crash, it is not counted twice. One round trip counts a whole batch and answers for all its lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from dedup.boilerplate import SiteLines
from dedup.model import U64
from dedup.store.client import Item, Store
from dedup.store.keys import Keys


class Sighting(msgspec.Struct, frozen=True):
    """The lines of one page, as the census sees them."""

    site: str
    id: bytes  # of the document: what 'counted already' is known by
    lines: U64


class LineCensus:
    def __init__(self, store: Store, keys: Keys, *, max_lines: int) -> None:
        self._store = store
        self._keys = keys
        self._max_lines = max_lines

    async def observe(self, sightings: Sequence[Sighting]) -> dict[str, SiteLines]:
        """Count these pages, and return what is known of their lines, by site."""
        known: set[bytes] = set()
        while True:
            answers, again = await self._ask(sightings, known, count=True)
            if not again:
                return answers
            known |= again

    async def frequent(self, sightings: Sequence[Sighting]) -> dict[str, SiteLines]:
        """Return what is known of these pages' lines, counting nothing."""
        return (await self._ask(sightings, set(), count=False))[0]

    async def done(self, sightings: Sequence[Sighting]) -> None:
        """Forget that these pages are in flight: their verdicts are on disk, they will not be read again."""
        by_site: dict[str, list[bytes]] = defaultdict(list)
        for sighting in sightings:
            by_site[sighting.site].append(sighting.id)
        for site, ids in by_site.items():
            await self._store.discard(self._keys.census(site)[1], ids)

    async def _ask(
        self, sightings: Sequence[Sighting], known: set[bytes], *, count: bool
    ) -> tuple[dict[str, SiteLines], set[bytes]]:
        by_site: dict[str, list[Sighting]] = defaultdict(list)
        for sighting in sightings:
            by_site[sighting.site].append(sighting)
        items: list[Item] = []
        asked: list[U64] = []
        for site, pages in by_site.items():
            fresh = [page for page in pages if page.id not in known] if count else []
            lines, counts = _standing(pages, fresh)
            ids = b"".join(page.id for page in fresh)
            items.append((self._keys.census(site), [ids, lines.tobytes(), counts]))
            asked.append(lines)
        answers: dict[str, SiteLines] = {}
        again: set[bytes] = set()
        replies = await self._store.run("census", items, [self._max_lines])
        for site, lines, (pages_seen, packed) in zip(by_site, asked, replies, strict=True):
            if pages_seen < 0:
                again.update(packed[i : i + 8] for i in range(0, len(packed), 8))
            else:
                answers[site] = SiteLines(pages_seen, lines, np.frombuffer(packed, "<u4").astype(np.int64))
        return answers, again


def _standing(pages: Sequence[Sighting], fresh: Sequence[Sighting]) -> tuple[U64, bytes]:
    """Return the pages' distinct lines, and on how many of the fresh pages each stands: once a page, if repeated."""
    every = np.concatenate([page.lines for page in pages])
    number = np.repeat(np.arange(len(pages)), [len(page.lines) for page in pages])
    order = np.argsort(every, kind="stable")  # equal lines stay in the order of their pages
    every, number = every[order], number[order]
    new_line = np.concatenate([[True], every[1:] != every[:-1]])[: len(every)]
    lines = every[new_line]
    if not fresh:
        return lines, b""
    counted = new_line | np.concatenate([[True], number[1:] != number[:-1]])[: len(every)]
    if len(fresh) < len(pages):
        ids = {page.id for page in fresh}
        counted &= np.array([page.id in ids for page in pages])[number]
    standing = np.bincount(np.cumsum(new_line)[counted] - 1, minlength=len(lines))
    return lines, standing.astype("<u2").tobytes()
