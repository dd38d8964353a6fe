"""From a URL to a server that was tried: it answers, lets us in, is new enough, and will not forget the index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hiredis
import redis.asyncio as redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from dedup.errors import ConfigError, StoreError, UsageError
from dedup.settings import StoreSettings

CONNECTIONS = 32  # calls under way at once; more of them wait here
_OLDEST = (7, 0)
_SCHEMES = "redis://, rediss://, unix:// or redis+cluster://"


def mask(url: str) -> str:
    """Return a URL that may be shown: no password in it.

    >>> mask("redis://me:secret@db:6379/0")
    'redis://me:***@db:6379/0'
    """
    hidden = re.sub(r"(://[^/@:]*:).*@", r"\1***@", url)  # up to the last @: a password may hold any character
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", hidden)


def is_cluster(url: str) -> bool:
    return url.startswith(("redis+cluster://", "rediss+cluster://"))


def client_for(url: str, settings: StoreSettings) -> Any:
    """Return a client for a store URL; it connects when it is first used."""
    name = mask(url)
    if not re.match(r"(rediss?|unix|rediss?\+cluster)://", url):
        raise UsageError(f"{name} is no store URL; use {_SCHEMES}")
    options: dict[str, Any] = {
        "socket_connect_timeout": settings.connect_timeout,
        "socket_timeout": 60.0,
        "protocol": 2,
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), 2),
    }
    if url.startswith("rediss"):
        options |= _certificates(settings)
    try:
        if is_cluster(url):
            return RedisCluster.from_url(url.replace("+cluster", "", 1), **options)
        return redis.Redis.from_pool(_pool(url, options))
    except ValueError:  # whose message may quote a part of the password
        raise UsageError(
            f"{name} is no store URL: check its port and database; in a password, write / @ : % as "
            f"%2F %40 %3A %25; use {_SCHEMES}"
        ) from None


def _certificates(settings: StoreSettings) -> dict[str, Any]:
    files = {"ca_file": "ssl_ca_certs", "cert_file": "ssl_certfile", "key_file": "ssl_keyfile"}
    options: dict[str, Any] = {"ssl_check_hostname": settings.check_hostname}
    for setting, option in files.items():
        file = getattr(settings, setting)
        if file:
            if not Path(file).is_file():
                raise ConfigError(f"store.{setting}: there is no file {file}")
            options[option] = file
    return options


def _pool(url: str, options: dict[str, Any]) -> redis.BlockingConnectionPool:
    pool = redis.BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=None, **options)
    # a subclass of whatever the URL asks for: TCP, TLS or a unix socket
    pool.connection_class = type("PackedConnection", (_Packed, pool.connection_class), {})
    return pool


class _Packed:
    """Packs commands in C: the client's own loop is quadratic in the arguments, and ours have hundreds."""

    def pack_command(self, *args: Any) -> list[bytes]:
        # 'CONFIG GET' is one name to the client and two words to the server
        return [hiredis.pack_command((*args[0].encode().split(), *args[1:]))]


def check_server(info: Mapping[str, Any], name: str, *, cluster: bool) -> None:
    """See from a server's INFO that it can hold an index, and that it is what the URL says."""
    version = str(info["redis_version"])
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        raise StoreError(f"the store at {name} is version {version}; Winnow needs Redis 7.0 or newer, or Valkey")
    mode = info.get("redis_mode") or info.get("server_mode")  # Valkey renamed it
    if mode == "cluster" and not cluster:
        raise StoreError(f"the store at {name} is part of a Cluster; name it with redis+cluster://HOST:PORT")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys"):
        raise StoreError(
            f"the store at {name} evicts any key when its memory is full (maxmemory-policy {policy}): parts of the "
            "index would be lost without a word, and copies kept twice. Set maxmemory-policy noeviction there"
        )
