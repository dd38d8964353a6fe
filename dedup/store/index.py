"""NearIndex: the steps of the claim protocol against the store (DESIGN: probe, claim, commit, release, forget).

Each method takes many documents and costs one round trip. What the steps mean together is in dedup/judge.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import msgspec
import numpy as np

from dedup.errors import IndexMismatch, StoreError
from dedup.model import U64, Fingerprint, SketchParams, Stored
from dedup.store import records
from dedup.store.buckets import buckets, grouped
from dedup.store.client import Item, Store
from dedup.store.keys import Keys
from dedup.store.records import State

SCHEMA = 1
_ANSWER = np.dtype([("query", "<u2"), ("id", "V8")])


class Document(msgspec.Struct, frozen=True):
    """A page that asks for a place in the index."""

    id: bytes  # 8 bytes; smaller is senior
    fingerprint: Fingerprint
    stored: Stored
    buckets: U64  # where it stands, and is looked for

    @classmethod
    def of(cls, id: bytes, fingerprint: Fingerprint, *, url: str, time: int | None, payload: bytes) -> Self:
        stored = records.stored(fingerprint, url=url, time=time, payload=payload)
        return cls(id, fingerprint, stored, buckets(fingerprint))


class Claim(msgspec.Struct, frozen=True):
    """A registered document: what WIN and COMMIT must present."""

    document: Document
    epoch: int
    version: int


class NearIndex:
    """One index: a namespace and its parameters on one store."""

    def __init__(self, store: Store, params: SketchParams, *, namespace: str, owner: bytes, lease: float) -> None:
        self.store = store
        self.params = params
        self.keys = Keys(namespace, params.digest)
        self._namespace = namespace
        self._owner = owner
        self._lease_ms = int(lease * 1000)
        self._signature_bytes = params.slots * params.bits // 8

    async def open(self) -> None:
        """Make the index, or see that the one in this namespace is ours to use."""
        ours = {"schema": SCHEMA, "params": msgspec.to_builtins(self.params)}
        await self.store.set_if_absent(self.keys.params, msgspec.json.encode(ours))
        raw = await self.store.get(self.keys.params)
        try:
            theirs = msgspec.json.decode(raw or b"{}")
            schema, params = int(theirs["schema"]), dict(theirs["params"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise StoreError(
                f"{self.keys.params.decode()} in {self.store.name} is not Winnow's: choose another index.namespace"
            ) from None
        if schema > SCHEMA:
            raise StoreError(
                f"the index {self._namespace!r} has schema {schema}, this Winnow knows {SCHEMA}: use a newer Winnow"
            )
        expected = msgspec.json.decode(msgspec.json.encode(ours["params"]))
        different = [f"{k} is {params.get(k)} there and {v} here" for k, v in expected.items() if params.get(k) != v]
        if different:
            raise IndexMismatch(
                f"the index {self._namespace!r} in {self.store.name} was made with other parameters: "
                f"{'; '.join(different)}. Set them alike, or choose another index.namespace"
            )

    async def probe(self, documents: Sequence[Document]) -> list[set[bytes]]:
        """Return for each document the ids of all others it could match. Writes nothing."""
        groups = grouped([d.buckets for d in documents])
        items: list[Item] = [([self.keys.buckets[g]], [packed]) for g, packed, _ in groups]
        answers = await self.store.run("probe", items)
        return _by_asker(answers, [who for _, _, who in groups], len(documents))

    async def register(self, documents: Sequence[Document]) -> list[Claim | Stored]:
        """Return a claim for each document, or what is stored where this very document is kept already."""
        items: list[Item] = [([self.keys.state_of(d.id)], [d.id, records.pack(d.stored)]) for d in documents]
        states = await self._states("register", items, [self._lease_ms, self._owner])
        return [
            self.decode(state.record)
            if state is not None and state.kind == "K"
            else Claim(document, state.epoch, state.version)
            for document, state in zip(documents, states, strict=True)
            if state is not None
        ]

    async def insert(self, documents: Sequence[Document]) -> list[set[bytes]]:
        """Put documents into their buckets; return the ids of the others there (INSERT and READ in one step)."""
        groups = grouped([d.buckets for d in documents], [d.id for d in documents])
        items: list[Item] = [([self.keys.buckets[g]], [packed]) for g, packed, _ in groups]
        answers = await self.store.run("insert", items)
        return _by_asker(answers, [who for _, _, who in groups], len(documents))

    async def look(self, rivals: Iterable[tuple[bytes, bytes]]) -> list[State | None]:
        """Return the state of each (rival, challenger); a pending rival is challenged unless challenger is empty."""
        items: list[Item] = [([self.keys.state_of(rival)], [rival, challenger]) for rival, challenger in rivals]
        return await self._states("look", items)

    async def win(self, claims: Sequence[Claim]) -> list[State | None]:
        """Return each claim's state after the attempt: W is won, P was challenged, anything else was lost."""
        items: list[Item] = [([self.keys.state_of(c.document.id)], [c.document.id, c.epoch, c.version]) for c in claims]
        return await self._states("win", items, [self._lease_ms])

    async def commit(self, claims: Sequence[Claim]) -> list[bool]:
        """Return for each won claim whether the document is kept now."""
        items: list[Item] = [([self.keys.state_of(c.document.id)], [c.document.id, c.epoch]) for c in claims]
        return [answer == 1 for answer in await self.store.run("commit", items)]

    async def release(self, claims: Sequence[Claim]) -> None:
        """Take losers out of the arena: buckets first, so that nobody finds a document without a state."""
        documents = [c.document for c in claims]
        groups = grouped([d.buckets for d in documents], [d.id for d in documents])
        await self.store.run("remove", [([self.keys.buckets[g]], [packed]) for g, packed, _ in groups])
        items: list[Item] = [([self.keys.state_of(c.document.id)], [c.document.id, c.epoch]) for c in claims]
        await self.store.run("release", items)

    def decode(self, record: bytes) -> Stored:
        return records.unpack(record, self._signature_bytes)

    async def _states(
        self, script: str, items: Sequence[Item], header: Sequence[bytes | int] = ()
    ) -> list[State | None]:
        return [records.state(value) for value in await self.store.run(script, items, header)]


def _by_asker(answers: Sequence[bytes], askers: Sequence[U64], count: int) -> list[set[bytes]]:
    found: list[set[bytes]] = [set() for _ in range(count)]
    for answer, who in zip(answers, askers, strict=True):
        if answer:
            rows = np.frombuffer(answer, _ANSWER)
            for row, document in zip(who[rows["query"]].tolist(), rows["id"].tolist(), strict=True):
                found[row].add(document)
    return found
