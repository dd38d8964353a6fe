"""Bad input, folders and stores: a clear error or a `failed` line, the documented exit code, nothing lost."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.crawler import running
from tests.crawler.archives import http, jsonl, members, record
from tests.crawler.running import (
    assert_whole,
    page,
    replay,
    save_jsonl,
    save_warc,
    urls_of,
    warc_records,
    web,
)
from tests.texts import text

pytestmark = pytest.mark.usefixtures("no_server_is_left")

PAGES = web(20)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_jsonl(tmp_path / "good.jsonl", PAGES)


def reasons(out: Path) -> list[str]:
    return [line["reason"] for line in running.verdicts(out) if line["verdict"] == "failed"]


# Paths


def test_a_missing_path_among_good_ones(saved: Path, tmp_path: Path, out: Path) -> None:
    """Exit 5 and the missing path's name; the rest is judged, also when run again."""
    for _ in range(2):
        done = replay(tmp_path / "missing.warc", saved, out=out)
        assert done.code == 5
        assert f"{tmp_path}/missing.warc: no such file or folder" in done.err
        assert_whole(out, urls_of(PAGES))


def test_only_missing_paths(tmp_path: Path, out: Path) -> None:
    """Exit 5, and no output folder is made."""
    done = replay(tmp_path / "missing.warc", out=out)
    assert done.code == 5 and "nothing to replay" in done.err
    assert not out.exists()


def test_a_format_that_is_not_read(saved: Path, tmp_path: Path, out: Path) -> None:
    """A zip among good paths is named with what can be read; the rest is judged."""
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04")
    done = replay(tmp_path / "a.zip", saved, out=out)
    assert done.code == 5 and "a.zip: is a zip file; this version reads WARC" in done.err
    assert_whole(out, urls_of(PAGES))


@pytest.mark.parametrize("name", ["empty.warc", "empty.warc.gz"])
def test_an_empty_archive(saved: Path, tmp_path: Path, out: Path, name: str) -> None:
    """An archive without a byte is a failed line and exit 5."""
    (tmp_path / name).write_bytes(b"")
    assert replay(tmp_path / name, saved, out=out).code == 5
    assert reasons(out) == ["damaged: empty archive"]
    assert len(running.verdicts(out)) == 1 + len(PAGES)


# Damaged archives


def test_a_truncated_gzip(saved: Path, tmp_path: Path, out: Path) -> None:
    """What stands before the cut is judged, the cut is a failed line with its offset, and reading goes on."""
    whole = save_warc(tmp_path / "cut.warc.gz", web(10, seed=7))
    raw = whole.read_bytes()
    whole.write_bytes(raw[:-100])
    assert replay(whole, saved, out=out).code == 5
    lines = [line for line in running.in_order(out) if line["source"] == str(whole)]
    assert [line["verdict"] == "failed" for line in lines] == [False] * 9 + [True]
    assert "truncated" in lines[-1]["reason"] and lines[-1]["offset"] > lines[-2]["offset"]
    assert len(running.verdicts(out)) == 10 + len(PAGES)
    assert running.summary(out)["damaged"] == 1


def test_a_gzip_with_a_broken_middle(tmp_path: Path, out: Path) -> None:
    """Bytes overwritten within one member cost that member only."""
    parts = [gzip.compress(one, mtime=0) for one in warc_records(web(10))]
    parts[4] = parts[4][:200] + bytes(100) + parts[4][300:]
    (tmp_path / "a.warc.gz").write_bytes(b"".join(parts))
    assert replay(tmp_path / "a.warc.gz", out=out).code == 5
    assert sum(line["verdict"] != "failed" for line in running.verdicts(out)) == 9


def test_a_warc_cut_in_mid_record(tmp_path: Path, out: Path) -> None:
    """What is left of the last record is a failed line."""
    cut = save_warc(tmp_path / "cut.warc", web(10))
    cut.write_bytes(cut.read_bytes()[:-700])
    assert replay(cut, out=out).code == 5
    assert [line["verdict"] == "failed" for line in running.verdicts(out)].count(True) == 1
    assert len(running.verdicts(out)) == 10


