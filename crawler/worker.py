"""One worker: one process, one event loop, the whole pipeline over its share of the input.

A first signal lets the batch under way end and leaves a folder that can be resumed; a second one stops at once, and the
next start cuts off what was half written.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from crawler.counters import Counters
from crawler.hold import WarmUp
from crawler.ledger import Checkpoint, Ledger, write_whole
from crawler.memory import tune
from crawler.pipeline import Numbered, Pipeline
from crawler.rundir import lock_worker
from crawler.sinks import Sinks, explained
from crawler.sources import Input, Limits, open_inputs
from crawler.version import VERSION
from dedup.errors import StoreAway, WinnowError
from dedup.judge import Judge
from dedup.library import open_index
from dedup.settings import Settings
from dedup.store.client import Patience, Store

FORCED = 13


class Job(msgspec.Struct, frozen=True):
    """What a worker is told: all of it can be sent to another process."""

    folder: str
    run: str
    begun: int
    paths: list[str]
    share: int
    of: int
    store: str
    settings: Settings


class Report(msgspec.Struct, frozen=True):
    """What a worker tells, now and then."""

    counters: Counters
    read: int  # bytes of input behind it
    state: Literal["running", "finished", "stopped", "failed"] = "running"
    error: str = ""
    exit_code: int = 0
    waiting: str = ""  # for what, while the store is away


class Worker:
    def __init__(self, job: Job, on_waiting: Callable[[str], None] = lambda message: None) -> None:
        self._job = job
        self._on_waiting = on_waiting
        self._name = f"worker-{job.share}"
        self._file = Path(job.folder) / ".winnow" / f"{self._name}.json"
        self.stopping = False
        self._inputs: list[Input] = open_inputs(job.paths)[0]
        self._other: dict[int, Counter[str]] = {}
        self._read = 0
        self._checkpoint = Checkpoint()
        self._began = time.monotonic()
        self._waiting = ""

    def stop(self) -> None:
        """Let the batch under way end, then stop."""
        self.stopping = True
        if "-" in self._job.paths:
            # a read that waits for standard input is tried again once the signal was handled: let it end
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())

    def report(self) -> Report:
        return Report(self._checkpoint.counters, self._read, waiting=self._waiting)

    async def run(self) -> Report:
        """Judge this worker's share from where it stands; return how it ended."""
        tune()
        job = self._job
        folder = Path(job.folder)
        with lock_worker(folder, self._name):
            self._checkpoint = Checkpoint.load(self._file) or Checkpoint()
            before = self._checkpoint.seconds
            sinks = Sinks(folder, self._name, job.begun, self._checkpoint, job.settings.kept, VERSION)
            ledger = Ledger(self._checkpoint, job.of)

            def checkpoint(*, finished: bool = False) -> Callable[[], None]:
                ledger.write_to(self._checkpoint)
                sinks.note_lengths(self._checkpoint)
                self._checkpoint.other = self._other_before(self._checkpoint.mark[0])
                self._checkpoint.seconds = round(before + time.monotonic() - self._began, 3)
                self._checkpoint.finished = finished
                content = msgspec.json.encode(self._checkpoint)
                return lambda: self._save(content)

            try:
                async with await self._connect(job) as store:
                    index, census = await open_index(store, job.settings, f"{job.run} {self._name}".encode())
                    pipeline = Pipeline(
                        run=bytes.fromhex(job.run),
                        params=index.params,
                        settings=job.settings.replay,
                        judge=Judge(index, job.settings.sketch),
                        census=census,
                        warm_up=WarmUp(census, job.settings.census),
                        sinks=sinks,
                        ledger=ledger,
                        counters=self._checkpoint.counters,
                        checkpoint=checkpoint,
                    )
                    self._began = time.monotonic()
                    await pipeline.flow(self._items(ledger), lambda: self.stopping)
                checkpoint(finished=not self.stopping)()
            except StoreAway:
                if not self.stopping:
                    raise
                # nobody wants to wait for it: what is checkpointed counts
            finally:
                sinks.close()
        return Report(self._checkpoint.counters, self._read, "stopped" if self.stopping else "finished")

    async def _connect(self, job: Job) -> Store:
        """Return the store; where it is away, wait for it: whoever began the run has seen that it was there."""
        patience = Patience(job.settings.store.patience, self._note_waiting, lambda: self.stopping)
        return await Store.connect(job.store, job.settings.store, patience=patience, wait=True)

    def _note_waiting(self, message: str) -> None:
        self._waiting = message
        self._on_waiting(message)

    def _save(self, content: bytes) -> None:
        with explained(self._file):
            write_whole(self._file, content)

    def _items(self, ledger: Ledger) -> Iterator[Numbered]:
        """Yield the items that are not done, each opened in the ledger."""
        job = self._job
        limits = Limits(max_body=job.settings.extract.max_body)
        first, start = self._checkpoint.mark
        base = sum(source.size or 0 for source in self._inputs[:first])
        self._other = {-1: Counter(self._checkpoint.other)}
        for number in range(first, len(self._inputs)):
            source = self._inputs[number]
            other = self._other[number] = Counter()
            bodies = 0
            pages = source.pages(
                limits=limits, other=other, start=start if number == first else 0, share=(job.share, job.of)
            )
            for item in pages:
                if self.stopping:
                    return
                bodies += len(getattr(item, "body", b"")) * job.of
                self._read = base + min(source.size or bodies, item.place.offset or bodies)
                if ledger.start((number, item.place.ordinal)):
                    yield (number, item.place.ordinal), item
            if self.stopping:
                return
            base += source.size or 0
            self._read = base
            ledger.end_of_input(number)

    def _other_before(self, number: int) -> dict[str, int]:
        return dict(sum((counts for i, counts in self._other.items() if i < number), Counter()))


def main() -> None:
    """Run as a child of `winnow`: a job on standard input, reports on standard output.

    Standard input stays open while the parent lives; its end means that the parent is gone.
    """
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    report = asyncio.run(_child(job))
    _tell(report)
    sys.exit(0)


async def _child(job: Job) -> Report:
    worker = Worker(job, lambda message: _tell(worker.report()))
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if worker.stopping:
            os._exit(FORCED)
        worker.stop()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, on_signal)
    # a pipe cannot be awaited by a plain read: a reader callback sees its end
    loop.add_reader(sys.stdin.fileno(), worker.stop)

    async def tell() -> None:
        while True:
            await asyncio.sleep(0.25)
            _tell(worker.report())

    telling = asyncio.create_task(tell())
    try:
        return await worker.run()
    except WinnowError as error:
        return Report(worker.report().counters, 0, "failed", str(error), error.exit_code)
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling


def _tell(report: Report) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
