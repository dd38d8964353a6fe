"""The real command in a process of its own: start it, wait for an event, signal it, read what it wrote."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from warcio.archiveiterator import ArchiveIterator

from tests.crawler.archives import http, jsonl, record
from tests.servers import wait_for
from tests.texts import edited, text

ROOT = Path(__file__).resolve().parents[2]
SLOWLY = ("--set", "replay.batch=4")  # many small batches: a run that can be met in the middle
SMALL = ("--set", "census.min_pages=3")


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Running:
    """A `winnow` that was started and may still run."""

    def __init__(self, *args: str | Path, stdin: int | None = None, file_limit: int | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crawler.cli", *map(str, args)],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            preexec_fn=None if file_limit is None else lambda: _limit_files(file_limit),  # noqa: PLW1509
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, name: signal.Signals) -> None:
        self.process.send_signal(name)

    def end(self, stdin: bytes | None = None, timeout: float = 60.0) -> Done:
        """Wait for the end; no command ends with a traceback."""
        out, err = self.process.communicate(stdin, timeout)
        done = Done(self.process.returncode, out.decode(), err.decode())
        assert "Traceback" not in done.out + done.err, done.err
        return done


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def winnow(*args: str | Path, stdin: bytes | None = None, file_limit: int | None = None) -> Done:
    """Run a command to its end."""
    pipe = None if stdin is None else subprocess.PIPE
    run = Running(*args, stdin=pipe, file_limit=file_limit)
    try:
        return run.end(stdin)
    finally:
        run.process.kill()


def replay(*args: str | Path, out: Path, stdin: bytes | None = None, file_limit: int | None = None) -> Done:
    try:
        return winnow("replay", *args, "--out", out, stdin=stdin, file_limit=file_limit)
    except BaseException:
        end_servers(out)
        raise


@contextlib.contextmanager
def replaying(*args: str | Path, out: Path, stdin: int | None = None) -> Iterator[Running]:
    """Run a replay in the background; whatever is left of it ends with the block, but for its server."""
    run = Running("replay", *args, "--out", out, stdin=stdin)
    try:
        yield run
    except BaseException:
        end_servers(out)
        raise
    finally:
        children = children_of(run.pid)
        for pid in [run.pid, *children]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.communicate()


def children_of(pid: int) -> list[int]:
    """Return the worker processes of a run."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
            if parent == pid and b"crawler.worker" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def servers_of(out: Path) -> list[int]:
    """Return the processes of the embedded server of a folder, however they were started."""
    folder = str((out / ".winnow" / "store").resolve())
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") == folder:  # noqa: PTH115
                found.append(int(entry.name))
    return found


def end_servers(out: Path) -> None:
    for pid in servers_of(out):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lines_written(out: Path) -> int:
    return sum(log.read_bytes().count(b"\n") for log in (out / "verdicts").glob("*.jsonl"))


def wait_for_lines(out: Path, count: int, run: Running) -> None:
    """Wait until so many verdicts are on disk, while the run goes on."""
    wait_for(lambda: lines_written(out) >= count or run.process.poll() is not None, f"{count} verdict lines")
    assert run.process.poll() is None, f"the run ended before it could be met: {run.end()}"


def kill(run: Running) -> None:
    """kill -9, and wait until the process is gone."""
    run.process.kill()
    run.process.wait()


# What a run wrote


def verdicts(out: Path) -> list[dict[str, Any]]:
    logs = sorted((out / "verdicts").glob("*.jsonl"))
    return [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]


def in_order(out: Path) -> list[dict[str, Any]]:
    """Return the verdicts as the pages stand in the input: those that were held come later in the log."""
    return sorted(verdicts(out), key=lambda line: (line["source"], line["offset"]))


def by_url(out: Path) -> dict[str, dict[str, Any]]:
    return {line["url"]: line for line in verdicts(out)}