@pytest.mark.parametrize("length", [40, 99_999, "many"])
def test_a_wrong_content_length(tmp_path: Path, out: Path, length: int | str) -> None:
    """A record that lies about its length does not take the others with it."""
    raw = warc_records(web(6))
    raw[2] = record(http(text(50).encode()), url="http://liar.example/", length=length)
    (tmp_path / "a.warc").write_bytes(b"".join(raw))
    assert replay(tmp_path / "a.warc", out=out).code == 5
    good = [line["url"] for line in running.verdicts(out) if line["verdict"] != "failed"]
    assert {p.url for n, p in enumerate(web(6)) if n != 2} <= set(good)


def test_records_without_an_http_block(tmp_path: Path, out: Path) -> None:
    """A response whose block is no HTTP message, or is empty, is a failed line."""
    raw = [
        record(b"", url="http://e.example/empty"),
        record(b"no http at all", url="http://e.example/words"),
        *warc_records(web(3)),
    ]
    (tmp_path / "a.warc.gz").write_bytes(members(raw))
    replay(tmp_path / "a.warc.gz", out=out)
    lines = running.by_url(out)
    assert lines["http://e.example/empty"]["verdict"] == "failed"
    assert lines["http://e.example/words"]["verdict"] == "failed"
    assert len(lines) == 5


def test_old_warc_versions(tmp_path: Path, out: Path) -> None:
    """WARC/0.17 and 1.0 are read like 1.1."""
    raw = [
        record(http(text(n).encode()), url=f"http://e.example/{n}", version=version)
        for n, version in enumerate(["0.17", "0.18", "1.0", "1.1"])
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(raw))
    assert replay(tmp_path / "a.warc", out=out).code == 0
    assert [line["verdict"] for line in running.verdicts(out)] == ["novel"] * 4


def test_broken_jsonl_lines(tmp_path: Path, out: Path) -> None:
    """A line that is no JSON, or has no text, is a failed line; the others are judged."""
    good = jsonl({"url": "http://e.example/", "html": text(1)})
    (tmp_path / "a.jsonl").write_bytes(b"{broken\n" + good + b'{"url": "http://e.example/2"}\n\xff\xfe\n')
    assert replay(tmp_path / "a.jsonl", out=out).code == 5
    assert [line["verdict"] for line in running.in_order(out)] == ["failed", "novel", "failed", "failed"]


# Hostile pages


def test_bytes_that_are_no_text(tmp_path: Path, out: Path) -> None:
    """Invalid UTF-8 and NUL bytes in a page are judged as they are, and the text that is kept is valid."""
    bodies = {
        "utf8": b"<meta charset=utf-8><p>" + text(1).encode() + b" \xff\xfe\xc3 end",
        "nul": b"<p>" + text(2).encode().replace(b" ", b" \0", 5),
        "surrogate": b"<p>" + text(3).encode() + b"&#xD800; &#0; &#x110000; \xed\xa0\x80",
    }
    raw = [record(http(body), url=f"http://e.example/{name}") for name, body in bodies.items()]
    (tmp_path / "a.warc").write_bytes(b"".join(raw))
    assert replay(tmp_path / "a.warc", out=out).code == 0
    assert_whole(out, [f"http://e.example/{name}" for name in bodies])


def test_hostile_urls_and_headers(tmp_path: Path, out: Path) -> None:
    """What stands in a URL or a header cannot forge a record of the kept WARC."""
    odd = "http://e.example/a b\r\nWARC-Type: metadata\r\n\r\nx\u2028é[]"
    (tmp_path / "a.jsonl").write_bytes(
        jsonl(
            {"url": odd, "html": text(1)},
            {"url": "http://[broken", "html": text(2)},
            {"url": odd, "text": text(1)},
        )
    )
    assert replay(tmp_path / "a.jsonl", out=out).code == 0
    assert [line["verdict"] for line in running.in_order(out)] == ["novel", "novel", "duplicate"]
    assert [r.type for r in running.kept_records(out)] == ["warcinfo", "resource", "resource", "revisit"]


