"""Which input is done: the ledger of one worker, and its checkpoint on disk.

A page is open from the moment it is read until its verdict is on disk. Pages that wait for their site's census stay
open while later ones finish, so what is done is a mark (everything before it) and a few ranges above it. A crash means
that open pages are read again, and no others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from crawler.counters import Counters
from dedup.errors import OutputError

Position = tuple[int, int]  # number of the input, ordinal in it


class Checkpoint(msgspec.Struct):
    """All that a worker needs to go on: written whole after each batch."""

    mark: Position = (0, 0)
    done: list[tuple[int, int, int]] = []  # input, first and last ordinal: finished above the mark
    files: dict[str, int] = {}  # length of each open output file, as of now
    counters: Counters = msgspec.field(default_factory=Counters)
    other: dict[str, int] = {}  # records that are no pages, of the inputs before the mark
    seconds: float = 0.0
    finished: bool = False

    @classmethod
    def load(cls, file: Path) -> Checkpoint | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise OutputError(f"{file} is damaged ({error}): it cannot be resumed; use another --out") from None

    def save(self, file: Path) -> None:
        write_whole(file, msgspec.json.encode(self))


def write_whole(file: Path, content: bytes) -> None:
    """Replace a file so that a crash leaves the old or the new one, never a part."""
    draft = file.with_name(f".{file.name}.new")
    with draft.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Ledger:
    """Open and finished pages of one worker, which sees every `of`-th ordinal."""

    def __init__(self, checkpoint: Checkpoint, of: int = 1) -> None:
        self._of = of
        self._open: dict[Position, None] = {}  # in reading order
        self._next = checkpoint.mark
        self._done = {(i, o) for i, first, last in checkpoint.done for o in range(first, last + 1, of)}

    def start(self, position: Position) -> bool:
        """Open a page that was just read; False if it is done already."""
        self._next = (position[0], position[1] + self._of)
        if position in self._done:
            return False
        self._open[position] = None
        return True

    def end_of_input(self, number: int) -> None:
        self._next = (number + 1, 0)

    def finish(self, position: Position) -> None:
        del self._open[position]
        self._done.add(position)

    def write_to(self, checkpoint: Checkpoint) -> None:
        """Put the state of this moment into a checkpoint."""
        mark = next(iter(self._open), self._next)
        self._done = {position for position in self._done if position >= mark}
        checkpoint.mark = mark
        checkpoint.done = list(self._ranges())

    def _ranges(self) -> Iterator[tuple[int, int, int]]:
        ordered = sorted(self._done)
        first = ordered[0] if ordered else None
        for one, following in pairwise([*ordered, (-1, -1)]):
            assert first is not None
            if following != (one[0], one[1] + self._of):
                yield (*first, one[1])
                first = following
