"""DIR: one owner at a time, one run, and what that run is.

DIR/.winnow/lock           held by the owner while it lives (the kernel lets go of it, also after kill -9)
DIR/.winnow/run.json       what this run is: written once
DIR/.winnow/WORKER.json    checkpoint of a worker
DIR/.winnow/store/         data, log and socket of the embedded server
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from crawler.ledger import Checkpoint, write_whole
from crawler.sinks import explained
from dedup.errors import InputError, OutputError

SCHEMA = 1
EMBEDDED = "embedded"


class Run(msgspec.Struct, frozen=True):
    """The identity of a run: what must be the same when it is resumed."""

    schema: int
    kind: str
    id: str
    begun: int
    workers: int
    store: str  # 'embedded', or the URL without its password
    inputs: list[tuple[str, int | None]]  # names and sizes


class RunDir:
    """An output folder that this process owns."""

    def __init__(self, folder: Path, lock: BinaryIO, run: Run, *, resumed: bool) -> None:
        self.folder, self.run, self.resumed = folder, run, resumed
        self._lock = lock

    @classmethod
    def open(
        cls, folder: Path, *, kind: str, workers: int | None, store: str, inputs: Sequence[tuple[str, int | None]]
    ) -> RunDir:
        """Return the folder, with the run that it holds or a new one."""
        home = folder / ".winnow"
        with explained(folder):
            home.mkdir(parents=True, exist_ok=True)
            lock = _lock(home / "lock", f"{folder} is in use by")
        manifest = home / "run.json"
        if not manifest.exists():
            run = Run(SCHEMA, kind, secrets.token_hex(16), int(time.time()), workers or 1, store, list(inputs))
            with explained(manifest):
                write_whole(manifest, msgspec.json.encode(run))
            return cls(folder, lock, run, resumed=False)
        run = _read(manifest)
        if run.store != store and not any(home.glob("worker-*.json")):
            # nothing was judged yet: a store that could not be reached may be corrected
            run = msgspec.structs.replace(run, store=store)
            with explained(manifest):
                write_whole(manifest, msgspec.json.encode(run))
        _check_same(folder, run, kind=kind, store=store, inputs=inputs)
        return cls(folder, lock, run, resumed=True)

    @property
    def store_folder(self) -> Path:
        return self.folder / ".winnow" / "store"

    def worker(self, number: int) -> str:
        return f"worker-{number}"

    def checkpoints(self) -> list[Checkpoint | None]:
        return self.checkpoints_of(self.folder, self.run)

    @property
    def finished(self) -> bool:
        return self.is_finished(self.folder, self.run)

    @staticmethod
    def checkpoints_of(folder: Path, run: Run) -> list[Checkpoint | None]:
        """Return how far the workers of a folder are, whoever owns it."""
        return [Checkpoint.load(folder / ".winnow" / f"worker-{k}.json") for k in range(run.workers)]

    @staticmethod
    def is_finished(folder: Path, run: Run) -> bool:
        return all(c is not None and c.finished for c in RunDir.checkpoints_of(folder, run))

    @staticmethod
    def is_owned(folder: Path) -> bool:
        """Return whether a process works in a folder now."""
        with (folder / ".winnow" / "lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def close(self) -> None:
        self._lock.close()


def lock_worker(folder: Path, worker: str) -> BinaryIO:
    """Return the lock of a worker: one that outlived its killed owner may still be writing its last batch."""
    return _lock(folder / ".winnow" / f"{worker}.lock", f"{worker} of {folder} is still run by", patience=15.0)


def _lock(path: Path, busy: str, patience: float = 0.0) -> BinaryIO:
    file = path.open("a+b")
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                file.seek(0)
                owner = file.read(32).decode("ascii", "replace").strip() or "another process"
                file.close()
                raise OutputError(f"{busy} process {owner}: wait for it, stop it, or choose another --out") from None
            time.sleep(0.05)
    file.truncate(0)
    file.write(b"%d\n" % os.getpid())
    file.flush()
    return file


def manifest_of(folder: Path) -> Run:
    """Return what the run in a folder is."""
    manifest = folder / ".winnow" / "run.json"
    if not manifest.exists():
        raise InputError(f"{folder} holds no run of Winnow: give the --out of a crawl or replay")
    return _read(manifest)


def _read(manifest: Path) -> Run:
    try:
        run = msgspec.json.decode(manifest.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise OutputError(f"{manifest} cannot be read ({error}): use another --out") from None
    if run.schema > SCHEMA:
        raise OutputError(f"{manifest} was written by a newer Winnow: use that one, or another --out")
    return run


def _check_same(folder: Path, run: Run, *, kind: str, store: str, inputs: Sequence[tuple[str, int | None]]) -> None:
    if run.kind != kind:
        raise OutputError(f"{folder} holds a {run.kind}: use another --out for this {kind}")
    if run.store != store:
        raise OutputError(f"{folder} was begun with the store {run.store}, not {store}: use that, or another --out")
    before, now = [name for name, _ in run.inputs], [name for name, _ in inputs]
    if before != now:
        raise OutputError(
            f"{folder} holds a replay of {_named(before)}, not of {_named(now)}: "
            "give it the same paths, or use another --out"
        )
    for (name, old), (_, new) in zip(run.inputs, inputs, strict=True):
        if old is not None and new is not None and old != new:
            raise OutputError(
                f"{name} has changed since {folder} was begun ({old} bytes then, {new} now): use another --out"
            )


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") if names else "nothing"
