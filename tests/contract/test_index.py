"""The claim protocol, step by step, on every store that Winnow serves."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from dedup.errors import IndexMismatch, StoreError
from dedup.judge import Copy, Judge, Novel, Outcome
from dedup.model import U64, SketchParams
from dedup.settings import SketchSettings
from dedup.store.client import Store
from dedup.store.index import Claim, Document, Found, NearIndex
from tests.texts import document, edited, text


def index(store: Store, namespace: str, *, owner: bytes = b"owner--1", lease: float = 60.0) -> NearIndex:
    return NearIndex(store, SketchParams(), namespace=namespace, owner=owner, lease=lease)


async def nothing(documents: Sequence[Document]) -> None:
    pass


async def settle(near: NearIndex, *documents: Document) -> list[Outcome]:
    return await Judge(near, SketchSettings()).settle(documents, nothing, nothing)


def n(number: int) -> bytes:
    return number.to_bytes(4, "big")


async def claim(near: NearIndex, document: Document) -> Claim:
    registered = (await near.register([document]))[0]
    await near.insert([registered])
    return registered


async def test_a_kept_page_is_found_by_its_copy(store: Store, namespace: str) -> None:
    """A page that resembles a kept one is its copy; one that does not is novel."""
    near = index(store, namespace)
    first, copy, other = text(1), edited(text(1), 7, 3), text(2)
    assert await settle(near, document(1, first)) == [Novel()]
    found, novel = await settle(near, document(2, copy), document(3, other))
    assert isinstance(found, Copy) and found.of.url == "http://site/1" and found.match.jaccard > 0.85
    assert novel == Novel()


async def test_a_batch_ends_as_if_its_pages_came_one_by_one(store: Store, namespace: str) -> None:
    """Of copies within one batch the first is kept, whatever their ids say about seniority."""
    base = text(3)
    batch = [document(9 - i, edited(base, i, 2)) for i in range(5)]
    outcomes = await settle(index(store, namespace), *batch)
    assert outcomes[0] == Novel()
    assert all(isinstance(o, Copy) and o.of.url == "http://site/9" for o in outcomes[1:])


@pytest.mark.parametrize("flips", [(0, 17, 40), (3, 4, 60), (1, 2, 3), (16, 33, 50), (15, 31, 63), (5,), ()])
async def test_simhashes_within_three_bits_meet(store: Store, namespace: str, flips: tuple[int, ...]) -> None:
    """Wherever up to three bits differ, a probe finds the page, and so does whoever is inserted next to it."""
    near = index(store, namespace)
    page, other = document(1, text(1)), document(2, text(2))
    simhash = page.fingerprint.simhash
    for flip in flips:
        simhash ^= 1 << flip
    twin = Document.of(
        other.id,
        msgspec.structs.replace(other.fingerprint, simhash=simhash),
        url="http://twin/",
        time=1,
        payload=bytes(8),
    )
    await near.insert([Claim(page, n(1))])
    assert await near.probe([twin]) == [{n(1)}]
    assert await near.insert([Claim(twin, n(2))]) == [{n(1)}]
    assert await near.insert([Claim(twin, n(2))]) == [{n(1)}]
    assert await near.probe([page]) == [{n(1), n(2)}]


async def test_a_probe_writes_nothing(store: Store, namespace: str) -> None:
    """A duplicate leaves no trace: it does not meet itself when it comes again."""
    near = index(store, namespace)
    await settle(near, document(1, text(1)))
    copy = document(2, edited(text(1), 1))
    before = await near.probe([copy])
    assert len(before[0]) == 1
    await settle(near, copy)
    assert await near.probe([copy]) == before


async def test_judged_again_after_a_crash_a_kept_page_is_novel_again(store: Store, namespace: str) -> None:
    """The same place in the input is the same document: it does not become a copy of itself."""
    near = index(store, namespace)
    page = document(1, text(1))
    assert await settle(near, page) == [Novel()]
    assert await settle(near, page) == [Novel()]
    again = (await settle(near, document(2, text(1), "http://site/1")))[0]
    assert isinstance(again, Copy) and again.match.how == "exact"


async def test_every_step_may_be_repeated(store: Store, namespace: str) -> None:
    """REGISTER, INSERT, WIN and COMMIT are idempotent: a client that retries changes nothing."""
    near = index(store, namespace)
    page = document(1, text(1))
    one = await claim(near, page)
    assert await near.insert([one]) == [set()]
    assert [s.kind for s in await near.win([one]) if s] == ["W"]
    assert [s.kind for s in await near.win([one]) if s] == ["W"]
    assert await near.commit([one]) == [True]
    assert await near.commit([one]) == [True]
    assert await near.probe([page]) == [{one.number}]


async def test_a_senior_stops_a_junior_from_winning(store: Store, namespace: str) -> None:
    """A challenge moves the version, so the junior's WIN fails and shows it the challenger."""
    near = index(store, namespace)
    junior, senior = document(2, text(1)), document(1, edited(text(1), 1))
    first = await claim(near, senior)
    held = await claim(near, junior)
    assert first.number < held.number
    await near.look([(held.number, first.number)])
    state = (await near.win([held]))[0]
    assert state is not None and state.kind == "P" and state.challengers == (first.number,)


