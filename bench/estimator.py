"""How good the MinHash estimate is: bias and spread against exact Jaccard similarity.

    python -m bench.estimator --pairs 2000 --seed 1

Sets of random shingles with a planted Jaccard similarity, sketched and compared as the index does (256
slots of 4 bits), not clipped. The ratios compare the spread with that of as many independent slots, as in
classic MinHash with 256 hash functions: `/64` with whole ones, sqrt(J(1-J)/256), the strict one; `/4` with
slots cut to 4 bits, where chance agreement p = J + (1-J)/16 adds spread of its own, sqrt(p(1-p)/256) * 16/15.
"""

from __future__ import annotations

import argparse
import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.minhash import jaccard, pack, signature
from dedup.model import U64

Floats = npt.NDArray[np.float64]

SLOTS, BITS = 256, 4
SIZES = (20, 50, 200, 1000, 5000)
EDGES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)


class Row(NamedTuple):
    """Errors of a group of pairs."""

    pairs: int
    mean_error: float
    sd: float
    ratio: float  # to independent slots of 64 bits
    cut_ratio: float  # to independent slots of 4 bits
    full_sd: float  # with slots of 64 bits
    full_ratio: float


def planted_pair(rng: np.random.Generator, size: int, similarity: float) -> tuple[U64, U64]:
    """Return two sets of about `size` shingles each whose Jaccard similarity is the nearest there is."""
    shared = round(2 * size * similarity / (1 + similarity))
    own = size - shared
    pool = rng.integers(0, 2**64, shared + 2 * own, dtype=np.uint64)
    return pool[: shared + own], np.concatenate([pool[:shared], pool[shared + own :]])


def true_jaccard(a: U64, b: U64) -> float:
    common = len(np.intersect1d(a, b))
    return common / (len(a) + len(b) - common)


def errors(size: int, pairs: int, seed: int, low: float, high: float) -> Floats:
    """Return (true similarity, error of packed estimate, error of full slots) a pair."""
    rng = np.random.default_rng([seed, size])
    out = np.empty((pairs, 3))
    for i in range(pairs):
        a, b = planted_pair(rng, size, rng.uniform(low, high))
        truth = true_jaccard(a, b)
        x, y = signature(a, SLOTS), signature(b, SLOTS)
        out[i] = truth, jaccard(pack(x, BITS), pack(y, BITS), BITS) - truth, np.mean(x == y) - truth
    return out


def summary(found: Floats) -> Row:
    truth, packed, full = found.T
    chance = 2.0**-BITS
    agree = truth + (1 - truth) * chance
    packed_sd = np.sqrt(agree * (1 - agree) / SLOTS) / (1 - chance)
    full_sd = np.sqrt(truth * (1 - truth) / SLOTS)
    return Row(
        len(truth),
        float(packed.mean()),
        float(packed.std()),
        _spread(packed, full_sd),
        _spread(packed, packed_sd),
        float(full.std()),
        _spread(full, full_sd),
    )


def _spread(found: Floats, expected: Floats) -> float:
    return float(np.sqrt(np.mean(found**2) / np.mean(expected**2)))


def measure(size: int, pairs: int, seed: int, low: float = 0.1, high: float = 0.95) -> Row:
    return summary(errors(size, pairs, seed, low, high))


def main() -> None:
    parser = argparse.ArgumentParser(description="Bias and spread of the MinHash estimate.")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs a set size (default 2000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.pairs} pairs a size, true J from .1 to .95, {SLOTS} slots, not clipped")
    print(f"{'':24}|{f'{BITS}-bit slots (the index)':^33} |{'64-bit slots':^13}")
    print(f"{'shingles':>8} {'true J':>9} {'n':>5}|{'mean error':>11} {'sd':>8}", end="")
    print(f" {'/64':>6} {'/4':>6}|{'sd':>7} {'/64':>6}")
    for size in SIZES:
        found = errors(size, options.pairs, options.seed, EDGES[0], EDGES[-1])
        _print(size, "all", summary(found))
        for low, high in itertools.pairwise(EDGES):
            inside = found[(found[:, 0] >= low) & (found[:, 0] < high)]
            if len(inside) > 1:
                _print(size, f"{low:.2f}-{high:.2f}", summary(inside))


def _print(size: int, name: str, row: Row) -> None:
    print(f"{size:>8} {name:>9} {row.pairs:>5}|{row.mean_error:>+11.4f} {row.sd:>8.4f}", end="")
    print(f" {row.ratio:>6.2f} {row.cut_ratio:>6.2f}|{row.full_sd:>7.4f} {row.full_ratio:>6.2f}")


if __name__ == "__main__":
    main()
