"""To the store of a run: the user's own server, or DIR's, which is started for as long as it is needed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from crawler.rundir import EMBEDDED, manifest_of
from dedup.errors import UsageError
from dedup.settings import Settings
from dedup.store.client import Store
from dedup.store.embedded import EmbeddedServer


@contextlib.asynccontextmanager
async def attached(out: Path | None, settings: Settings) -> AsyncIterator[Store]:
    """Give the store of the settings, or else of the run in `out`."""
    async with contextlib.AsyncExitStack() as stack:
        url = settings.store.url or await _url_of(out, settings, stack)
        yield await stack.enter_async_context(await Store.connect(url, settings.store))


async def _url_of(out: Path | None, settings: Settings, stack: contextlib.AsyncExitStack) -> str:
    if out is None:
        raise UsageError("whose store? Give --out DIR of a run, or --redis URL")
    run = manifest_of(out)
    if run.store != EMBEDDED:
        if "***" in run.store:
            raise UsageError(f"{out} uses the store {run.store}, whose password is not kept: give --redis URL")
        return run.store
    folder = out / ".winnow" / "store"
    running = await EmbeddedServer.is_running(folder)
    server = await EmbeddedServer.start(
        folder, appendfsync=settings.store.appendfsync, timeout=settings.store.start_timeout
    )
    if not running:
        stack.push_async_callback(server.stop)
    return server.url
