"""A sliding window of bytes over an archive, plain or gzip.

An archive is a sequence of *runs*: stretches of bytes without a hole. A plain file is one run. In a gzip
file a new run starts at each member that begins a record, and after each damaged stretch. So nothing that
is read inside a run can swallow a record of the next one, whatever a broken length field claims.

Invariant: the window holds at most what was asked of `fill`, and a block more.
"""

from __future__ import annotations

import io
from typing import BinaryIO, Protocol

BLOCK = 1 << 17


class Feed(Protocol):
    """Where a window gets its bytes: the runs of one archive, in order."""

    offset: int  # of the current run in the file
    fault: str  # why the current run broke off; '' if it ended well
    fault_offset: int  # of the damage in the file

    def next_run(self) -> bool:
        """Go to the next run. Return False when there is none."""

    def more(self) -> bytes:
        """Return the next bytes of the run, b'' at its end."""

    def seek(self, position: int) -> bool:
        """Go to a position of the run, if that costs nothing. Return False where it does."""


class PlainFeed:
    """A file as it is: one run, and it can jump where the file can."""

    def __init__(self, stream: BinaryIO) -> None:
        self.offset = 0
        self.fault = ""
        self.fault_offset = 0
        self._stream = stream
        self._started = False
        self._end = stream.seek(0, io.SEEK_END) if stream.seekable() else None
        if self._end is not None:
            stream.seek(0)

    def next_run(self) -> bool:
        started, self._started = self._started, True
        return not started

    def more(self) -> bytes:
        try:
            return self._stream.read(BLOCK)
        except OSError as error:
            self.fault = f"cannot be read: {error.strerror or error}"
            return b""

    def seek(self, position: int) -> bool:
        if self._end is None:
            return False
        self._stream.seek(min(position, self._end))
        return True


class Window:
    """The bytes in hand: `buf` from `pos` on. Positions returned count from the start of the run."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.buf = bytearray()
        self.pos = 0
        self._base = 0  # position of buf[0] in the run

    def next_run(self) -> bool:
        self.buf = bytearray()
        self.pos = self._base = 0
        return self.feed.next_run()

    @property
    def position(self) -> int:
        return self._base + self.pos

    @property
    def offset(self) -> int:
        """Where a person finds `pos`: its member's place in the file; in the first run, the place in it."""
        return self.feed.offset or self.position

    def fill(self, wanted: int) -> int:
        """Read on until `wanted` bytes are in hand or the run ends. Return how many there are."""
        have = len(self.buf) - self.pos
        if have < wanted and self.pos > BLOCK:
            self._drop()
        while have < wanted:
            block = self.feed.more()
            if not block:
                break
            self.buf += block
            have += len(block)
        return have

    def skip(self, count: int) -> int:
        """Move on by `count` bytes without holding them. Return how many the run still had."""
        have = len(self.buf) - self.pos
        if count <= have:
            self.pos += count
            return count
        target = self.position + count
        if self.feed.seek(target - 1):  # one byte early: that it can be read shows that it exists
            self._restart(target - 1)
            if self.fill(1):
                self.pos += 1
                return count
            return count - 1  # how far short does not matter
        passed = 0
        while passed < count:
            self.pos = len(self.buf)
            self._drop()
            passed += have
            have = self.fill(1)
            if not have:
                return passed
            step = min(have, count - passed)
            if step < have:
                self.pos += step
                return count
        return passed

    def rewind(self, position: int) -> bool:
        """Go back to a position of this run, if it is still in hand or the file can jump."""
        if self._base <= position <= self._base + len(self.buf):
            self.pos = position - self._base
            return True
        if self.feed.seek(position):
            self._restart(position)
            return True
        return False

    def _restart(self, position: int) -> None:
        self.buf = bytearray()
        self.pos, self._base = 0, position

    def _drop(self) -> None:
        del self.buf[: self.pos]
        self._base += self.pos
        self.pos = 0