@pytest.mark.parametrize("kind", ["folder", "warc.gz", "jsonl"])
def test_a_page_of_50_megabytes(tmp_path: Path, out: Path, kind: str) -> None:
    """It is `too large`, and is not read whole."""
    huge = running.Saved("http://huge.example/1", "<p>" + "word " * 10_000_000)
    pages = [huge, *PAGES]
    save = {"folder": running.save_folder, "jsonl": save_jsonl}.get(kind, save_warc)
    done = replay(save(tmp_path / f"p.{kind}", pages), out=out)
    assert (done.code, reasons(out)) == (0, ["too large"])
    assert len(running.verdicts(out)) == len(pages)


def test_a_page_of_100_000_nested_tags(tmp_path: Path, out: Path) -> None:
    """It is judged in reasonable time, and so are the others."""
    deep = running.Saved("http://deep.example/1", "<div>" * 100_000 + text(1) + "</div>" * 100_000)
    pages = [deep, *PAGES]
    assert replay(save_jsonl(tmp_path / "p.jsonl", pages), out=out).code == 0
    assert_whole(out, urls_of(pages))
    assert running.by_url(out)["http://deep.example/1"]["words"] >= 300


def test_pages_that_say_nothing(tmp_path: Path, out: Path) -> None:
    """An empty page and one of tags only are `thin`, each with its rule."""
    pages = [running.Saved("http://e.example/1", ""), running.Saved("http://e.example/2", "<p><br></p>")]
    assert replay(save_jsonl(tmp_path / "p.jsonl", pages), out=out).code == 0
    assert [(v["verdict"], v["rule"]) for v in running.verdicts(out)] == [("thin", "no words on the page")] * 2


# The folder


@pytest.mark.parametrize("place", ["file", "file/below/it"])
def test_a_folder_that_cannot_be_made(saved: Path, tmp_path: Path, place: str) -> None:
    """A file is in the way of DIR: exit 2, its name and the fix."""
    (tmp_path / "file").write_text("here first")
    done = replay(saved, out=tmp_path / place)
    assert done.code == 2
    assert f"cannot write {tmp_path / place}" in done.err and "choose another --out" in done.err


def test_a_folder_whose_run_is_damaged(saved: Path, out: Path) -> None:
    """A checkpoint that cannot be read is exit 2 and names the file."""
    replay(saved, out=out)
    (out / ".winnow/worker-0.json").write_text("{")
    done = replay(saved, out=out)
    assert done.code == 2 and "worker-0.json is damaged" in done.err


def test_output_that_was_cut_by_somebody(saved: Path, out: Path) -> None:
    """A kept file shorter than the checkpoint says is exit 2, not a silent loss."""
    with running.replaying(save_jsonl(saved, web(200)), *running.SLOWLY, out=out) as run:
        running.wait_for_lines(out, 40, run)
        running.kill(run)
    next((out / "kept").glob("*.warc.gz")).write_bytes(b"")
    done = replay(saved, out=out)
    assert done.code == 2 and "it can't be resumed" in done.err


# The store


def test_a_store_that_refuses_the_connection(saved: Path, out: Path) -> None:
    """Exit 8, the address and a hint."""
    url = f"redis://127.0.0.1:{servers.free_port()}/0"
    done = replay(saved, "--redis", url, out=out)
    assert done.code == 8
    assert url in done.err and "is it running and reachable?" in done.err


def test_a_corrected_store_is_taken(saved: Path, out: Path, valkey_url: str, namespace: str) -> None:
    """A run that never reached its store may be begun anew with another one."""
    url = f"redis://127.0.0.1:{servers.free_port()}/0"
    assert replay(saved, "--redis", url, out=out).code == 8
    done = replay(saved, "--redis", valkey_url, "--set", f"index.namespace={namespace}", out=out)
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))


def test_a_store_that_refuses_the_workers(saved: Path, out: Path) -> None:
    """The same with two workers: one message, exit 8."""
    url = f"redis://127.0.0.1:{servers.free_port()}/0"
    done = replay(saved, "--redis", url, "--workers", "2", out=out)
    assert done.code == 8 and done.err.count("is it running and reachable?") == 1


@pytest.fixture(scope="module")
def locked_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("locked")
    with servers.server(servers.valkey_binary(), folder, "--requirepass", "right-secret") as port:
        yield port


