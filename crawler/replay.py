"""`winnow replay`: saved pages in, DIR out. Owns the folder, the store and the workers of one run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from crawler.counters import Counters, total
from crawler.outcome import compile_clusters, summarise
from crawler.progress import Display, display, print_summary
from crawler.rundir import EMBEDDED, Run, RunDir
from crawler.sources import open_inputs
from crawler.worker import FORCED, Job, Report, Worker
from dedup.errors import InputError, UsageError, WinnowError
from dedup.settings import Settings
from dedup.store.client import Store, mask
from dedup.store.embedded import EmbeddedServer

STOPPED = 11
_CRASHES = 5  # of one worker, without a page in between


async def replay(
    paths: Sequence[str], out: Path, settings: Settings, *, workers: int | None, quiet: bool, as_json: bool
) -> int:
    """Judge the pages of all paths; return the exit code."""
    inputs, problems = open_inputs(paths)
    for problem in problems:
        print(f"winnow: {problem}", file=sys.stderr)
    if not inputs:
        raise InputError("nothing to replay: none of the paths can be read")
    if (workers or 1) > 1 and "-" in paths:
        raise UsageError("standard input can be read by one worker only: leave --workers out, or save it to a file")
    store = mask(settings.store.url) if settings.store.url else EMBEDDED
    names = [(source.name, source.size) for source in inputs]
    home = RunDir.open(out, kind="replay", workers=workers, store=store, inputs=names)
    try:
        if home.resumed and workers not in (None, home.run.workers):
            print(f"winnow: {out} was begun with {home.run.workers} workers: going on with as many", file=sys.stderr)
        size = sum(size or 0 for _, size in names) or None
        state = "finished"
        if home.finished:
            print(f"winnow: the replay in {out} is finished: nothing left to do", file=sys.stderr)
        else:
            with display(size, quiet=quiet) as shown:
                state = await _run(home, list(paths), settings, shown)
        return _conclude(home, state, damaged_paths=bool(problems), quiet=quiet, as_json=as_json)
    finally:
        home.close()


async def _run(home: RunDir, paths: list[str], settings: Settings, shown: Display) -> str:
    if home.resumed and any(home.checkpoints()):
        done = total([c.counters for c in home.checkpoints() if c is not None]).pages
        shown.say(f"resuming {home.folder}: {done:,} pages are done")
    signals = Signals(shown.say)
    async with contextlib.AsyncExitStack() as stack:
        url, server = settings.store.url, None
        if url and not any(home.checkpoints()):
            # a wrong URL is an error at once; a store that goes away later, or before a run is resumed, is waited for
            await (await Store.connect(url, settings.store)).close()
        if not url:
            server = await EmbeddedServer.start(
                home.store_folder, appendfsync=settings.store.appendfsync, timeout=settings.store.start_timeout
            )
            stack.push_async_callback(server.stop)
            url = server.url
        jobs = [_job(home.run, home.folder, paths, k, url, settings) for k in range(home.run.workers)]
        crew: InProcess | Processes = (Processes if len(jobs) > 1 else InProcess)(jobs, shown.say)
        signals.attach(crew, server)
        showing = asyncio.create_task(_show(crew, shown))
        try:
            return await _run_beside(crew, server, settings)
        finally:
            showing.cancel()
            shown.show(*crew.report())


async def _run_beside(crew: InProcess | Processes, server: EmbeddedServer | None, settings: Settings) -> str:
    """Return how the crew ended; its own server, if it has one, is kept alive meanwhile."""
    running = asyncio.ensure_future(crew.run())
    if server is None:
        return await running
    store = settings.store
    tending = asyncio.ensure_future(server.tend(appendfsync=store.appendfsync, timeout=store.start_timeout))
    try:
        await asyncio.wait({running, tending}, return_when=asyncio.FIRST_COMPLETED)
        if tending.done():  # it cannot be started again
            crew.stop()
            await asyncio.gather(running, return_exceptions=True)
            tending.result()
        return await running
    finally:
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)


def _job(run: Run, folder: Path, paths: list[str], share: int, url: str, settings: Settings) -> Job:
    return Job(str(folder), run.id, run.begun, paths, share, run.workers, url, settings)


async def _show(crew: InProcess | Processes, shown: Display) -> None:
    while True:
        shown.show(*crew.report())
        await asyncio.sleep(0.2)


class Waiting:
    """Says once that a store is waited for, and once that it is back."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting: set[int] = set()  # workers that wait

    def note(self, worker: int, message: str) -> None:
        before = bool(self._waiting)
        (self._waiting.add if message else self._waiting.discard)(worker)
        if bool(self._waiting) != before:
            self._say(message or "the store is back: going on")


