"""`winnow status`, `winnow forget`, `winnow index`: the real commands on the folder of a run, and on a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.crawler import running
from tests.crawler.running import replay, save_jsonl, web, winnow

pytestmark = pytest.mark.usefixtures("no_server_is_left")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_jsonl(tmp_path / "pages.jsonl", web(60))


def test_status_of_a_finished_run(saved: Path, out: Path) -> None:
    """Counters and the index's budget; the folder's server is started for it and stopped again."""
    assert replay(saved, out=out).code == 0
    done = winnow("status", "--out", out)
    assert done.code == 0
    assert "replay in" in done.out and "finished" in done.out and "60 pages" in done.out
    assert "bytes a page" in done.out and "documents" in done.out and "buckets" in done.out
    told = json.loads(winnow("status", "--out", out, "--json").out)
    assert told["run"]["pages"] == 60 and told["run"]["state"] == "finished"
    assert told["index"]["pages"] == told["run"]["verdicts"]["novel"]
    assert told["index"]["bytes_a_page"] > 100


def test_status_of_a_run_that_goes_on(tmp_path: Path, out: Path) -> None:
    """It attaches to the running server, and leaves it running."""
    pages = save_jsonl(tmp_path / "many.jsonl", web(400))
    with running.replaying(pages, *running.SLOWLY, out=out) as run:
        running.wait_for_lines(out, 20, run)
        done = winnow("status", "--out", out)
        ended = run.end()
    assert done.code == 0 and "running" in done.out
    assert ended.code == 0


def test_a_forgotten_page_is_novel_in_the_next_run(saved: Path, out: Path, tmp_path: Path, valkey_url: str) -> None:
    """On one server: what was a copy of the forgotten page is kept by the next run."""
    store = ("--redis", valkey_url, "--set", "index.namespace=forget")
    assert replay(saved, *store, out=out).code == 0
    kept = next(line["url"] for line in running.verdicts(out) if line["verdict"] == "novel")
    done = winnow("forget", kept, *store)
    assert done.code == 0 and kept in done.out and "1 kept page" in done.out
    again = winnow("forget", kept, *store)
    assert again.code == 5 and kept in again.err
    assert replay(saved, *store, out=tmp_path / "second").code == 0
    novel = [line["url"] for line in running.verdicts(tmp_path / "second") if line["verdict"] == "novel"]
    assert novel == [kept]


def test_an_index_is_dropped_only_with_yes(saved: Path, out: Path) -> None:
    """Without --yes nothing is deleted, and the error says what would be."""
    assert replay(saved, out=out).code == 0
    refused = winnow("index", "drop", "--out", out)
    assert refused.code == 2 and "--yes" in refused.err
    assert json.loads(winnow("index", "stats", "--out", out, "--json").out)["pages"] > 0
    assert winnow("index", "drop", "--out", out, "--yes").code == 0
    gone = winnow("index", "stats", "--out", out)
    assert gone.code == 5 and "there is no index" in gone.err


def test_commands_say_where_to_look(tmp_path: Path) -> None:
    """Neither a folder nor a store, and a folder without a run, are errors that say what to give."""
    assert "--out DIR" in winnow("status").err and winnow("status").code == 2
    done = winnow("index", "stats", "--out", tmp_path)
    assert done.code == 5 and "holds no run" in done.err
