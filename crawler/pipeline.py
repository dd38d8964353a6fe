"""The flow: pages in, one verdict each out.

    items -> extract -> tokenize -> warm-up (census) -> strip -> sketch -> settle (index) -> sinks -> checkpoint

Three stages run side by side: while one batch is settled and written, the next is stripped and sketched, and the one
after it read and extracted. Batches are settled one after the other, and each ends as if its pages had come one by
one, so the claims don't depend on where a batch was cut. A page leaves the flow when its verdict line and its bytes are
on disk, and not before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from crawler.counters import Counters
from crawler.hold import Reading, Stripped, WarmUp
from crawler.ledger import Ledger, Position
from crawler.sinks import Copied, Kept, Sinks
from crawler.sources import Item
from dedup.boilerplate import site_of
from dedup.extract import extract
from dedup.judge import Copy, Judge
from dedup.model import Content, Extract, Page, SketchParams, Unread, Verdict
from dedup.settings import ReplaySettings
from dedup.sketch import sketch
from dedup.store.census import LineCensus, Sighting
from dedup.store.index import Document
from dedup.text import tokenize
from dedup.verdicts import failed, judged, thin

Numbered = tuple[Position, Item]
_T = TypeVar("_T")

FIRST_BATCH = 16  # and twice as many each time, so that all stages soon have work
_AT_ONCE = 8  # pages between two looks at the event loop: about ten milliseconds


class Entry(msgspec.Struct, frozen=True):
    """A page that is ready for its verdict: either it has one already, or a document to be settled."""

    position: Position
    verdict: Verdict | None = None
    damaged: bool = False
    reading: Reading | None = None
    content: Content | None = None
    document: Document | None = None


class Pipeline:
    """The flow of one worker."""

    def __init__(
        self,
        *,
        run: bytes,
        params: SketchParams,
        settings: ReplaySettings,
        judge: Judge,
        census: LineCensus,
        warm_up: WarmUp,
        sinks: Sinks,
        ledger: Ledger,
        counters: Counters,
        checkpoint: Callable[[], Callable[[], None]],
    ) -> None:
        self._run, self._params, self._settings = run, params, settings
        self._judge, self._census, self._warm_up = judge, census, warm_up
        self._sinks, self._ledger, self._counters = sinks, ledger, counters
        self._checkpoint = checkpoint

    async def flow(self, items: Iterable[Numbered], stopped: Callable[[], bool]) -> None:
        """Judge all items; when stopped, those that are read already, but for the ones that are held."""
        async with contextlib.aclosing(ahead(self._sketched(ahead(self._read(items)), stopped))) as batches:
            async for entries in batches:
                await self._settle(entries)

    async def _read(self, items: Iterable[Numbered]) -> AsyncIterator[tuple[list[Entry], list[Reading]]]:
        """Yield batches of records that are no pages, and of pages as a reader sees them."""
        for batch in self._batches(items):
            entries = [Entry(at, failed(item), item.damaged) for at, item in batch if isinstance(item, Unread)]
            pages = [(at, item) for at, item in batch if isinstance(item, Page)]
            readings: list[Reading] = []
            for start in range(0, len(pages), _AT_ONCE):
                # kernel by kernel, not page by page: the code of one stays in the processor's cache
                some = pages[start : start + _AT_ONCE]
                texts = [extract(p.body, content_type=p.content_type, url=p.url, plain=p.plain) for _, p in some]
                readings += [self._reading(at, page, text) for (at, page), text in zip(some, texts, strict=True)]
                await asyncio.sleep(0)  # the other stages may have answers waiting
            yield entries, readings

    async def _sketched(
        self, batches: AsyncIterator[tuple[list[Entry], list[Reading]]], stopped: Callable[[], bool]
    ) -> AsyncIterator[list[Entry]]:
        """Yield batches that are ready for their verdicts: stripped and fingerprinted."""
        async for entries, readings in batches:
            stripped = await self._warm_up.admit(readings)
            yield sorted(entries + await self._entries(stripped), key=lambda e: e.position)
        if not stopped():
            yield await self._entries(await self._warm_up.flush())

    def _batches(self, items: Iterable[Numbered]) -> Iterator[list[Numbered]]:
        batch: list[Numbered] = []
        size, wanted = 0, min(FIRST_BATCH, self._settings.batch)
        for numbered in items:
            batch.append(numbered)
            size += len(numbered[1].body) if isinstance(numbered[1], Page) else 0
            if len(batch) >= wanted or size >= self._settings.batch_bytes:
                yield batch
                batch, size, wanted = [], 0, min(2 * wanted, self._settings.batch)
        if batch:
            yield batch

    def _reading(self, position: Position, page: Page, text: Extract) -> Reading:
        tokens = tokenize(text.text)
        # a page's identity in this run is its place in the input: read again after a crash, it has the same id
        id = hashlib.blake2b(self._run + struct.pack(">QQ", *position), digest_size=8).digest()
        return Reading(position, page, text, tokens, Sighting(site_of(page.url), id, tokens.lines))

    async def _entries(self, stripped: Sequence[Stripped]) -> list[Entry]:
        entries: list[Entry] = []
        for number, (reading, content) in enumerate(stripped):
            entries.append(self._entry(reading, content))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return entries

    def _entry(self, reading: Reading, content: Content) -> Entry:
        page = reading.page
        if not len(content.words):
            left = content if len(content.whole) else None
            return Entry(reading.position, thin(page.url, reading.tokens, left, page=page), reading=reading)
        payload = self._sinks.payload(page)
        fingerprint = sketch(content, self._params)
        document = Document.of(reading.sighting.id, fingerprint, url=page.url, time=page.time, payload=payload)
        return Entry(reading.position, reading=reading, content=content, document=document)

    async def _settle(self, entries: Sequence[Entry]) -> None:
        by_id = {e.document.id: e for e in entries if e.document is not None}

        async def keep(documents: Sequence[Document]) -> None:
            await asyncio.to_thread(lambda: self._sinks.keep([_kept(by_id[d.id]) for d in documents]))

        async def take_back(documents: Sequence[Document]) -> None:
            await asyncio.to_thread(self._sinks.take_back, {d.id for d in documents})

        documents = [e.document for e in by_id.values() if e.document is not None]
        outcomes = dict(zip(by_id, await self._judge.settle(documents, keep, take_back), strict=True))
        verdicts: list[Verdict] = []
        copies: list[Copied] = []
        for entry in entries:
            verdict = entry.verdict
            if verdict is None:
                assert entry.document is not None and entry.content is not None and entry.reading is not None
                outcome = outcomes[entry.document.id]
                page = entry.reading.page
                verdict = judged(entry.document.stored, entry.content, outcome, page=page)
                if isinstance(outcome, Copy):
                    copies.append(Copied(entry.document.id, page, outcome.of))
            verdicts.append(verdict)
            size = len(entry.reading.page.body) if entry.reading is not None else 0
            self._counters.count(verdict, size=size, damaged=entry.damaged)
            self._ledger.finish(entry.position)
        await self._write(verdicts, copies)
        await self._census.done([e.reading.sighting for e in entries if e.reading is not None])

    async def _write(self, verdicts: Sequence[Verdict], copies: Sequence[Copied]) -> None:
        if not verdicts:
            return
        await asyncio.to_thread(self._sinks.write, verdicts, copies)
        save = self._checkpoint()  # taken here, where nothing changes meanwhile; written in a thread
        await asyncio.to_thread(save)


async def ahead(source: AsyncIterator[_T]) -> AsyncGenerator[_T, None]:
    """Yield what source yields, while it works on its next item already."""
    coming: asyncio.Future[_T | None] = asyncio.ensure_future(anext(source, None))
    try:
        while (item := await coming) is not None:
            coming = asyncio.ensure_future(anext(source, None))
            yield item
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _kept(entry: Entry) -> Kept:
    assert entry.reading is not None and entry.content is not None and entry.document is not None
    return Kept(entry.document.id, entry.reading.page, entry.reading.extract, entry.content)
