"""The demo: generate a small web, replay it, show what was found, and check it against what was planted.

python -m bench.demo OUT

OUT is a folder of the demo's own, made anew each time: OUT/web holds the pages, OUT/truth.jsonl says what
each of them is, OUT/run is what `winnow replay` wrote.
"""

from __future__ import annotations

import argparse
import gzip
import io
import shlex
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from bench.accuracy import verdicts
from bench.demo_site import SITES, Truth, write
from dedup.extract import extract
from dedup.model import Cluster, Extract, Member, Verdict

MARKER = ".made-by-winnow-demo"
EXACT = ("copy", "mirror", "syndicated")
EDITED = (
    "reworded",
    "appended",
    "reordered",
)  # above the threshold; `rewritten` is below it, so an article of its own
KINDS = {
    "original": "articles, 60 on each of three sites",
    "copy": "the same page at a second address",
    "mirror": "one site's articles on a mirror that looks quite different",
    "syndicated": "articles that a site took from another one, in that one's language",
    "edited": "copies with words changed, a paragraph more, sentences swapped",
    "rewritten": "copies with every second sentence new: not copies any more",
    "soft404": "pages that say 'not found' with status 200",
    "debris": "images, style sheets, plain text, empty and broken pages",
}
WIDTH = 100


class Check(msgspec.Struct, frozen=True):
    """The run against the truth."""

    planted: int  # copies: all pages of an article but one
    found: int  # of them, dropped as a copy of a page of the same article
    exact_missed: int  # word-for-word copies whose original is in another cluster
    articles: int
    lost: int  # articles of which no page was kept
    wrong: int  # pages dropped as a copy of another article

    def __str__(self) -> str:
        return (
            f"{self.planted} planted copies, {self.found} found; {self.articles} articles, {self.lost} lost, "
            f"{self.wrong} taken for another"
        )


def check(labels: Iterable[Truth], log: Iterable[Verdict]) -> Check:
    """Compare the verdicts with the labels; which page of an article is kept is a matter of order."""
    line_of = {line.url: line for line in log}
    groups: dict[str, set[str]] = defaultdict(set)
    exact_missed = 0
    for label in labels:
        if label.kind in ("original", *EXACT, *EDITED):
            groups[label.article or ""].add(label.url)
        elif label.kind == "rewritten":
            groups[label.url].add(label.url)
        if label.kind in EXACT and label.of:
            exact_missed += line_of[label.url].cluster != line_of[label.of].cluster
    found = lost = wrong = 0
    for urls in groups.values():
        lines = [line_of[url] for url in urls]
        copies = [line for line in lines if line.verdict == "duplicate"]
        found += sum(line.of in urls for line in copies)
        wrong += sum(line.of not in urls for line in copies)
        lost += not any(line.verdict == "novel" for line in lines)
    planted = sum(len(urls) - 1 for urls in groups.values())
    return Check(planted, found, exact_missed, len(groups), lost, wrong)


def read_truth(file: Path) -> list[Truth]:
    """Return the labels of all pages."""
    return [msgspec.json.decode(line, type=Truth) for line in file.read_bytes().splitlines()]


