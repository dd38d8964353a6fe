"""The shared index against datasketch's MinHashLSH on Redis: memory, speed, and what growth does to them.

    python -m bench.index [--pages 100000] [--rate-pages 2000] [--growth 10000 100000 1000000] [--json FILE]

Each measurement has an empty server of its own, without persistence; both sides talk to it over a unix socket.
datasketch gets its threshold of .75 and 128 permutations, and chooses its bands. `used_memory` is the server's own.

    memory   what used_memory rises by, a novel page with a URL of 60 bytes: all that the index stores and the server
             needs for it. Parts are MEMORY USAGE of all keys. datasketch has no signatures there, thus can't verify.
    speed    ready fingerprints to outcomes, claim and commit included, by one process in batches of 256; for
             datasketch, ready MinHashes of the same pages: query, and insert where nothing was found. They take turns.
    growth   the rate at which novel pages enter an index that has so many. Batches alternate with those of another
             index of the first size: the ratio compares the two under the same load of the machine.

Fingerprints of unrelated pages are uniform: memory and growth draw them. For speed, pages are sets of random
shingles, and a copy has 95% similarity to an earlier page.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import redis

from bench.recall import BATCH, WIDTH, default_binary, opened, server, settle, socket_of, url
from dedup import minhash, simhash
from dedup.judge import Copy, Judge
from dedup.model import U64, Fingerprint, Sketch, SketchParams
from dedup.sketch import digest

try:
    import datasketch
except ImportError:
    datasketch = None

PARAMS = SketchParams()
SHINGLES, CHANGED = 300, 8  # of a page; of a copy's, those that are new
SPAN = 5000  # pages that growth times
THEIR_PAGES = 5000  # for memory: it is the same a page at any size
PARTS = {"b": "buckets", "y": "buckets", "p": "documents", "k": "documents"}  # by what follows a key's hash tag
MISSING = "datasketch is not installed, so there is nothing to compare with: pip install 'winnow[bench]' brings it"


class Memory(msgspec.Struct, frozen=True):
    """Bytes a page, in all and by part."""

    pages: int
    bytes: float
    parts: dict[str, float]


class Speed(msgspec.Struct, frozen=True):
    """Pages a second, round by round, and copies found in all rounds; `theirs` is empty without datasketch."""

    pages: int
    planted: int
    ours: list[float]
    found: int
    theirs: list[float]
    their_found: int


class Growth(msgspec.Struct, frozen=True):
    pages: int
    rate: float
    ratio: float  # to the rate of an index of the first size
    bytes: float  # a page


# pages ------------------------------------------------------------------------------------------------------


def unrelated(rng: np.random.Generator, count: int) -> list[Fingerprint]:
    """Return fingerprints of pages that have nothing in common."""
    size = PARAMS.slots * PARAMS.bits // 8
    exact, packed = ([rng.bytes(length) for _ in range(count)] for length in (8, size))
    bands = rng.integers(0, 2**64, (count, PARAMS.bands), dtype=np.uint64)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64).tolist()
    rows = zip(exact, hashes, packed, bands, strict=True)
    return [Fingerprint(own, own, bits, SHINGLES, (Sketch(WIDTH, sig, row),)) for own, bits, sig, row in rows]


def stream(rng: np.random.Generator, pages: int, copies: float) -> tuple[list[U64], int]:
    """Return the shingles of pages of which about this share are copies of an earlier one, and how many are."""
    originals, sets = list[U64](), list[U64]()
    for _ in range(pages):
        page = rng.integers(0, 2**64, SHINGLES, dtype=np.uint64)
        if originals and rng.random() < copies:
            page[CHANGED:] = originals[rng.integers(len(originals))][CHANGED:]
        else:
            originals.append(page)
        sets.append(page)
    return sets, pages - len(originals)


def fingerprint(shingles: U64) -> Fingerprint:
    values = minhash.signature(shingles, PARAMS.slots, PARAMS.seed)
    found = Sketch(WIDTH, minhash.pack(values, PARAMS.bits), minhash.bands(values, PARAMS.bands, PARAMS.rows))
    own = digest(shingles)
    return Fingerprint(own, own, simhash.simhash64(shingles), len(shingles), (found,))


def their_sketches(sets: Sequence[U64]) -> list[Any]:
    return list(datasketch.MinHash.bulk([row.tolist() for row in sets], num_perm=128, hashfunc=lambda x: x >> 32))


def their_index(client: redis.Redis) -> Any:
    storage = {"type": "redis", "basename": b"bench", "redis": {"unix_socket_path": socket_of(client)}}
    return datasketch.MinHashLSH(threshold=0.75, num_perm=128, storage_config=storage)


# memory -----------------------------------------------------------------------------------------------------


def used(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


def used_by_part(client: redis.Redis) -> Counter[str]:
    """Return the bytes of all keys by what they hold."""
    parts: Counter[str] = Counter()
    for keys in itertools.batched(client.scan_iter(count=1000), 1000):
        pipeline = client.pipeline(transaction=False)
        for key in keys:
            pipeline.memory_usage(key, samples=0)
        for key, size in zip(keys, pipeline.execute(), strict=True):
            suffix = key.decode("utf-8", "replace").partition("}")[2]
            parts[PARTS.get(suffix[1:2], "other keys")] += size
    return parts


async def fill(judge: Judge, rng: np.random.Generator, start: int, end: int) -> None:
    """Keep unrelated pages with these numbers."""
    for at in range(start, end, BATCH):
        await settle(judge, unrelated(rng, min(BATCH, end - at)), at)


async def memory(binary: str, pages: int) -> Memory:
    with server(binary) as client:
        before = used(client)
        async with opened(client) as judge:
            await fill(judge, np.random.default_rng(1), 0, pages)
        total = used(client) - before
        parts = used_by_part(client)
    parts["server's tables"] = total - parts.total()
    return Memory(pages, total / pages, {part: size / pages for part, size in parts.most_common()})


def their_memory(binary: str, pages: int) -> Memory:
    sketches = their_sketches(stream(np.random.default_rng(1), pages, 0)[0])
    with server(binary) as client:
        before = used(client)
        index = their_index(client)
        for number, one in enumerate(sketches):
            index.insert(url(number), one)
        return Memory(pages, (used(client) - before) / pages, {})


# speed and growth -------------------------------------------------------------------------------------------


async def rate(binary: str, fingerprints: Sequence[Fingerprint]) -> tuple[float, int]:
    """Return pages a second from fingerprint to outcome, and copies found."""
    with server(binary) as client:
        async with opened(client) as judge:
            began = time.perf_counter()
            outcomes = await settle(judge, fingerprints)
            seconds = time.perf_counter() - began
    return len(outcomes) / seconds, sum(isinstance(outcome, Copy) for outcome in outcomes)


def their_rate(binary: str, sketches: Sequence[Any]) -> tuple[float, int]:
    with server(binary) as client:
        index, found = their_index(client), 0
        began = time.perf_counter()
        for number, one in enumerate(sketches):
            if index.query(one):
                found += 1
            else:
                index.insert(url(number), one)
        return len(sketches) / (time.perf_counter() - began), found


def speed(binary: str, pages: int, copies: float, rounds: int) -> Speed:
    rng = np.random.default_rng(2)
    planted, ours, theirs = 0, list[tuple[float, int]](), list[tuple[float, int]]()
    for _ in range(rounds):
        sets, count = stream(rng, pages, copies)
        planted += count
        ours.append(asyncio.run(rate(binary, [fingerprint(row) for row in sets])))
        if datasketch:
            theirs.append(their_rate(binary, their_sketches(sets)))
    (rates, found), (their_rates, their_found) = ([[row[i] for row in side] for i in (0, 1)] for side in (ours, theirs))
    return Speed(pages, planted, rates, sum(found), their_rates, sum(their_found))
