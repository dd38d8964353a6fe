"""A folder of saved pages, as wget and httrack leave them: HOST/PATH below it is http://HOST/PATH.

Files are taken in the order of their path's components, each one is an item. Archives among them are not:
they are inputs of their own (see opening.py), so that their records have places. Links to files are
followed, links to folders are not: that way no loop and no double. Pipes, sockets and devices are never
opened. Both are counted, not silently passed.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import msgspec

from crawler.sources.page import page_of
from crawler.sources.seam import Item, Job, Limits, Wanted
from crawler.sources.sniff import ARCHIVES, kind_of_name
from dedup.model import Unread

# Endings that are never a page, so that a mirror's images are not read. All others are looked into.
_NOT_HTML = frozenset(
    """
    7z aac aif apk atom avi avif bin bmp bz2 class css csv deb dmg doc docx eot eps epub exe flac
    flv gif gz ico ics iso jar jpeg jpg js json jsonp m4a m4v map md5 mid mjs mkv mov mp3 mp4 mpeg
    mpg msi odp ods odt ogg ogv opus otf pdf png ppt pptx ps psd rar rdf rpm rss rtf sig sqlite svg
    swf tar tgz tif tiff ttf wasm wav webm webmanifest webp wmv woff woff2 xls xlsx xml xz zip zst
    """.split()  # noqa: SIM905
)
_UNRESERVED = re.compile(r"[A-Za-z0-9._-]+")
_PERCENT = re.compile(r"%25([0-9A-Fa-f]{2})")
_SAFE = "!$&'()*+,;=:@~/-._"


class Entry(msgspec.Struct, frozen=True):
    """A file below the folder, or a folder that could not be listed."""

    parts: tuple[str, ...]
    path: str
    error: str = ""


def walk(root: str, other: Counter[str]) -> Iterator[Entry]:
    """Yield the files below a folder in sorted order, one listing in memory for each level."""
    stack: list[Iterator[tuple[tuple[str, ...], str, str]]] = [iter([((), root, "dir")])]
    while stack:
        parts, path, kind = next(stack[-1], ((), "", "end"))
        if kind == "end":
            stack.pop()
        elif kind == "dir":
            try:
                stack.append(iter(_listing(parts, path)))
            except OSError as error:
                yield Entry(parts, path, f"cannot be read: {error.strerror}")
        elif kind == "file":
            yield Entry(parts, path)
        else:
            other[kind] += 1


def _listing(parts: tuple[str, ...], path: str) -> list[tuple[tuple[str, ...], str, str]]:
    with os.scandir(path) as entries:
        return sorted(((*parts, entry.name), entry.path, _kind(entry)) for entry in entries)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_file():
            return "file"
        if entry.is_dir():
            return "linked folder" if entry.is_symlink() else "dir"
        if entry.is_symlink() and not Path(entry.path).exists():
            return "file"  # a link to nothing: opening it tells the reason
    except OSError:
        return "file"
    return "special file"


def is_archive(entry: Entry) -> bool:
    return not entry.error and kind_of_name(entry.parts[-1]) in ARCHIVES


class FolderInput:
    """The plain files of a folder. What is in it is listed anew by each pass."""

    def __init__(self, name: str, root: str, size: int | None = None) -> None:
        self.name = name
        self.size = size
        self._root = root

    def pages(
        self, *, limits: Limits, other: Counter[str], start: int = 0, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Item]:
        wanted = Wanted(start, *share)
        ordinal = 0
        for entry in walk(self._root, other if wanted.share == 0 else Counter()):
            if is_archive(entry):
                continue
            if ordinal in wanted:
                job = Job(self.name, file_url(self._root, entry.parts), wanted, limits, other)
                yield _item(entry, job, ordinal)
            ordinal += 1


def _item(entry: Entry, job: Job, ordinal: int) -> Item:
    place = job.place(ordinal)
    if entry.error:
        return Unread(job.url, place, entry.error, damaged=True)
    try:
        if entry.parts[-1].partition("?")[0].lower().rpartition(".")[2] in _NOT_HTML:
            return Unread(job.url, place, "not html", time=int(Path(entry.path).stat().st_mtime))
        with open_regular(entry.path) as file:
            found = os.fstat(file.fileno())
            job = msgspec.structs.replace(job, time=int(found.st_mtime))
            if found.st_size > job.limits.max_body:
                return Unread(job.url, place, "too large", time=job.time)
            return page_of(file, job, ordinal, found.st_size)
    except OSError as error:
        return Unread(job.url, place, f"cannot be read: {error.strerror or error}", damaged=True)


def open_regular(path: str) -> BinaryIO:
    """Open a file that must be a regular one; a pipe that took its place meanwhile must not block us."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "not a regular file")
    return os.fdopen(handle, "rb")


def file_url(root: str, parts: tuple[str, ...]) -> str:
    """Return the address a saved file stands for.

    A '?' that wget kept in the name starts the query, and what is quoted already stays as it is.

    >>> file_url("/m", ("example.com", "a b", "c.php?id=1&x=%20"))
    'http://example.com/a%20b/c.php?id=1&x=%20'
    """
    if len(parts) < 2:
        return path_url("/".join((str(Path(root).absolute()), *parts)))
    *folders, last = parts
    before, mark, query = last.partition("?")
    path = "/".join(_quoted(part, "") for part in (*folders, before))
    return f"http://{path}{mark}{_quoted(query, '?')}"


def path_url(path: str) -> str:
    """Return the file: URL of an absolute path."""
    return "file://" + quote(os.fsencode(path), safe="/!$&'()*+,;=:@~-._")


def _quoted(part: str, also: str) -> str:
    if _UNRESERVED.fullmatch(part):
        return part  # as most names are
    return _PERCENT.sub(r"%\1", quote(os.fsencode(part), safe=_SAFE + also))
