"""`make bench`: the quick benches one after the other, without any data from outside.

    python -m bench [PATH...] [--versions OLD NEW] [--rounds 3] [--pairs 500]

Estimator, extraction and speed run on the generated demo web, or on the folders and archives that are named;
`--versions` adds accuracy on two versions of a real site. Under two minutes without paths.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench import accuracy, demo, demo_site, speed
from bench.estimator import SIZES, measure
from bench.extract import floor, html_below, seconds
from dedup.extract import extract


def estimator(pairs: int) -> None:
    """Print one row a set size; python -m bench.estimator has the whole table."""
    print(f"{pairs} pairs a size, true similarity from .1 to .95; sd as a ratio to as many independent slots")
    print(f"{'shingles':>8} {'mean error':>11} {'sd':>8} {'ratio':>6}")
    for size in SIZES:
        row = measure(size, pairs, seed=1)
        print(f"{size:>8} {row.mean_error:>+11.4f} {row.sd:>8.4f} {row.ratio:>6.2f}")


def extraction(web: Path, rounds: int) -> None:
    """Print what extraction costs above bare lexbor."""
    bodies = html_below([str(web)])
    taken = [(seconds(floor, bodies), seconds(extract, bodies)) for _ in range(rounds)]
    bare, ours = (statistics.median(column) / len(bodies) * 1e6 for column in zip(*taken, strict=True))
    ratio = statistics.median(own / least for least, own in taken)
    print(f"{len(bodies):,} pages: lexbor alone {bare:.0f} µs a page, extract {ours:.0f} µs, ratio {ratio:.2f}")


def planted(web: Path, truth: Path) -> None:
    """Print how many planted copies of the demo web were found."""
    with tempfile.TemporaryDirectory(prefix="winnow-bench-") as scratch:
        accuracy.replay(web, Path(scratch) / "run", *speed.BARE)
        print(demo.check(demo.read_truth(truth), accuracy.verdicts(Path(scratch) / "run")))


def head(title: str) -> None:
    print(f"\n== {title}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The quick benches, one after the other.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="folders or tar archives with HTML")
    parser.add_argument("--versions", nargs=2, type=Path, metavar=("OLD", "NEW"), help="accuracy on these two")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=500)
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    head("estimator: MinHash against exact similarity")
    estimator(options.pairs)
    with tempfile.TemporaryDirectory(prefix="winnow-bench-") as scratch:
        web, truth = Path(scratch) / "web", Path(scratch) / "truth.jsonl"
        if options.paths:
            speed.gather(options.paths, web, 0, float("inf"))
        else:
            demo_site.write(web, truth, seed=1)
            head("accuracy: copies planted in the demo web")
            planted(web, truth)
        head("extraction: time as a ratio to lexbor alone")
        extraction(web, 5 * options.rounds)
        head("speed: a worker's time as a ratio to reading and lexbor alone")
        speed.show(speed.measure(web, options.rounds))
    if options.versions:
        head("accuracy: two versions of a site against exact similarity")
        accuracy.show(accuracy.measure(*options.versions))


if __name__ == "__main__":
    main()
