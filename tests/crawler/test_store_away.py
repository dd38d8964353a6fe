"""The user's store goes away in mid-run: it is waited for, and whatever comes then, each page has one verdict."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests import servers
from tests.crawler import running
from tests.crawler.running import (
    SLOWLY,
    Running,
    assert_whole,
    replay,
    replaying,
    save_jsonl,
    urls_of,
    wait_for_lines,
    web,
)
from tests.servers import Restartable, wait_for

PAGES = web(480)  # enough of them are left when the store is back for the run to say so
SHORT_LEASE = ("--set", "index.lease=1s")  # what a killed worker had claimed is free again soon
GIVES_UP = ("--set", "store.patience=1s")

one_or_two = pytest.mark.parametrize("workers", ["1", "2"])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_jsonl(tmp_path / "pages.jsonl", PAGES)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Restartable]:
    with servers.restartable("valkey", tmp_path / "store") as store:
        yield store


def heard(run: Running, words: str) -> str:
    """Return what the run says up to the line with these words."""
    assert run.process.stderr is not None
    told = ""
    while words not in told:
        line = run.process.stderr.readline().decode()
        assert line, f"the run ended without saying {words!r}: {told}"
        told += line
    return told


def wait_for_workers(out: Path, lines: int, run: Running, workers: str) -> None:
    """Wait until so many verdicts are on disk, and each worker is under way: one that begins waits for no store."""
    wait_for_lines(out, lines, run)
    checkpoints = [out / f".winnow/worker-{n}.json" for n in range(int(workers))]
    wait_for(lambda: all(file.exists() for file in checkpoints), "a checkpoint of each worker")


def lose(store: Restartable, run: Running, out: Path, workers: str) -> str:
    """Kill the store once the run is under way; return what the run says of it."""
    wait_for_workers(out, 40, run, workers)
    store.kill()
    told = heard(run, "waiting")
    assert running.lines_written(out) < len(PAGES)
    return told


def goes_on(store: Restartable, run: Running) -> None:
    """Bring the store back, and see that the run says so and ends well."""
    store.start()
    heard(run, "the store is back: going on")
    assert run.end().code == 0


@one_or_two
def test_it_comes_back(saved: Path, out: Path, store: Restartable, workers: str) -> None:
    """The run says that it waits and that the store is back, and ends as if nothing had been."""
    with replaying(saved, *SLOWLY, "--redis", store.url, "--workers", workers, out=out) as run:
        told = lose(store, run, out, workers)
        assert store.url in told and "does not answer" in told
        goes_on(store, run)
    assert_whole(out, urls_of(PAGES))


def test_a_cluster_comes_back(saved: Path, out: Path, tmp_path: Path) -> None:
    """All nodes of a Cluster go: it is waited for until it is one again and serves all slots."""
    with (
        servers.restartable("cluster", tmp_path / "cluster") as store,
        replaying(saved, *SLOWLY, "--redis", store.url, out=out) as run,
    ):
        lose(store, run, out, "1")
        goes_on(store, run)
    assert_whole(out, urls_of(PAGES))


@one_or_two
def test_it_goes_more_than_once(saved: Path, out: Path, store: Restartable, workers: str) -> None:
    """Patience is for each time, not for all of them together."""
    with replaying(saved, *SLOWLY, "--redis", store.url, "--workers", workers, out=out) as run:
        for lines in (20, 80, 140):
            wait_for_workers(out, lines, run, workers)
            store.kill()
            heard(run, "waiting")
            store.start()
            heard(run, "the store is back: going on")
        assert run.end().code == 0
    assert_whole(out, urls_of(PAGES))


@one_or_two
def test_it_stays_away(saved: Path, out: Path, store: Restartable, workers: str) -> None:
    """Exit 8 when patience ends, once and with a hint; started again, the same command ends well."""
    command = (saved, *SLOWLY, *GIVES_UP, "--redis", store.url, "--workers", workers)
    with replaying(*command, out=out) as run:
        lose(store, run, out, workers)
        done = run.end()
    assert done.code == 8
    assert done.err.count("winnow: ") == 1
    assert "is it running and reachable?" in done.err and "(waited " in done.err
    store.start()
    assert replay(*command, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


@one_or_two
def test_a_resumed_run_waits_for_it(saved: Path, out: Path, store: Restartable, workers: str) -> None:
    """A run that was under way and is resumed while the store is away waits, too."""
    command = (saved, *SLOWLY, "--redis", store.url, "--workers", workers)
    with replaying(*command, *GIVES_UP, out=out) as run:
        lose(store, run, out, workers)
        assert run.end().code == 8
    with replaying(*command, out=out) as run:
        heard(run, "waiting")
        goes_on(store, run)
    assert_whole(out, urls_of(PAGES))


@one_or_two
@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_is_away(
    saved: Path, out: Path, store: Restartable, workers: str, name: signal.Signals
) -> None:
    """Nobody wants to wait any more: exit 11 soon, and the same command goes on when the store is back."""
    command = (saved, *SLOWLY, "--redis", store.url, "--workers", workers)
    with replaying(*command, out=out) as run:
        lose(store, run, out, workers)
        run.signal(name)
        done = run.end(timeout=10)
    assert done.code == 11 and "the same command goes on from here" in done.err
    store.start()
    assert replay(*command, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


@one_or_two
def test_it_stands_still(saved: Path, out: Path, store: Restartable, workers: str) -> None:
    """A server that does not move for two seconds, less than the timeout of a call, is not even worth a word."""
    with redis.Redis.from_url(store.url) as client:
        pid = int(client.info("server")["process_id"])
    with replaying(saved, *SLOWLY, "--redis", store.url, "--workers", workers, out=out) as run:
        wait_for_lines(out, 40, run)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2)  # this long is what is tested
        before = running.lines_written(out)
        os.kill(pid, signal.SIGCONT)
        done = run.end()
    assert done.code == 0 and "waiting" not in done.err
    assert before < len(PAGES)
    assert_whole(out, urls_of(PAGES))


@contextlib.contextmanager
def listening_at(port: int) -> Iterator[socket.socket]:
    """Listen where the store was: who calls there can be counted."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(30)
        yield listener


