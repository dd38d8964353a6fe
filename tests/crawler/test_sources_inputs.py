"""Paths become inputs: folders, files, pipes, and clear words for what is none of them."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.sources import Item, Limits, open_inputs
from dedup.model import Page
from tests.crawler.archives import HTML, jsonl, members, pages, read, reason


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(HTML)
    return root


def urls(items: list[Item]) -> list[str]:
    return [item.url for item in items]


def test_folder_urls(tmp_path: Path) -> None:
    """HOST/PATH is http://HOST/PATH; a file at the top is a file: URL."""
    tree(
        tmp_path,
        "top.html",
        "e.com/index.html",
        "e.com/a b/é.html",
        "e.com/x.php?id=1&q=%41 b",
        "e.com/50%.html",
    )
    assert urls(read(tmp_path)[0]) == [
        "http://e.com/50%25.html",
        "http://e.com/a%20b/%C3%A9.html",
        "http://e.com/index.html",
        "http://e.com/x.php?id=1&q=%41%20b",
        f"file://{tmp_path}/top.html",
    ]


def test_folder_order(tmp_path: Path) -> None:
    """Files come in the order of their path's components."""
    tree(tmp_path, "h/b.html", "h/a.html", "h/a/z.html", "h/a/b/c.html", "h-2/a.html")
    paths = [url.removeprefix("http://") for url in urls(read(tmp_path)[0])]
    assert paths == ["h/a/b/c.html", "h/a/z.html", "h/a.html", "h/b.html", "h-2/a.html"]


def test_folder_kinds(tmp_path: Path) -> None:
    """What is no page is told by name or by bytes; text is a plain page."""
    tree(
        tmp_path,
        "h/style.css?v=1.2",
        "h/pic.PNG",
        "h/page",
        "h/page.php",
        "h/binary",
        "h/note.txt",
        "h/words",
    )
    (tmp_path / "h/binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "h/words").write_bytes(b"just words")
    found = {i.url[9:]: reason(i) or ("plain" if getattr(i, "plain", 0) else "html") for i in read(tmp_path)[0]}
    assert found == {
        "binary": "not html",
        "note.txt": "plain",
        "page": "html",
        "page.php": "html",
        "pic.PNG": "not html",
        "style.css?v=1.2": "not html",
        "words": "plain",
    }


def test_folder_skips_reading(tmp_path: Path) -> None:
    """Files before the start, of another share or with a picture's name are not opened."""
    tree(tmp_path, "h/0.html", "h/1.html", "h/2.html", "h/3.png")
    opened: list[str] = []
    watching = True

    def watch(event: str, args: tuple[object, ...]) -> None:
        if watching and event == "open" and str(args[0]).startswith(str(tmp_path)):
            opened.append(str(args[0])[-6:])

    sys.addaudithook(watch)
    items, _ = read(tmp_path, start=1, share=(0, 1))
    watching = False
    assert len(items) == 3
    assert opened == ["1.html", "2.html"]


def test_folder_time_and_size(tmp_path: Path) -> None:
    """A file's time is when it was written; a large one is not read."""
    tree(tmp_path, "h/a.html", "h/b.html")
    (tmp_path / "h/b.html").write_bytes(bytes(2000))
    os.utime(tmp_path / "h/a.html", (5, 5))
    first, second = read(tmp_path, limits=Limits(max_body=1000))[0]
    assert first.time == 5
    assert (reason(second), getattr(second, "damaged", None)) == ("too large", False)


def test_folder_special_files(tmp_path: Path) -> None:
    """Loops, links to folders, pipes and dead links neither hang nor repeat anything."""
    tree(tmp_path, "h/a.html")
    (tmp_path / "h/loop").symlink_to(tmp_path)
    (tmp_path / "h/link.html").symlink_to("a.html")
    (tmp_path / "h/dead.html").symlink_to("nowhere")
    (tmp_path / "h/self.html").symlink_to("self.html")
    os.mkfifo(tmp_path / "h/pipe.html")
    items, other = read(tmp_path)
    assert urls(items) == [f"http://h/{n}.html" for n in ("a", "dead", "link", "self")]
    assert [getattr(i, "damaged", False) for i in items] == [False, True, False, True]
    assert other == {"linked folder": 1, "special file": 1}


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody for a while: root reads everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or folder without permission is a damaged item that says so."""
    tree(tmp_path, "h/a.html", "i/b.html", "j/c.html")
    (tmp_path / "h/a.html").chmod(0)
    (tmp_path / "i").chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # what is above it may be closed to nobody
    with unprivileged():
        reasons = [reason(i) for i in read(Path())[0]]
    assert reasons == ["cannot be read: Permission denied"] * 2 + [""]
    (tmp_path / "i").chmod(0o700)


def test_undecodable_names(tmp_path: Path) -> None:
    """File names that are no UTF-8 give valid URLs and sources."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff/h")).mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff/h/\xfe.html")).write_bytes(HTML)
    [one], _ = open_inputs([os.fsdecode(os.fsencode(tmp_path) + b"/\xff")])
    [item] = one.pages(limits=Limits(), other=Counter())
    assert item.url == "http://h/%FE.html"
    assert item.place.source.encode()


