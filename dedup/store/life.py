"""The life of an index beside the judging: what it holds and costs, forgetting a page, dropping all of it.

All of it works on an index in use. Documents are found by URL by reading through the kept records in the server, and
their buckets by reading through the leaves: rare commands may cost seconds, the index carries nothing for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dedup.errors import InputError, StoreError
from dedup.model import SketchParams
from dedup.store.client import Store
from dedup.store.index import NearIndex, described
from dedup.store.keys import CHUNK, GROUPS, Keys

_CHUNKS, _LEAVES = 256, 4  # a script call: some milliseconds of the server's time
_SAMPLE = 2048  # keys of a kind whose memory is asked for
_NOBODY = bytes(8)
_HEAD = struct.Struct("<IIBHH")  # of a bucket group (leaves.lua): records first, then a byte a leaf, 0 for none


class Part(msgspec.Struct, frozen=True):
    """The memory of one kind of keys, keys included, as the server counts it."""

    keys: int
    bytes: int


class Stats(msgspec.Struct, frozen=True):
    """What an index holds, and what it costs."""

    namespace: str
    schema: int
    params: dict[str, Any]
    pages: int  # kept
    claims: int  # under way
    records: int  # in buckets
    sites: int  # in the line census
    documents: Part
    buckets: Part
    census: Part
    pages_by_node: dict[str, int]
    memory_by_node: dict[str, int]  # used_memory: all that the server holds, also what is not ours

    @property
    def bytes_a_page(self) -> float:
        return (self.documents.bytes + self.buckets.bytes) / self.pages if self.pages else 0.0


class Forgotten(msgspec.Struct, frozen=True):
    documents: int
    records: int  # taken out of buckets


async def open_as_made(store: Store, namespace: str) -> NearIndex:
    """Return the index of a namespace with the parameters it was made with."""
    raw = await store.get(Keys(namespace, "").params)
    if raw is None:
        raise InputError(f"there is no index {namespace!r} in {store.name}; check index.namespace")
    _, params = described(raw, f"{namespace}:params in {store.name}")
    try:
        made = msgspec.convert(params, SketchParams)
    except msgspec.ValidationError:
        raise StoreError(f"the index {namespace!r} in {store.name} was made by another version of Winnow") from None
    index = NearIndex(store, made, namespace=namespace, owner=_NOBODY, lease=60.0)
    await index.open()
    return index


async def stats(index: NearIndex) -> Stats:
    """Return what the index holds and costs; memory is that of evenly chosen keys, times their number."""
    store, keys = index.store, index.keys
    pages = [int(n or 0) for n in await store.ask([("GET", stem + b":d") for stem in keys.stems])]
    heads = await store.ask([("GET", stem + b":b") for stem in keys.stems])
    claims = sum(await store.ask([("HLEN", stem + b":p") for stem in keys.stems]))
    records = sum(_HEAD.unpack_from(head)[0] for head in heads if head)
    leaves = [
        (stem, leaf.to_bytes(2, "big"))
        for stem, head in zip(keys.stems, heads, strict=True)
        for leaf, slots in enumerate((head or b"")[_HEAD.size :])
        if slots
    ]
    chunks = -(-int(await store.get(keys.numbers) or 0) // CHUNK)

    documents = await _part(store, chunks, lambda c: keys.stems[c % GROUPS] + b":k:%d" % (c // GROUPS))
    rows = await _part(store, len(leaves), lambda number: b":b:".join(leaves[number]))
    spilled = await _part(store, len(leaves), lambda number: b":s:".join(leaves[number]))
    sites = sorted({key async for key in store.scan(keys.stems[0].partition(b"{")[0] + b"*}:c:*")})
    nodes = [store.node_of(stem) for stem in keys.stems]
    by_node = dict.fromkeys(sorted(set(nodes)), 0)
    for node, count in zip(nodes, pages, strict=True):
        by_node[node] += count
    return Stats(
        namespace=index.namespace,
        schema=described(await store.get(keys.params), store.name)[0],
        params=msgspec.to_builtins(index.params),
        pages=sum(pages),
        claims=claims,
        records=records,
        sites=len(sites),
        documents=documents,
        buckets=Part(rows.keys + spilled.keys, rows.bytes + spilled.bytes),
        census=await _part(store, len(sites), sites.__getitem__),
        pages_by_node=by_node,
        memory_by_node=await store.used_memory(),
    )


async def _part(store: Store, count: int, key: Callable[[int], bytes]) -> Part:
    """Return the memory of so many keys, from evenly chosen ones."""
    sample = range(0, count, max(1, count // _SAMPLE))
    sizes = await store.ask([("MEMORY USAGE", key(number)) for number in sample])
    found = [size for size in sizes if size]  # a chunk of numbers that were not used is no key
    share = count / len(sample) if sample else 0.0
    return Part(keys=round(len(found) * share), bytes=round(sum(found) * share))


async def forget(index: NearIndex, url: str) -> Forgotten:
    """Take the kept pages of this URL out of the index: what comes next with that text is novel."""
    numbers = await _find(index, url)
    if not numbers:
        raise InputError(
            f"no kept page of the index {index.namespace!r} has the URL {url}: only kept pages are in the index, "
            "copies leave nothing there"
        )
    # the states first: from here on nobody is a copy of them
    await index.store.run("forget", [([index.keys.group_of(number)], [number]) for number in numbers])
    removed = 0
    for stem in index.keys.stems:
        leaf = 0
        while leaf >= 0:
            gone, leaf = await index.store.call("sweep", [stem], [leaf, _LEAVES, b"".join(numbers)])
            removed += gone
    return Forgotten(len(numbers), removed)


async def _find(index: NearIndex, url: str) -> list[bytes]:
    """Return the numbers of the kept pages with this URL."""
    given = int(await index.store.get(index.keys.numbers) or 0)
    last = given // (CHUNK * GROUPS)
    found: list[bytes] = []
    for group, stem in enumerate(index.keys.stems):
        for first in range(0, last + 1, _CHUNKS):
            count = min(_CHUNKS, last + 1 - first)
            answers = await index.store.call("find", [stem], [first, count, url.encode("utf-8", "replace"), group])
            # number, since, record
            found += [answer[:4] for answer in answers if index.decode(answer[8:]).url == url]
    return found


async def drop(store: Store, namespace: str) -> int:
    """Delete all that a namespace holds, whatever wrote it; return how many keys that were."""
    dropped = 0
    batch: list[bytes] = []
    async for key in store.scan(namespace.encode() + b":*"):
        batch.append(key)
        if len(batch) >= _SAMPLE:
            dropped += await _unlink(store, batch)
            batch = []
    return dropped + await _unlink(store, batch)


async def _unlink(store: Store, keys: Sequence[bytes]) -> int:
    gone: int = sum(await store.ask([("UNLINK", key) for key in keys]))
    return gone
