"""Where judged pages go: kept WARC, kept text, verdict log.

Everything is appended, and each append is whole gzip members or whole lines. A checkpoint holds the lengths that
count; what a kill leaves behind them is cut off at the next start. Compressing and syncing run in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

import msgspec

from crawler import warc
from crawler.ledger import Checkpoint
from dedup.errors import DiskFull, OutputError
from dedup.model import Content, Extract, Page, Stored, Verdict
from dedup.settings import KeptSettings
from dedup.text import surviving_text


class Kept(msgspec.Struct, frozen=True):
    """A novel page on its way to disk."""

    document: bytes
    page: Page
    extract: Extract
    content: Content

    def line(self) -> bytes:
        """Return its stripped text as a line of the kept text."""
        text = surviving_text(self.extract.text, self.content.row, self.content.kept)
        return msgspec.json.encode({"url": self.page.url, "title": self.extract.title, "text": text})


class Copied(msgspec.Struct, frozen=True):
    """A copy on its way to disk."""

    document: bytes
    page: Page
    of: Stored


class AppendFile:
    """A file that only grows, and can be cut back to a length that counts."""

    def __init__(self, path: Path, length: int) -> None:
        self.path = path
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            found = os.fstat(self._fd).st_size
            if found < length:
                raise OutputError(
                    f"{path} has {found} bytes, {length} were written: it can't be resumed; use another --out"
                )
            os.ftruncate(self._fd, length)
            os.lseek(self._fd, length, os.SEEK_SET)
        self.length = length

    def append(self, content: bytes) -> None:
        with explained(self.path):
            view = memoryview(content)
            while view:
                view = view[os.write(self._fd, view) :]
        self.length += len(content)

    def sync(self) -> None:
        with explained(self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal to write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DiskFull(
                f"no room left for {path} ({error.strerror}): free some space, then run the same command again"
            ) from None
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another --out") from None


class Series:
    """The kept files of one kind: NAME-00000.SUFFIX, NAME-00001.SUFFIX, ... begun anew at a size."""

    def __init__(
        self,
        folder: Path,
        name: str,
        suffix: str,
        checkpoint: Checkpoint,
        *,
        max_file: int,
        heading: Callable[[str], bytes],
    ) -> None:
        self._folder, self._name, self._suffix = folder, name, suffix
        self._max_file = max_file
        self._heading = heading
        mine = {f: n for f, n in checkpoint.files.items() if f.startswith(f"{name}-") and f.endswith(suffix)}
        current = max(mine, default=self._file(0))
        self._number = int(current.removeprefix(f"{name}-").removesuffix(suffix))
        for path in folder.glob(f"{name}-*{suffix}"):
            if path.name > current:  # begun after the checkpoint
                path.unlink()
        self.file = AppendFile(folder / current, mine.get(current, 0))

    def _file(self, number: int) -> str:
        return f"{self._name}-{number:05d}{self._suffix}"

    def append(self, content: bytes) -> None:
        if self.file.length and self.file.length + len(content) > self._max_file:
            self.file.sync()
            self.file.close()
            self._number += 1
            self.file = AppendFile(self._folder / self._file(self._number), 0)
        if not self.file.length:
            content = self._heading(self.file.path.name) + content
        self.file.append(content)

    def mark(self) -> tuple[int, int]:
        return self._number, self.file.length

    def rewind(self, mark: tuple[int, int]) -> None:
        """Take back what was appended since a mark."""
        self.file.close()
        while self._number > mark[0]:
            (self._folder / self._file(self._number)).unlink()
            self._number -= 1
        self.file = AppendFile(self._folder / self._file(self._number), mark[1])


class Sinks:
    """The output of one worker."""

    def __init__(
        self, folder: Path, worker: str, begun: int, checkpoint: Checkpoint, settings: KeptSettings, version: str
    ) -> None:
        self._settings = settings
        self._begun, self._version = begun, version
        name = f"{time.strftime('%Y%m%d%H%M%S', time.gmtime(begun))}-{worker}"

        def series(suffix: str, heading: Callable[[str], bytes]) -> Series:
            return Series(folder / "kept", name, suffix, checkpoint, max_file=settings.max_file, heading=heading)

        self._warc = series(".warc.gz", self._warcinfo) if settings.warc else None
        self._text = series(".jsonl.gz", lambda _: b"") if settings.text else None
        self._verdicts = AppendFile(folder / "verdicts" / f"{worker}.jsonl", checkpoint.files.get("verdicts", 0))
        self._last: list[Kept] = []
        self._marks: list[tuple[Series, tuple[int, int]]] = []

    def _series(self) -> list[Series]:
        return [series for series in (self._warc, self._text) if series is not None]

    def _warcinfo(self, name: str) -> bytes:
        return self._squeezed(warc.warcinfo(name, version=self._version, time=self._begun))

    def _squeezed(self, content: bytes) -> bytes:
        return warc.gzip_member(content, self._settings.level)

    def payload(self, page: Page) -> bytes:
        """Return what tells byte-identical bodies, where bodies are kept for revisits to refer to."""
        return warc.payload(page.body) if self._warc is not None else bytes(8)

    def keep(self, pages: Sequence[Kept]) -> None:
        """Write novel pages and sync them: after this they may be committed."""
        self._last = list(pages)
        self._marks = [(series, series.mark()) for series in self._series()]
        if self._warc is not None:
            for kept in pages:
                self._warc.append(self._squeezed(warc.page(kept.page, kept.document, now=self._begun)))
        if self._text is not None and pages:
            self._text.append(self._squeezed(b"".join(kept.line() + b"\n" for kept in pages)))
        for series in self._series():
            series.file.sync()

    def take_back(self, documents: Set[bytes]) -> None:
        """Undo the last keep() for these documents: somebody else has their content."""
        for series, mark in self._marks:
            series.rewind(mark)
        self.keep([kept for kept in self._last if kept.document not in documents])

    def write(self, verdicts: Sequence[Verdict], copies: Sequence[Copied]) -> None:
        """Write a batch's verdict lines, and of its copies what the settings ask for; sync all."""
        if self._warc is not None and copies and self._settings.copies != "none":
            full = self._settings.copies == "full"
            for copied in copies:
                record = (
                    warc.page(copied.page, copied.document, now=self._begun)
                    if full
                    else warc.revisit(copied.page, copied.document, copied.of, now=self._begun)
                )
                self._warc.append(self._squeezed(record))
            self._warc.file.sync()
        self._verdicts.append(b"".join(msgspec.json.encode(verdict) + b"\n" for verdict in verdicts))
        self._verdicts.sync()

    def note_lengths(self, checkpoint: Checkpoint) -> None:
        """Put the lengths that count into a checkpoint."""
        files = {series.file.path.name: series.file.length for series in self._series()}
        checkpoint.files = {"verdicts": self._verdicts.length, **files}

    def close(self) -> None:
        for series in self._series():
            series.file.close()
        self._verdicts.close()