class Demo:
    """One run of the demo, told step by step."""

    def __init__(self, out: Path) -> None:
        self.web, self.run, self.truth = out / "web", out / "run", out / "truth.jsonl"
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # three scripts, and who knows what terminal
        self._console = Console(highlight=False)
        self._step = 0

    def tell(self) -> Check:
        self._generate()
        self._replay()
        self._labels = {label.url: label for label in read_truth(self.truth)}
        log = verdicts(self.run)
        decode = msgspec.json.Decoder(Cluster).decode
        clusters = [decode(line) for line in (self.run / "clusters.jsonl").read_bytes().splitlines()]
        copy = self._show_clusters(clusters)
        self._show_stripping(log)
        found = check(self._labels.values(), log)
        self._head("Check against what was planted")
        self._say(f"truth: {found}")
        self._show_next(copy)
        return found

    def _say(self, text: str = "", style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)

    def _head(self, title: str) -> None:
        self._step += 1
        self._say()
        self._say(f"{self._step}. {title}", "bold cyan")

    def _generate(self) -> None:
        self._head("A small web")
        count = write(self.web, self.truth, seed=1)
        kinds: Counter[str] = Counter()
        for label in read_truth(self.truth):
            kind = "edited" if label.kind in EDITED else label.kind
            kinds[kind if kind in KINDS else "debris"] += 1
        hosts = len(list(self.web.iterdir()))
        names = ", ".join({"en": "English", "ru": "Russian", "zh": "Chinese"}[s.language.code] for s in SITES)
        self._say(f"{count} files on {hosts} hosts in {self.web}, in {names}; two thirds of each page is template:")
        for kind, meaning in KINDS.items():
            self._say(f"  {kinds[kind]:>4}  {kind:<11} {meaning}")

    def _replay(self) -> None:
        self._head("Replay it")
        arguments = ["replay", str(self.web), "--out", str(self.run)]
        self._say(f"$ {shlex.join([_winnow(), *arguments])}", "bold")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "crawler.cli", *arguments], check=True)

    def _show_clusters(self, clusters: Sequence[Cluster]) -> str:
        """Show a cluster of each sort, and return a copy worth a second look."""
        self._head("Three of the clusters")
        copy = ""
        for title, kinds in (
            ("A mirrored page: another host, another template, the same article", ("mirror",)),
            ("An edited copy: whichever comes first is kept", EDITED),
            ("A syndicated page, in another language than the site around it", ("syndicated",)),
        ):
            cluster = self._pick(clusters, kinds)
            if cluster is None:
                continue
            self._say(title, "bold")
            headline = _short(self._extract(cluster.representative).title, 45)
            width = max(len(cluster.representative), *(len(member.url) for member in cluster.members))
            self._say(f"  kept  {cluster.representative:<{width}}  {headline}", "green")
            for member in cluster.members:
                self._say(f"  copy  {member.url:<{width}}  {_how(member)}{self._planted(cluster, member)}")
            copy = cluster.members[0].url if kinds == EDITED else copy
        return copy

    def _pick(self, clusters: Sequence[Cluster], kinds: Sequence[str]) -> Cluster | None:
        """Return the smallest cluster with pages of these kinds; of edited copies, one found by sketches."""

        def fits(cluster: Cluster) -> bool:
            pages = (cluster.representative, *(member.url for member in cluster.members))
            found = {self._labels[url].kind for url in pages}
            if kinds == EDITED:
                return bool(found & set(EDITED)) and all(m.how != "exact" for m in cluster.members)
            return bool(found & set(kinds)) and found <= {"original", *kinds}

        def order(cluster: Cluster) -> tuple[bool, int, str]:
            foreign = "/ru/" in cluster.representative or "/zh/" in cluster.representative
            return foreign, cluster.size, cluster.representative

        return min(filter(fits, clusters), key=order, default=None)

    def _planted(self, cluster: Cluster, member: Member) -> str:
        """Return the planted similarity to the representative, where one is the other's original."""
        for one, other in ((member.url, cluster.representative), (cluster.representative, member.url)):
            label = self._labels[one]
            if label.of == other and label.jaccard is not None:
                return f" (planted: {label.kind}, {label.jaccard:.2f})"
        return ""

    def _show_stripping(self, log: Sequence[Verdict]) -> None:
        self._head("What stripping leaves of a page")
        kept = _kept_text(self.run)
        line = next(v for v in log if v.verdict == "novel" and self._labels[v.url].kind == "original")
        rows = [" ".join(row.split()) for row in self._extract(line.url).text.splitlines()]
        left = Counter(kept[line.url].splitlines())
        stripped = [row for row in rows if row and not left[row]]
        self._say(f"{line.url}: {line.lines} lines, {line.stripped} of them on most pages of the site, so template")
        for row in (*stripped[:3], *stripped[-2:]):
            self._say(f"  - {_short(row)}", "dim")
        for row in list(left)[:3]:
            self._say(f"  + {_short(row)}", "green")
        before = len(" ".join(rows).split())
        after = len(kept[line.url].split())
        self._say(f"{before} words before, {after} after: only these are compared, and written to {self.run}/kept")

    def _show_next(self, copy: str) -> None:
        self._head("Where to look next")
        files = (
            (f"{self.run}/verdicts/worker-0.jsonl", "one line a page: what, why, by which rule"),
            (f"{self.run}/clusters.jsonl", "who is a copy of whom"),
            (f"{self.run}/kept/", "the pages worth keeping, as WARC and as text"),
            (f"{self.truth}", "what each page really is"),
        )
        width = max(len(name) for name, _ in files)
        for name, meaning in files:
            self._say(f"  {name:<{width}}  {meaning}")
        if copy:
            self._say(f"$ grep {shlex.quote(copy)} {shlex.quote(files[0][0])}", "bold")
        self._say(f"$ {_winnow()} --help", "bold")

    def _file(self, url: str) -> Path:
        return self.web / url.removeprefix("http://")

    def _extract(self, url: str) -> Extract:
        return extract(self._file(url).read_bytes(), url=url)


def _how(member: Member) -> str:
    jaccard = member.jaccard or 0.0
    if member.how == "exact":
        return "exact: the same words"
    if member.how == "simhash":
        return f"simhash: {member.distance} of 64 bits differ, similarity about {jaccard:.2f}"
    return f"minhash: similarity about {jaccard:.2f}"


def _kept_text(run: Path) -> dict[str, str]:
    texts = {}
    for file in sorted((run / "kept").glob("*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            record = msgspec.json.decode(line)
            texts[record["url"]] = record["text"]
    return texts


def _short(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def _winnow() -> str:
    """Return how a person here would call winnow."""
    script = Path(sys.executable).with_name("winnow")
    if not script.exists():
        return "python -m crawler.cli"
    here = Path.cwd()
    return str(script.relative_to(here) if script.is_relative_to(here) else script)


def fresh(out: Path) -> None:
    """Make the demo's folder anew; a folder that the demo did not make is left alone."""
    if out.exists() and not out.is_dir():
        sys.exit(f"demo: {out} is a file: name a folder")
    if out.is_dir() and any(out.iterdir()):
        if not (out / MARKER).is_file():
            sys.exit(f"demo: {out} is not empty and not made by the demo: name another folder")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER).write_text("The demo deletes this folder and makes it anew each time.\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate a small web, replay it, show what was found.")
    parser.add_argument("out", type=Path, help="a folder of the demo's own: made anew each time")
    options = parser.parse_args()
    fresh(options.out)
    found = Demo(options.out).tell()
    sys.exit(1 if found.lost or found.wrong or found.exact_missed else 0)


if __name__ == "__main__":
    main()
