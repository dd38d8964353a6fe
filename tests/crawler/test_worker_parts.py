"""The parts of a worker alone: ledger, warm-up, sinks, records, locks."""

from __future__ import annotations

import gzip
import io
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from crawler import warc
from crawler.counters import Counters, total
from crawler.hold import Reading, WarmUp
from crawler.ledger import Checkpoint, Ledger, write_whole
from crawler.rundir import EMBEDDED, RunDir
from crawler.sinks import AppendFile, Copied, Kept, Sinks
from dedup.boilerplate import site_of
from dedup.errors import OutputError
from dedup.model import Extract, Page, Place, Stored, Verdict
from dedup.settings import CensusSettings, KeptSettings
from dedup.store.census import LineCensus, Sighting
from dedup.store.client import Store
from dedup.store.keys import Keys
from dedup.text import tokenize
from tests.texts import content

# Ledger


def test_a_new_ledger_starts_at_the_beginning() -> None:
    """Nothing read, nothing done."""
    checkpoint = Checkpoint()
    Ledger(checkpoint).write_to(checkpoint)
    assert (checkpoint.mark, checkpoint.done) == ((0, 0), [])


def test_the_mark_waits_for_the_oldest_open_page() -> None:
    """Pages finished above an open one are ranges above the mark."""
    checkpoint, ledger = Checkpoint(), Ledger(Checkpoint())
    for ordinal in range(6):
        assert ledger.start((0, ordinal))
    for ordinal in (0, 2, 3, 5):
        ledger.finish((0, ordinal))
    ledger.write_to(checkpoint)
    assert (checkpoint.mark, checkpoint.done) == ((0, 1), [(0, 2, 3), (0, 5, 5)])
    ledger.finish((0, 1))
    ledger.write_to(checkpoint)
    assert (checkpoint.mark, checkpoint.done) == ((0, 4), [(0, 5, 5)])


def test_the_mark_passes_the_end_of_an_input() -> None:
    """An input that ended with all its pages done is behind the mark."""
    checkpoint, ledger = Checkpoint(), Ledger(Checkpoint())
    ledger.start((0, 0))
    ledger.end_of_input(0)
    ledger.write_to(checkpoint)
    assert checkpoint.mark == (0, 0)
    ledger.finish((0, 0))
    ledger.write_to(checkpoint)
    assert checkpoint.mark == (1, 0)


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    of=st.integers(1, 3),
    crashes=st.integers(0, 4),
    seed=st.integers(0, 2**32),
)
def test_whatever_crashes_each_page_is_finished_once(sizes: list[int], of: int, crashes: int, seed: int) -> None:
    """Finish in any order, crash anywhere: what a checkpoint says is done, and only that, is not read again."""
    rng = random.Random(seed)
    share = rng.randrange(of)
    finished: list[tuple[int, int]] = []
    saved = Checkpoint()
    for attempt in range(crashes + 1):
        ledger, unsaved = Ledger(saved, of), []
        positions = [
            (number, ordinal)
            for number, size in enumerate(sizes)
            for ordinal in range(share, size, of)
            if (number, ordinal) >= saved.mark
        ]
        fate = rng.randrange(len(positions) + 1) if attempt < crashes else len(positions)
        open_pages = []
        for number in range(len(sizes)):
            for position in [p for p in positions[:fate] if p[0] == number]:
                if ledger.start(position):
                    open_pages.append(position)
                if open_pages and rng.random() < 0.6:
                    unsaved.append(open_pages.pop(rng.randrange(len(open_pages))))
                    ledger.finish(unsaved[-1])
                if rng.random() < 0.3:
                    saved = Checkpoint()
                    ledger.write_to(saved)
                    finished, unsaved = finished + unsaved, []
            if fate < len(positions) and (fate == 0 or positions[fate - 1][0] <= number):
                break
            if number >= saved.mark[0]:
                ledger.end_of_input(number)
        if fate == len(positions):
            for position in open_pages:
                ledger.finish(position)
            saved = Checkpoint()
            ledger.write_to(saved)
            finished += unsaved + open_pages
    everything = [(n, o) for n, size in enumerate(sizes) for o in range(share, size, of)]
    assert sorted(finished) == everything


def test_a_checkpoint_survives_a_round_trip(tmp_path: Path) -> None:
    """What is saved is what is loaded, and no draft is left beside it."""
    checkpoint = Checkpoint((1, 7), [(1, 9, 12)], {"verdicts": 5}, Counters(pages=3), {"request": 2}, 1.5)
    checkpoint.save(tmp_path / "c.json")
    assert Checkpoint.load(tmp_path / "c.json") == checkpoint
    assert [file.name for file in tmp_path.iterdir()] == ["c.json"]


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    """It is an error with the file's name, not a fresh start that would judge pages twice."""
    write_whole(tmp_path / "c.json", b"{")
    with pytest.raises(OutputError, match=r"c\.json is damaged"):
        Checkpoint.load(tmp_path / "c.json")


