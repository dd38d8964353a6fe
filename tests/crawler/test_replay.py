"""`winnow replay`, the real command: pages in, one verdict each, and the files of the contract out."""

from __future__ import annotations

import gzip
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.crawler import running
from tests.crawler.archives import EPOCH, http, jsonl, members, record
from tests.crawler.running import (
    FOOTER,
    MENU,
    SLOWLY,
    Done,
    assert_whole,
    page,
    replay,
    replaying,
    save_folder,
    save_jsonl,
    save_warc,
    urls_of,
    wait_for_lines,
    web,
)
from tests.texts import edited, text

PAGES = web(120)

# one line of the contract in DESIGN.md
FIELDS = [
    *("url", "verdict", "how", "of", "cluster", "distance", "jaccard", "rule", "reason"),
    *("lines", "stripped", "words", "status", "time", "source", "offset"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A finished replay that tests may look at, but not change."""
    folder = tmp_path_factory.mktemp("finished")
    saved = save_warc(folder / "pages.warc.gz", PAGES)
    return folder / "out", replay(saved, out=folder / "out")


@pytest.fixture
def two_copies(tmp_path: Path) -> Path:
    """A page, its copy byte for byte, and a copy with three words changed."""
    original = text(1, 300)
    pages = [
        page("http://one.example/original", original),
        page("http://two.example/identical", original),
        page("http://two.example/edited", edited(original, 1, 3)),
    ]
    return save_warc(tmp_path / "copies.warc.gz", pages)


# One verdict a page, whatever the format


@pytest.mark.parametrize("kind", ["folder", "jsonl", "warc", "warc.gz"])
def test_each_page_of_an_input_has_one_verdict(tmp_path: Path, out: Path, kind: str) -> None:
    """Folder, JSONL, WARC and WARC.gz: as many verdict lines as pages, exit 0."""
    save = {"folder": save_folder, "jsonl": save_jsonl}.get(kind, save_warc)
    done = replay(save(tmp_path / f"pages.{kind}", PAGES), out=out)
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))


def test_each_page_of_standard_input_has_one_verdict(tmp_path: Path, out: Path) -> None:
    """A pipe is read like a file."""
    done = replay("-", out=out, stdin=save_warc(tmp_path / "pages.warc.gz", PAGES).read_bytes())
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))


def test_several_inputs_are_one_run(tmp_path: Path, out: Path) -> None:
    """A copy in the second input is a copy of the page in the first."""
    first = save_jsonl(tmp_path / "a.jsonl", [page("http://a.example/", text(1))])
    second = save_warc(tmp_path / "b.warc", [page("http://b.example/", text(1))])
    assert replay(first, second, out=out).code == 0
    line = running.by_url(out)["http://b.example/"]
    assert (line["verdict"], line["of"], line["source"]) == ("duplicate", "http://a.example/", str(second))


def test_verdict_lines_have_all_fields(finished: tuple[Path, Done]) -> None:
    """Every line has the fields of the contract, in its order; those that don't apply are null."""
    for line in running.verdicts(finished[0]):
        assert list(line) == FIELDS
        copy = line["verdict"] == "duplicate"
        assert [line[name] is not None for name in ("how", "of", "distance", "jaccard")] == [copy] * 4
        assert (line["status"], line["time"]) == (200, "2024-05-06T07:08:09Z")


def test_verdicts_are_right(finished: tuple[Path, Done]) -> None:
    """Of ten pages of the test web four are copies, each of its own original."""
    for n, line in enumerate(sorted(running.verdicts(finished[0]), key=lambda v: v["offset"])):
        tens, ones = divmod(n, 10)
        assert (line["verdict"] == "duplicate") == (ones >= 6), line
        if ones >= 6:
            assert line["of"] == PAGES[10 * tens + ones - 6].url
            assert line["how"] == ("exact" if ones in (6, 8) else line["how"])


def test_offsets_find_the_record(tmp_path: Path, finished: tuple[Path, Done]) -> None:
    """`source` and `offset` of a line are where the record begins."""
    for line in running.verdicts(finished[0])[:10]:
        with Path(line["source"]).open("rb") as file:
            file.seek(line["offset"])
            assert f"WARC-Target-URI: {line['url']}\r\n".encode() in gzip.GzipFile(fileobj=file).read(300)


def test_what_is_no_page_is_a_failed_line(tmp_path: Path, out: Path) -> None:
    """Responses that are no pages have a line with the reason; other records are only counted."""
    raw = [
        record(b"software: x\r\n", kind="warcinfo", media="application/warc-fields"),
        record(b"GET / HTTP/1.1\r\n\r\n", kind="request", media="application/http; msgtype=request"),
        record(http(b"\x89PNG", headers=["Content-Type: image/png"]), url="http://e.example/png"),
        record(http(b"", status=301, headers=["Location: /x"]), url="http://e.example/moved"),
        record(http(b"<p>No", status=404), url="http://e.example/gone"),
        record(http(text(1).encode()), url="http://e.example/page"),
    ]
    (tmp_path / "a.warc.gz").write_bytes(members(raw))
    assert replay(tmp_path / "a.warc.gz", out=out).code == 0
    reasons = {line["url"].rpartition("/")[2]: line["reason"] for line in running.verdicts(out)}
    assert reasons == {"png": "not html", "moved": "redirect", "gone": "status 404", "page": None}
    assert running.summary(out)["records"] == {"request": 1, "warcinfo": 1}


# summary.json and clusters.jsonl


def test_the_summary_adds_up(finished: tuple[Path, Done]) -> None:
    """summary.json counts what the verdict lines say."""
    out, done = finished
    summary, lines = running.summary(out), running.verdicts(out)
    counts = Counter(line["verdict"] for line in lines)
    assert summary["pages"] == len(lines) == sum(summary["verdicts"].values())
    assert {name: count for name, count in summary["verdicts"].items() if count} == counts
    assert summary["how"] == Counter(line["how"] for line in lines if line["how"])
    assert summary["bytes"] == sum(len(saved.html.encode()) for saved in PAGES)
    assert summary["seconds"] > 0 and summary["pages_per_second"] > 0
    assert f"{counts['novel']}" in done.out and str(out) in done.out.replace("\n", "")


def test_json_prints_the_summary(tmp_path: Path, out: Path) -> None:
    """--json puts summary.json on standard output, and nothing else."""
    done = replay(save_jsonl(tmp_path / "p.jsonl", PAGES[:20]), "--json", out=out)
    assert json.loads(done.out) == running.summary(out)


def test_quiet_prints_nothing(tmp_path: Path, out: Path) -> None:
    """--quiet leaves errors only."""
    done = replay(save_jsonl(tmp_path / "p.jsonl", PAGES[:20]), "--quiet", out=out)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_clusters_agree_with_the_verdicts(finished: tuple[Path, Done]) -> None:
    """clusters.jsonl is the duplicates, by the kept page they are copies of."""
    lines = running.by_url(finished[0])
    clusters = running.clusters(finished[0])
    members = [(c["cluster"], c["representative"], m["url"]) for c in clusters for m in c["members"]]
    assert sorted(members) == sorted(
        (v["cluster"], v["of"], v["url"]) for v in lines.values() if v["verdict"] == "duplicate"
    )
    for cluster in clusters:
        assert cluster["size"] == 1 + len(cluster["members"])
        assert lines[cluster["representative"]]["verdict"] == "novel"
        assert lines[cluster["representative"]]["cluster"] == cluster["cluster"]
        for member in cluster["members"]:
            line = lines[member["url"]]
            assert member == {key: line[key] for key in ("url", "how", "jaccard", "distance")}


# Kept pages


def test_kept_responses_are_the_pages(finished: tuple[Path, Done]) -> None:
    """The body of a kept response is the page's, and its header says what it is."""
    bodies = {saved.url: saved.html.encode() for saved in PAGES}
    responses = [r for r in running.kept_records(finished[0]) if r.type == "response"]
    for kept in responses:
        assert kept.body == bodies[kept.url]
        assert kept.http["Content-Type"] == "text/html"
        assert kept.http["Content-Length"] == str(len(kept.body))
        assert kept.headers["WARC-Date"] == "2024-05-06T07:08:09Z"
    ids = [kept.headers["WARC-Record-ID"] for kept in running.kept_records(finished[0])]
    assert len(set(ids)) == len(ids)


def test_pages_without_headers_are_resources(tmp_path: Path, out: Path) -> None:
    """JSONL has no HTTP headers: its pages are kept as resource records."""
    replay(save_jsonl(tmp_path / "p.jsonl", PAGES[:1]), out=out)
    info, kept = running.kept_records(out)
    assert (info.type, kept.type, kept.body) == ("warcinfo", "resource", PAGES[0].html.encode())
    assert kept.headers["Content-Type"] == "text/html; charset=utf-8"


def test_a_copy_is_a_revisit_of_the_kept_page(two_copies: Path, out: Path) -> None:
    """Byte for byte the same: the standard's profile; nearly the same: one of our own."""
    assert replay(two_copies, out=out).code == 0
    revisits = {r.url: r.headers for r in running.kept_records(out) if r.type == "revisit"}
    identical, near = revisits["http://two.example/identical"], revisits["http://two.example/edited"]
    for headers in (identical, near):
        assert headers["WARC-Refers-To-Target-URI"] == "http://one.example/original"
        assert headers["WARC-Refers-To-Date"] == "2024-05-06T07:08:09Z"
    assert identical["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert near["WARC-Profile"].startswith("urn:winnow:")


@pytest.mark.parametrize(("copies", "types"), [("none", ["response"]), ("full", ["response"] * 3)])
def test_copies_are_kept_as_told(two_copies: Path, out: Path, copies: str, types: list[str]) -> None:
    """kept.copies: none leaves them out, full keeps them whole."""
    assert replay(two_copies, "--set", f"kept.copies={copies}", out=out).code == 0
    assert [r.type for r in running.kept_records(out)[1:]] == types


def test_kept_text_is_stripped(finished: tuple[Path, Done]) -> None:
    """The kept text has url, title and the page's own words, without what its site repeats."""
    texts = running.kept_texts(finished[0])
    for kept in texts:
        assert list(kept) == ["url", "title", "text"]
        number = int(kept["url"].rpartition("/")[2])
        assert kept["title"] == f"Page {number}"
        assert (MENU in kept["text"]) == ("small" in kept["url"])
        assert (FOOTER in kept["text"]) == ("small" in kept["url"])
        assert text(10_000 * (number // 10) + number % 10, 220) in kept["text"]
    assert len(texts) == sum(line["verdict"] == "novel" for line in running.verdicts(finished[0]))


@pytest.mark.parametrize(("off", "left"), [("warc", ".jsonl.gz"), ("text", ".warc.gz")])
def test_kept_files_can_be_left_out(tmp_path: Path, out: Path, off: str, left: str) -> None:
    """kept.warc=false and kept.text=false write no such files."""
    saved = save_jsonl(tmp_path / "p.jsonl", PAGES[:20])
    assert replay(saved, "--set", f"kept.{off}=false", out=out).code == 0
    assert [file.name[-len(left) :] for file in (out / "kept").iterdir()] == [left]


def test_kept_files_are_rotated(tmp_path: Path, out: Path) -> None:
    """A new file is begun at kept.max_file, each with its own warcinfo, and nothing is lost."""
    saved = save_warc(tmp_path / "p.warc.gz", PAGES)
    assert replay(saved, "--set", "kept.max_file=20kB", "--set", "replay.batch=16", out=out).code == 0
    files = sorted((out / "kept").glob("*.warc.gz"))
    assert len(files) > 3 and all(file.stat().st_size <= 20_000 for file in files)
    infos = [r.headers["WARC-Filename"] for r in running.kept_records(out) if r.type == "warcinfo"]
    assert infos == [file.name for file in files]
    assert_whole(out, urls_of(PAGES))


# The same input, the same verdicts


def test_the_same_replay_twice_is_the_same(tmp_path: Path, finished: tuple[Path, Done]) -> None:
    """One worker, two new folders: verdict logs are identical byte for byte."""
    saved = finished[0].parent / "pages.warc.gz"
    assert replay(saved, out=tmp_path / "again").code == 0
    logs = [(folder / "verdicts/worker-0.jsonl").read_bytes() for folder in (finished[0], tmp_path / "again")]
    assert logs[0] == logs[1]


def test_verdicts_do_not_depend_on_batches(tmp_path: Path, finished: tuple[Path, Done]) -> None:
    """However the input is cut into batches, each page has the same verdict, once its site is known."""
    saved = finished[0].parent / "pages.warc.gz"
    assert replay(saved, "--set", "replay.batch=7", out=tmp_path / "again").code == 0
    one, other = running.by_url(finished[0]), running.by_url(tmp_path / "again")
    assert {url: (v["verdict"], v["of"]) for url, v in one.items()} == {
        url: (v["verdict"], v["of"]) for url, v in other.items()
    }


def test_two_workers_share_the_work(tmp_path: Path, out: Path, finished: tuple[Path, Done]) -> None:
    """--workers 2: each page exactly once, and as many kept as with one, within 1%."""
    done = replay(finished[0].parent / "pages.warc.gz", "--workers", "2", out=out)
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))
    one, two = (running.summary(folder)["verdicts"]["novel"] for folder in (finished[0], out))
    assert abs(one - two) <= 0.01 * one
    shares = [len(log.read_bytes().splitlines()) for log in (out / "verdicts").iterdir()]
    assert shares == [60, 60]
    assert not running.servers_of(out)


def test_a_users_own_server_is_used(tmp_path: Path, out: Path, valkey_url: str, namespace: str) -> None:
    """--redis: no embedded server, and a second run on that index finds its pages there, as exact copies."""
    saved = save_jsonl(tmp_path / "p.jsonl", PAGES[:6])
    store = ("--redis", valkey_url, "--set", f"index.namespace={namespace}")
    assert replay(saved, *store, out=out).code == 0
    assert not (out / ".winnow/store").exists()
    assert replay(saved, *store, out=tmp_path / "second").code == 0
    assert {(v["verdict"], v["how"]) for v in running.verdicts(tmp_path / "second")} == {("duplicate", "exact")}


def test_a_cluster_is_used(tmp_path: Path, out: Path, cluster_url: str, namespace: str) -> None:
    """--redis redis+cluster:// runs the same flow."""
    saved = save_jsonl(tmp_path / "p.jsonl", PAGES)
    done = replay(saved, "--redis", cluster_url, "--set", f"index.namespace={namespace}", out=out)
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))


# DIR


def test_a_busy_folder_says_so(tmp_path: Path, out: Path) -> None:
    """A second run on the same DIR while the first runs: exit 2, with the pid of the first."""
    saved = save_jsonl(tmp_path / "p.jsonl", web(300))
    with replaying(saved, *SLOWLY, out=out) as run:
        wait_for_lines(out, 8, run)
        done = replay(saved, out=out)
        assert done.code == 2
        assert f"is in use by process {run.pid}" in done.err and "--out" in done.err
        run.signal(signal.SIGINT)
        assert run.end().code == 11


def test_a_deep_folder_works(tmp_path: Path) -> None:
    """A DIR whose path is longer than a socket address may be."""
    out = tmp_path / "/".join(["a-rather-long-name-for-a-folder"] * 6)
    assert len(str(out)) > 150
    saved = save_jsonl(tmp_path / "p.jsonl", PAGES[:20])
    assert replay(saved, "--workers", "2", out=out).code == 0
    assert_whole(out, urls_of(PAGES[:20]))
    assert not running.servers_of(out)


def test_a_finished_replay_says_so(tmp_path: Path, out: Path) -> None:
    """Run again when all is done: exit 0, it says so, and nothing changes."""
    saved = save_jsonl(tmp_path / "p.jsonl", PAGES[:20])
    replay(saved, out=out)
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file() and file.name != "lock"}
    done = replay(saved, out=out)
    assert done.code == 0 and "is finished" in done.err
    assert {f: f.read_bytes() for f in out.rglob("*") if f.is_file() and f.name != "lock"} == before