def _conclude(home: RunDir, state: str, *, damaged_paths: bool, quiet: bool, as_json: bool) -> int:
    summary: dict[str, Any] = summarise(home.folder, home.checkpoints())
    clusters = compile_clusters(home.folder)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode() + "\n")
    elif not quiet:
        print_summary(summary, str(home.folder), clusters)
    if state == "stopped":
        if not quiet:
            print("stopped; the same command goes on from here", file=sys.stderr)
        return STOPPED
    return InputError.exit_code if damaged_paths or summary["damaged"] else 0


class InProcess:
    """A crew of one: the worker runs in this process."""

    def __init__(self, jobs: Sequence[Job], say: Callable[[str], None]) -> None:
        waiting = Waiting(say)
        self._worker = Worker(jobs[0], lambda message: waiting.note(0, message))

    def report(self) -> tuple[Counters, int]:
        report = self._worker.report()
        return report.counters, report.read

    def stop(self) -> None:
        self._worker.stop()

    def kill(self) -> None:
        """Nothing to kill but ourselves."""

    async def run(self) -> str:
        return (await self._worker.run()).state


class Processes:
    """Several workers, each a process of its own; one that is killed is started again."""

    def __init__(self, jobs: Sequence[Job], say: Callable[[str], None]) -> None:
        self._jobs = jobs
        self._say = say
        self._waiting = Waiting(say)
        self._reports: dict[int, Report] = {}
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = False

    def report(self) -> tuple[Counters, int]:
        reports = list(self._reports.values())
        read = sum(report.read for report in reports) // len(self._jobs)  # each passes over all of the input
        return total([report.counters for report in reports]), read

    def stop(self) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, name: signal.Signals) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(name)

    async def run(self) -> str:
        ends = await asyncio.gather(*(self._tend(job) for job in self._jobs))
        for end in ends:
            if end.state == "failed":
                raise _Relayed(end.error, end.exit_code)
        return "finished" if all(end.state == "finished" for end in ends) else "stopped"

    async def _tend(self, job: Job) -> Report:
        crashes, pages = 0, -1
        while True:
            end = await self._child(job)
            if end is not None:
                if end.state == "failed":
                    self.stop()
                return end
            so_far = self._reports[job.share].counters.pages if job.share in self._reports else 0
            crashes = crashes + 1 if so_far <= pages else 1
            pages = so_far
            if self._stopping:
                return Report(Counters(), 0, "stopped")
            if crashes > _CRASHES:
                self.stop()
                return Report(Counters(), 0, "failed", f"worker-{job.share} died {crashes} times in a row", 1)
            self._say(f"worker-{job.share} died: starting it again")

    async def _child(self, job: Job) -> Report | None:
        """Return how a worker process ended, None if it died without a word."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "crawler.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches us alone, and we pass it on once
            limit=2**20,
        )
        self._children[job.share] = child
        assert child.stdin is not None and child.stdout is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # by a pipe, not on the command line: the store's URL may hold a password
            child.stdin.write(msgspec.json.encode(job) + b"\n")
            await child.stdin.drain()
        if self._stopping:
            child.send_signal(signal.SIGTERM)
        end: Report | None = None
        async for line in child.stdout:
            with contextlib.suppress(msgspec.DecodeError):
                report = msgspec.json.decode(line, type=Report)
                self._reports[job.share] = report
                self._waiting.note(job.share, report.waiting)
                end = report if report.state != "running" else None
        await child.wait()
        return end


class Signals:
    """Ctrl-C and SIGTERM: the first one drains, the second one stops at once.

    Plain handlers, not the event loop's: they also run while the loop waits for a pipe to be filled.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._crew: InProcess | Processes | None = None
        self._server: EmbeddedServer | None = None
        self._asked = False
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._on_signal)

    def attach(self, crew: InProcess | Processes, server: EmbeddedServer | None) -> None:
        """Name whom the signals are for; one that came earlier counts."""
        self._crew, self._server = crew, server
        if self._asked:
            crew.stop()

    def _on_signal(self, number: int, frame: object) -> None:
        if self._asked:
            if self._crew is not None:
                self._crew.kill()
            if self._server is not None:
                self._server.terminate()
            os._exit(FORCED)
        self._asked = True
        if self._crew is not None:
            self._crew.stop()
        message = "stopping when the pages under way are done; once more stops at once"
        self._loop.call_soon_threadsafe(self._say, message)


class _Relayed(WinnowError):
    """A worker's error, raised again in the process that the user sees."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
