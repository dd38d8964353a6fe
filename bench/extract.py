"""How much extraction costs above bare lexbor.

python bench/extract.py PATH...

The floor is `LexborHTMLParser(body).body.text()`: what any extractor on this parser must pay. Floor and
extract() take turns over the HTML files below the paths, so that a slow spell of the machine hits both; the
ratio is taken a round, and the median round is reported.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from dedup.extract import extract

ROUNDS = 15


def floor(body: bytes) -> None:
    root = LexborHTMLParser(body).body
    if root is not None:
        root.text()


def seconds(work: Callable[[bytes], object], bodies: list[bytes]) -> float:
    start = time.perf_counter()
    for body in bodies:
        work(body)
    return time.perf_counter() - start


def html_below(paths: list[str]) -> list[bytes]:
    files = [file for path in map(Path, paths) for file in (sorted(path.rglob("*.htm*")) if path.is_dir() else [path])]
    return [file.read_bytes() for file in files if file.is_file()]


def main() -> None:
    bodies = html_below(sys.argv[1:])
    if not bodies:
        sys.exit(__doc__)
    rounds = [(seconds(floor, bodies), seconds(extract, bodies)) for _ in range(ROUNDS)]
    size = sum(map(len, bodies)) / len(bodies)
    micros = [statistics.median(column) / len(bodies) * 1e6 for column in zip(*rounds, strict=True)]
    ratio = statistics.median(ours / bare for bare, ours in rounds)
    print(f"{len(bodies)} pages of {size / 1024:.1f} KiB on average")
    print(f"floor {micros[0]:.0f} µs, extract {micros[1]:.0f} µs a page, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