@pytest.mark.parametrize("secret", ["", ":wrong-secret@", "user:wrong-secret@", ":wrong/secret@", ":wrong@secret@"])
def test_a_store_that_needs_a_password(saved: Path, out: Path, locked_port: int, secret: str) -> None:
    """Exit 8 and how to write a password; a wrong one never appears in what we print or store."""
    done = replay(saved, "--redis", f"redis://{secret}127.0.0.1:{locked_port}/0", out=out)
    assert done.code in (2, 8)
    assert "redis://USER:PASSWORD@HOST:PORT/0" in done.err or done.code == 2
    stored = b"".join(file.read_bytes() for file in out.rglob("*") if file.is_file()).decode()
    assert "wrong" not in done.out + done.err + stored
    assert "secret" not in done.out + done.err + stored


def test_a_store_that_is_given_its_password(saved: Path, out: Path, locked_port: int) -> None:
    """With the right password the run goes, and DIR does not hold it."""
    assert replay(saved, "--redis", f"redis://:right-secret@127.0.0.1:{locked_port}/0", out=out).code == 0
    assert not any(b"right-secret" in file.read_bytes() for file in out.rglob("*") if file.is_file())


def test_a_store_with_other_parameters(saved: Path, out: Path, valkey_url: str, namespace: str, tmp_path: Path) -> None:
    """An index of other parameters in this namespace is exit 4 and says which."""
    store = ("--redis", valkey_url, "--set", f"index.namespace={namespace}")
    assert replay(saved, *store, out=out).code == 0
    done = replay(saved, *store, "--set", "sketch.bands=18", "--set", "sketch.rows=7", out=tmp_path / "second")
    assert done.code == 4
    assert "bands is 12 there and 18 here" in done.err and "index.namespace" in done.err


def test_a_cluster_url_of_a_single_server(saved: Path, out: Path, valkey_url: str) -> None:
    """redis+cluster:// of a standalone server is exit 8 with the right spelling."""
    done = replay(saved, "--redis", valkey_url.replace("redis://", "redis+cluster://"), out=out)
    assert done.code == 8 and "name it with redis://" in done.err


def test_a_plain_url_of_a_cluster(saved: Path, out: Path, cluster_url: str) -> None:
    """redis:// of a Cluster node is exit 8 with the right spelling."""
    done = replay(saved, "--redis", cluster_url.replace("redis+cluster://", "redis://"), out=out)
    assert done.code == 8 and "redis+cluster://HOST:PORT" in done.err


@pytest.mark.parametrize("url", ["http://localhost", "localhost:6379", "redis://host:port/0"])
def test_a_url_that_is_no_store(saved: Path, out: Path, url: str) -> None:
    """Exit 2 and the URLs that are."""
    done = replay(saved, "--redis", url, out=out)
    assert done.code == 2
    assert url in done.err and "redis+cluster://" in done.err


def test_a_store_that_dies_in_mid_run(tmp_path: Path, out: Path) -> None:
    """The embedded server is killed: it is started again, and the run goes on as if nothing had been."""
    pages = web(200)
    saved = save_jsonl(tmp_path / "p.jsonl", pages)
    slowly = (*running.SLOWLY, "--set", "store.appendfsync=always")
    with running.replaying(saved, *slowly, out=out) as run:
        running.wait_for_lines(out, 40, run)
        killed = running.servers_of(out)
        running.end_servers(out)
        running.wait_for(lambda: set(running.servers_of(out)) - set(killed), "another server")
        done = run.end()
    # it may be back before anybody had to wait for it
    assert killed and done.code == 0 and ("does not answer" in done.err) == ("the store is back" in done.err)
    assert_whole(out, urls_of(pages))


def test_a_page_on_two_sites_is_kept_once(tmp_path: Path, out: Path) -> None:
    """Nothing of the above hides the purpose: a good copy beside damage is still a copy."""
    raw = [*warc_records([page("http://a.example/", text(1))]), b"WARC/1.1\r\nbroken\r\n\r\n"]
    raw += warc_records([page("http://b.example/", text(1))])
    (tmp_path / "a.warc").write_bytes(b"".join(raw))
    assert replay(tmp_path / "a.warc", out=out).code == 5
    assert running.by_url(out)["http://b.example/"]["of"] == "http://a.example/"