def test_other_inputs_need_another_folder(tmp_path: Path, out: Path) -> None:
    """A DIR holds one replay: other paths are exit 2 with both names."""
    one, other = (save_jsonl(tmp_path / f"{n}.jsonl", PAGES[:10]) for n in "ab")
    replay(one, out=out)
    done = replay(other, out=out)
    assert done.code == 2
    assert f"holds a replay of {one}, not of {other}" in done.err and "another --out" in done.err


def test_an_input_that_changed_needs_another_folder(tmp_path: Path, out: Path) -> None:
    """An archive that grew since the run was begun is not taken for the same."""
    saved = save_jsonl(tmp_path / "a.jsonl", PAGES[:10])
    replay(saved, out=out)
    save_jsonl(saved, PAGES[:12])
    done = replay(saved, out=out)
    assert done.code == 2 and f"{saved} has changed since" in done.err


def test_another_store_needs_another_folder(tmp_path: Path, out: Path, valkey_url: str) -> None:
    """A run stays with its store: what it keeps is there."""
    saved = save_jsonl(tmp_path / "a.jsonl", PAGES[:10])
    replay(saved, out=out)
    done = replay(saved, "--redis", valkey_url, out=out)
    assert done.code == 2
    assert f"was begun with the store embedded, not {valkey_url}" in done.err


