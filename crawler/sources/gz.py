"""The runs of a gzip archive (see window.py), members told apart, damage passed over.

zlib is used bare because every gzip reader at hand joins the members: the place of a member, a missing end
and the way to the next sound member after a broken one are what this file is for.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO

from crawler.sources.window import BLOCK

MAGIC = b"\x1f\x8b\x08"
_FEED = 1 << 14  # compressed bytes a call: what is left over is copied by zlib each time
_KEEP = 1 << 20  # of a broken member: how far back the next sound one is looked for
_PROBE = 1 << 10  # compressed bytes that show whether a member starts a record


class GzipFeed:
    """Bytes of a gzip stream; a member whose content starts with `starts` begins a run."""

    def __init__(self, stream: BinaryIO, starts: bytes = b"WARC/") -> None:
        self.offset = 0
        self.fault = ""
        self.fault_offset = 0
        self._stream = stream
        self._starts = starts
        self._raw = bytearray()  # compressed bytes in hand
        self._at = 0  # of raw[0] in the file
        self._cursor = 0  # next byte of raw to inflate
        self._member = 0  # where in raw the current member starts; before 0 once that was dropped
        self._inflate: zlib._Decompress | None = None
        self._held = b""  # first bytes of a run, read to see that it is one
        self._io_fault = ""
        self._late = ""  # a fault right behind the bytes that are held
        self._ended = True

    def next_run(self) -> bool:
        if self.fault:
            self.fault = ""
            if not self._resync():
                return False
        elif not self._held and not self._load(1):
            return False
        self.offset = self._at + (self._member if self._held else self._cursor)
        self._ended = False
        return True

    def more(self) -> bytes:
        if self._held and not self._ended:
            first, self._held = self._held, b""
            return first
        if self._late and not self._ended:
            self.fault, self._late, self._ended = self._late, "", True
        while not self._ended:
            if self._inflate is not None:
                piece = self._piece()
            elif self._open_member():
                piece = self._first_piece()
                if self._at + self._member > self.offset and piece.startswith(self._starts):
                    self._held, self._ended = piece, True
                    self._late, self.fault = self.fault, ""
                    return b""
            else:
                self._ended = True
                return b""
            if piece:
                return piece
        return b""

    def seek(self, position: int) -> bool:
        return False

    def _open_member(self) -> bool:
        """Start the member at the cursor; zeros between members are padding, all else is damage."""
        while self._load(1) and self._raw[self._cursor] == 0:
            stripped = self._raw[self._cursor :].lstrip(b"\0")
            self._cursor = len(self._raw) - len(stripped)
        if not self._load(1):
            return False
        self._load(len(MAGIC))
        self._member = self._cursor
        if not self._raw.startswith(MAGIC[: len(self._raw) - self._cursor], self._cursor):
            return self._broken("damaged: these bytes are no gzip member")
        self._inflate = zlib.decompressobj(31)
        return True

    def _first_piece(self) -> bytes:
        piece = self._piece()
        while len(piece) < len(self._starts) and self._inflate is not None:
            piece += self._piece()
        return piece

    def _piece(self) -> bytes:
        """Inflate some bytes of the open member; close it at its end or where it breaks."""
        assert self._inflate is not None
        if not self._load(1):
            self._broken(self._io_fault or "truncated: the gzip stream ends early")
            return b""
        given = self._raw[self._cursor : self._cursor + _FEED]
        try:
            piece = self._inflate.decompress(given, BLOCK)
        except zlib.error:
            self._broken("damaged: the gzip stream is corrupt")
            return b""
        if self._inflate.eof:
            self._cursor += len(given) - len(self._inflate.unused_data)
            self._inflate = None
        else:
            self._cursor += len(given) - len(self._inflate.unconsumed_tail)
        return piece

    def _broken(self, fault: str) -> bool:
        self.fault = fault
        self.fault_offset = self._at + self._member
        self._inflate = None
        self._ended = True
        return False

    def _load(self, wanted: int) -> bool:
        """Have `wanted` compressed bytes after the cursor, if the file has them."""
        while len(self._raw) - self._cursor < wanted:
            try:
                block = self._stream.read(BLOCK)
            except OSError as error:  # of the disk: as good as the end, but told
                self._io_fault = f"cannot be read: {error.strerror or error}"
                return False
            if not block:
                return False
            keep_from = self._cursor if self._inflate is None else max(self._member, self._cursor - _KEEP)
            if keep_from > 0:
                del self._raw[:keep_from]
                self._at += keep_from
                self._cursor -= keep_from
                self._member -= keep_from
            self._raw += block
        return True

    def _resync(self) -> bool:
        """Find the next member that starts a record, and hold its first bytes."""
        self._cursor = max(self._member + 1, 0)
        while self._load(len(MAGIC)):
            found = self._raw.find(MAGIC, self._cursor)
            if found < 0:
                self._cursor = len(self._raw) - len(MAGIC) + 1
                continue
            self._cursor = found
            self._load(_PROBE)
            if self._starts_here():
                self._member = self._cursor
                self._inflate = zlib.decompressobj(31)
                self._held = self._first_piece()
                self._late, self.fault = self.fault, ""
                if self._held:
                    return True
            self._cursor += 1
        return False

    def _starts_here(self) -> bool:
        probe = self._raw[self._cursor : self._cursor + _PROBE]
        try:
            return zlib.decompressobj(31).decompress(probe, len(self._starts)) == self._starts
        except zlib.error:
            return False