def test_workers_that_are_killed_while_it_is_away(saved: Path, out: Path, store: Restartable) -> None:
    """They are started again, and wait like those before them."""
    command = (saved, *SLOWLY, *SHORT_LEASE, "--redis", store.url, "--workers", "2")
    with replaying(*command, out=out) as run:
        lose(store, run, out, "2")
        killed = running.children_of(run.pid)
        assert len(killed) == 2
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        heard(run, "worker-0 died: starting it again")
        wait_for(lambda: len(set(running.children_of(run.pid)) - set(killed)) == 2, "new workers")
        with listening_at(int(store.url.rpartition(":")[2].partition("/")[0])) as listener:
            for _ in range(12):  # more often than two workers call that don't wait
                listener.accept()[0].close()
        assert run.process.poll() is None
        goes_on(store, run)
    assert_whole(out, urls_of(PAGES))


def test_one_worker_that_is_killed_while_it_is_away(saved: Path, out: Path, store: Restartable) -> None:
    """The other one is let be, and both go on."""
    command = (saved, *SLOWLY, *SHORT_LEASE, "--redis", store.url, "--workers", "2")
    with replaying(*command, out=out) as run:
        lose(store, run, out, "2")
        killed, other = running.children_of(run.pid)
        os.kill(killed, signal.SIGKILL)
        heard(run, "died: starting it again")
        wait_for(lambda: len(set(running.children_of(run.pid)) - {killed}) == 2, "a new worker")
        assert other in running.children_of(run.pid)
        goes_on(store, run)
    assert_whole(out, urls_of(PAGES))
