"""How fast a worker is, as a ratio to the floor: reading the same files and lexbor's text extraction alone.

    python -m bench.speed PATH... [--rounds 5] [--pages-kb 30 40]

Every run is a process of its own, and the two take turns, so that a slow spell of the machine hits both. The
worker's time is `seconds` of its summary.json, with kept output off; the floor's is taken inside its process,
so neither counts the start of Python. With kept output on, the ratio is for information.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from selectolax.lexbor import LexborHTMLParser

from bench.accuracy import HTML, lay_out, replay

TARGET = 4.0
BARE = ("--set", "kept.warc=false", "--set", "kept.text=false")


class Speed(msgspec.Struct, frozen=True):
    """Seconds a round over the same pages."""

    pages: int
    bytes: int
    floor: list[float]
    worker: list[float]
    keeping: list[float]  # with kept output on

    @property
    def ratios(self) -> list[float]:
        return [worker / floor for worker, floor in zip(self.worker, self.floor, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def floor(web: Path) -> float:
    """Return the seconds that reading and bare text extraction take, in this process."""
    files = sorted(file for file in web.rglob("*") if file.suffix in HTML)
    began = time.perf_counter()
    for file in files:
        root = LexborHTMLParser(file.read_bytes()).body
        if root is not None:
            root.text()
    return time.perf_counter() - began


def gather(paths: list[Path], web: Path, low: float, high: float) -> int:
    """Lay out each path as a host below `web`, without pages outside of these sizes; return how many."""
    for number, path in enumerate(paths):
        lay_out(path, web / f"host{number}.example")
    count = 0
    for file in [file for file in web.rglob("*") if file.is_file()]:
        if low * 1024 <= file.stat().st_size <= high * 1024:
            count += 1
        else:
            file.unlink()
    return count


def measure(web: Path, rounds: int) -> Speed:
    """Time floor and worker in turns."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 4:
        print(f"note: the load of this machine is {load:.1f} on {cores} cores; other work raises the ratio")
    sizes = [file.stat().st_size for file in web.rglob("*") if file.suffix in HTML]
    floor(web)  # the files are in the page cache from here on, for both
    floors, workers, keeping = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="winnow-speed-") as scratch:
        for number in range(rounds):
            command = [sys.executable, "-m", "bench.speed", "--floor", str(web)]
            floors.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            workers.append(replay(web, Path(scratch) / f"bare{number}", *BARE)["seconds"])
            keeping.append(replay(web, Path(scratch) / f"kept{number}")["seconds"])
    return Speed(len(sizes), sum(sizes), floors, workers, keeping)


def show(speed: Speed) -> None:
    """Print each round, and the medians with their spread."""
    print(f"{speed.pages:,} pages of {speed.bytes / speed.pages / 1024:.1f} KiB on average, one worker")
    print(f"{'round':>6} {'floor s':>9} {'worker s':>9} {'ratio':>6} | {'keeping s':>9} {'ratio':>6}")
    rows = zip(speed.floor, speed.worker, speed.keeping, strict=True)
    for number, (bare, worker, keeping) in enumerate(rows, 1):
        print(f"{number:>6} {bare:>9.3f} {worker:>9.3f} {worker / bare:>6.2f}", end="")
        print(f" | {keeping:>9.3f} {keeping / bare:>6.2f}")
    middle = [statistics.median(column) for column in (speed.floor, speed.worker, speed.keeping)]
    keeping_ratio = statistics.median(k / f for k, f in zip(speed.keeping, speed.floor, strict=True))
    print(f"{'median':>6} {middle[0]:>9.3f} {middle[1]:>9.3f} {speed.ratio:>6.2f}", end="")
    print(f" | {middle[2]:>9.3f} {keeping_ratio:>6.2f}")
    fastest = min(speed.worker) / min(speed.floor)  # the least disturbed round of each
    print(f"ratio {speed.ratio:.2f}, from {min(speed.ratios):.2f} to {max(speed.ratios):.2f}", end="")
    print(f", of the fastest rounds {fastest:.2f}; {speed.pages / middle[1]:,.0f} pages/s")


def main() -> None:
    parser = argparse.ArgumentParser(description="A worker's time as a ratio to bare text extraction.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="folders or tar archives with HTML")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages-kb", nargs=2, type=float, default=(0, float("inf")), metavar=("LOW", "HIGH"))
    parser.add_argument("--floor", type=Path, help=argparse.SUPPRESS)  # this process is one round of the floor
    options = parser.parse_args()
    if options.floor:
        print(floor(options.floor))
        return
    if not options.paths:
        parser.error("name at least one folder or archive")
    with tempfile.TemporaryDirectory(prefix="winnow-web-") as web:
        if not gather(options.paths, Path(web), *options.pages_kb):
            sys.exit("no page has a size in this range")
        speed = measure(Path(web), options.rounds)
    show(speed)
    print(f"target: at most {TARGET:g} on pages of 30 to 40 KB: {'ok' if speed.ratio <= TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
