"""Winnow's library: compare two texts, or judge pages against an index.

    import dedup

    dedup.compare(one_text, other_text).duplicate

    async with dedup.open(path="my-index") as d:
        verdict = await d.judge("http://example.org/", html)

Nothing heavy is imported before it is used: `winnow --help` must answer at once.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from dedup.library import Deduplicator
    from dedup.model import Comparison
    from dedup.settings import Settings

__all__ = ["compare", "open"]


def compare(a: str, b: str) -> Comparison:
    """Return how similar two texts or HTML pages are, by the rules and defaults of the index.

    What starts with a tag is taken for HTML. Nothing is stripped: two pages alone don't tell what is template.
    """
    from dedup import library

    return library.compare(a, b)


def open(
    redis_url: str | None = None,
    path: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
) -> AbstractAsyncContextManager[Deduplicator]:
    """Return an index to judge pages against: the server at redis_url, or one of its own in the folder `path`.

    With neither, the index lives in a temporary folder and ends with the block.
    """
    from dedup import library

    return library.open(redis_url, path, settings)