async def test_a_junior_waits_until_its_senior_is_kept(store: Store, namespace: str) -> None:
    """A pending senior decides: once it is kept, the junior is its copy."""
    near = index(store, namespace)
    senior, junior = document(1, text(1)), document(2, edited(text(1), 1))
    held = await claim(near, senior)
    waiting = asyncio.create_task(settle(near, junior))
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done
    await near.win([held])
    await near.commit([held])
    outcome = (await waiting)[0]
    assert isinstance(outcome, Copy) and outcome.of.url == senior.stored.url


async def test_a_lease_that_ran_out_frees_the_others(store: Store, namespace: str) -> None:
    """A senior that went silent becomes void, and the junior that waited for it is kept."""
    near, silent = index(store, namespace), index(store, namespace, owner=b"owner--2", lease=0.05)
    senior, junior = document(1, text(1)), document(2, edited(text(1), 1))
    held = await claim(silent, senior)
    assert await settle(near, junior) == [Novel()]
    assert await near.win([held]) == await near.look([(held.number, b"")]) == [None]  # both see the void


async def test_a_lost_claim_cannot_be_won_or_committed(store: Store, namespace: str) -> None:
    """Void is for good: whoever was declared dead neither wins nor commits under that number."""
    near = index(store, namespace)
    page = document(1, text(1))
    stale = await claim(near, page)
    await near.win([stale])
    await near.release([stale])
    assert await near.commit([stale]) == [False]
    assert await near.win([stale]) == [None]


async def test_a_restarted_worker_voids_what_its_former_life_claimed(store: Store, namespace: str) -> None:
    """Nobody waits for a lease once the worker is back, and its page enters under a new number."""
    dead, back = index(store, namespace, owner=b"wrk1aaaa"), index(store, namespace, owner=b"wrk1bbbb")
    other = index(store, namespace, owner=b"wrk2aaaa")
    page = document(1, text(1))
    stale = await claim(dead, page)
    await dead.win([stale])
    await other.open()
    assert [s.kind for s in await other.look([(stale.number, b"")]) if s] == ["W"]
    await back.open()
    assert await other.look([(stale.number, b"")]) == [None]
    assert await settle(back, page) == [Novel()]
    assert stale.number not in (await back.probe([page]))[0]


async def test_a_claim_whose_answer_was_lost_is_made_again(store: Store, namespace: str) -> None:
    """A page that meets its own claim, since the first answer never came, is kept all the same, and once."""
    near = index(store, namespace)
    page = document(1, text(1))
    await claim(near, page)
    assert await settle(near, page) == [Novel()]
    assert len((await near.probe([page]))[0]) == 1


@pytest.fixture
def every_call_is_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Store.calls

    async def twice(self: Store, script: str, calls: Any) -> list[Any]:
        await once(self, script, calls)
        return await once(self, script, calls)

    monkeypatch.setattr(Store, "calls", twice)


@pytest.mark.usefixtures("every_call_is_sent_twice")
async def test_calls_whose_answers_are_lost_may_be_sent_again(store: Store, namespace: str) -> None:
    """With every script sent twice, all is as if it was sent once."""
    near = index(store, namespace)
    pages = [document(i, text(i)) for i in range(300)]
    assert await settle(near, *pages) == [Novel()] * 300
    copies = await settle(near, *(document(1000 + i, edited(text(i), 1)) for i in range(300)))
    assert all(isinstance(outcome, Copy) and outcome.of.url == f"http://site/{i}" for i, outcome in enumerate(copies))
    found = await near.probe(pages)
    assert len(set().union(*found)) == 300


