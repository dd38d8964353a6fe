"""The life of an index beside the judging, on every store that Winnow serves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from dedup.errors import InputError, StoreError
from dedup.judge import Copy, Judge, Novel, Outcome
from dedup.model import SketchParams
from dedup.settings import SketchSettings
from dedup.store import life
from dedup.store.census import LineCensus, Sighting
from dedup.store.client import Store
from dedup.store.index import Claim, Document, NearIndex
from dedup.text import tokenize
from tests.texts import document, edited, text


async def opened(store: Store, namespace: str) -> NearIndex:
    near = NearIndex(store, SketchParams(), namespace=namespace, owner=b"owner--1", lease=60.0)
    await near.open()
    return near


async def settle(near: NearIndex, documents: Sequence[Document]) -> list[Outcome]:
    async def nothing(_: Sequence[Document]) -> None:
        pass

    return await Judge(near, SketchSettings()).settle(documents, nothing, nothing)


async def filled(store: Store, namespace: str, count: int = 40) -> NearIndex:
    near = await opened(store, namespace)
    await settle(near, [document(n, text(n)) for n in range(count)])
    return near


async def crowded(store: Store, namespace: str) -> NearIndex:
    """Return an index with so many records, of nobody, that each group has a leaf."""
    near = await opened(store, namespace)
    rows = np.random.default_rng(1).integers(0, 2**64, (2000, 19), dtype=np.uint64)
    one = document(1, text(1))
    nobody = enumerate((msgspec.structs.replace(one, buckets=row) for row in rows), 1_000_000)
    await near.insert([Claim(each, number.to_bytes(4, "big")) for number, each in nobody])
    return near


async def test_a_forgotten_page_is_novel_again(store: Store, namespace: str) -> None:
    """Its claim and its buckets are gone; its neighbours are found as before."""
    near = await filled(store, namespace)
    copy = document(900, edited(text(7), 1))
    assert isinstance((await settle(near, [copy]))[0], Copy)
    gone = await life.forget(near, "http://site/7")
    assert (gone.documents, gone.records) == (1, 19)
    assert await near.probe([document(901, text(7))]) == [set()]
    assert await settle(near, [copy]) == [Novel()]
    others = await settle(near, [document(1000 + n, text(n)) for n in range(40) if n != 7])
    assert all(isinstance(outcome, Copy) for outcome in others)


async def test_a_page_among_many_is_forgotten(store: Store, namespace: str) -> None:
    """Its records are found in leaves as they are in a small index, and nobody else's go."""
    near = await crowded(store, namespace)
    await settle(near, [document(n, text(n)) for n in range(20)])
    gone = await life.forget(near, "http://site/7")
    assert (gone.documents, gone.records) == (1, 19)
    assert (await life.stats(near)).records == 2000 * 19 + 19 * 19
    assert await near.probe([document(901, text(7))]) == [set()]
    others = await settle(near, [document(1000 + n, text(n)) for n in range(20) if n != 7])
    assert all(isinstance(outcome, Copy) for outcome in others)


async def test_a_url_that_is_part_of_another_is_not_forgotten(store: Store, namespace: str) -> None:
    """Only the page with just this URL goes."""
    near = await opened(store, namespace)
    urls = ["http://site/a", "http://site/a/a", "xhttp://site/a"]
    await settle(near, [document(n, text(n), url) for n, url in enumerate(urls)])
    assert (await life.forget(near, "http://site/a")).documents == 1
    found = await settle(near, [document(10 + n, text(n)) for n in range(3)])
    assert [isinstance(outcome, Copy) for outcome in found] == [False, True, True]


async def test_what_is_not_kept_cannot_be_forgotten(store: Store, namespace: str) -> None:
    """The error names the URL, and says that copies leave nothing in the index."""
    near = await filled(store, namespace, 3)
    with pytest.raises(InputError, match=r"http://nowhere/.*copies leave nothing"):
        await life.forget(near, "http://nowhere/")


async def test_the_census_stays_when_a_page_is_forgotten(store: Store, namespace: str) -> None:
    """A site's template is not unlearned with one page."""
    near = await filled(store, namespace, 3)
    census = LineCensus(store, near.keys, max_lines=1000)
    lines = Sighting("site", b"12345678", tokenize("Menu\nNews").lines)
    await census.observe([lines])
    await life.forget(near, "http://site/1")
    assert (await census.frequent([lines]))["site"].pages == 1


async def test_stats_count_what_is_there(store: Store, namespace: str) -> None:
    """Pages, records, claims and sites are exact; memory has its parts."""
    near = await filled(store, namespace)
    held = (await near.register([document(99, text(99))]))[0]
    census = LineCensus(store, near.keys, max_lines=1000)
    await census.observe([Sighting("a site", b"12345678", tokenize("Menu").lines)])
    found = await life.stats(near)
    assert (found.pages, found.records, found.claims, found.sites) == (40, 40 * 19, 1, 1)
    assert sum(found.pages_by_node.values()) == 40
    assert len(found.memory_by_node) == (3 if store.cluster else 1)
    assert found.documents.bytes > 40 * 110 and found.buckets.bytes > 40 * 19 * 7 and found.census.bytes > 50
    await near.release([held])


