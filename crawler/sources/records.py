"""The records of a WARC file, each one checked to end where it says before it is handed out.

Follows ISO 28500 (WARC 0.17 to 1.1) and forgives what writers get wrong: bare newlines, missing or extra
blank lines. A stretch that cannot be read is one `Damage`; reading goes on at the next start of a
record. Ours and not fastwarc's `ArchiveIterator`, which swallows every record that a too long
Content-Length covers, and cannot go on after an error.

A block larger than `hold` whose length is wrong is looked through again only in plain files, which can jump
back; elsewhere reading goes on behind it.

Invariant: no more than `hold` bytes of a block, and a block of the window, are in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from crawler.sources.window import Window

_MAX_HEADER = 1 << 16
_HEAD = 1 << 16  # what is kept of a block too large to hold: enough for HTTP headers
_VERSION = re.compile(rb"WARC/\d+\.\d+[ \t]*\r?\n")
# Not only at the start of a line: a writer that died in a record goes on right behind it.
_START = re.compile(rb"WARC/\d+\.\d+[ \t]*\r?\n(?:WARC|Content)-[A-Za-z-]+[ \t]*:", re.I)
_START_MAX = 64  # bytes that hold the start of a record, cut by the edge of the window
_PADDING = re.compile(rb"[\r\n\t \0]*")
_NEWLINES = re.compile(rb"[\r\n]*")


class Record(msgspec.Struct):
    """A record in the window: its block is buf[start:end], valid until the next one is asked for."""

    headers: dict[bytes, bytes]  # names in lower case
    offset: int
    length: int
    buf: bytearray
    start: int
    end: int

    @property
    def whole(self) -> bool:
        """Is all of the block in hand, not only its head?"""
        return self.end - self.start == self.length


class Damage(msgspec.Struct):
    """A stretch of the file that is no sound record."""

    offset: int
    reason: str
    headers: dict[bytes, bytes] = {}


def read_records(window: Window, hold: int) -> Iterator[Record | Damage]:
    """Yield the records and the damaged stretches of an archive, in the order of the file."""
    reader = _RunReader(window, hold)
    while window.next_run():
        reader.reported = False
        while (found := reader.next()) is not None:
            yield found


class _RunReader:
    def __init__(self, window: Window, hold: int) -> None:
        self.window = window
        self.hold = hold
        self.reported = False  # the fault that ends this run is told already

    def next(self) -> Record | Damage | None:
        window = self.window
        if not self._pass_padding():
            feed = window.feed
            if feed.fault and not self.reported:
                self.reported = True
                return Damage(feed.fault_offset, feed.fault)
            return None
        offset = window.offset
        window.fill(_START_MAX)
        if not _VERSION.match(window.buf, window.pos):
            return self._damage(offset, "damaged: no WARC record starts here", {})
        header_end = self._header_end()
        if header_end < 0:
            ended = window.fill(_MAX_HEADER) < _MAX_HEADER
            reason = "truncated: in the WARC header" if ended else "damaged: the WARC header has no end"
            window.pos += 1  # this start is the one that failed
            return self._damage(offset, reason, {})
        headers = parse_headers(bytes(window.buf[window.pos : header_end]))
        window.pos = header_end
        written = headers.get(b"content-length", b"")
        if not written.isdigit() or len(written) > 18:
            return self._damage(offset, "damaged: no valid Content-Length", headers)
        return self._block(offset, headers, int(written))

    def _pass_padding(self) -> bool:
        """Skip blank space between records. Return False at the end of the run."""
        window = self.window
        while window.fill(1):
            match = _PADDING.match(window.buf, window.pos)
            window.pos = match.end() if match else window.pos
            if window.pos < len(window.buf):
                return True
        return False

    def _header_end(self) -> int:
        window = self.window
        for amount in (2048, _MAX_HEADER):
            have = window.fill(amount)
            end = after_blank_line(window.buf, window.pos, window.pos + min(have, _MAX_HEADER))
            if end >= 0:
                return end
            if have < amount:
                break
        return -1

    def _block(self, offset: int, headers: dict[bytes, bytes], length: int) -> Record | Damage:
        """Check that the block at the window ends at a record's end, and pass it."""
        window = self.window
        begin = window.position
        if length <= self.hold:
            have = window.fill(length + 16)
            start = window.pos
            window.pos = start + min(length, have)
            record = Record(headers, offset, length, window.buf, start, window.pos)
            short = have < length
        else:
            have = window.fill(_HEAD)
            head = window.buf[window.pos : window.pos + min(have, _HEAD)]
            record = Record(headers, offset, length, head, 0, len(head))
            short = window.skip(length) < length
        if short:
            reason = f"truncated: the record has fewer than the {length} bytes it declares"
        elif not self._at_record_end():
            reason = f"damaged: no record ends at the Content-Length of {length}"
        elif self._covered_by_fault():
            reason = window.feed.fault
        else:
            return record
        window.rewind(begin)
        return self._damage(offset, reason, headers)

    def _at_record_end(self) -> bool:
        window = self.window
        window.fill(16)
        if window.buf.startswith((b"\r\n\r\n", b"\n\n"), window.pos):
            return True
        after = self._after_newlines()
        return after == len(window.buf) or _VERSION.match(window.buf, after) is not None

    def _covered_by_fault(self) -> bool:
        """Did the gzip member break right behind the record? Its checksum covers the record too."""
        feed = self.window.feed
        return feed.fault != "" and feed.fault_offset == feed.offset and self._after_newlines() == len(self.window.buf)

    def _after_newlines(self) -> int:
        match = _NEWLINES.match(self.window.buf, self.window.pos)
        return match.end() if match else self.window.pos

    def _damage(self, offset: int, reason: str, headers: dict[bytes, bytes]) -> Damage:
        """Go on to the next record start of this run, or to the run's end."""
        window = self.window
        while window.fill(1):
            match = _START.search(window.buf, window.pos)
            if match:
                window.pos = match.start()
                return Damage(offset, reason, headers)
            keep = min(_START_MAX, len(window.buf) - window.pos)
            window.pos = len(window.buf) - keep
            if window.fill(keep + 1) <= keep:
                window.pos = len(window.buf)
        self.reported = True
        return Damage(offset, reason, headers)


def after_blank_line(buf: bytearray, start: int, end: int) -> int:
    """Return where the first blank line of buf[start:end] is over, -1 if there is none."""
    found = buf.find(b"\n\r\n", start, end)
    bare = buf.find(b"\n\n", start, end if found < 0 else found)
    if bare >= 0:
        return bare + 2
    return found + 3 if found >= 0 else -1


def parse_headers(block: bytes) -> dict[bytes, bytes]:
    """Return the named fields after a first line; the first of a name wins, folded lines are joined.

    >>> parse_headers(b"WARC/1.0\\r\\nWARC-Type: response\\r\\nA: b\\r\\n c\\r\\n")
    {b'warc-type': b'response', b'a': b'b c'}
    """
    headers: dict[bytes, bytes] = {}
    last = b""
    for line in block.split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t"):
            if last and (more := line.strip()):
                headers[last] += b" " + more
            continue
        name, colon, value = line.partition(b":")
        if colon:
            last = name.strip().lower()
            headers.setdefault(last, value.strip())
    return headers
