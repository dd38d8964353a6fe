"""A connection to the user's server or to ours: URLs, scripts, and errors that a person can act on.

Scripts take any number of items in one call. A standalone server gets them all in one round trip; a Cluster gets
one call a slot, all at once. Callers don't know which it is.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from importlib import resources
from types import TracebackType
from typing import Any, Self

import hiredis
import redis.asyncio as redis
from redis import exceptions as refused
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from dedup.errors import StoreError, UsageError

Item = tuple[Sequence[bytes], Sequence[bytes | int]]  # the keys and the arguments of one item

_ITEMS_A_CALL = 2000  # bounds how long one script may hold up the server
_CONNECTIONS = 32  # calls under way at once; more of them wait here
_OLDEST = (7, 0)
_INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)
_TROUBLE = (refused.RedisError, refused.RedisClusterException, OSError)
_SCHEMES = "redis://, rediss://, unix:// or redis+cluster://"


class Store:
    """One server or Cluster, and the scripts we run there."""

    def __init__(self, client: Any, *, name: str, cluster: bool) -> None:
        self.client = client
        self.name = name  # for messages: without the password
        self.cluster = cluster
        self._room = asyncio.Semaphore(_CONNECTIONS)

    @classmethod
    async def connect(cls, url: str, *, timeout: float = 10.0) -> Self:
        """Return a connection that was tried: the server answers, lets us in, and is new enough."""
        name, cluster = mask(url), url.startswith(("redis+cluster://", "rediss+cluster://"))
        if not re.match(r"(rediss?|unix|rediss?\+cluster)://", url):
            raise UsageError(f"{name} is no store URL; use {_SCHEMES}")
        options: dict[str, Any] = {
            "socket_connect_timeout": timeout,
            "socket_timeout": 60.0,
            "protocol": 2,
            "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
        }
        try:
            client: Any = (
                RedisCluster.from_url(url.replace("+cluster", "", 1), **options)
                if cluster
                else redis.Redis.from_pool(_pool(url, options))
            )
        except ValueError:  # whose message may quote a part of the password
            raise UsageError(
                f"{name} is no store URL: check its port and database; in a password, write / @ : % as "
                f"%2F %40 %3A %25; use {_SCHEMES}"
            ) from None
        store = cls(client, name=name, cluster=cluster)
        try:
            await store._check_version()
        except BaseException:
            await store.close()
            raise
        return store

    async def _check_version(self) -> None:
        try:
            info = await (
                self.client.info("server", target_nodes="random") if self.cluster else self.client.info("server")
            )
        except _TROUBLE as error:
            raise self._explain(error) from error
        version = str(info["redis_version"])
        if tuple(map(int, version.split(".")[:2])) < _OLDEST:
            raise StoreError(f"the store at {self.name} is version {version}; Winnow needs Redis 7.0 or Valkey")
        mode = info.get("redis_mode") or info.get("server_mode")  # Valkey renamed it
        if mode == "cluster" and not self.cluster:
            raise StoreError(f"the store at {self.name} is part of a Cluster; name it with redis+cluster://HOST:PORT")

    async def get(self, key: bytes) -> bytes | None:
        """Return a plain value."""
        value: bytes | None = await self._ask(self.client.get(key))
        return value

    async def set_if_absent(self, key: bytes, value: bytes) -> None:
        await self._ask(self.client.set(key, value, nx=True))

    async def discard(self, key: bytes, members: Sequence[bytes]) -> None:
        """Take members out of a set."""
        await self._ask(self.client.srem(key, *members))

    async def increment(self, key: bytes, by: int) -> int:
        """Return a counter's value after adding to it."""
        value: int = await self._ask(self.client.incrby(key, by))
        return value

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except _TROUBLE as error:
            raise self._explain(error) from error

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
        calls = await asyncio.gather(*(self._call(script, [items[i] for i in part], header) for part in parts))
        answers: list[Any] = [None] * len(items)
        for part, call in zip(parts, calls, strict=True):
            for i, answer in zip(part, call, strict=True):
                answers[i] = answer
        return answers

    async def _call(self, script: str, items: Sequence[Item], header: Sequence[bytes | int]) -> list[Any]:
        keys = [key for item in items for key in item[0]]
        answer = await self.call(script, keys, [*header, *(word for item in items for word in item[1])])
        return answer if isinstance(answer, list) else [answer] * len(items)

    async def call(self, script: str, keys: Sequence[bytes], words: Sequence[bytes | int]) -> Any:
        """Return the script's answer; on a Cluster, all keys must lie in one slot."""
        text, sha = _script(script)
        async with self._room:
            try:
                return await self.client.evalsha(sha, len(keys), *keys, *words)
            except refused.NoScriptError:
                return await self._ask(self.client.eval(text, len(keys), *keys, *words))
            except _TROUBLE as error:
                raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreError:
        where = f"the store at {self.name}"
        text = str(error)
        if isinstance(error, refused.AuthenticationError) or "NOAUTH" in text or "WRONGPASS" in text:
            return StoreError(f"{where} wants another password: {text}; write it as redis://:PASSWORD@HOST:PORT/0")
        if isinstance(error, refused.NoPermissionError):
            return StoreError(f"{where} does not let this user do that: {text}; widen its ACL")
        if isinstance(error, refused.OutOfMemoryError):
            return StoreError(f"{where} is out of memory (maxmemory): give it more, then run the same command again")
        if isinstance(error, refused.BusyLoadingError):
            return StoreError(f"{where} is still loading its data; try again in a moment")
        if self.cluster and "Cluster mode is not enabled" in text:
            return StoreError(f"{where} is no Cluster; name it with redis:// instead of redis+cluster://")
        if isinstance(error, refused.ConnectionError | refused.TimeoutError | OSError):
            return StoreError(f"{where} does not answer: {text or type(error).__name__}; is it running and reachable?")
        if isinstance(error, refused.RedisClusterException):
            return StoreError(f"{where} does not work as a Cluster: {text}; check the URL and `CLUSTER INFO`")
        return StoreError(f"{where} refused a command: {text}")

    async def close(self) -> None:
        await self.client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _pool(url: str, options: dict[str, Any]) -> redis.BlockingConnectionPool:
    pool = redis.BlockingConnectionPool.from_url(url, max_connections=_CONNECTIONS, timeout=None, **options)
    # a subclass of whatever the URL asks for: TCP, TLS or a unix socket
    pool.connection_class = type("PackedConnection", (_Packed, pool.connection_class), {})
    return pool


class _Packed:
    """Packs commands in C: the client's own loop is quadratic in the arguments, and ours have hundreds."""

    def pack_command(self, *args: Any) -> list[bytes]:
        # 'CONFIG GET' is one name to the client and two words to the server
        return [hiredis.pack_command((*args[0].encode().split(), *args[1:]))]


def mask(url: str) -> str:
    """Return a URL that may be shown: no password in it.

    >>> mask("redis://me:secret@db:6379/0")
    'redis://me:***@db:6379/0'
    """
    hidden = re.sub(r"(://[^/@:]*:).*@", r"\1***@", url)  # up to the last @: a password may hold any character
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", hidden)


def _tag(key: bytes) -> bytes:
    return key[key.index(b"{") + 1 : key.index(b"}")]


@functools.cache
def _script(name: str) -> tuple[str, str]:
    """Return a script with what it includes, and its digest."""
    text = _INCLUDE.sub(lambda match: _lua(match[1]), _lua(f"{name}.lua"))
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _lua(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
