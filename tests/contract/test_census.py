"""The line census on every store that Winnow serves."""

from __future__ import annotations

import numpy as np

from dedup.boilerplate import surviving
from dedup.store.census import LineCensus, Sighting
from dedup.store.client import Store
from dedup.store.keys import Keys
from dedup.text import tokenize


def census(store: Store, namespace: str, max_lines: int = 1000) -> LineCensus:
    return LineCensus(store, Keys(namespace, "digest"), max_lines=max_lines)


def page(number: int, text: str, site: str = "site") -> Sighting:
    return Sighting(site, number.to_bytes(8, "big"), tokenize(text).lines)


async def test_a_line_is_counted_once_a_page(store: Store, namespace: str) -> None:
    """A line that stands twice on a page counts once, and its digits don't matter."""
    lines = census(store, namespace)
    await lines.observe([page(1, "Menu\nMenu\nOne story"), page(2, "Menu\nAnother story")])
    seen = (await lines.observe([page(3, "menu\nYear 2024")]))["site"]
    assert seen.pages == 3
    assert sorted(seen.counts.tolist()) == [1, 3]
    again = (await lines.frequent([page(9, "Year 1999")]))["site"]
    assert (again.pages, again.counts.tolist()) == (3, [1])


async def test_a_page_in_flight_is_not_counted_twice(store: Store, namespace: str) -> None:
    """Read again after a crash, a page changes nothing; once done, its id is forgotten."""
    lines = census(store, namespace)
    both = [page(1, "Menu\nOne"), page(2, "Menu\nTwo")]
    await lines.observe(both[:1])
    seen = (await lines.observe(both))["site"]
    assert seen.pages == 2 and seen.counts.max() == 2
    await lines.done(both)
    assert (await lines.observe(both))["site"].pages == 4


async def test_sites_do_not_mix(store: Store, namespace: str) -> None:
    """The same line on another site is another line."""
    lines = census(store, namespace)
    seen = await lines.observe([page(1, "Menu", "one"), page(2, "Menu", "two"), page(3, "Menu", "two")])
    assert (seen["one"].pages, seen["two"].pages) == (1, 2)
    assert (seen["one"].counts.tolist(), seen["two"].counts.tolist()) == ([1], [2])


async def test_a_site_is_bounded_and_its_template_stays(store: Store, namespace: str) -> None:
    """Rare lines are forgotten first: the count of a line on every page stays exact."""
    lines = census(store, namespace, max_lines=100)
    for number in range(60):
        text = "Menu\nFooter\n" + "\n".join(
            f"story {chr(97 + number % 26)}{chr(97 + i)} {'x' * number}" for i in range(20)
        )
        seen = (await lines.observe([page(number, text)]))["site"]
    known = (await lines.frequent([page(99, "Menu\nFooter")]))["site"]
    assert (known.pages, known.counts.tolist()) == (60, [60, 60])
    kept = surviving(tokenize("Menu\nNews of today"), known.frequent(share=0.5, min_pages=10))
    assert kept.tolist() == [False, True]
    assert int(np.count_nonzero(seen.counts)) <= 22
