"""The nouns. Each stage of the flow takes one of these and gives the next.

    Page -> Extract -> Content -> Fingerprint -> Verdict

They are frozen: a stage that wants something else makes a new one. Arrays inside them are never written to.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

VerdictName = Literal["novel", "duplicate", "soft404", "thin", "failed"]
How = Literal["exact", "simhash", "minhash"]


class Place(msgspec.Struct, frozen=True):
    """Where a page stands in the input: its identity within a run.

    `ordinal` counts the pages of `source` from 0 and is what identity is made of; `offset` is the byte at
    which a person (or a range request) finds the record.
    """

    source: str
    ordinal: int
    offset: int


class Page(msgspec.Struct, frozen=True):
    """One saved or fetched response, body still in bytes."""

    url: str
    place: Place
    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()  # as sent; empty when the source kept none
    content_type: str = ""  # with its parameters; empty when nothing declares it
    time: int | None = None  # seconds since 1970, of the fetch
    plain: bool = False  # the body is text already, not markup


class Unread(msgspec.Struct, frozen=True):
    """A record that entered but is no page: it goes straight to its `failed` verdict."""

    url: str
    place: Place
    reason: str  # 'not html', 'status 404', 'redirect', 'too large', 'truncated: ...'
    status: int | None = None
    time: int | None = None
    damaged: bool = False  # the input itself is broken (exit code 5), not merely uninteresting


class Extract(msgspec.Struct, frozen=True):
    """What a reader of the page sees."""

    text: str  # one line a block element, separated by \n; lines may be blank or padded
    title: str = ""
    links: tuple[str, ...] = ()  # absolute; filled only where a crawler asks for them
    canonical: str = ""
    language: str = ""


class Tokens(msgspec.Struct, frozen=True):
    """The words and lines of an Extract as arrays: no Python object a word or a line."""

    words: U64  # a hash for each word, in reading order
    first: I64  # index in `words` of each line's first word; lines without words have no entry
    lines: U64  # each such line's normalised hash: case, digits and blanks folded
    row: I64  # each such line's index in text.split("\n")


class Content(msgspec.Struct, frozen=True):
    """The words that are left once the site's own lines are out."""

    words: U64
    whole: U64  # all words of the page: what the exact digest is taken of
    kept: Bools  # for each line of Tokens: did it survive
    row: I64  # Tokens.row

    @property
    def lines(self) -> int:
        return len(self.kept)

    @property
    def stripped(self) -> int:
        return len(self.kept) - int(np.count_nonzero(self.kept))


class SketchParams(msgspec.Struct, frozen=True):
    """All that makes two fingerprints comparable. Its digest is part of every key in the store."""

    widths: tuple[tuple[int, int], ...] = ((10, 3), (200, 5))  # (from this many words, shingle width)
    overlap: float = 0.7  # a text down to this share of a boundary is sketched on both sides of it
    slots: int = 512
    bits: int = 1
    bands: int = 12
    rows: int = 4
    seed: int = 1

    @property
    def digest(self) -> str:
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=4).hexdigest()


class Sketch(msgspec.Struct, frozen=True):
    """The MinHash of one shingle width."""

    width: int
    packed: bytes  # slots x bits: what the decision is made on
    bands: U64  # a bucket hash a band: what finds candidates


class Fingerprint(msgspec.Struct, frozen=True):
    exact: bytes  # 8 bytes: digest of the unstripped words, which no census can change
    content: bytes  # 8 bytes: digest of the words that survived
    simhash: int
    words: int
    sketches: tuple[Sketch, ...]  # none below the smallest width boundary; two near a boundary


class Stored(msgspec.Struct, frozen=True):
    """What the index remembers of a page: enough to decide, to name it, and to refer to its bytes."""

    exact: bytes
    content: bytes
    simhash: int
    words: int
    packed: tuple[tuple[int, bytes], ...]  # (shingle width, packed signature)
    url: str
    time: int | None
    payload: bytes  # 8 bytes of the body's SHA-1: is a copy byte-identical?

    @property
    def cluster(self) -> str:
        """Return the cluster's name: the same in every run that keeps this page with this text."""
        return hashlib.blake2b(self.exact + self.url.encode("utf-8", "replace"), digest_size=8).hexdigest()


class Match(msgspec.Struct, frozen=True):
    """Why two pages are copies of each other."""

    how: How
    rule: str
    distance: int
    jaccard: float


class Verdict(msgspec.Struct, frozen=True):
    """One line of the verdict log; the field order is the file's."""

    url: str
    verdict: VerdictName
    how: How | None = None
    of: str | None = None
    cluster: str | None = None
    distance: int | None = None
    jaccard: float | None = None
    rule: str | None = None
    reason: str | None = None
    lines: int | None = None
    stripped: int | None = None
    words: int | None = None
    status: int | None = None
    time: str | None = None
    source: str | None = None
    offset: int | None = None


class Cluster(msgspec.Struct, frozen=True):
    """A representative and its copies: one line of clusters.jsonl."""

    cluster: str
    representative: str
    size: int
    members: tuple[Member, ...]


class Member(msgspec.Struct, frozen=True):
    url: str
    how: str
    jaccard: float | None
    distance: int | None


class Comparison(msgspec.Struct, frozen=True):
    """Two texts side by side, by the rules of the index."""

    duplicate: bool
    jaccard: float
    distance: int
    rule: str