@pytest.mark.usefixtures("every_call_is_sent_twice")
async def test_a_number_is_never_given_twice(valkey_url: str, namespace: str) -> None:
    """Numbers that a lost claim has used are not used again, the others are: records lie densely."""
    async with await Store.connect(valkey_url) as store:
        near = index(store, namespace)
        answers = await near.claim([document(i, text(i)) for i in range(100)])
        used = {number for answer in answers if isinstance(answer, Found) for number in answer.numbers}
        assert len(used) == 100
        fresh = {number.to_bytes(4, "big") for number in await near.numbers(100)}
        assert not used & fresh
        assert min(fresh) == n(100)


async def test_leases_of_a_live_process_do_not_run_out(store: Store, namespace: str) -> None:
    """However slow the disk is, a claim is held while its process is alive."""
    near, other = index(store, namespace, lease=0.3), index(store, namespace, owner=b"owner--2")
    writing, seen = asyncio.Event(), asyncio.Event()

    async def keep(documents: Sequence[Document]) -> None:
        writing.set()
        await seen.wait()

    slow = asyncio.create_task(Judge(near, SketchSettings()).settle([document(1, text(1))], keep, nothing))
    await asyncio.wait({slow, asyncio.ensure_future(writing.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert not slow.done(), slow.result()
    rival = asyncio.create_task(settle(other, document(2, edited(text(1), 1))))
    done, _ = await asyncio.wait({rival}, timeout=1.0)
    assert not done
    seen.set()
    assert await slow == [Novel()]
    assert isinstance((await rival)[0], Copy)


@pytest.mark.parametrize("kept", [True, False])
async def test_whoever_meets_a_winner_waits_outside(
    store: Store, namespace: str, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """A page that is R to a won claim enters no bucket before that claim is void; once it is kept, it is a copy."""
    near, other = index(store, namespace), index(store, namespace, owner=b"owner--2")
    winner = await claim(near, document(1, text(1)))
    await near.win([winner])
    entered = asyncio.Event()

    async def register(documents: Sequence[Document]) -> list[Claim]:
        entered.set()
        return await NearIndex.register(other, documents)

    monkeypatch.setattr(other, "register", register)
    late = asyncio.create_task(settle(other, document(2, edited(text(1), 1))))
    done, _ = await asyncio.wait({late}, timeout=0.3)
    assert not done and not entered.is_set()
    if kept:
        await near.commit([winner])
        assert isinstance((await late)[0], Copy) and not entered.is_set()
    else:
        await near.release([winner])
        assert await late == [Novel()] and entered.is_set()


async def test_bytes_are_taken_back_when_the_claim_was_lost(store: Store, namespace: str) -> None:
    """If the claim is void before COMMIT, the sink is told, and the page is judged anew."""
    near = index(store, namespace)
    page = document(1, text(1))
    log: list[str] = []

    async def keep(documents: Sequence[Document]) -> None:
        log.append("keep")
        if log == ["keep"]:
            number = (await near.probe([page]))[0].pop()
            await near.release([Claim(page, number)])

    async def take_back(documents: Sequence[Document]) -> None:
        log.append("take back")

    assert await Judge(near, SketchSettings()).settle([page], keep, take_back) == [Novel()]
    assert log == ["keep", "take back", "keep"]


async def test_exactly_one_of_each_cluster_is_kept(store: Store, namespace: str) -> None:
    """Eight judges race over the same planted clusters: never none, never two."""
    clusters = [[edited(text(100 + c), s, 2) for s in range(4)] for c in range(12)]
    rng = random.Random(5)

    async def worker(number: int) -> int:
        pages = [
            document(rng.getrandbits(60), copy, f"http://w{number}/{c}/{i}")
            for c, copies in enumerate(clusters)
            for i, copy in enumerate(copies)
        ]
        rng.shuffle(pages)
        near = index(store, namespace, owner=b"owner-%02d" % number)
        kept = 0
        for at in range(0, len(pages), 8):
            outcomes = await settle(near, *pages[at : at + 8])
            kept += sum(isinstance(outcome, Novel) for outcome in outcomes)
        return kept

    assert sum(await asyncio.gather(*(worker(n) for n in range(8)))) == len(clusters)


def claims_at(rows: U64) -> list[Claim]:
    """Return claims of documents that stand in these buckets, whatever their texts are."""
    one = document(1, text(1))
    return [Claim(msgspec.structs.replace(one, buckets=row), n(i)) for i, row in enumerate(rows, 1)]


async def all_stand(near: NearIndex, claims: Sequence[Claim]) -> bool:
    """Return whether a probe of each document finds it."""
    found = await near.probe([claim.document for claim in claims])
    return all(claim.number in numbers for claim, numbers in zip(claims, found, strict=True))


async def assert_each_stands_in_each(near: NearIndex, rows: U64, claims: Sequence[Claim]) -> None:
    """Look for each document by one of its buckets alone, the others being in other groups."""
    for at in range(0, len(rows), 700):
        some = rows[at : at + 700]
        alone = np.random.default_rng(at).integers(2**56, 2**64, some.shape, dtype=np.uint64)
        which = np.arange(len(some)) % some.shape[1]
        alone[np.arange(len(some)), which] = some[np.arange(len(some)), which]
        looking = [Claim(new.document, old.number) for new, old in zip(claims_at(alone), claims[at:], strict=False)]
        assert await all_stand(near, looking)


async def shape(near: NearIndex) -> tuple[int, int]:
    """Return how many leaves and records the first group says that it has."""
    head = await near.store.get(near.keys.stems[0] + b":b") or b""
    records, _limit, _fold, span, split = struct.unpack_from("<IIBHH", head)
    return span + 3 * split, records


async def records_in(near: NearIndex) -> int:
    """Return how many records stand in the leaves, those without a slot included."""
    pattern = near.namespace.encode() + b":*}:%c:*"
    leaves = await near.store.ask([("GET", key) async for key in near.store.scan(pattern % b"b")])
    spilled = await near.store.ask([("HVALS", key) async for key in near.store.scan(pattern % b"s")])
    slots = (np.frombuffer(leaf, np.uint8).reshape(-1, 7) for leaf in leaves)
    without_slot = sum(len(records) // 7 for rows in spilled for records in rows)
    return sum(int((slot[:, 3:] != 0xFF).any(axis=1).sum()) for slot in slots) + without_slot


async def test_buckets_split_and_lose_nobody(store: Store, namespace: str) -> None:
    """However often the leaves of a group split, and their rows grow, each document stands in each of its buckets."""
    near = index(store, namespace)
    rows = np.random.default_rng(1).integers(0, 2**56, (11_000, 19), dtype=np.uint64)  # all in the first group
    claims = claims_at(rows)
    for at in range(0, len(claims), 50):
        await near.insert(claims[at : at + 50])
    leaves, records = await shape(near)
    assert leaves >= 4 and records == await records_in(near) == rows.size
    await assert_each_stands_in_each(near, rows, claims)
    await near.release(claims[:50])
    found = await near.probe([claim.document for claim in claims[:50]])
    assert not any(claim.number in numbers for claim, numbers in zip(claims, found, strict=False))
    assert await all_stand(near, claims[50:90])
    assert await shape(near) == (leaves, await records_in(near))


async def test_buckets_split_by_further_bits(store: Store, namespace: str) -> None:
    """A group with leaves for millions of pages has lost nobody on the way there."""
    near = index(store, namespace)
    rows = np.random.default_rng(1).integers(0, 2**56, (100, 19), dtype=np.uint64)
    *claims, last = claims_at(rows)
    await near.insert(claims)
    await store.ask([("SETRANGE", near.keys.stems[0] + b":b", 0, (20_000_000).to_bytes(4, "little"))])
    for _ in range(100):  # so many records want more leaves, and each call makes some
        await near.insert([last])
    assert (await shape(near))[0] >= 256 and await records_in(near) == rows.size
    await assert_each_stands_in_each(near, rows, [*claims, last])


@pytest.mark.parametrize("key", [b":b:\0\3", b":s:\0\1"])
async def test_a_split_that_meets_a_foreign_key_moves_nothing(store: Store, namespace: str, key: bytes) -> None:
    """What stands where a new leaf would be is named and stays; no record is lost by it."""
    near = index(store, namespace)
    rows = np.random.default_rng(1).integers(0, 2**56, (40, 19), dtype=np.uint64)
    *claims, last = claims_at(rows)
    await near.insert(claims)
    stem = near.keys.stems[0]
    await store.ask([("SETRANGE", stem + b":b", 0, (20_000_000).to_bytes(4, "little")), ("SET", stem + key, "theirs")])
    with pytest.raises(StoreError, match="is not Winnow's"):
        for _ in range(10):
            await near.insert([last])
    assert await store.get(stem + key) == b"theirs"
    await store.ask([("DEL", stem + key)])
    await near.insert([last])
    assert (await shape(near))[0] == 4
    await assert_each_stands_in_each(near, rows, [*claims, last])


async def test_many_documents_in_one_bucket_are_all_found(store: Store, namespace: str) -> None:
    """A row that has many more records than slots is read whole, and stays whole when some in its midst leave."""
    near = index(store, namespace)
    claims = claims_at(np.repeat(np.random.default_rng(1).integers(0, 2**64, (1, 19), dtype=np.uint64), 120, axis=0))
    await near.insert(claims)
    assert (await near.probe([claims[0].document]))[0] == {claim.number for claim in claims}
    gone, left = claims[10:113], claims[:10] + claims[113:]
    await near.release(gone)
    assert (await near.probe([left[0].document]))[0] == {claim.number for claim in left}
    await near.insert(gone[:20])
    assert (await near.probe([left[0].document]))[0] == {claim.number for claim in [*left, *gone[:20]]}
    assert await records_in(near) == 19 * (len(left) + 20)


@pytest.mark.parametrize("flip", [0, 0xFFFFFFFF])
async def test_bits_alike_within_a_row_are_not_its_end(store: Store, namespace: str, flip: int) -> None:
    """Tags of zeros, or of ones, and numbers with many of them, before and behind others in their row."""
    near = index(store, namespace)
    tags = [tag ^ flip & 0xFFFFFF for tag in (0, 0x010000, 0, 0x0100, 0, 5)]
    numbers = [number ^ flip for number in (1 << 24, 1 << 16, 1 << 8, 1, 3 << 24, 3 << 16)]
    rows = np.array([[tag + (row << 51) for row in range(19)] for tag in tags], np.uint64)
    claims = [Claim(one.document, n(number)) for one, number in zip(claims_at(rows), numbers, strict=True)]
    for claim in claims:
        await near.insert([claim])
        assert await all_stand(near, [claim])
    assert await all_stand(near, claims) and await records_in(near) == 19 * len(claims)
    for claim in claims[1:]:
        await near.release([claim])
    assert await records_in(near) == 19 and await all_stand(near, claims[:1])


async def test_strangers_in_a_bucket_cost_one_more_step(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who shares a bucket with kept and with void pages that it does not resemble wins without entering the arena."""
    async with await Store.connect(valkey_url) as store:
        near = index(store, namespace)
        kept, gone, page = (document(i, text(i)) for i in range(3))
        assert await settle(near, kept) == [Novel()]
        void = await claim(near, gone)
        await store.run("release", [([near.keys.group_of(void.number)], [void.number])])
        monkeypatch.setattr(near, "register", None)
        shared = np.concatenate([page.buckets[:5], kept.buckets[5:9], gone.buckets[9:13], page.buckets[13:]])
        meets_both = msgspec.structs.replace(page, buckets=shared)
        assert await settle(near, meets_both) == [Novel()]
        found = (await near.probe([meets_both]))[0]
        assert void.number in found and len(found) == 3
        copy, own = document(9, edited(text(2), 1)), max(found)
        assert await near.claim([copy], [found - {own}]) == [Found({own})]


async def test_other_parameters_in_a_namespace_are_an_error(store: Store, namespace: str) -> None:
    """An index made with other parameters is refused by name, not opened as an empty one."""
    await index(store, namespace).open()
    other = NearIndex(store, SketchParams(bands=18, rows=7), namespace=namespace, owner=b"owner--1", lease=60.0)
    with pytest.raises(IndexMismatch, match=r"bands is 12 there and 18 here.*index\.namespace"):
        await other.open()


async def test_a_foreign_value_under_our_name_is_an_error(store: Store, namespace: str) -> None:
    """A namespace that another program uses is named, not overwritten."""
    await store.set_if_absent(f"{namespace}:params".encode(), b"hello")
    with pytest.raises(StoreError, match="is not Winnow's"):
        await index(store, namespace).open()
