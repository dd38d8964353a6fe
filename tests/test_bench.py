"""The demo holds what it promises, and the accuracy bench computes the truth that it claims to."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from bench.accuracy import (
    best_earlier,
    figures,
    jaccard,
    lay_out,
    read,
    shingle_set,
    stripped_words,
    verdicts,
)
from bench.demo import MARKER, check, read_truth
from dedup.model import U64, Verdict
from dedup.settings import Settings
from dedup.text import tokenize


def run_demo(out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.demo", str(out)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def numbers(*values: int) -> U64:
    return np.array(values, np.uint64)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The demo's folder after two runs, and what each printed."""
    out = tmp_path_factory.mktemp("demo") / "out"
    runs = [run_demo(out) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[-1].stderr
    return out, [run.stdout for run in runs]


def test_the_demo_runs_twice_alike(demo: tuple[Path, list[str]]) -> None:
    """A second run starts afresh and finds the same; only its speed differs."""
    first, second = ([line for line in text.splitlines() if "pages/s" not in line] for text in demo[1])
    assert first == second
    assert any("Three of the clusters" in line for line in first)


def test_the_demo_finds_what_was_planted(demo: tuple[Path, list[str]]) -> None:
    """Every exact copy is found, no article is lost, and none is taken for another."""
    out, texts = demo
    found = check(read_truth(out / "truth.jsonl"), verdicts(out / "run"))
    assert (found.exact_missed, found.lost, found.wrong) == (0, 0, 0)
    assert found.planted > 100
    assert found.found >= 0.97 * found.planted
    assert f"truth: {found}" in texts[-1].splitlines()


def test_stripping_is_worked_out_as_the_worker_does(demo: tuple[Path, list[str]]) -> None:
    """The accuracy bench strips as many lines of each page as the verdict log says."""
    out, _ = demo
    log = [line for line in verdicts(out / "run") if line.url.startswith("http://mirror.example")]
    pages = {url: t for url, t in read(out / "web").items() if url.startswith("http://mirror.example")}
    left = stripped_words(pages, Settings())
    assert {line.url: line.stripped for line in log} == {url: count for url, (_, count) in left.items()}


def test_the_demo_deletes_only_its_own_folder(tmp_path: Path) -> None:
    """A folder with files and without the demo's marker is left as it is."""
    (tmp_path / "thesis.txt").write_text("years of work")
    run = run_demo(tmp_path)
    assert run.returncode != 0
    assert "not made by the demo" in run.stderr
    assert not (tmp_path / MARKER).exists()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_lost_and_mistaken_articles_are_counted(demo: tuple[Path, list[str]]) -> None:
    """The check is not blind: copies of nothing kept, or of another article, show."""
    out, _ = demo
    labels = read_truth(out / "truth.jsonl")
    wrong = [Verdict(label.url, "duplicate", of="http://elsewhere.example/") for label in labels]
    found = check(labels, wrong)
    assert found.found == 0
    assert found.lost == found.articles
    assert found.wrong == found.articles + found.planted


def test_exact_jaccard_by_hand() -> None:
    """Of the words 1 to 9 and 2 to 9, X, four of six shingles are shared."""
    a = shingle_set(tokenize("one two three four five six seven eight nine").words)
    b = shingle_set(tokenize("Two three four five, six seven eight nine ten").words)
    assert (len(a), len(b)) == (5, 5)
    assert jaccard(a, b) == pytest.approx(4 / 6)
    assert jaccard(a, a) == 1.0
    assert jaccard(a, a[:0]) == 0.0


def test_best_earlier_looks_at_kept_pages_before() -> None:
    """Neither a copy nor a later page counts, however alike; the best of several does."""
    sets = [numbers(1, 2, 3, 4), numbers(1, 2, 3, 5), numbers(1, 2, 3, 5), numbers(8, 9), numbers(8, 9, 1)]
    found = list(best_earlier(sets, [True, False, True, False, True]))
    assert found == [(0.0, -1), (0.6, 0), (0.6, 0), (0.0, -1), (1 / 6, 0)]


def test_best_earlier_agrees_with_all_pairs() -> None:
    """The inverted index gives what comparing each with each gives."""
    rng = np.random.default_rng(1)
    sets = [np.unique(rng.integers(0, 60, rng.integers(0, 40)).astype(np.uint64)) for _ in range(40)]
    kept = [bool(x) for x in rng.integers(0, 2, 40)]
    slow = [max((jaccard(x, sets[j]) for j in range(i) if kept[j]), default=0.0) for i, x in enumerate(sets)]
    assert [share for share, _ in best_earlier(sets, kept)] == pytest.approx(slow)


def test_misses_and_false_drops_are_named() -> None:
    """A twin in another cluster is a miss; a page unlike all that is kept, yet dropped, is a false drop."""
    text = " ".join(f"w{i}" for i in range(50))
    words = {
        "http://a.example/x": tokenize(text).words,
        "http://b.example/x": tokenize(text + " more").words,
        "http://b.example/y": tokenize(text[::-1]).words,
    }
    log = [
        Verdict("http://a.example/x", "novel", cluster="1"),
        Verdict("http://b.example/x", "novel", cluster="2"),
        Verdict("http://b.example/y", "duplicate", of="http://a.example/x", cluster="1"),
    ]
    found = figures("whole", log, words)
    assert (found.alike, [case.url for case in found.missed]) == (1, ["http://b.example/x"])
    assert (found.unlike, [case.url for case in found.dropped]) == (2, ["http://b.example/y"])
    assert (found.found, found.lost) == (0.0, 0.5)


def test_sites_are_laid_out_by_the_paths_they_share(tmp_path: Path) -> None:
    """Two versions below different folders get the same paths, from a folder or an archive."""
    for name in ("index.html", "sub/page.html", "sub/logo.png"):
        file = tmp_path / "v1/usr/doc-1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    with tarfile.open(tmp_path / "v1.tar.xz", "w:xz") as tar:
        tar.add(tmp_path / "v1", "v1")
    for number, source in enumerate((tmp_path / "v1", tmp_path / "v1.tar.xz")):
        assert lay_out(source, tmp_path / str(number)) == 2
        files = [f.relative_to(tmp_path / str(number)).as_posix() for f in (tmp_path / str(number)).rglob("*.*")]
        assert sorted(files) == ["index.html", "sub/page.html"]
