"""A small web to try Winnow on: three sites, a mirror, edited copies, soft 404s and debris.

python -m bench.demo_site OUT_DIR [--truth FILE] [--seed 1]

Writes OUT_DIR/HOST/PATH, which `winnow replay OUT_DIR` reads as http://HOST/PATH, and a truth file (beside
OUT_DIR unless told otherwise) that labels each URL with its article, its kind and, for copies, the exact
Jaccard coefficient of 5-word shingles between its article and the original's. Every sentence is put together
from the word lists below, so the text is nobody's and the coefficients are known, not estimated.

Invariant: one seed, one set of bytes, on any machine.
"""

from __future__ import annotations

import argparse
import html
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bench.demo_words import CHINESE, ENGLISH, RUSSIAN, Language, Text, jaccard, reword, sentence, write_text

ARTICLES = 60  # a site
EDITED = (18, 9, 9)  # edited copies on the echo host, by site
SYNDICATED = 4  # articles that each site takes over from the next one
COPIES = 3  # byte-identical pages a site
MISSING = 5  # soft 404s a site
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


class Site(msgspec.Struct, frozen=True):
    host: str
    language: Language
    skin: Callable[[Site, str, str, random.Random], str]


class Truth(msgspec.Struct, frozen=True):
    """What a page is: the label that clusters are checked against."""

    url: str
    kind: str
    article: str | None = None
    of: str | None = None  # the page that this one copies
    jaccard: float | None = None  # between the two articles, without their templates


Written = tuple[Truth, bytes]


def _items(tag: str, labels: list[str], href: str = "/") -> str:
    return "\n".join(f'<{tag}><a href="{href}">{html.escape(label)}</a></{tag}>' for label in labels)


def _blurb(site: Site, name: str, sentences: int) -> str:
    """Return a text that is the same on all pages of a site: about the publisher, cookies, terms."""
    rng = random.Random(f"{site.host}/{name}")
    return site.language.glue.join(sentence(site.language, rng) for _ in range(sentences))


def _headlines(site: Site, count: int) -> list[str]:
    rng = random.Random(f"{site.host}/popular")
    return [sentence(site.language, rng) for _ in range(count)]


def _meta(site: Site, rng: random.Random) -> list[str]:
    return [part.format(rng.randint(1, 28)) for part in site.language.meta.split("|")]


def newspaper(site: Site, title: str, article: str, rng: random.Random) -> str:
    """Lay a page out with a sidebar, a cookie banner and a long footer."""
    labels = site.language.labels.split("|")
    return f"""<!DOCTYPE html>
<html lang="{site.language.code}"><head><meta charset="utf-8"><title>{title} - {site.host}</title>
<link rel="stylesheet" href="/style.css">
<script>var page = {{"views": {rng.randint(100, 9999)}}};</script></head>
<body><div class="cookies"><p>{_blurb(site, "cookies", 3)}</p><button>OK</button></div>
<header><h2>{site.host}</h2><nav><ul>
{_items("li", labels)}
</ul></nav></header>
<main><article>{article}</article><p class="meta">{" &middot; ".join(_meta(site, rng))}</p></main>
<aside><h3>{labels[2]}</h3><ul>
{_items("li", _headlines(site, 20))}
</ul></aside>
<footer><p>{_blurb(site, "about", 9)}</p><p>{_blurb(site, "terms", 9)}</p>
<p>&copy; 2021 {site.host}</p></footer>
</body></html>
"""


def tables(site: Site, title: str, article: str, rng: random.Random) -> str:
    """Lay a page out the old way: navigation and article in cells of one row."""
    labels = site.language.labels.split("|")
    rows = "".join(f"<tr><td>{part}</td></tr>" for part in _meta(site, rng))
    return f"""<HTML LANG={site.language.code}><HEAD><META CHARSET=utf-8><TITLE>{site.host}: {title}</TITLE>
</HEAD><BODY><TABLE border=0><TR><TD colspan=3><FONT size=+2>{site.host}</FONT><BR>
{_blurb(site, "motto", 3)}</TD></TR>
<TR><TD valign=top>{_items("p", labels)}<HR>{_items("p", _headlines(site, 20))}</TD>
<TD valign=top>{article}</TD><TD valign=top><TABLE>{rows}</TABLE></TD></TR>
<TR><TD colspan=3><SMALL>{_blurb(site, "about", 10)}<BR>{_blurb(site, "terms", 9)}</SMALL></TD></TR></TABLE>
</BODY></HTML>
"""


def blog(site: Site, title: str, article: str, rng: random.Random) -> str:
    """Lay a page out as nested divs, with the navigation after the article."""
    labels = site.language.labels.split("|")
    date, *counters = _meta(site, rng)
    return f"""<!doctype html><html lang="{site.language.code}"><meta charset="utf-8"><title>{title}</title>
<style>.post {{ margin: 1em }}</style><body><div id="top"><div>{_blurb(site, "motto", 4)}</div></div>
<div class="wrap"><div class="post"><div class="date">{date}</div>{article}
<div class="share">{"".join(f"<span>{part}</span> " for part in counters)}</div></div>
<div class="menu">{_items("div", labels)}</div>
<div class="tags">{_items("div", _headlines(site, 20))}</div></div>
<div class="foot"><div>{_blurb(site, "about", 10)}</div><div>{_blurb(site, "terms", 9)}</div></div>
</body></html>
"""


HARBOUR = Site("harbour.example", ENGLISH, newspaper)
PRISTAN = Site("pristan.example", RUSSIAN, tables)
HEGANG = Site("hegang.example", CHINESE, blog)
SITES = (HARBOUR, PRISTAN, HEGANG)
MIRROR = Site("mirror.example", ENGLISH, blog)
ECHO = Site("echo.example", ENGLISH, tables)


