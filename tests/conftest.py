"""Fixtures: every store that Winnow serves, and a namespace of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dedup.store.client import Store
from tests import servers

_numbers = itertools.count()


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.server(servers.valkey_binary(), tmp_path_factory.mktemp("valkey")) as port:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.cluster(servers.valkey_binary(), tmp_path_factory.mktemp("cluster")) as ports:
        yield f"redis+cluster://127.0.0.1:{ports[0]}"


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.server(servers.redis_binary(), tmp_path_factory.mktemp("redis")) as port:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(params=["valkey", "cluster", pytest.param("redis", marks=pytest.mark.debian)])
def store_url(request: pytest.FixtureRequest) -> str:
    url = request.getfixturevalue(f"{request.param}_url")
    assert isinstance(url, str)
    return url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.connect(store_url) as store:
        yield store


@pytest.fixture
def namespace() -> str:
    return f"test{next(_numbers)}"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their length: those of gzip hold the time, and workers must collect the same names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None
