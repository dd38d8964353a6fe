"""The demo site: distinct articles, copies of known likeness, the same bytes each time."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from bench.demo_site import ARTICLES, SITES, Site, Truth, pages, write
from bench.demo_words import jaccard, shingles, write_text
from dedup.extract import extract


@pytest.fixture(scope="module")
def web() -> dict[str, tuple[Truth, bytes]]:
    return {label.url: (label, body) for label, body in pages(1)}


def text_of(body: bytes) -> str:
    return extract(body).text


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.host)
def test_articles_are_distinct(site: Site) -> None:
    """No two articles of a site share three shingles in ten."""
    rng = random.Random(f"1/{site.host}")
    sets = [shingles(write_text(site.language, rng).joined()) for _ in range(ARTICLES)]
    assert max(len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)) < 0.3


def test_urls_are_unique() -> None:
    """No file overwrites another."""
    urls = [label.url for label, _ in pages(1)]
    assert len(urls) == len(set(urls))


def test_every_kind_is_there(web: dict[str, tuple[Truth, bytes]]) -> None:
    """The web has all that a crawl meets: originals, copies of each sort, soft 404s and debris."""
    kinds = Counter(label.kind for label, _ in web.values())
    assert kinds["original"] == 180
    assert kinds["mirror"] == 60
    assert set(kinds) >= {"copy", "syndicated", "reworded", "appended", "reordered", "rewritten"}
    assert set(kinds) >= {"soft404", "not html", "text", "empty", "truncated"}


def test_copies_are_as_alike_as_labelled(web: dict[str, tuple[Truth, bytes]]) -> None:
    """Light edits stay above the default threshold of 0.75, rewritten articles well below it."""
    for label, _ in web.values():
        if label.kind in {"reworded", "appended", "reordered"}:
            assert 0.75 < (label.jaccard or 0) < 1, label
        elif label.kind == "rewritten":
            assert 0.1 < (label.jaccard or 0) < 0.6, label
        elif label.kind in {"mirror", "syndicated", "copy"}:
            assert label.jaccard == 1, label


def test_exact_copies_are_exact(web: dict[str, tuple[Truth, bytes]]) -> None:
    """A page of kind `copy` has the bytes of the page that it copies."""
    copies = [(label, body) for label, body in web.values() if label.kind == "copy"]
    assert all(body == web[label.of or ""][1] for label, body in copies)


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.host)
def test_templates_outweigh_articles(site: Site, web: dict[str, tuple[Truth, bytes]]) -> None:
    """The lines that all pages of a site share are two to three times its articles' text."""
    bodies = [body for label, body in web.values() if label.kind == "original" and site.host in label.url]
    rows = [[line for line in text_of(body).split("\n") if line.strip()] for body in bodies]
    seen = Counter(itertools.chain.from_iterable(map(set, rows)))
    shared = sum(len(line) for row in rows for line in row if seen[line] > len(rows) // 2)
    own = sum(len(line) for row in rows for line in row if seen[line] <= len(rows) // 2)
    assert 1.5 < shared / own < 3.5


def test_a_mirror_shares_the_article_not_the_template(web: dict[str, tuple[Truth, bytes]]) -> None:
    """Unstripped, a mirrored page looks like another page: only stripping finds it."""
    label, body = next(entry for entry in web.values() if entry[0].kind == "mirror")
    assert jaccard(text_of(body), text_of(web[label.of or ""][1])) < 0.5


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two runs with one seed write identical files; the labels lie outside the mirror."""
    for run in ("one", "two"):
        write(tmp_path / run / "web", tmp_path / run / "truth.jsonl", seed=1)
    files = sorted(file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*") if file.is_file())
    assert len(files) > 300
    assert all((tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in files)


def test_another_seed_other_articles() -> None:
    """The seed decides the articles."""
    assert next(pages(1))[1] != next(pages(2))[1]
