"""What `import dedup` offers, behind lazy imports (see dedup/__init__.py)."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np

from dedup.boilerplate import site_of, strip, surviving
from dedup.extract import extract
from dedup.judge import Judge
from dedup.model import Comparison, Content, Extract, Tokens, Verdict
from dedup.settings import Settings
from dedup.simhash import hamming
from dedup.sketch import similarity, sketch, verify
from dedup.store.census import LineCensus, Sighting
from dedup.store.client import Patience, Store
from dedup.store.embedded import EmbeddedServer
from dedup.store.index import Document, NearIndex
from dedup.text import tokenize
from dedup.verdicts import judged, thin


class Deduplicator:
    """Judges single pages; many calls may be under way at once."""

    def __init__(self, index: NearIndex, census: LineCensus, settings: Settings) -> None:
        self._judge = Judge(index, settings.sketch)
        self._params = index.params
        self._census = census
        self._settings = settings
        self._run = os.urandom(8)
        self._calls = itertools.count()

    async def judge(self, url: str, html: str | bytes, *, content_type: str = "") -> Verdict:
        """Return the verdict on a page, and keep it in the index if it is novel.

        The page is counted in its site's census and stripped of what is known to be template by now; nothing is held
        back. Judged a second time, a page is a copy of itself (`how: exact`).
        """
        body = html.encode("utf-8", "replace") if isinstance(html, str) else html
        content_type = "text/html; charset=utf-8" if isinstance(html, str) else content_type
        tokens = tokenize(extract(body, content_type=content_type, url=url).text)
        if not len(tokens.words):
            return thin(url, tokens)
        id = hashlib.blake2b(self._run + next(self._calls).to_bytes(8, "big"), digest_size=8).digest()
        content = await self._strip(Sighting(site_of(url), id, tokens.lines), tokens)
        if not len(content.words):
            return thin(url, tokens, content)
        payload = hashlib.sha1(body, usedforsecurity=False).digest()[:8]
        fingerprint = sketch(content, self._params)
        document = Document.of(id, fingerprint, url=url, time=int(time.time()), payload=payload)
        outcome = (await self._judge.settle([document], _nothing_to_write, _nothing_to_write))[0]
        return judged(document.stored, content, outcome)

    async def _strip(self, sighting: Sighting, tokens: Tokens) -> Content:
        census = self._settings.census
        site = (await self._census.observe([sighting]))[sighting.site]
        await self._census.done([sighting])
        return strip(tokens, surviving(tokens, site.frequent(share=census.share, min_pages=census.min_pages)))


@contextlib.asynccontextmanager
async def open(
    redis_url: str | None, path: str | os.PathLike[str] | None, settings: Settings | None
) -> AsyncIterator[Deduplicator]:
    settings = settings or Settings()
    async with contextlib.AsyncExitStack() as stack:
        if redis_url is None:
            if path is None:
                path = stack.enter_context(tempfile.TemporaryDirectory(prefix="winnow-"))
            server = await EmbeddedServer.start(Path(path), appendfsync=settings.store.appendfsync)
            stack.push_async_callback(server.stop)
            redis_url = server.url
        patience = Patience(settings.store.patience)
        store = await stack.enter_async_context(await Store.connect(redis_url, settings.store, patience=patience))
        index, census = await open_index(store, settings)
        yield Deduplicator(index, census, settings)


async def open_index(store: Store, settings: Settings, worker: bytes = b"") -> tuple[NearIndex, LineCensus]:
    """Return the index and the census of the settings' namespace; `worker` names who asks in all its lives."""
    name = hashlib.blake2b(worker, digest_size=4).digest() if worker else os.urandom(4)
    index = NearIndex(
        store,
        settings.params,
        namespace=settings.index.namespace,
        owner=name + os.urandom(4),
        lease=settings.index.lease,
    )
    await index.open()
    return index, LineCensus(store, index.keys, max_lines=settings.census.max_lines)


def read_text(text: str) -> Extract:
    """Return the lines of a text, or of an HTML page: what starts with a tag is one."""
    plain = not text.lstrip("\ufeff \t\r\n").startswith("<")
    return extract(text.encode("utf-8", "replace"), content_type="text/html; charset=utf-8", plain=plain)


def compare(a: str, b: str, settings: Settings | None = None) -> Comparison:
    settings = settings or Settings()
    one, other = (sketch(_whole(tokenize(read_text(text).text)), settings.params) for text in (a, b))
    rules = settings.sketch
    match = verify(one, other, threshold=rules.threshold, max_distance=rules.max_distance, floor=rules.floor)
    distance = hamming(one.simhash, other.simhash)
    if match is not None:
        return Comparison(True, match.jaccard, distance, match.rule)
    estimate = similarity(one, other)
    if estimate is None:
        return Comparison(False, 0.0, distance, "too short or too different in length to be compared")
    rule = f"minhash jaccard {estimate:.2f} < {rules.threshold:g}, simhash distance {distance}"
    return Comparison(False, round(estimate, 4), distance, rule)


def _whole(tokens: Tokens) -> Content:
    return strip(tokens, np.ones(len(tokens.lines), np.bool_))


async def _nothing_to_write(documents: Sequence[Document]) -> None:
    """The caller has the page: there are no bytes of ours to make durable, or to take back."""