# RunDir


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    """While one owner lives, the next is told its pid; afterwards the folder is free."""

    def opened() -> RunDir:
        return RunDir.open(tmp_path / "o", kind="replay", workers=None, store=EMBEDDED, inputs=[("a", 1)])

    first = opened()
    with pytest.raises(OutputError, match=f"in use by process {os.getpid()}"):
        opened()
    first.close()
    second = opened()
    assert second.resumed and second.run == first.run
    second.close()


# Warm-up


def reading(number: int, url: str, words: str) -> Reading:
    page = Page(url, Place("s", number, 0), words.encode())
    tokens = tokenize(words)
    sighting = Sighting(site_of(url), number.to_bytes(8, "big"), tokens.lines)
    return Reading((0, number), page, Extract(words), tokens, sighting)


def readings(*numbers: int, site: str = "a.example") -> list[Reading]:
    names = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
    return [reading(n, f"http://{site}/{n}", f"Menu\nstory {names[n % 10]} {site}") for n in numbers]


async def warm_up(url: str, namespace: str, settings: CensusSettings) -> tuple[WarmUp, Store]:
    store = await Store.connect(url)
    return WarmUp(LineCensus(store, Keys(namespace, "d"), max_lines=1000), settings), store


async def test_a_site_is_held_until_it_is_known(valkey_url: str, namespace: str) -> None:
    """Its first pages wait, then all come out in input order, stripped alike."""
    warm, store = await warm_up(valkey_url, namespace, CensusSettings(min_pages=4))
    async with store:
        assert await warm.admit(readings(0, 1)) == []
        assert await warm.admit(readings(2)) == []
        released = await warm.admit(readings(3, 4))
        later = await warm.admit(readings(5))
    assert [r.position[1] for r, _ in released] == [0, 1, 2, 3, 4]
    assert {c.stripped for _, c in released} == {1}
    assert [(r.position[1], c.stripped) for r, c in later] == [(5, 1)]


async def test_what_is_held_comes_out_at_the_end(valkey_url: str, namespace: str) -> None:
    """A site that never shows enough pages is judged when the input ends, unstripped."""
    warm, store = await warm_up(valkey_url, namespace, CensusSettings(min_pages=4))
    async with store:
        await warm.admit(readings(0, 2))
        await warm.admit(readings(1, site="b.example"))
        released = await warm.flush()
        assert await warm.flush() == []
    assert [(r.position[1], c.stripped) for r, c in released] == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize(
    "bound", [{"hold_pages": 2}, {"hold_bytes": 500}, {"hold_window": 2}], ids=["pages", "bytes", "window"]
)
async def test_the_hold_is_bounded(valkey_url: str, namespace: str, bound: dict[str, int]) -> None:
    """At a bound the site that waited longest is judged as it is, and is not held again."""
    settings = CensusSettings(min_pages=100, **bound)  # type: ignore[arg-type]
    warm, store = await warm_up(valkey_url, namespace, settings)
    async with store:
        assert await warm.admit(readings(0, site="a.example")) == []
        released = []
        for n in range(1, 9):
            released += await warm.admit(readings(n, site=f"{n}.example"))
        assert released[0][0].position == (0, 0)
        again = await warm.admit(readings(9, site="a.example"))
    assert (0, 9) in [r.position for r, _ in again]


async def test_the_census_can_be_switched_off(valkey_url: str, namespace: str) -> None:
    """Nothing is held and nothing stripped."""
    warm, store = await warm_up(valkey_url, namespace, CensusSettings(enabled=False))
    async with store:
        assert [c.stripped for _, c in await warm.admit(readings(0, 1))] == [0, 0]


# Sinks


def kept(number: int, words: str = "some words of a page") -> Kept:
    page = Page(f"http://e.example/{number}", Place("s", number, 0), words.encode())
    return Kept(number.to_bytes(8, "big"), page, Extract(words, title=f"Page {number}"), content(words))


def verdict(number: int) -> Verdict:
    return Verdict(url=f"http://e.example/{number}", verdict="novel")


def sinks(folder: Path, checkpoint: Checkpoint, settings: KeptSettings | None = None) -> Sinks:
    return Sinks(folder, "worker-0", 0, checkpoint, settings or KeptSettings(), "1")


def urls_in(folder: Path) -> list[str]:
    found = []
    for file in sorted((folder / "kept").glob("*.warc.gz")):
        with file.open("rb") as stream:
            found += [r.rec_headers.get_header("WARC-Target-URI") for r in ArchiveIterator(stream)]
    return [url.rpartition("/")[2] for url in found if url]


def test_an_append_file_is_cut_to_what_counts(tmp_path: Path) -> None:
    """Opened with a length, everything behind it is gone."""
    file = AppendFile(tmp_path / "f", 0)
    file.append(b"whole")
    file.append(b"torn")
    file.close()
    again = AppendFile(tmp_path / "f", 5)
    again.append(b"!")
    again.close()
    assert (tmp_path / "f").read_bytes() == b"whole!"