def test_archives_in_a_folder(tmp_path: Path) -> None:
    """Archives in a folder are inputs of their own, after its plain files, in sorted order."""
    tree(tmp_path, "h/a.html", "z.html")
    (tmp_path / "b.warc.gz").write_bytes(members(pages(2)))
    (tmp_path / "h/a.jsonl").write_bytes(jsonl({"url": "u", "html": "x"}))
    inputs, problems = open_inputs([str(tmp_path), str(tmp_path / "b.warc.gz")])
    assert not problems
    assert [i.name for i in inputs] == [str(tmp_path), f"{tmp_path}/b.warc.gz", f"{tmp_path}/h/a.jsonl"]
    counts = [len(list(i.pages(limits=Limits(), other=Counter()))) for i in inputs]
    assert counts == [2, 2, 1]


def test_folder_of_archives_only(tmp_path: Path) -> None:
    """A folder without plain files is only its archives."""
    (tmp_path / "b.warc").write_bytes(b"".join(pages(2)))
    assert [i.name for i in open_inputs([str(tmp_path)])[0]] == [f"{tmp_path}/b.warc"]


def test_single_files(tmp_path: Path) -> None:
    """A single file is one page with a file: URL, compressed or not."""
    for name, raw, plain in (
        ("a b.html", HTML, False),
        ("b.txt", b"<p>", True),
        ("c.htm.gz", gzip.compress(HTML), False),
    ):
        (tmp_path / name).write_bytes(raw)
        [item] = read(tmp_path / name)[0]
        assert isinstance(item, Page)
        assert (item.url, item.plain) == (f"file://{tmp_path}/{name.replace(' ', '%20')}", plain)
        assert item.time


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (b"".join(pages(2)), 2),
        (members(pages(2)), 2),
        (gzip.compress(jsonl({"url": "u", "text": "x"})), 1),
        (HTML, 1),
    ],
)
def test_sniffed(tmp_path: Path, raw: bytes, count: int) -> None:
    """A name that tells nothing leaves it to the bytes."""
    (tmp_path / "x.bad").write_bytes(raw)
    items, _ = read(tmp_path / "x.bad")
    assert [type(i) for i in items] == [Page] * count


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("a.arc.gz", b"", "an ARC file"),
        ("x", b"filedesc://x", "an ARC file"),
        ("a.wacz", b"", "a WACZ file"),
        ("x", b"PK\x03\x04", "a zip file"),
        ("a.tar.xz", b"", "a tar file"),
        ("a.warc.zst", b"", "compressed with zstd"),
        ("a.warc.lz4", b"", "compressed with lz4"),
        ("a.gz", gzip.compress(b"\x10\0\0\0\x0a\x05http:and more"), "a stream of protobuf documents"),
    ],
)
def test_unsupported(tmp_path: Path, name: str, raw: bytes, words: str) -> None:
    """A format that is not read yet is a problem that names it."""
    (tmp_path / name).write_bytes(raw)
    inputs, [problem] = open_inputs([str(tmp_path / name)])
    assert not inputs
    assert f"{tmp_path / name}: is {words}; this version reads WARC" in problem


def test_missing(tmp_path: Path) -> None:
    """A path that is not there is a problem, and the others are still opened."""
    tree(tmp_path, "a.html")
    inputs, problems = open_inputs([f"{tmp_path}/no", f"{tmp_path}/a.html", "a\0b"])
    assert [i.name for i in inputs] == [f"{tmp_path}/a.html"]
    assert problems[0] == f"{tmp_path}/no: no such file or folder; check the path"
    assert len(problems) == 2


def test_repeated_paths(tmp_path: Path) -> None:
    """A path given twice is one input: its pages have one identity."""
    tree(tmp_path, "a.html")
    assert len(open_inputs([f"{tmp_path}/a.html"] * 2)[0]) == 1


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"".join(pages(3)), ["http://example.com/0", "http://example.com/1", "http://example.com/2"]),
        (members(pages(2)), ["http://example.com/0", "http://example.com/1"]),
        (jsonl({"url": "u", "html": "x"}), ["u"]),
        (gzip.compress(jsonl({"url": "u", "html": "x"})), ["u"]),
        (HTML, ["file:///dev/stdin"]),
        (b"words", ["file:///dev/stdin"]),
    ],
)
def test_standard_input(raw: bytes, expected: list[str]) -> None:
    """Standard input is sniffed, and is read from a pipe."""
    script = (
        "from collections import Counter; from crawler.sources import *\n"
        "[one], _ = open_inputs(['-'])\n"
        "for i in one.pages(limits=Limits(), other=Counter()): print(type(i).__name__, i.place.source, i.url)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=raw, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [f"Page - {url}" for url in expected]


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on standard input is one damaged item."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    [one], _ = open_inputs(["-"])
    [item] = one.pages(limits=Limits(), other=Counter())
    assert reason(item) == "damaged: empty archive"


def test_named_pipe(tmp_path: Path) -> None:
    """A named pipe is read like standard input."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"cat > '{pipe}'"], stdin=subprocess.PIPE) as writer:
        assert writer.stdin
        writer.stdin.write(members(pages(2)))
        writer.stdin.close()
        [one], _ = open_inputs([str(pipe)])
        assert len(list(one.pages(limits=Limits(), other=Counter()))) == 2
