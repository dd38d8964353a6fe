"""Texts for tests: words without meaning, copies with known similarity."""

from __future__ import annotations

import random

import numpy as np

from dedup.boilerplate import strip
from dedup.model import Content, SketchParams
from dedup.sketch import sketch
from dedup.store.index import Document
from dedup.text import tokenize

_SYLLABLES = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "or")]


def words(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))) for _ in range(count)]


def text(seed: int, count: int = 300) -> str:
    return " ".join(words(random.Random(seed), count))


def edited(original: str, seed: int, changes: int = 1) -> str:
    """Return a copy with so many words replaced: each breaks five shingles of five words."""
    rng = random.Random(seed)
    copy = original.split()
    for at in rng.sample(range(len(copy)), changes):
        copy[at] = "x" + words(rng, 1)[0]
    return " ".join(copy)


def content(of: str) -> Content:
    tokens = tokenize(of)
    return strip(tokens, np.ones(len(tokens.lines), np.bool_))


def document(id: int, of: str, url: str | None = None) -> Document:
    """Return a document whose seniority is its number: the smaller, the more senior."""
    fingerprint = sketch(content(of), SketchParams())
    return Document.of(id.to_bytes(8, "big"), fingerprint, url=url or f"http://site/{id}", time=1, payload=b"payload8")
