"""How right the verdicts are, on two versions of one real site, against exact Jaccard similarity.

    python -m bench.accuracy OLD NEW [--json]

OLD and NEW are folders or tar archives with HTML below them. They are replayed as two hosts, and the same
path on both is the same page, edited: its twin. Truth is computed apart from all sketches, from whole sets of
5-word shingles, once over the whole text of a page and once over what the census left of it:

    found    of NEW's pages whose similarity to their twin is at least .9, the share that are
             duplicates in that twin's cluster
    dropped  of all pages whose similarity to every page kept before them is below .5, the share that
             were dropped as duplicates: what a crawl would lose

What the census left is worked out again here, batch by batch as the worker does, and checked against the
number of stripped lines in each verdict line.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from crawler.pipeline import FIRST_BATCH
from crawler.sources.folder import file_url
from dedup.boilerplate import site_of
from dedup.extract import extract
from dedup.model import I64, U64, Tokens, Verdict
from dedup.settings import Settings
from dedup.text import shingles, tokenize

HOSTS = ("a.example", "b.example")  # read in this order
HTML = (".html", ".htm")
WIDTH = 5
ALIKE, UNLIKE = 0.9, 0.5
FOUND, DROPPED = 0.98, 0.005  # the targets


class Case(msgspec.Struct, frozen=True):
    """A page that was judged otherwise than the truth says."""

    url: str
    jaccard: float
    to: str  # the twin, or the kept page most like it
    to_verdict: str  # 'novel', or what that one is a copy of: representatives are kept pages only
    verdict: str
    of: str | None
    rule: str | None
    words: int | None


class Figures(msgspec.Struct, frozen=True):
    """Both figures over one kind of text."""

    text: str
    alike: int
    missed: list[Case]
    unlike: int
    dropped: list[Case]

    @property
    def found(self) -> float:
        return 1 - len(self.missed) / self.alike if self.alike else 1.0

    @property
    def lost(self) -> float:
        return len(self.dropped) / self.unlike if self.unlike else 0.0


# the two sites as folders, and their replay -----------------------------------------------------------------


def lay_out(source: Path, to: Path) -> int:
    """Put the HTML files of a folder or tar archive under `to`, without the folders that all share."""
    with tempfile.TemporaryDirectory() as scratch:
        root = source
        if source.is_file():
            root = Path(scratch)
            _unpack(source, root)
        files = [file for file in sorted(root.rglob("*")) if file.suffix in HTML and file.is_file()]
        if not files:
            sys.exit(f"{source}: no HTML files in it")
        common = os.path.commonpath([file.parent for file in files])
        for file in files:
            target = to / file.relative_to(common)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return len(files)


def _unpack(archive: Path, to: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            body = tar.extractfile(member) if member.isfile() and member.name.endswith(HTML) else None
            target = (to / member.name).resolve()
            if body is not None and target.is_relative_to(to.resolve()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(body.read())


def replay(web: Path, out: Path, *options: str) -> dict[str, Any]:
    """Run the real `winnow replay` and return its summary."""
    command = [
        sys.executable,
        "-m",
        "crawler.cli",
        "replay",
        str(web),
        "--out",
        str(out),
        "--quiet",
        *options,
    ]
    subprocess.run(command, check=True)
    summary: dict[str, Any] = json.loads((out / "summary.json").read_bytes())
    return summary


def verdicts(out: Path) -> list[Verdict]:
    """Return the verdict lines of a run with one worker, in the order they were judged."""
    lines = (out / "verdicts" / "worker-0.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Verdict) for line in lines]


# what was on the pages --------------------------------------------------------------------------------------


def read(web: Path) -> dict[str, Tokens]:
    """Return the words and lines of all pages below a folder, in reading order."""
    files = sorted((file.relative_to(web).parts, file) for file in web.rglob("*") if file.is_file())
    return {
        (url := file_url(str(web), parts)): tokenize(extract(file.read_bytes(), url=url).text) for parts, file in files
    }


def stripped_words(pages: dict[str, Tokens], settings: Settings) -> dict[str, tuple[U64, int]]:
    """Return the words that the census left on each page, and how many lines it took.

    The worker counts a batch of pages, then strips them by what is known so far; a site's pages wait until it
    has shown enough.
    """
    census = settings.census
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    seen: Counter[str] = Counter()
    waiting: dict[str, list[str]] = defaultdict(list)
    out: dict[str, tuple[U64, int]] = {}

    def judge(site: str) -> None:
        for url in waiting.pop(site, []):
            tokens = pages[url]
            standing = np.array([counts[site][line] for line in tokens.lines.tolist()], np.int64)
            kept = (standing <= census.share * seen[site]) | (seen[site] < census.min_pages)
            sizes = np.diff(tokens.first, append=len(tokens.words))
            out[url] = tokens.words[np.repeat(kept, sizes)], int(np.count_nonzero(~kept))

    urls = list(pages)
    start, batch = 0, min(FIRST_BATCH, settings.replay.batch)
    while start < len(urls):
        for url in urls[start : start + batch]:
            site = site_of(url)
            seen[site] += 1
            counts[site].update(set(pages[url].lines.tolist()))
            waiting[site].append(url)
        for site in [site for site in waiting if seen[site] >= census.min_pages]:
            judge(site)
        start, batch = start + batch, min(2 * batch, settings.replay.batch)
    for site in list(waiting):
        judge(site)
    return out


# exact similarity -------------------------------------------------------------------------------------------


def shingle_set(words: U64) -> U64:
    """Return the set of a text's 5-word shingles; a shorter text is one shingle."""
    return np.unique(shingles(words, WIDTH))


