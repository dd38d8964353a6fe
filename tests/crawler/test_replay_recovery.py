"""Stopped, killed, out of room: run again, each page has one verdict, and the files are valid."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.crawler import running
from tests.crawler.running import (
    SLOWLY,
    assert_whole,
    replay,
    replaying,
    save_jsonl,
    urls_of,
    wait_for_lines,
    web,
)
from tests.servers import wait_for

pytestmark = pytest.mark.usefixtures("no_server_is_left")

PAGES = web(240)
SHORT_LEASE = ("--set", "index.lease=1s")  # what a killed worker had claimed is free again soon


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_jsonl(tmp_path / "pages.jsonl", PAGES)


def test_a_signal_drains_and_the_same_command_goes_on(saved: Path, out: Path) -> None:
    """SIGINT in mid-run: exit 11; run again: exit 0, and each page was judged once."""
    with replaying(saved, *SLOWLY, out=out) as run:
        wait_for_lines(out, 40, run)
        run.signal(signal.SIGINT)
        done = run.end()
    assert done.code == 11 and "the same command goes on" in done.err
    before = running.lines_written(out)
    assert 40 <= before < len(PAGES)
    done = replay(saved, out=out)
    assert done.code == 0 and f"{before:,} pages are done" in done.err
    assert_whole(out, urls_of(PAGES))


def test_a_signal_while_the_store_starts(saved: Path, out: Path) -> None:
    """A signal that comes before the first page is read is not lost, and leaves no server behind."""
    with replaying(saved, out=out) as run:
        wait_for((out / ".winnow/store").exists, "the start of the server")
        run.signal(signal.SIGINT)
        assert run.end().code == 11
    assert not running.servers_of(out)
    assert replay(saved, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_sigterm_drains_too(saved: Path, out: Path) -> None:
    """SIGTERM is what a service manager sends: it drains like Ctrl-C, also with several workers."""
    with replaying(saved, *SLOWLY, "--workers", "2", out=out) as run:
        wait_for_lines(out, 40, run)
        run.signal(signal.SIGTERM)
        assert run.end().code == 11
    assert replay(saved, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_stops_at_once(saved: Path, out: Path, workers: str) -> None:
    """The second SIGINT: exit 13, and the run can still be resumed."""
    with replaying(saved, *SLOWLY, "--set", "replay.batch=32", "--workers", workers, out=out) as run:
        wait_for_lines(out, 40, run)
        run.signal(signal.SIGINT)
        assert run.process.stderr is not None
        while b"once more stops at once" not in run.process.stderr.readline():
            pass
        run.signal(signal.SIGINT)
        assert run.end().code == 13
    wait_for(lambda: not running.servers_of(out), "the end of the server")
    assert replay(saved, *SHORT_LEASE, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_killed_in_mid_run(saved: Path, out: Path) -> None:
    """After kill -9 the server that was left running is used again, and each page is judged once."""
    with replaying(saved, *SLOWLY, out=out) as run:
        wait_for_lines(out, 40, run)
        running.kill(run)
    [server] = running.servers_of(out)
    with replaying(saved, *SLOWLY, out=out) as run:
        wait_for_lines(out, 80, run)
        assert running.servers_of(out) == [server]
        running.kill(run)
    assert replay(saved, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_killed_with_its_server(saved: Path, out: Path) -> None:
    """When the server is killed too, its append-only file has all that counts."""
    with replaying(saved, *SLOWLY, "--set", "store.appendfsync=always", out=out) as run:
        wait_for_lines(out, 40, run)
        running.kill(run)
    running.end_servers(out)
    assert replay(saved, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_the_parent_of_two_workers_is_killed(saved: Path, out: Path) -> None:
    """Workers whose parent is gone stop by themselves; run again, each page is judged once."""
    with replaying(saved, *SLOWLY, *SHORT_LEASE, "--workers", "2", out=out) as run:
        wait_for_lines(out, 40, run)
        children = running.children_of(run.pid)
        assert len(children) == 2
        running.kill(run)
    done = replay(saved, *SHORT_LEASE, out=out)
    assert done.code == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert_whole(out, urls_of(PAGES))


def test_all_of_two_workers_are_killed(saved: Path, out: Path) -> None:
    """Parent and children killed together: run again, each page is judged once."""
    with replaying(saved, *SLOWLY, *SHORT_LEASE, "--workers", "2", out=out) as run:
        wait_for_lines(out, 40, run)
        children = running.children_of(run.pid)
        running.kill(run)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert replay(saved, *SHORT_LEASE, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_a_killed_worker_is_started_again(saved: Path, out: Path) -> None:
    """One worker of two is killed: it is started again, says so, and the run ends well."""
    with replaying(saved, *SLOWLY, *SHORT_LEASE, "--workers", "2", out=out) as run:
        wait_for_lines(out, 40, run)
        os.kill(running.children_of(run.pid)[0], signal.SIGKILL)
        done = run.end()
    assert done.code == 0 and "died: starting it again" in done.err
    assert_whole(out, urls_of(PAGES))


def test_a_torn_tail_is_cut_off(saved: Path, out: Path) -> None:
    """What a kill left half written, in any file, is cut off at the next start."""
    with replaying(saved, *SLOWLY, out=out) as run:
        wait_for_lines(out, 40, run)
        running.kill(run)
    torn = [*(out / "kept").iterdir(), *(out / "verdicts").iterdir()]
    assert len(torn) == 3
    for file in torn:
        with file.open("ab") as tail:
            tail.write(b"\x1f\x8b\x08\0torn {" * 50)
    assert replay(saved, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_killed_with_rotated_files(saved: Path, out: Path) -> None:
    """Files that were begun after the last checkpoint go, those before it stay."""
    small = ("--set", "kept.max_file=20kB")
    with replaying(saved, *SLOWLY, *small, out=out) as run:
        wait_for_lines(out, 100, run)
        running.kill(run)
    newest = max((out / "kept").glob("*.warc.gz"))
    number = int(newest.name.removesuffix(".warc.gz")[-5:])
    assert number > 2
    (out / "kept" / newest.name.replace(f"{number:05d}", f"{number + 1:05d}")).write_bytes(b"torn")
    assert replay(saved, *small, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_the_disk_is_full(saved: Path, out: Path, valkey_url: str, namespace: str) -> None:
    """No room for the kept pages: exit 3 and the fix; with room again the run goes on."""
    store = ("--redis", valkey_url, "--set", f"index.namespace={namespace}", *SLOWLY)
    done = replay(saved, *store, out=out, file_limit=60_000)
    assert done.code == 3
    assert "no room left for" in done.err and "run the same command again" in done.err
    assert 0 < running.lines_written(out) < len(PAGES)
    assert replay(saved, *store[:4], out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_what_was_committed_before_a_crash_is_written_again(
    tmp_path: Path, out: Path, valkey_url: str, namespace: str
) -> None:
    """Stopped between commit and verdict line, a page is novel again, and its bytes are not lost."""
    short = [running.page(f"http://short.example/{n}", running.text(n, 12)) for n in range(100)]
    saved = save_jsonl(tmp_path / "short.jsonl", short)
    store = ("--redis", valkey_url, "--set", f"index.namespace={namespace}", "--set", "kept.warc=false")
    # verdict lines are longer than the text of such pages: it is their file that meets the limit
    done = replay(saved, *store, "--set", "replay.batch=50", out=out, file_limit=12_000)
    assert done.code == 3 and "verdicts/worker-0.jsonl" in done.err
    assert replay(saved, *store, out=out).code == 0
    novel = [line["url"] for line in running.verdicts(out) if line["verdict"] == "novel"]
    assert len(running.verdicts(out)) == 100
    assert sorted(novel) == sorted(text["url"] for text in running.kept_texts(out))


def test_a_full_disk_stops_all_workers(saved: Path, out: Path, valkey_url: str, namespace: str) -> None:
    """One worker without room ends the run with its message; with room again the run goes on."""
    store = ("--redis", valkey_url, "--set", f"index.namespace={namespace}", *SHORT_LEASE)
    done = replay(saved, *store, *SLOWLY, "--workers", "2", out=out, file_limit=30_000)
    assert done.code == 3 and done.err.count("no room left for") == 1
    assert replay(saved, *store, out=out).code == 0
    assert_whole(out, urls_of(PAGES))


def test_standard_input_is_resumed(saved: Path, out: Path) -> None:
    """Standard input cannot be wound back: given again, what is done is passed over."""
    raw = saved.read_bytes()
    lines = raw.splitlines(keepends=True)
    with replaying("-", *SLOWLY, out=out, stdin=subprocess.PIPE) as run:
        assert run.process.stdin is not None
        run.process.stdin.write(b"".join(lines[:100]))
        run.process.stdin.flush()
        wait_for_lines(out, 40, run)
        running.kill(run)
    assert replay("-", out=out, stdin=raw).code == 0
    assert_whole(out, urls_of(PAGES))


def test_silent_standard_input_does_not_hold_up_a_signal(saved: Path, out: Path) -> None:
    """Ctrl-C drains while nothing comes from standard input, and what was not read is not taken for done."""
    raw = saved.read_bytes()
    with replaying("-", *SLOWLY, out=out, stdin=subprocess.PIPE) as run:
        assert run.process.stdin is not None
        run.process.stdin.write(b"".join(raw.splitlines(keepends=True)[:100]))
        run.process.stdin.flush()
        wait_for_lines(out, 60, run)
        run.signal(signal.SIGINT)
        assert run.process.wait(10) == 11
    assert replay("-", out=out, stdin=raw).code == 0
    assert_whole(out, urls_of(PAGES))


def test_a_silent_pipe_does_not_hold_up_the_second_signal(tmp_path: Path, saved: Path, out: Path) -> None:
    """A named pipe that nobody writes to: Ctrl-C once more stops at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replaying(pipe, out=out) as run:
        wait_for(lambda: running.servers_of(out) and (out / "verdicts").exists(), "the worker")

        def ended() -> bool:
            run.signal(signal.SIGINT)
            return run.process.poll() is not None

        wait_for(ended, "the end of the run", timeout=10)
        assert run.process.returncode == 13
    wait_for(lambda: not running.servers_of(out), "the end of the server")