def test_an_append_file_that_lost_bytes_is_refused(tmp_path: Path) -> None:
    """A file shorter than what was written is an error, not a hole."""
    (tmp_path / "f").write_bytes(b"who")
    with pytest.raises(OutputError, match="has 3 bytes, 5 were written"):
        AppendFile(tmp_path / "f", 5)


@pytest.mark.parametrize("max_file", [2**30, 600])
def test_pages_are_taken_back(tmp_path: Path, max_file: int) -> None:
    """take_back() removes single pages of the last keep(), also over files that were begun meanwhile."""
    out = sinks(tmp_path, Checkpoint(), KeptSettings(max_file=max_file))
    out.keep([kept(n) for n in range(3)])
    out.keep([kept(n) for n in range(3, 9)])
    out.take_back({n.to_bytes(8, "big") for n in (3, 6, 8)})
    out.close()
    assert urls_in(tmp_path) == ["0", "1", "2", "4", "5", "7"]


@pytest.mark.parametrize("max_file", [2**30, 600])
def test_what_came_after_the_checkpoint_is_cut_off(tmp_path: Path, max_file: int) -> None:
    """A new start with the old checkpoint goes on where it was taken."""
    checkpoint = Checkpoint()
    settings = KeptSettings(max_file=max_file)
    out = sinks(tmp_path, checkpoint, settings)
    out.keep([kept(0), kept(1)])
    out.write([verdict(0), verdict(1)], [])
    out.note_lengths(checkpoint)
    out.keep([kept(n) for n in range(2, 6)])
    out.write([verdict(2)], [])
    out.close()
    out = sinks(tmp_path, checkpoint, settings)
    out.keep([kept(2)])
    out.write([verdict(2)], [])
    out.close()
    assert urls_in(tmp_path) == ["0", "1", "2"]
    assert len((tmp_path / "verdicts/worker-0.jsonl").read_bytes().splitlines()) == 3
    texts = b"".join(gzip.decompress(f.read_bytes()) for f in sorted((tmp_path / "kept").glob("*.jsonl.gz")))
    assert texts.count(b"\n") == 3


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    """No clock and no chance in what is written: two sinks write the same files."""
    for name in ("a", "b"):
        out = sinks(tmp_path / name, Checkpoint())
        out.keep([kept(n) for n in range(5)])
        out.write([verdict(n) for n in range(5)], [Copied(b"document", kept(9).page, STORED)])
        out.close()
    files = [sorted(f for f in (tmp_path / n).rglob("*") if f.is_file()) for n in ("a", "b")]
    assert len(files[0]) == 3
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]


# WARC records

STORED = Stored(b"exact---", b"content-", 0, 5, (), "http://kept.example/", 86400, b"payload-")


@given(
    url=st.text(max_size=40),
    headers=st.lists(st.tuples(st.text(min_size=1, max_size=10), st.text(max_size=20)), max_size=4),
    body=st.binary(max_size=200),
    status=st.integers(0, 999),
)
def test_any_page_makes_valid_records(url: str, headers: list[tuple[str, str]], body: bytes, status: int) -> None:
    """Whatever stands in URL, headers or body, warcio reads back one record of each kind, body intact."""
    page = Page(url, Place("s", 0, 0), body, status, tuple(headers), time=5)
    raw = warc.gzip_member(warc.page(page, b"document", now=1), 6)
    raw += warc.gzip_member(warc.revisit(page, b"document", STORED, now=1), 6)
    found = [(r.rec_type, r.raw_stream.read()) for r in ArchiveIterator(io.BytesIO(raw), no_record_parse=True)]
    assert [kind for kind, _ in found] == ["response" if headers else "resource", "revisit"]
    assert found[0][1].endswith(body)
    assert not headers or found[0][1][: -len(body) or None].endswith(b"\r\n\r\n")


def test_headers_of_the_encoded_body_are_renamed() -> None:
    """Bodies are written decoded: what spoke of the encoded one is kept under another name."""
    headers = (("Content-Encoding", "gzip"), ("content-length", "7"), ("X-Other", "stays"))
    record = warc.page(Page("http://e/", Place("s", 0, 0), b"decoded", 200, headers), b"document", now=1)
    assert b"X-Archive-Orig-Content-Encoding: gzip\r\n" in record
    assert b"X-Archive-Orig-content-length: 7\r\n" in record
    assert b"X-Other: stays\r\n" in record and b"\r\nContent-Length: 7\r\n\r\ndecoded" in record


def test_counters_add_up() -> None:
    """The counters of several workers are those of one."""
    one, other = Counters(), Counters()
    one.count(Verdict(url="", verdict="novel"), size=5)
    other.count(Verdict(url="", verdict="duplicate", how="exact"), size=3)
    other.count(Verdict(url="", verdict="failed", reason="truncated: 1 of 2"), damaged=True)
    whole = total([one, other])
    assert (whole.pages, whole.novel, whole.duplicate, whole.failed, whole.damaged, whole.bytes) == (
        3,
        1,
        1,
        1,
        1,
        8,
    )
    assert (whole.how, whole.reasons) == ({"exact": 1}, {"truncated": 1})
