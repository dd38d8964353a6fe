"""NearIndex: the steps of the claim protocol against the store (DESIGN: probe, claim, commit, release, forget).

Each method takes many documents and costs one round trip a script call. What the steps mean together is in
dedup/judge.py, why they are right in docs/claims.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Self

import msgspec
import numpy as np

from dedup.errors import IndexMismatch, StoreError
from dedup.model import U64, Fingerprint, SketchParams, Stored
from dedup.store import records
from dedup.store.buckets import buckets, entries, grouped
from dedup.store.client import Item, Store
from dedup.store.keys import CHUNK, GROUPS, Keys
from dedup.store.records import State

SCHEMA = 4
BLOCK = 1024  # numbers a process takes at once
_AT_ONCE = 128  # documents a claim (255 at most): bounds how long one script may hold up the server
_MOST_NUMBERS = (1 << 32) - 1  # the highest is nobody's: leaves.lua
_ANSWER = np.dtype([("query", "<u2"), ("number", "V4")])


class Document(msgspec.Struct, frozen=True):
    """A page that asks for a place in the index."""

    id: bytes  # 8 bytes: this page in this run; the same when it is judged again after a crash
    fingerprint: Fingerprint
    stored: Stored
    buckets: U64  # where it stands, and is looked for

    @classmethod
    def of(cls, id: bytes, fingerprint: Fingerprint, *, url: str, time: int | None, payload: bytes) -> Self:
        stored = records.stored(fingerprint, url=url, time=time, payload=payload)
        return cls(id, fingerprint, stored, buckets(fingerprint))

    @property
    def record(self) -> bytes:
        return records.pack(self.id, self.stored)


class Claim(msgspec.Struct, frozen=True):
    """A document in the arena, under a number that nobody else ever has."""

    document: Document
    number: bytes  # 4 bytes: its name in the index; smaller is senior
    seen: int = 0  # how many challengers it has met: what WIN must present


class Found(msgspec.Struct, frozen=True):
    """Whom a document might match."""

    numbers: set[bytes]
    all: bool = True  # or only those that may be the same text


class NearIndex:
    """One index: a namespace and its parameters on one store."""

    def __init__(self, store: Store, params: SketchParams, *, namespace: str, owner: bytes, lease: float) -> None:
        self.store = store
        self.params = params
        self.keys = Keys(namespace, params.digest)
        self.namespace = namespace
        self.lease = lease
        self._owner = owner  # 8 bytes: 4 name the worker, in all its lives; 4 this process
        self._lease_ms = int(lease * 1000)
        self._signature_bytes = params.slots * params.bits // 8
        self._numbers = range(0)
        self.former: dict[bytes, bytes] = {}  # page -> number: where this worker's former lives may stand in buckets

    async def open(self) -> None:
        """Make the index, or see that the one in this namespace is ours to use; void what former lives claimed."""
        ours = {"schema": SCHEMA, "params": msgspec.to_builtins(self.params)}
        await self.store.set_if_absent(self.keys.params, msgspec.json.encode(ours))
        raw = await self.store.get(self.keys.params)
        schema, params = described(raw, f"{self.keys.params.decode()} in {self.store.name}")
        if schema != SCHEMA:
            other = "a newer" if schema > SCHEMA else "an older"
            raise StoreError(
                f"the index {self.namespace!r} in {self.store.name} has schema {schema}, this Winnow knows {SCHEMA}: "
                f"use {other} Winnow, choose another index.namespace, or remove it with `winnow index drop`"
            )
        expected = msgspec.json.decode(msgspec.json.encode(ours["params"]))
        different = [f"{k} is {params.get(k)} there and {v} here" for k, v in expected.items() if params.get(k) != v]
        if different:
            raise IndexMismatch(
                f"the index {self.namespace!r} in {self.store.name} was made with other parameters: "
                f"{'; '.join(different)}. Set them alike, or choose another index.namespace"
            )
        for found in await self.store.run("recover", [([stem], []) for stem in self.keys.stems], [self._owner]):
            self.former.update((found[i + 4 : i + 12], found[i : i + 4]) for i in range(0, len(found), 12))

    async def numbers(self, count: int) -> range:
        """Return as many numbers that nobody else has."""
        while len(self._numbers) < count:
            size = max(BLOCK, count)
            end = await self.store.increment(self.keys.numbers, size)
            if end > _MOST_NUMBERS:
                raise StoreError(
                    f"the index {self.namespace!r} has given all of its {_MOST_NUMBERS:,} document numbers: "
                    "go on in another index.namespace"
                )
            if len(self._numbers) < count:
                self._numbers = range(end - size, end)
        taken, self._numbers = self._numbers[:count], self._numbers[count:]
        return taken

    def _give_back(self, taken: range, found: Iterable[Found]) -> None:
        """Take back the numbers that were not used, unless others were taken meanwhile: states lie by number, densely.

        Used is what stands in an answer: also by a first sending of the call whose answer was lost, since whoever won
        then meets itself.
        """
        seen = (int.from_bytes(number, "big") for one in found for number in one.numbers)
        first = max((number + 1 for number in seen if number in taken), default=taken.start)
        if taken.stop == self._numbers.start or not self._numbers:
            self._numbers = range(first, self._numbers.stop if self._numbers else taken.stop)

    async def probe(self, documents: Sequence[Document]) -> list[set[bytes]]:
        """Return for each document the numbers of all that it could match. Writes nothing."""
        groups = grouped([d.buckets for d in documents])
        items: list[Item] = [([self.keys.stems[g]], [packed]) for g, packed, _ in groups]
        answers = await self.store.run("probe", items)
        return _by_asker(answers, [who for _, _, who in groups], len(documents))

    async def claim(
        self, documents: Sequence[Document], strangers: Sequence[Set[bytes]] | None = None
    ) -> list[Claim | Found]:
        """Return a won claim for each document that nobody else might match; who is found for the others.

        One step instead of five, for a standalone server: a script there sees all buckets at once. No two of the
        documents may be copies of each other. `strangers` are, for each document, numbers that it is known not to
        match: they don't count.
        """
        known = strangers or [frozenset()] * len(documents)
        starts = range(0, len(documents), _AT_ONCE)
        parts = [(documents[at : at + _AT_ONCE], known[at : at + _AT_ONCE]) for at in starts]
        taken = [await self.numbers(len(some)) for some, _ in parts]
        calls = [self._claim_call(*part, numbers) for part, numbers in zip(parts, taken, strict=True)]
        answers = await self.store.calls("claim", calls) if calls else []
        claims: list[Claim | Found] = []
        for (some, _), numbers, answer in zip(parts, taken, answers, strict=True):
            claims += self._claims(some, numbers, answer)
        return claims

    def _claim_call(self, some: Sequence[Document], strangers: Sequence[Set[bytes]], taken: range) -> Item:
        groups, twice, packed = entries([d.buckets for d in some])
        chunks = range(taken.start // CHUNK, taken[-1] // CHUNK + 1)
        keys = [self.keys.stems[g] for g in groups] + [self.keys.stems[c % GROUPS] for c in chunks]
        words: list[bytes | int] = [self._lease_ms, self._owner, taken.start, len(groups), twice]
        for document, own, known in zip(some, packed, strangers, strict=True):
            words += own, document.record, b"".join(known)
        return keys, words

    def _claims(self, some: Sequence[Document], taken: range, answers: Sequence[bytes]) -> list[Claim | Found]:
        found = [Found({answer[i : i + 4] for i in range(1, len(answer), 4)}, answer[:1] == b"C") for answer in answers]
        self._give_back(taken, found)
        return [
            Claim(document, answer[1:]) if answer[:1] == b"W" else one
            for document, answer, one in zip(some, answers, found, strict=True)
        ]

    async def register(self, documents: Sequence[Document]) -> list[Claim]:
        """Return a pending claim for each document, under a new number."""
        numbers = [number.to_bytes(4, "big") for number in await self.numbers(len(documents))]
        claims = [Claim(document, number) for document, number in zip(documents, numbers, strict=True)]
        items = [(self._key(c.number), [c.number, c.document.record]) for c in claims]
        await self.store.run("register", items, [self._lease_ms, self._owner])
        return claims

    async def insert(self, claims: Sequence[Claim]) -> list[set[bytes]]:
        """Put documents into their buckets; return the others there (INSERT and READ in one step)."""
        groups = grouped([c.document.buckets for c in claims], [c.number for c in claims])
        items: list[Item] = [([self.keys.stems[g]], [packed]) for g, packed, _ in groups]
        answers = await self.store.run("insert", items)
        return _by_asker(answers, [who for _, _, who in groups], len(claims))

    async def look(self, rivals: Iterable[tuple[bytes, bytes]]) -> list[State | None]:
        """Return the state of each (rival, challenger); a pending rival is challenged unless challenger is empty."""
        return await self._states("look", [(self._key(rival), [rival, by]) for rival, by in rivals])

    async def win(self, claims: Sequence[Claim]) -> list[State | None]:
        """Return each claim's state after the attempt: W is won, P was challenged, None was lost."""
        return await self._states("win", [(self._key(c.number), [c.number, c.seen]) for c in claims], [self._lease_ms])

    async def commit(self, claims: Sequence[Claim]) -> list[bool]:
        """Return for each won claim whether the document is kept now."""
        answers = await self.store.run("commit", [(self._key(c.number), [c.number]) for c in claims])
        return [answer == 1 for answer in answers]

    async def renew(self, claims: Iterable[Claim]) -> None:
        """Count the leases of these claims anew."""
        await self.store.run("renew", [(self._key(c.number), [c.number]) for c in claims], [self._lease_ms])

    async def release(self, claims: Sequence[Claim]) -> None:
        """Take losers out of the arena: buckets first, so that nobody finds a document without a state."""
        groups = grouped([c.document.buckets for c in claims], [c.number for c in claims])
        await self.store.run("remove", [([self.keys.stems[g]], [packed]) for g, packed, _ in groups])
        await self.store.run("release", [(self._key(c.number), [c.number]) for c in claims])

    def decode(self, record: bytes) -> Stored:
        return records.unpack(record, self._signature_bytes)

    def _key(self, number: bytes) -> list[bytes]:
        return [self.keys.group_of(number)]

    async def _states(
        self, script: str, items: Sequence[Item], header: Sequence[bytes | int] = ()
    ) -> list[State | None]:
        return [records.state(value) for value in await self.store.run(script, items, header)]


def described(raw: bytes | None, where: str) -> tuple[int, dict[str, object]]:
    """Return schema and parameters of an index."""
    try:
        found = msgspec.json.decode(raw or b"{}")
        return int(found["schema"]), dict(found["params"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise StoreError(f"{where} is not Winnow's: choose another index.namespace") from None


def _by_asker(answers: Sequence[bytes], askers: Sequence[U64], count: int) -> list[set[bytes]]:
    found: list[set[bytes]] = [set() for _ in range(count)]
    for answer, who in zip(answers, askers, strict=True):
        if answer:
            rows = np.frombuffer(answer, _ANSWER)
            for row, number in zip(who[rows["query"]].tolist(), rows["number"].tolist(), strict=True):
                found[row].add(number)
    return found