def jaccard(a: U64, b: U64) -> float:
    """Return the exact Jaccard similarity of two sets.

    >>> jaccard(np.array([1, 2, 3], np.uint64), np.array([2, 3, 4], np.uint64))
    0.5
    """
    common = len(np.intersect1d(a, b, assume_unique=True))
    union = len(a) + len(b) - common
    return common / union if union else 0.0


def best_earlier(sets: Sequence[U64], kept: Sequence[bool]) -> Iterator[tuple[float, int]]:
    """Yield for each set the highest similarity to a kept set before it, and which (-1: nothing in common).

    An inverted index says which sets hold a shingle; counting their numbers gives all intersections at once.

    >>> a, b, c = (np.array(x, np.uint64) for x in ([1, 2, 3], [1, 2, 3, 4], [3, 4]))
    >>> list(best_earlier([a, b, c], [True, False, True]))
    [(0.0, -1), (0.75, 0), (0.25, 0)]
    """
    sizes = np.array([len(x) for x in sets], np.int64)
    known, shingle = np.unique(np.concatenate([np.empty(0, np.uint64), *sets]), return_inverse=True)
    owner = np.repeat(np.arange(len(sets)), sizes)
    order = np.argsort(shingle, kind="stable")  # the holders of a shingle stay in order
    order = order[np.array(kept, np.bool_)[owner[order]]]
    holders = owner[order]
    starts = np.searchsorted(shingle[order], np.arange(len(known) + 1))
    at = 0
    for number, size in enumerate(sizes.tolist()):
        mine = shingle[at : at + size]
        at += size
        common = np.bincount(_ranges(holders, starts[mine], starts[mine + 1]), minlength=number)[:number]
        if not common.any():
            yield 0.0, -1
            continue
        similarity = common / (sizes[:number] + size - common)
        best = int(similarity.argmax())
        yield float(similarity[best]), best


def _ranges(values: I64, first: I64, last: I64) -> I64:
    """Return values[first[i]:last[i]] for all i, joined."""
    lengths = last - first
    offsets = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return values[offsets + np.arange(len(offsets))] if len(offsets) else values[:0]


# the two figures --------------------------------------------------------------------------------------------


def figures(name: str, log: Sequence[Verdict], words: dict[str, U64]) -> Figures:
    """Compare the verdicts with the truth over these words."""
    log = [line for line in log if line.verdict in {"novel", "duplicate", "thin"}]
    line_of = {line.url: line for line in log}
    sets = [shingle_set(words[line.url]) for line in log]
    set_of = dict(zip(line_of, sets, strict=True))
    first, second = (f"http://{host}/" for host in HOSTS)

    alike = 0
    missed: list[Case] = []
    for line in log:
        twin = line_of.get(line.url.replace(second, first, 1)) if line.url.startswith(second) else None
        if twin is None:
            continue
        share = jaccard(set_of[line.url], set_of[twin.url])
        if share >= ALIKE:
            alike += 1
            if line.verdict != "duplicate" or line.cluster != twin.cluster:
                missed.append(_case(line, share, twin))

    unlike = 0
    dropped: list[Case] = []
    best = best_earlier(sets, [line.verdict == "novel" for line in log])
    for line, (share, which) in zip(log, best, strict=True):
        if share < UNLIKE and len(set_of[line.url]):
            unlike += 1
            if line.verdict == "duplicate":
                dropped.append(_case(line, share, log[which] if which >= 0 else None))
    return Figures(name, alike, missed, unlike, dropped)