def summary(out: Path) -> dict[str, Any]:
    found = json.loads((out / "summary.json").read_text())
    assert isinstance(found, dict)
    return found


def clusters(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "clusters.jsonl").read_bytes().splitlines()]


class Kept(NamedTuple):
    """A record of a kept WARC."""

    type: str
    url: str
    headers: dict[str, str]
    body: bytes
    http: dict[str, str]


def kept_records(out: Path) -> list[Kept]:
    """Return the records of all kept WARC files as warcio reads them, each digest checked."""
    found: list[Kept] = []
    for file in sorted((out / "kept").glob("*.warc.gz")):
        with file.open("rb") as stream:
            for one in ArchiveIterator(stream, check_digests="raise"):
                body = one.content_stream().read()
                head = dict(one.rec_headers.headers)
                url = head.get("WARC-Target-URI", "")
                web = dict(one.http_headers.headers) if one.http_headers else {}
                found.append(Kept(one.rec_type, url, head, body, web))
        gzip.decompress(file.read_bytes())
    return found


def kept_texts(out: Path) -> list[dict[str, str]]:
    files = sorted((out / "kept").glob("*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def assert_whole(out: Path, urls: Sequence[str]) -> None:
    """Each page has one verdict, the kept files hold what the verdicts say, and nothing else."""
    lines = verdicts(out)
    assert Counter(line["url"] for line in lines) == Counter(urls)
    novel = sorted(line["url"] for line in lines if line["verdict"] == "novel")
    copies = sorted(line["url"] for line in lines if line["verdict"] == "duplicate")
    records = kept_records(out)
    assert sorted(r.url for r in records if r.type in ("response", "resource")) == novel
    assert sorted(r.url for r in records if r.type == "revisit") == copies
    assert sorted(text["url"] for text in kept_texts(out)) == novel
    assert all(line["of"] in novel for line in lines if line["verdict"] == "duplicate")
    assert summary(out)["finished"] is True
    assert summary(out)["pages"] == len(lines)


# What it reads

MENU = "Home, products, news and contact"
FOOTER = "Copyright by nobody at all, 2024"


class Saved(NamedTuple):
    url: str
    html: str


def page(url: str, words: str, title: str = "A page") -> Saved:
    return Saved(url, f"<!doctype html><title>{title}</title><p>{MENU}</p><p>{words}</p><p>{FOOTER}</p>")


def web(count: int, seed: int = 0) -> list[Saved]:
    """Return so many pages of two sites and of small ones: of ten six are originals, two copies, two edited.

    Small sites never show enough pages for the census: their pages are held until the input ends.
    """
    pages: list[Saved] = []
    for n in range(count):
        tens, ones = divmod(n, 10)
        original = text(seed + 10_000 * tens + ones % 6, 220)
        words = edited(original, n, 3) if ones in (7, 9) else original
        host = f"small{tens // 4}.example" if ones == 5 else f"site{ones % 2}.example"
        pages.append(page(f"http://{host}/{n}", words, title=f"Page {n}"))
    return pages


def urls_of(pages: Sequence[Saved]) -> list[str]:
    return [page.url for page in pages]


def save_jsonl(path: Path, pages: Sequence[Saved]) -> Path:
    path.write_bytes(jsonl(*({"url": p.url, "html": p.html, "time": 1714979289} for p in pages)))
    return path


def save_folder(path: Path, pages: Sequence[Saved]) -> Path:
    for saved in pages:
        file = path / saved.url.removeprefix("http://")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(saved.html)
    return path


def warc_records(pages: Sequence[Saved]) -> list[bytes]:
    return [record(http(p.html.encode()), url=p.url) for p in pages]


def save_warc(path: Path, pages: Sequence[Saved]) -> Path:
    raw = warc_records(pages)
    path.write_bytes(b"".join(gzip.compress(one, mtime=0) for one in raw) if path.suffix == ".gz" else b"".join(raw))
    return path
