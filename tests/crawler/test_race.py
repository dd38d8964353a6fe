"""The race in a small form: real workers over one index, see tests/race.py for the large one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import servers
from tests.race import Plan, race

SMALL = Plan(workers=4, texts=500, clusters=60, length=220)
SLOWLY = ("--set", "replay.batch=16")


@pytest.mark.parametrize("kind", ["valkey", "cluster", pytest.param("redis", marks=pytest.mark.debian)])
def test_of_each_text_exactly_one_page_is_kept(kind: str, tmp_path: Path) -> None:
    """Four workers with the same texts in other orders: nothing is kept twice, nothing is lost."""
    with servers.restartable(kind, tmp_path / "store") as store:
        result = race(SMALL, 1, tmp_path, store, SLOWLY)
    assert result.clean, result


@pytest.mark.parametrize("kind", ["valkey", "cluster"])
def test_workers_that_are_killed_change_nothing(kind: str, tmp_path: Path) -> None:
    """With workers killed again and again: the same, and every kept page is in a whole WARC record."""
    with servers.restartable(kind, tmp_path / "store") as store:
        result = race(SMALL._replace(kill=1.0, kills=6), 2, tmp_path, store, SLOWLY)
    assert result.clean, result
    assert result.kills > 0


@pytest.mark.parametrize("kind", ["valkey", "cluster"])
def test_a_store_that_restarts_changes_nothing(kind: str, tmp_path: Path) -> None:
    """With the store killed twice in mid-run and started again: the same."""
    with servers.restartable(kind, tmp_path / "store") as store:
        result = race(SMALL._replace(restarts=2), 3, tmp_path, store, SLOWLY)
    assert result.clean, result
