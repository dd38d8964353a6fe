"""`import dedup`: compare two texts, judge pages against an index."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import dedup
from dedup.errors import IndexMismatch
from dedup.settings import Settings
from tests.crawler.running import FOOTER, MENU, page
from tests.texts import edited, text

# compare


def test_compare_finds_a_copy() -> None:
    """A text with three words changed is a copy, with its similarity and the rule that says so."""
    found = dedup.compare(text(1), edited(text(1), 1, 3))
    assert found.duplicate and 0.85 < found.jaccard < 1 and found.distance <= 64
    assert "jaccard" in found.rule or "distance" in found.rule


def test_compare_tells_different_texts_apart() -> None:
    """Two texts with no sentence in common are no copies."""
    found = dedup.compare(text(1), text(2))
    assert not found.duplicate and found.jaccard < 0.1


@pytest.mark.parametrize("words", [0, 1, 5, 9, 10, 11, 199, 200, 201, 3000])
def test_compare_with_itself(words: int) -> None:
    """At every length a text is a copy of itself, at distance 0."""
    found = dedup.compare(text(1, words), text(1, words))
    assert (found.duplicate, found.jaccard, found.distance) == (True, 1.0, 0)


def test_compare_reads_html() -> None:
    """What starts with a tag is a page: its markup does not count."""
    html = f"<html><script>var x = 1</script><p>{text(1)}"
    assert dedup.compare(html, text(1)).jaccard == 1.0


def test_compare_is_symmetric() -> None:
    """R is symmetric: the order of two texts does not matter."""
    a, b = text(1), edited(text(1), 2, 8)
    assert dedup.compare(a, b) == dedup.compare(b, a)


def test_the_public_names() -> None:
    """The library's surface is two names."""
    assert dedup.__all__ == ["compare", "open"]


def test_importing_is_light() -> None:
    """`import dedup` loads neither numpy nor redis before they are needed."""
    script = "import sys, dedup; print([m for m in ('numpy', 'redis', 'selectolax') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# open


def own(namespace: str) -> Settings:
    return msgspec.structs.replace(Settings(), index=msgspec.structs.replace(Settings().index, namespace=namespace))


async def test_a_page_judged_twice_is_an_exact_duplicate(valkey_url: str, namespace: str) -> None:
    """The first time it is novel, the second time a copy of itself."""
    async with dedup.open(redis_url=valkey_url, settings=own(namespace)) as d:
        first = await d.judge("http://e.example/", text(1))
        again = await d.judge("http://e.example/", text(1))
    assert first.verdict == "novel"
    assert (again.verdict, again.how, again.of, again.cluster) == (
        "duplicate",
        "exact",
        "http://e.example/",
        first.cluster,
    )


async def test_near_copies_and_others(valkey_url: str, namespace: str) -> None:
    """An edited copy is a duplicate with its similarity, another text is novel."""
    async with dedup.open(redis_url=valkey_url, settings=own(namespace)) as d:
        await d.judge("http://a.example/", text(1))
        near = await d.judge("http://b.example/", edited(text(1), 1, 3))
        other = await d.judge("http://c.example/", text(2))
    assert (near.verdict, near.of, other.verdict) == ("duplicate", "http://a.example/", "novel")
    assert near.jaccard is not None and 0.85 < near.jaccard < 1


async def test_concurrent_copies_have_one_original(valkey_url: str, namespace: str) -> None:
    """Twenty judges of copies at once: one is novel, the others are its copies."""
    async with dedup.open(redis_url=valkey_url, settings=own(namespace)) as d:
        pages = [(f"http://e.example/{n}", edited(text(1), n, 1)) for n in range(20)]
        verdicts = await asyncio.gather(*(d.judge(url, words) for url, words in pages))
    [novel] = [v for v in verdicts if v.verdict == "novel"]
    assert {v.of for v in verdicts if v is not novel} == {novel.url}


async def test_a_known_template_is_stripped(valkey_url: str, namespace: str) -> None:
    """Once the site has shown enough pages, what it repeats does not count as content."""
    async with dedup.open(redis_url=valkey_url, settings=own(namespace)) as d:
        verdicts = [await d.judge(*page(f"http://e.example/{n}", text(n, 100))) for n in range(12)]
        alone = await d.judge(*page("http://e.example/empty", ""))
    assert (verdicts[0].stripped, verdicts[-1].stripped, verdicts[-1].lines) == (0, 2, 3)
    assert verdicts[-1].words == 100 and len((MENU + FOOTER).split()) > 0
    assert (alone.verdict, alone.rule) == ("thin", "nothing left once stripped")


async def test_a_page_without_words_is_thin(valkey_url: str, namespace: str) -> None:
    """Nothing to compare is a verdict, not an error."""
    async with dedup.open(redis_url=valkey_url, settings=own(namespace)) as d:
        verdicts = [await d.judge("http://e.example/", html) for html in ("", "<p></p>", b"\0", "!!!")]
    assert {v.verdict for v in verdicts} == {"thin"}


async def test_bytes_are_decoded(valkey_url: str, namespace: str) -> None:
    """The same page as text and as bytes in another charset is the same page."""
    russian = "<p>" + "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 3
    async with dedup.open(redis_url=valkey_url, settings=own(namespace)) as d:
        await d.judge("http://a.example/", russian)
        other = await d.judge(
            "http://b.example/", russian.encode("cp1251"), content_type="text/html; charset=windows-1251"
        )
    assert (other.verdict, other.how) == ("duplicate", "exact")


async def test_an_index_in_a_folder_stays(tmp_path: Path) -> None:
    """dedup.open(path=...) finds next time what it kept this time."""
    async with dedup.open(path=tmp_path / "index") as d:
        assert (await d.judge("http://e.example/", text(1))).verdict == "novel"
    async with dedup.open(path=tmp_path / "index") as d:
        assert (await d.judge("http://e.example/", text(1))).how == "exact"
    assert not (tmp_path / "index" / "valkey.pid").exists()


async def test_an_index_of_no_place_is_forgotten() -> None:
    """dedup.open() alone works, and starts empty each time."""
    for _ in range(2):
        async with dedup.open() as d:
            assert (await d.judge("http://e.example/", text(1))).verdict == "novel"


async def test_other_parameters_are_refused(valkey_url: str, namespace: str) -> None:
    """An index is not opened with parameters that it was not made with."""
    settings = own(namespace)
    async with dedup.open(redis_url=valkey_url, settings=settings):
        pass
    other = msgspec.structs.replace(settings, sketch=msgspec.structs.replace(settings.sketch, seed=2))
    with pytest.raises(IndexMismatch, match="seed is 1 there and 2 here"):
        async with dedup.open(redis_url=valkey_url, settings=other):
            pass