async def test_a_dropped_index_is_gone_and_others_stay(store: Store, namespace: str) -> None:
    """Nothing of the namespace is left; a namespace whose name begins alike is not touched."""
    near, other = await filled(store, namespace), await filled(store, f"{namespace}x", 3)
    assert await life.drop(store, namespace) > 100
    with pytest.raises(InputError, match="there is no index"):
        await life.open_as_made(store, namespace)
    assert await settle(await opened(store, namespace), [document(1, text(1))]) == [Novel()]
    assert near.namespace != other.namespace
    assert (await life.stats(other)).pages == 3


async def test_an_index_of_a_newer_schema_is_refused(store: Store, namespace: str) -> None:
    """The error says which schema it is, and what to do."""
    newer = msgspec.json.encode({"schema": 99, "params": msgspec.to_builtins(SketchParams())})
    await store.set_if_absent(f"{namespace}:params".encode(), newer)
    with pytest.raises(StoreError, match=r"has schema 99, this Winnow knows \d+: use a newer Winnow.*index drop"):
        await opened(store, namespace)


@pytest.mark.parametrize(
    ("suffix", "command"),
    [
        (b":b", ("HSET", "field", "value")),
        (b":b", ("SET", "no sizes of ours")),
        (b":s:\0\0", ("SET", "no hash")),
        (b":s:\0\0", ("HSET", *(word for row in range(125) for word in (str(row), "no records")))),
        (b":k:0", ("HSET", "field", "value")),
        (b":k:0", ("SET", "something that is no record at all")),
        (b":p", ("SET", "no hash")),
        (b":p", ("HSET", "field", "value")),
    ],
)
async def test_a_foreign_key_in_our_namespace_is_named(
    store: Store, namespace: str, suffix: bytes, command: tuple[str, ...]
) -> None:
    """Whatever another program put there, the key is named, with a way out; nothing of it is overwritten."""
    near = await opened(store, namespace)
    name, *words = command
    await store.ask([(name, stem + suffix, *words) for stem in near.keys.stems])
    before = await store.ask([("DUMP", stem + suffix) for stem in near.keys.stems])
    documents = [document(n, text(n)) for n in range(3)]
    with pytest.raises(StoreError, match=rf"the key {namespace}:.*is not Winnow's.*index drop"):
        await near.open()
        await settle(near, documents)
        await near.commit(await near.register(documents))
    assert await store.ask([("DUMP", stem + suffix) for stem in near.keys.stems]) == before


async def test_foreign_records_in_a_bucket_are_passed_over(store: Store, namespace: str) -> None:
    """Records of the right length that mean nothing change no verdict, also where they fill their rows."""
    near = await crowded(store, namespace)
    leaves = [stem + b":b:\0\0" for stem in near.keys.stems]
    lengths = await store.ask([("STRLEN", leaf) for leaf in leaves])
    await store.ask([("SET", leaf, b"foreign" * (n // 7)) for leaf, n in zip(leaves, lengths, strict=True)])
    pages = [document(100 + n, text(n)) for n in range(20)]
    assert await settle(near, pages) == [Novel()] * 20
    found = await settle(near, [document(200 + n, edited(text(n), 1)) for n in range(20)])
    assert all(isinstance(outcome, Copy) for outcome in found)


@pytest.mark.parametrize(
    ("suffix", "command"),
    [
        (b":b", ("SETRANGE", "8", "\0")),
        (b":b:\0\0", ("SET", "no rows")),
        (b":b:\0\0", ("DEL",)),
    ],
)
async def test_a_leaf_that_was_overwritten_is_named(
    store: Store, namespace: str, suffix: bytes, command: tuple[str, ...]
) -> None:
    """In an index in use, too, what is not as we left it is an error that names the key."""
    near = await crowded(store, namespace)
    name, *words = command
    await store.ask([(name, stem + suffix, *words) for stem in near.keys.stems])
    with pytest.raises(StoreError, match=rf"the key {namespace}:.*is not Winnow's.*index drop"):
        await settle(near, [document(1, text(1))])


@pytest.mark.parametrize("command", [("SET", "no rows"), ("HSET", "field", "value")])
async def test_a_foreign_key_where_a_leaf_would_be(store: Store, namespace: str, command: tuple[str, ...]) -> None:
    """Leaves come as an index grows: what stands in their place then is named, and stays."""
    name, *words = command
    keys = [stem + b":b:\0\0" for stem in (await opened(store, namespace)).keys.stems]
    await store.ask([(name, key, *words) for key in keys])
    before = await store.ask([("DUMP", key) for key in keys])
    with pytest.raises(StoreError, match=rf"the key {namespace}:.*is not Winnow's.*index drop"):
        await crowded(store, namespace)
    assert await store.ask([("DUMP", key) for key in keys]) == before