def test_a_resumed_run_keeps_its_workers(tmp_path: Path, out: Path) -> None:
    """Shares are fixed when a run is begun: another --workers is named and not followed."""
    saved = save_jsonl(tmp_path / "p.jsonl", web(200))
    with replaying(saved, *SLOWLY, "--workers", "2", out=out) as run:
        wait_for_lines(out, 8, run)
        run.signal(signal.SIGINT)
        assert run.end().code == 11
    done = replay(saved, "--workers", "3", out=out)
    assert done.code == 0 and "was begun with 2 workers" in done.err
    assert_whole(out, urls_of(web(200)))


def test_standard_input_has_one_reader(out: Path) -> None:
    """--workers 2 with standard input is exit 2 and says what to do instead."""
    done = replay("-", "--workers", "2", out=out, stdin=b"")
    assert done.code == 2 and "leave --workers out" in done.err


def test_times_are_the_pages_own(tmp_path: Path, out: Path) -> None:
    """`time` is when the page was fetched, not when it was judged."""
    (tmp_path / "a.jsonl").write_bytes(jsonl({"url": "http://e.example/", "text": text(1), "time": EPOCH}))
    replay(tmp_path / "a.jsonl", out=out)
    assert running.verdicts(out)[0]["time"] == "2024-05-06T07:08:09Z"
