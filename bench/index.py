"""The shared index against datasketch's MinHashLSH on Redis: memory, speed, and what growth does.

    python -m bench.index [--pages 100000] [--rate-pages 6000] [--growth 10000 100000 1000000] [--json FILE]

Each measurement has an empty server of its own, without persistence; both sides talk to it over TCP on loopback.

    memory   what used_memory rises by, a novel page with a URL of 60 bytes: all that the index stores and the server
             needs for it; parts are MEMORY USAGE of all keys. datasketch's is taken over 5,000 pages, as it is linear.
    speed    ready fingerprints to outcomes, claim and commit included, by one process in batches of 256, two of them
             under way; for datasketch, ready MinHashes of the same texts: query, and insert where nothing was found (it
             stores no signatures to verify by). The two take turns; `fastest` compares the fastest round of each.
    growth   the rate at which 5,000 novel pages enter an index that has so many, in batches of 256, two of them under
             way. It takes turns of 1,024 pages with another index of the first size: the ratio compares the two under
             the same load of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import redis

from bench import recall
from bench.recall import BATCH, WIDTH, Words, opened, port_of, server, settle, shingles, url, used_memory
from dedup.judge import Copy, Judge
from dedup.model import Fingerprint, Sketch, SketchParams

try:
    import datasketch
except ImportError:
    datasketch = None

PARAMS = SketchParams()
WORDS, CHANGED = 400, 2  # of a page; of them other ones in a copy, whose similarity is then .95
SPAN, TURN = 5000, 1024  # pages that growth times; those of a turn
THEIR_PAGES = 5000  # that datasketch's memory is taken over
# by what follows a key's hash tag
PARTS = {"b": "buckets", "s": "buckets", "p": "documents", "k": "documents", "d": "documents"}


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


def unrelated(rng: np.random.Generator, count: int) -> list[Fingerprint]:
    """Return fingerprints of pages that have nothing in common: all of their bits are even draws."""
    size = PARAMS.slots * PARAMS.bits // 8
    exact, packed = ([rng.bytes(length) for _ in range(count)] for length in (8, size))
    hashes = rng.integers(0, 2**64, (count, 1 + PARAMS.bands), dtype=np.uint64)
    rows = zip(exact, packed, hashes, strict=True)
    return [Fingerprint(own, own, int(row[0]), WORDS, (Sketch(WIDTH, sig, row[1:]),)) for own, sig, row in rows]


def stream(rng: np.random.Generator, pages: int, copies: float) -> tuple[list[Words], int]:
    """Return texts of which about this share are copies of an earlier one, and how many are."""
    originals, texts = list[Words](), list[Words]()
    for _ in range(pages):
        if originals and rng.random() < copies:
            texts.append(recall.scattered(rng, originals[rng.integers(len(originals))], CHANGED))
        else:
            originals.append(recall.text(rng, WORDS))
            texts.append(originals[-1])
    return texts, pages - len(originals)


def their_sketches(texts: Sequence[Words]) -> list[Any]:
    """Return MinHashes of the texts' shingles, which are tuples of numbers: Python's own hash will do."""
    return list(datasketch.MinHash.bulk(map(shingles, texts), num_perm=128, hashfunc=lambda x: hash(x) & 0xFFFFFFFF))


def their_index(client: redis.Redis) -> Any:
    storage = {"type": "redis", "basename": b"bench", "redis": {"host": "127.0.0.1", "port": port_of(client)}}
    return datasketch.MinHashLSH(threshold=0.75, num_perm=128, storage_config=storage)


async def fill(judge: Judge, rng: np.random.Generator, start: int, end: int) -> None:
    """Keep unrelated pages with these numbers."""
    for at in range(start, end, BATCH):
        await settle(judge, unrelated(rng, min(BATCH, end - at)), at)


async def memory(binary: str, pages: int) -> Memory:
    parts: Counter[str] = Counter()
    with server(binary) as client:
        before = used_memory(client)
        async with opened(client) as judge:
            await fill(judge, np.random.default_rng(1), 0, pages)
        total = used_memory(client) - before
        for key in client.scan_iter(count=1000):
            suffix = key.decode("utf-8", "replace").partition("}")[2]
            parts[PARTS.get(suffix[1:2], "other keys")] += client.memory_usage(key, samples=0) or 0
    parts["server's own"] = total - parts.total()
    return Memory(pages, total / pages, {part: size / pages for part, size in parts.most_common()})


def their_bytes(binary: str, pages: int) -> float:
    with server(binary) as client:
        before, index = used_memory(client), their_index(client)
        for number, one in enumerate(their_sketches(stream(np.random.default_rng(1), pages, 0)[0])):
            index.insert(url(number), one)
        client.client_kill_filter(_type="normal", skipme=True)  # what their connections hold is not the index
        return (used_memory(client) - before) / pages


async def rate(binary: str, fingerprints: Sequence[Fingerprint]) -> tuple[float, int]:
    """Return pages a second from fingerprint to outcome, and copies found."""
    with server(binary) as client:
        async with opened(client) as judge:
            began = time.perf_counter()
            outcomes = await settle(judge, fingerprints)
            return len(outcomes) / (time.perf_counter() - began), sum(isinstance(one, Copy) for one in outcomes)


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
        texts, count = stream(rng, pages, copies)
        planted += count
        ours.append(asyncio.run(rate(binary, [recall.fingerprint(one) for one in texts])))
        if datasketch:
            theirs.append(their_rate(binary, their_sketches(texts)))
    found, their_found = (sum(count for _, count in side) for side in (ours, theirs))
    return Speed(pages * rounds, planted, [r for r, _ in ours], found, [r for r, _ in theirs], their_found)


async def growth(binary: str, sizes: Sequence[int]) -> list[Growth]:
    rng, rows, pages = np.random.default_rng(3), list[Growth](), 0
    span = min(SPAN, *(int(gap) // 2 for gap in np.diff([0, *sizes])))
    with server(binary) as client:
        before = used_memory(client)
        for size in sizes:
            async with opened(client) as judge:
                await fill(judge, rng, pages, size)
                used = used_memory(client) - before
                seconds, small = await side_by_side(binary, judge, size, sizes[0], span)
            rows.append(Growth(size, span / seconds, small / seconds, used / size))
            pages = size + span
    return rows


async def side_by_side(binary: str, judge: Judge, size: int, first: int, span: int) -> tuple[float, float]:
    """Return the seconds for so many pages more in an index of `size`, and in another one of size `first`."""
    rng, seconds = np.random.default_rng(size), [0.0, 0.0]
    with server(binary) as client:
        async with opened(client) as other:
            await fill(other, rng, 0, first)
            for at in range(0, span, TURN):
                for i, (one, start) in enumerate(((judge, size), (other, first))):
                    some = unrelated(rng, min(TURN, span - at))
                    began = time.perf_counter()
                    await settle(one, some, start + at)
                    seconds[i] += time.perf_counter() - began
    return seconds[0], seconds[1]


def line(name: str, ours: float, theirs: float | None = None, ratio: str = "") -> None:
    """Print a row of the table that compares; the ratio says how many times better ours is."""
    print(f"{name:28} {ours:>9,.0f} {'' if theirs is None else f'{theirs:>11,.0f}'} {ratio}".rstrip(), flush=True)


def show_memory(ours: Memory, theirs: float | None) -> None:
    line(f"bytes a page, of {ours.pages:,}", ours.bytes, theirs, f"{theirs / ours.bytes:>6.1f}" if theirs else "")
    for part, size in ours.parts.items():
        line(f"  {part}", size)


def show_speed(row: Speed) -> None:
    ratios = [mine / other for mine, other in zip(row.ours, row.theirs, strict=False)]
    middle, ratio = None, ""
    if ratios:
        middle, fastest = statistics.median(row.theirs), max(row.ours) / max(row.theirs)
        ratio = f"{statistics.median(ratios):>6.1f} ({min(ratios):.1f} to {max(ratios):.1f}, fastest {fastest:.1f})"
    line(f"pages/s, {row.planted / row.pages:.0%} copies", statistics.median(row.ours), middle, ratio)
    line(f"  found, of {row.planted:,} copies", row.found, row.their_found if ratios else None)


def show_growth(rows: Sequence[Growth]) -> None:
    print(f"\n{'pages in the index':28} {'pages/s':>9} {f'to {rows[0].pages:,}':>11} {'bytes a page':>13}")
    for row in rows:
        print(f"{row.pages:<28,} {row.rate:>9,.0f} {row.ratio:>11.2f} {row.bytes:>13,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory and speed of the shared index, beside datasketch's.")
    parser.add_argument("--pages", type=int, default=100_000, help="for memory")
    parser.add_argument("--rate-pages", type=int, default=6000, help="a round, for speed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], metavar="PAGES")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    parser.add_argument("--redis-server", default=recall.default_binary(), metavar="PATH")
    options = parser.parse_args()
    binary, sizes = options.redis_server, sorted({*options.growth})
    if datasketch is None:
        print("datasketch is not installed, so its column is empty: pip install 'winnow[bench]' brings it\n")
    print(f"{f'on {Path(binary).name}':28} {'Winnow':>9} {'datasketch':>11} {'ratio':>6}", flush=True)
    ours = asyncio.run(memory(binary, options.pages))
    theirs = their_bytes(binary, min(THEIR_PAGES, options.pages)) if datasketch else None
    show_memory(ours, theirs)
    speeds = [speed(binary, options.rate_pages, copies, options.rounds) for copies in (0.5, 0)]
    for row in speeds:
        show_speed(row)
    show_growth(rows := asyncio.run(growth(binary, sizes)))
    if options.json:
        found = {"memory": ours, "their_bytes": theirs, "speed": speeds, "growth": rows}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    main()