def render(site: Site, text: Text, glue: str, rng: random.Random) -> bytes:
    paragraphs = "\n".join(f"<p>{html.escape(glue.join(part))}</p>" for part in text.paragraphs)
    title = html.escape(text.headline)
    return site.skin(site, title, f"<h1>{title}</h1>\n{paragraphs}", rng).encode()


def edit(text: Text, how: str, language: Language, rng: random.Random) -> Text:
    """Return the text with a few words changed, a paragraph more, sentences swapped, or half of it new."""
    paragraphs = [list(part) for part in text.paragraphs]
    if how == "reworded":
        for part in rng.sample(paragraphs, 3):
            part[0] = reword(part[0], language, rng)
    elif how == "appended":
        paragraphs.append([sentence(language, rng), sentence(language, rng)])
    elif how == "reordered":
        part = rng.choice(paragraphs)
        part[0], part[-1] = part[-1], part[0]
    else:
        for part in paragraphs:
            part[::2] = [sentence(language, rng) for _ in part[::2]]
    return Text(text.headline, tuple(map(tuple, paragraphs)))


def _article_url(site: Site, number: int) -> str:
    return f"http://{site.host}/news/{number:03d}.html"


def _copies(texts: dict[str, list[Text]], rng: random.Random) -> Iterator[Written]:
    """Yield the mirror, the edited copies on the echo host, and what the sites take from each other."""

    def copy(to: Site, path: str, source: Site, number: int, *, kind: str, text: Text) -> Written:
        original = texts[source.host][number]
        share = round(jaccard(original.joined(), text.joined()), 4)
        article = f"{source.language.code}-{number:03d}"
        truth = Truth(f"http://{to.host}/{path}", kind, article, _article_url(source, number), share)
        return truth, render(to, text, source.language.glue, rng)

    for number, text in enumerate(texts[HARBOUR.host]):
        yield copy(MIRROR, f"{number // 10}/{number:03d}.html", HARBOUR, number, kind="mirror", text=text)
    ways = ("reworded", "appended", "reordered", "rewritten")
    for site, count in zip(SITES, EDITED, strict=True):
        for number in range(count):
            way = ways[number % len(ways)]
            text = edit(texts[site.host][number], way, site.language, rng)
            yield copy(ECHO, f"{site.language.code}/{way}-{number:03d}.html", site, number, kind=way, text=text)
    for to, source in zip(SITES, SITES[1:] + SITES[:1], strict=True):
        for number in range(ARTICLES - SYNDICATED, ARTICLES):
            text = texts[source.host][number]
            yield copy(to, f"wire/{number:03d}.html", source, number, kind="syndicated", text=text)


def _debris(site: Site, first: bytes, rng: random.Random) -> Iterator[Written]:
    """Yield what else lies about on a site: soft 404s, files that are no pages, broken and empty pages."""
    url = f"http://{site.host}"
    for number in range(MISSING):
        path = f"/news/{rng.randrange(10**6):06d}/{rng.choice('abcdefgh')}.html"
        title, *parts = site.language.missing.split("|")
        body = f"<h1>{title}</h1>" + "".join(f"<p>{part.format(path)}</p>" for part in parts)
        yield Truth(f"{url}/gone/{number}.html", "soft404"), site.skin(site, title, body, rng).encode()
    yield Truth(f"{url}/style.css", "not html"), b"p { margin: 1em }\n"
    yield Truth(f"{url}/logo.png", "not html"), PNG
    yield Truth(f"{url}/notes.txt", "text"), "\n".join(_headlines(site, 12)).encode()
    yield Truth(f"{url}/empty.html", "empty"), b""
    yield Truth(f"{url}/cut.html", "truncated"), first[: first.index(b"</p>", len(first) // 3) + 2]


def pages(seed: int) -> Iterator[Written]:
    """Yield every file of the demo with its label."""
    texts = {}
    for site in SITES:
        rng = random.Random(f"{seed}/{site.host}")
        texts[site.host] = [write_text(site.language, rng) for _ in range(ARTICLES)]
        bodies = [render(site, text, site.language.glue, rng) for text in texts[site.host]]
        names = [f"{site.language.code}-{number:03d}" for number in range(ARTICLES)]
        for number, (name, body) in enumerate(zip(names, bodies, strict=True)):
            yield Truth(_article_url(site, number), "original", name), body
        for number in range(COPIES):
            truth = Truth(f"http://{site.host}/print/{number}.html", "copy", names[number])
            yield msgspec.structs.replace(truth, of=_article_url(site, number), jaccard=1.0), bodies[number]
        yield from _debris(site, bodies[0], rng)
    yield from _copies(texts, random.Random(f"{seed}/copies"))


def write(out: Path, truth: Path, seed: int) -> int:
    """Write the mirror below `out` and its labels to `truth`; return the number of files."""
    labels = []
    for label, body in pages(seed):
        file = out / label.url.removeprefix("http://")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        labels.append(msgspec.json.encode(label))
    truth.write_bytes(b"\n".join(labels) + b"\n")
    return len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a small saved web to try Winnow on.")
    parser.add_argument("out", type=Path, help="folder for the pages: OUT/HOST/PATH")
    parser.add_argument("--truth", type=Path, help="file for the labels (default: truth.jsonl beside OUT)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    truth = options.truth or options.out.absolute().parent / "truth.jsonl"
    print(f"{write(options.out, truth, options.seed)} files below {options.out}, labels in {truth}")


if __name__ == "__main__":
    main()