def _case(line: Verdict, share: float, to: Verdict | None) -> Case:
    what = "" if to is None else f"{to.verdict} of {to.of}" if to.of else to.verdict
    url = "" if to is None else to.url
    return Case(line.url, round(share, 3), url, what, line.verdict, line.of, line.rule, line.words)


def measure(old: Path, new: Path) -> dict[str, Any]:
    """Replay two versions of a site and return all figures."""
    with tempfile.TemporaryDirectory(prefix="winnow-accuracy-") as scratch:
        web, out = Path(scratch) / "web", Path(scratch) / "run"
        counts = [lay_out(source, web / host) for source, host in zip((old, new), HOSTS, strict=True)]
        summary = replay(web, out, "--set", "kept.warc=false", "--set", "kept.text=false")
        log = verdicts(out)
        began = time.monotonic()
        pages = read(web)
        left = stripped_words(pages, Settings())
    agree = sum(line.stripped == left[line.url][1] for line in log if line.url in left)
    return {
        "old": old.name,
        "new": new.name,
        "pages": counts,
        "verdicts": summary["verdicts"],
        "seconds": summary["seconds"],
        "strip_agrees": agree,
        "figures": [
            figures("whole", log, {url: tokens.words for url, tokens in pages.items()}),
            figures("stripped", log, {url: words for url, (words, _) in left.items()}),
        ],
        "truth_seconds": round(time.monotonic() - began, 1),
    }


def show(found: dict[str, Any]) -> None:
    """Print the figures for a person, then each page that was judged otherwise."""
    counts = ", ".join(f"{count:,} {name}" for name, count in found["verdicts"].items() if count)
    pages = sum(found["pages"])
    print(f"{found['old']} -> {found['new']}: {' + '.join(map(str, found['pages']))} pages; {counts}")
    print(f"{found['seconds']:.1f} s to judge, {found['truth_seconds']:.1f} s for the truth; ", end="")
    print(f"stripped lines as logged on {found['strip_agrees']:,} of {pages:,} pages\n")
    print(f"{'text':<9} {'J>=.9 to twin':>14} {'found':>6} {'share':>8} |", end="")
    print(f" {'J<.5 to kept':>13} {'dropped':>8} {'share':>8}")
    every: list[Figures] = found["figures"]
    for f in every:
        print(f"{f.text:<9} {f.alike:>14,} {f.alike - len(f.missed):>6,} {f.found:>8.2%} |", end="")
        print(f" {f.unlike:>13,} {len(f.dropped):>8,} {f.lost:>8.2%}", end="")
        print("  " + ("ok" if f.found >= FOUND and f.lost <= DROPPED else "MISSES THE TARGET"))
    print(f"{'target':<9} {'':>14} {'':>6} {f'>= {FOUND:.0%}':>8} | {'':>13} {'':>8} {f'<= {DROPPED:.1%}':>8}")
    for f in every:
        if f.missed:
            chained = sum(case.to_verdict != "novel" for case in f.missed)
            elsewhere = sum(case.verdict == "duplicate" for case in f.missed)
            print(f"{f.text}: of {len(f.missed)} missed, {elsewhere} are copies in another cluster; ", end="")
            print(f"the twins of {chained} are copies of another page themselves")
    for f in every:
        _list(f"missed ({f.text} text)", f.missed)
        _list(f"dropped though unlike ({f.text} text)", f.dropped)


def _list(title: str, cases: Sequence[Case]) -> None:
    if cases:
        print(f"\n{title}:")
    for c in cases:
        print(f"  {c.url}, {c.words or 0} words: {c.verdict}{f' of {c.of}' if c.of else ''}, {c.rule}")
        print(f"    J {c.jaccard:.3f} to {c.to or 'anything kept'}{f', {c.to_verdict}' if c.to else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Verdicts against exact similarity, on two versions of a site.")
    parser.add_argument("old", type=Path, help="folder or tar archive with HTML files")
    parser.add_argument("new", type=Path, help="a later version of the same site")
    parser.add_argument("--json", action="store_true", help="print the figures and all cases as JSON")
    options = parser.parse_args()
    found = measure(options.old, options.new)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        show(found)


if __name__ == "__main__":
    main()
