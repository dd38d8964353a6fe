"""How much memory a worker takes: the peak of its resident set over an archive of many pages.

    python -m bench.memory [--pages 20000]

Writes a WARC of generated pages of about 10 KB on 50 hosts, one in ten of them a copy, and replays it with
one worker, which is then the `winnow` process itself. The kernel's high-water mark (VmHWM in /proc, so Linux
only) is read until it ends; that of the embedded server is told apart.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.demo_words import ENGLISH, sentence
from crawler.warc import gzip_member, page, warcinfo
from dedup.model import Page, Place

HOSTS = 50
SENTENCES = 5000  # two pages share about one
TARGET = 300.0
_HEADERS = (("Content-Type", "text/html; charset=utf-8"),)


class Peak(msgspec.Struct, frozen=True):
    """High-water marks in MB, and what was replayed."""

    worker: float
    server: float
    summary: dict[str, Any]


def write_archive(file: Path, pages: int, seed: int = 1) -> int:
    """Write a WARC of generated pages and return its size."""
    rng = random.Random(seed)
    pool = [sentence(ENGLISH, rng) for _ in range(SENTENCES)]
    templates = [[rng.choice(pool) for _ in range(30)] for _ in range(HOSTS)]
    earlier: list[list[str]] = []
    with file.open("wb") as out:
        out.write(gzip_member(warcinfo(file.name, version="bench", time=0), 1))
        for number in range(pages):
            host = rng.randrange(HOSTS)
            article = rng.choice(earlier) if earlier and rng.random() < 0.1 else rng.choices(pool, k=80)
            if len(earlier) < 1000:
                earlier.append(article)
            body = _html(templates[host], article, number)
            url = f"http://host{host:02d}.example/{number:06d}.html"
            record = page(Page(url, Place(file.name, number, 0), body, headers=_HEADERS), _id(number), now=0)
            out.write(gzip_member(record, 1))
    return file.stat().st_size


def _html(template: list[str], article: list[str], number: int) -> bytes:
    menu = "".join(f'<li><a class="menu" href="/{i}.html">{text}</a></li>\n' for i, text in enumerate(template))
    paragraphs = "".join(f"<p>{' '.join(article[i : i + 8])}</p>\n" for i in range(0, len(article), 8))
    head = f"<!DOCTYPE html><html><head><title>Page {number}</title></head>"
    return f"{head}<body><ul>{menu}</ul><h1>{article[0]}</h1>{paragraphs}</body></html>".encode()


def _id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def peak(archive: Path, out: Path) -> Peak:
    """Replay the archive with one worker and watch it."""
    command = [sys.executable, "-m", "crawler.cli", "replay", str(archive), "--out", str(out), "--quiet"]
    marks = {"worker": 0.0, "server": 0.0}
    with subprocess.Popen(command) as run:
        while run.poll() is None:
            marks["worker"] = max(marks["worker"], _high_water(run.pid))
            marks["server"] = max([marks["server"], *map(_high_water, _children(run.pid))])
            time.sleep(0.05)
    if run.returncode:
        sys.exit(f"winnow replay ended with exit code {run.returncode}")
    return Peak(marks["worker"], marks["server"], json.loads((out / "summary.json").read_bytes()))


def _high_water(pid: int) -> float:
    """Return the most memory that a process ever had resident, in MB; 0 when it is gone."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 / 1e6 if found else 0.0
    return 0.0


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of one worker over a generated archive.")
    parser.add_argument("--pages", type=int, default=20_000)
    options = parser.parse_args()
    if not Path("/proc/self/status").exists():
        sys.exit("this needs /proc, so Linux")
    with tempfile.TemporaryDirectory(prefix="winnow-memory-") as scratch:
        archive = Path(scratch) / "pages.warc.gz"
        began = time.monotonic()
        size = write_archive(archive, options.pages)
        print(f"{options.pages:,} pages on {HOSTS} hosts, {size / 1e6:.0f} MB of WARC", end="")
        print(f", written in {time.monotonic() - began:.0f} s", flush=True)
        found = peak(archive, Path(scratch) / "run")
    summary = found.summary
    counts = ", ".join(f"{count:,} {name}" for name, count in summary["verdicts"].items() if count)
    print(
        f"{summary['bytes'] / summary['pages'] / 1000:.1f} KB a page; replayed in {summary['seconds']:.0f} s",
        end="",
    )
    print(f", {summary['pages_per_second']:.0f} pages/s: {counts}")
    print(f"peak of the worker {found.worker:.0f} MB (target: under {TARGET:.0f}): ", end="")
    print("ok" if found.worker < TARGET else "MISSED", end="")
    print(f"; of the embedded server {found.server:.0f} MB")


if __name__ == "__main__":
    main()
