"""A connection to the user's server or to ours: scripts, round trips, and patience when the server is away.

Scripts take any number of items in one call. A standalone server gets them all in one round trip; a Cluster gets one
call a slot, in one pipeline a node. Callers don't know which it is. Every script may be sent again: when the server
goes away, calls wait for it, tell so, and are repeated when it is back.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib import resources
from types import TracebackType
from typing import Any, Self

import msgspec
from redis import exceptions as refused

from dedup.errors import StoreAway
from dedup.settings import StoreSettings
from dedup.store.connect import CONNECTIONS, check_server, client_for, is_cluster, mask
from dedup.store.trouble import TROUBLE, explain, passes

__all__ = ["Item", "Patience", "Store", "mask"]

Item = tuple[Sequence[bytes], Sequence[bytes | int]]  # the keys and the arguments of one item

_ITEMS_A_CALL = 2000  # bounds how long one script may hold up the server
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


def _silently(message: str) -> None:
    """Tell nobody."""


class Patience(msgspec.Struct, frozen=True):
    """How to wait for a store that went away."""

    seconds: float = 0.0
    tell: Callable[[str], None] = _silently  # what is waited for; empty when it is over
    stopped: Callable[[], bool] = lambda: False  # nobody wants to wait any more


class Store:
    """One server or Cluster, and the scripts we run there."""

    def __init__(self, client: Any, *, name: str, cluster: bool, patience: Patience | None = None) -> None:
        self.client = client
        self.name = name  # for messages: without the password
        self.cluster = cluster
        self._patience = patience or Patience()
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._away_since: float | None = None

    @classmethod
    async def connect(
        cls, url: str, settings: StoreSettings | None = None, *, patience: Patience | None = None, wait: bool = False
    ) -> Self:
        """Return a connection that was tried; where the store is away, wait for it only if told so."""
        store = cls(
            client_for(url, settings or StoreSettings()), name=mask(url), cluster=is_cluster(url), patience=patience
        )
        try:
            for info in (await store._send(store._info, wait=wait)).values():
                check_server(info, store.name, cluster=store.cluster)
        except BaseException:
            await store.close()
            raise
        return store

    async def _info(self, section: str = "everything") -> dict[str, dict[str, Any]]:
        """Return what each primary says of itself, by its name."""
        if not self.cluster:
            return {self.name: await self.client.info(section)}
        await self.client.initialize()
        found: dict[str, Any] = await self.client.info(section, target_nodes="primaries")
        primaries = self.client.get_primaries()
        # of a single node the client returns the answer itself
        return {str(primaries[0].name): found} if len(primaries) == 1 else found

    async def _send(self, send: Callable[[], Awaitable[Any]], *, wait: bool = True) -> Any:
        """Return the answer; while the store is away, tell so and try again until patience ends."""
        delay = _FIRST_WAIT
        while True:
            try:
                answer = await send()
            except TROUBLE as error:
                if not passes(error) or not (wait or isinstance(error, refused.BusyLoadingError)):
                    raise explain(error, self.name, cluster=self.cluster) from error
                await self._wait(explain(error, self.name, cluster=self.cluster), delay)
                delay = min(2 * delay, _LONGEST_WAIT)
            else:
                if self._away_since is not None:
                    self._away_since = None
                    self._patience.tell("")
                return answer

    async def _wait(self, trouble: Exception, delay: float) -> None:
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        limit = self._away_since + self._patience.seconds
        if now >= limit or self._patience.stopped():
            waited = f" (waited {now - self._away_since:.0f} s; bring it back, then run the same command again)"
            raise StoreAway(f"{trouble}{waited if self._patience.seconds else ''}") from trouble
        self._patience.tell(f"{trouble}: waiting for up to {self._patience.seconds:.0f} s")
        until = min(now + delay * random.uniform(0.5, 1.0), limit)  # workers should not all knock at once
        while time.monotonic() < until and not self._patience.stopped():
            await asyncio.sleep(min(0.1, until - time.monotonic()))

    async def get(self, key: bytes) -> bytes | None:
        """Return a plain value."""
        value: bytes | None = await self._send(lambda: self.client.get(key))
        return value

    async def set_if_absent(self, key: bytes, value: bytes) -> None:
        await self._send(lambda: self.client.set(key, value, nx=True))

    async def discard(self, key: bytes, members: Sequence[bytes]) -> None:
        """Take members out of a set."""
        await self._send(lambda: self.client.srem(key, *members))

    async def increment(self, key: bytes, by: int) -> int:
        """Return a counter's value after adding to it; sent again after a lost answer, it adds twice."""
        value: int = await self._send(lambda: self.client.incrby(key, by))
        return value

    async def ask(self, commands: Sequence[Sequence[bytes | str | int]]) -> list[Any]:
        """Return the answers to plain commands whose first argument is a key, in order; safe to repeat."""
        return await self._send(lambda: self._pipeline(commands)) if commands else []

    async def scan(self, pattern: bytes) -> AsyncIterator[bytes]:
        """Yield all keys that match; a key may come twice. A store that goes away meanwhile is an error."""
        try:
            async for key in self.client.scan_iter(match=pattern, count=2000):
                yield key
        except TROUBLE as error:
            raise explain(error, self.name, cluster=self.cluster) from error

    def node_of(self, key: bytes) -> str:
        """Return the name of the server that holds a key."""
        return str(self.client.get_node_from_key(key).name) if self.cluster else self.name

    async def used_memory(self) -> dict[str, int]:
        """Return how much memory each primary uses."""
        found = await self._send(lambda: self._info("memory"))
        return {str(node): int(info["used_memory"]) for node, info in found.items()}

    async def run(self, script: str, items: Sequence[Item], header: Sequence[bytes | int] = ()) -> list[Any]:
        """Return the script's answer to each item, in order."""
        if not items:
            return []
        if self.cluster:
            by_slot: dict[bytes, list[int]] = defaultdict(list)
            for i, (keys, _) in enumerate(items):
                by_slot[_tag(keys[0])].append(i)
            parts = list(by_slot.values())
        else:
            parts = [list(range(len(items)))[at : at + _ITEMS_A_CALL] for at in range(0, len(items), _ITEMS_A_CALL)]
        calls = []
        for part in parts:
            keys = [key for i in part for key in items[i][0]]
            calls.append((keys, [*header, *(word for i in part for word in items[i][1])]))
        replies = await self.calls(script, calls)
        answers: list[Any] = [None] * len(items)
        for part, reply in zip(parts, replies, strict=True):
            each = reply if isinstance(reply, list) else [reply] * len(part)
            for i, answer in zip(part, each, strict=True):
                answers[i] = answer
        return answers

    async def call(self, script: str, keys: Sequence[bytes], words: Sequence[bytes | int]) -> Any:
        """Return the script's answer; on a Cluster, all keys must lie in one slot."""
        return (await self.calls(script, [(keys, words)]))[0]

    async def calls(self, script: str, calls: Sequence[Item]) -> list[Any]:
        """Return the script's answer to each call, in order; on a Cluster, all keys of a call must lie in one slot."""
        text, sha = _script(script)
        commands = [("EVALSHA", sha, len(keys), *keys, *words) for keys, words in calls]

        # awaited here, not in a task: what a batch asks for is sent before the loop turns to another batch
        async def together() -> list[Any]:
            async with self._room:
                return await self._pipeline(commands, instead=("EVAL", text))

        answers: list[Any] = await self._send(together)
        return answers

    async def _pipeline(self, commands: Sequence[Sequence[Any]], instead: tuple[str, str] | None = None) -> list[Any]:
        """Return the answers to commands sent together, a pipeline a node; `instead` of an unknown script its text."""
        answers = await self._together(commands)
        again = [i for i, answer in enumerate(answers) if isinstance(answer, refused.NoScriptError)]
        if again and instead is not None:
            texts = await self._together([(*instead, *commands[i][2:]) for i in again])
            for i, answer in zip(again, texts, strict=True):
                answers[i] = answer
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def _together(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        pipeline = self.client.pipeline() if self.cluster else self.client.pipeline(transaction=False)
        for command in commands:
            # by its name: the Cluster's pipeline has no evalsha() but routes the command by its keys
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    async def close(self) -> None:
        await self.client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _tag(key: bytes) -> bytes:
    return key[key.index(b"{") + 1 : key.index(b"}")]


@functools.cache
def _script(name: str) -> tuple[str, str]:
    """Return a script with what it includes, and its digest."""
    text = _INCLUDE.sub(lambda match: _lua(match[1]), _lua(f"{name}.lua"))
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _lua(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
