"""From the paths of a command line to inputs, and to one sentence for each path that cannot be one."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from crawler.sources.folder import FolderInput, is_archive, path_url, walk
from crawler.sources.jsonl import read_jsonl
from crawler.sources.page import read_page
from crawler.sources.seam import Input, Item, Job, Limits, Reader, Wanted
from crawler.sources.sniff import HEAD, TITLES, kind_of_bytes, kind_of_name, peeked
from crawler.sources.warc import read_warc
from dedup.model import Unread

READERS: dict[str, Reader] = {"warc": read_warc, "jsonl": read_jsonl, "page": read_page}
READS = "WARC, JSONL, HTML and text files (each also as .gz), and folders of them"
STDIN_URL = "file:///dev/stdin"


def open_inputs(paths: Sequence[str]) -> tuple[list[Input], list[str]]:
    """Return the inputs in the order given, and a message for each path that is none.

    The archives in a folder, at any depth, follow it as inputs of their own, sorted. A path that comes
    twice is read once: source and ordinal are a page's identity.
    """
    inputs: dict[str, Input] = {}
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        for found in _inputs_of(path):
            if isinstance(found, str):
                problems.append(found)
            else:
                inputs.setdefault(found.name, found)
    return list(inputs.values()), problems


def _inputs_of(path: str) -> Iterator[Input | str]:
    """Yield what a path stands for; a str is a problem."""
    name = printable(path)
    if path == "-":
        yield PipeInput(name, STDIN_URL, None)
        return
    try:
        # not Path: it would drop the user's spelling
        mode = os.stat(path).st_mode  # noqa: PTH116
        if stat.S_ISDIR(mode):
            yield from _of_folder(path, name)
        elif stat.S_ISREG(mode):
            yield _of_file(path, name)
        else:
            yield PipeInput(name, path_url(str(Path(path).absolute())), path)
    except FileNotFoundError:
        yield f"{name}: no such file or folder; check the path"
    except OSError as error:
        yield f"{name}: cannot be read: {error.strerror}; check its permissions"
    except ValueError as error:  # a NUL in the path
        yield f"{name!r}: is no path: {error}; check the path"


def _of_folder(path: str, name: str) -> Iterator[Input | str]:
    os.scandir(path).close()  # a folder that cannot be listed is a problem now, not an item later
    archives: list[str] = []
    size = files = 0
    for entry in walk(path, Counter()):
        if is_archive(entry):
            archives.append(entry.path)
            continue
        files += 1
        try:
            size += Path(entry.path).stat().st_size
        except OSError:
            continue
    if files or not archives:
        yield FolderInput(name, path, size)
    for archive in archives:
        try:
            yield _of_file(archive, printable(archive))
        except OSError as error:
            yield f"{printable(archive)}: cannot be read: {error.strerror}; check its permissions"


def _of_file(path: str, name: str) -> Input | str:
    with Path(path).open("rb") as file:
        head = file.read(HEAD)
        size = os.fstat(file.fileno()).st_size
    kind = kind_of_name(path) or kind_of_bytes(head)
    if kind not in READERS:
        return _unsupported(name, kind)
    return FileInput(name, path, size, READERS[kind])


def _unsupported(name: str, kind: str) -> str:
    title = TITLES.get(kind, "of an unknown kind")
    return f"{name}: is {title}; this version reads {READS}: convert it, or leave it out"


class FileInput:
    """A file with one reader; each pass opens it anew."""

    def __init__(self, name: str, path: str, size: int, reader: Reader) -> None:
        self.name = name
        self.size: int | None = size
        self._path = path
        self._reader = reader

    def pages(
        self, *, limits: Limits, other: Counter[str], start: int = 0, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Item]:
        path = Path(self._path)
        job = Job(self.name, path_url(str(path.absolute())), Wanted(start, *share), limits, other)
        try:
            file = path.open("rb")
        except OSError as error:
            if 0 in job.wanted:
                yield Unread(job.url, job.place(0), f"cannot be read: {error.strerror}", damaged=True)
            return
        with file:
            if self._reader is read_page:  # an archive's pages have times of their own
                job = msgspec.structs.replace(job, time=int(os.fstat(file.fileno()).st_mtime))
            yield from self._reader(file, job)


class PipeInput:
    """Standard input or a named pipe: sniffed when it is read, and read only once."""

    def __init__(self, name: str, url: str, path: str | None) -> None:
        self.name = name
        self.size: int | None = None
        self._url = url
        self._path = path

    def pages(
        self, *, limits: Limits, other: Counter[str], start: int = 0, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Item]:
        job = Job(self.name, self._url, Wanted(start, *share), limits, other)
        if self._path is None:
            yield from _sniffed(cast(BinaryIO, sys.stdin.buffer), job)
            return
        with Path(self._path).open("rb") as pipe:
            yield from _sniffed(pipe, job)


def _sniffed(stream: BinaryIO, job: Job) -> Iterator[Item]:
    head, stream = peeked(stream, HEAD)
    kind = kind_of_bytes(head)
    if head and kind in READERS:
        yield from READERS[kind](stream, job)
    elif 0 in job.wanted:
        reason = _unsupported(job.name, kind) if head else "damaged: empty archive"
        yield Unread(job.url, job.place(0), reason, damaged=True)


def printable(path: str) -> str:
    """Return a path that any encoder takes: bytes that are no UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
