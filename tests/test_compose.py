"""The image and the compose file, as far as they can be held without a container engine.

What compose would run is run here by hand: Valkey with the options of the file, and the workers' command with the paths
and the server put in place.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from ruamel.yaml import YAML

from tests import servers
from tests.crawler.running import Done, Saved, lines_written, page, save_folder, save_jsonl, summary, urls_of, verdicts
from tests.servers import wait_for
from tests.texts import text

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docker-compose.yml"
SCRIPT = ROOT / "config" / "replay-parts"
SLOWLY = ("--set", "replay.batch=1")  # a replay that can be met in the middle


def services() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(FILE)["services"]
    return found


def refused(file: Path) -> str:
    """Return what the Compose schema has against a file: nothing if it is valid."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout if done.returncode else ""


def stages() -> list[list[tuple[str, str]]]:
    """Return the Dockerfile's instructions and their arguments, stage by stage."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    whole = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
    found: list[list[tuple[str, str]]] = []
    for line in filter(None, map(str.strip, whole.splitlines())):
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append((name, " ".join(arguments.split())))
    return found


def test_the_compose_file_is_valid() -> None:
    """Compose's own schema accepts the file."""
    assert refused(FILE) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("stop_grace_period:", "stop_grace_time:"),
        ("condition: service_healthy", "condition: healthy"),
        ("cap_drop:\n      - ALL", "cap_drop: ALL"),
    ],
)
def test_a_broken_compose_file_is_refused(right: str, wrong: str, tmp_path: Path) -> None:
    """The check above can fail: an unknown key, an unknown value and a wrong type are found."""
    content = FILE.read_text(encoding="utf-8")
    assert right in content
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(content.replace(right, wrong), encoding="utf-8")
    assert "docker-compose.yml" in refused(broken)


def test_valkey_takes_the_options_of_compose(tmp_path: Path) -> None:
    """A real valkey-server starts with the options of the file, and they are in force."""
    program, *options = services()["valkey"]["command"]
    assert program == "valkey-server"
    with (
        servers.server(servers.valkey_binary(), tmp_path, *options) as port,
        redis.Redis(port=port, decode_responses=True) as client,
    ):
        wanted = {name.removeprefix("--"): value for name, value in zip(options[::2], options[1::2], strict=True)}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted
        assert wanted["appendfsync"] == "always"


def test_valkey_is_not_published() -> None:
    """The index has no password, so no port of it is open to the host, and its network has no way out."""
    assert not {"ports", "network_mode", "networks"} & services()["valkey"].keys()
    assert YAML(typ="safe").load(FILE)["networks"]["default"]["internal"] is True


def test_the_image_does_not_run_as_root() -> None:
    """The last word of the last stage on its user is a number that is not root's; compose means the same one."""
    users = [arguments for name, arguments in stages()[-1] if name == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])
    assert services()["worker"]["user"] == f"${{WINNOW_USER:-{users[-1]}}}"


def test_the_image_has_what_compose_runs() -> None:
    """The script is copied from the checkout, may be executed, and lands where the entry point finds it."""
    copies = [arguments for name, arguments in stages()[-1] if name == "COPY"]
    assert copies == [f"--chmod=0755 {SCRIPT.relative_to(ROOT)} /usr/local/bin/{SCRIPT.name}"]
    assert services()["worker"]["entrypoint"] == [SCRIPT.name]
    assert os.access(SCRIPT, os.X_OK)


def test_the_build_gets_what_it_copies() -> None:
    """Each file that the Dockerfile copies exists, and .dockerignore lets it through."""
    let_through = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    copied = [shlex.split(arguments) for stage in stages() for name, arguments in stage if name == "COPY"]
    sources = [Path(word) for words in copied for word in words[:-1] if not word.startswith("--")]
    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert source.parts[0] in let_through


# The workers' command


class Parts:
    """An input of several parts, and the workers of the compose file on it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.input, self.out, self._url = folder / "in", folder / "data", url
        self.input.mkdir()
        self._running: list[subprocess.Popen[str]] = []

    def add(self, name: str, pages: Sequence[Saved]) -> None:
        save_jsonl(self.input / name, pages) if name.endswith(".jsonl") else save_folder(self.input / name, pages)

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start a worker as compose would, but for the places: here, and the tests' server."""
        worker = services()["worker"]
        places = {"/in": str(self.input), "/data": str(self.out), "redis://valkey:6379/0": self._url}
        assert places.keys() <= set(worker["command"])
        process = subprocess.Popen(
            [SCRIPT, *(places.get(word, word) for word in worker["command"]), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "WINNOW_POLL": "0.2"},
            start_new_session=True,  # so that all of it can be ended
        )
        self._running.append(process)
        return process

    def run(self, *options: str) -> Done:
        return ended(self.start(*options))

    def close(self) -> None:
        for process in self._running:
            kill_group(process)
            process.communicate()

    def verdicts(self) -> list[dict[str, Any]]:
        return [line for part in sorted(self.out.iterdir()) for line in verdicts(part)]


def ended(process: subprocess.Popen[str]) -> Done:
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in out + err, err
    return Done(process.returncode, out, err)


def kill_group(process: subprocess.Popen[str]) -> None:
    """kill -9 to all that a worker started, as the end of a container does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def site(number: int, count: int) -> list[Saved]:
    """Return pages with texts that all sites have, so that each has copies in every other part."""
    return [page(f"http://site{number}.example/{n}", text(900_000 + n)) for n in range(count)]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with servers.server(servers.valkey_binary(), tmp_path / "valkey") as port:
        parts = Parts(tmp_path, f"redis://127.0.0.1:{port}/0")
        try:
            yield parts
        finally:
            parts.close()


@pytest.fixture
def four(parts: Parts) -> Parts:
    """Four parts, archives and folders, with the same texts on four sites."""
    for number, name in enumerate(["a.jsonl", "b", "c d.jsonl", "e"]):
        parts.add(name, site(number, 40))
    return parts


@pytest.fixture
def long(parts: Parts) -> Parts:
    """A part that takes a while, and two short ones after it."""
    for number, (name, count) in enumerate({"a.jsonl": 400, "b": 3, "c.jsonl": 3}.items()):
        parts.add(name, site(number, count))
    return parts


def test_two_workers_share_the_parts(four: Parts) -> None:
    """Each page of each part gets one verdict, and each text is kept once, in whichever part."""
    workers = [four.start(*SLOWLY) for _ in range(2)]
    assert [ended(worker).code for worker in workers] == [0, 0]
    lines = four.verdicts()
    assert Counter(line["url"] for line in lines) == Counter(urls_of([p for n in range(4) for p in site(n, 40)]))
    assert Counter(line["verdict"] for line in lines) == {"novel": 40, "duplicate": 120}


def met(parts: Parts, *options: str) -> subprocess.Popen[str]:
    """Return a worker in the middle of the first part."""
    worker = parts.start(*SLOWLY, *options)
    wait_for(lambda: lines_written(parts.out / "a.jsonl") > 3 or worker.poll() is not None, "the first part")
    assert worker.poll() is None, f"the worker ended before it could be met: {ended(worker)}"
    return worker


def test_a_part_in_use_is_passed_over_and_then_taken_over(long: Parts) -> None:
    """Next to a worker that is stuck, another does all other parts, waits, and does that one when its owner dies."""
    soon = ("--set", "index.lease=1s")  # what the stuck one has claimed is free again
    stuck = met(long, *soon)
    os.killpg(stuck.pid, signal.SIGSTOP)
    other = long.start(*soon)
    wait_for(lambda: all((long.out / name / "clusters.jsonl").exists() for name in ("b", "c.jsonl")), "the other parts")
    assert not (long.out / "a.jsonl" / "summary.json").exists()
    assert other.poll() is None
    kill_group(stuck)
    assert ended(other).code == 0
    assert summary(long.out / "a.jsonl")["finished"] is True


def test_the_part_of_a_dead_worker_is_resumed(long: Parts) -> None:
    """The next worker goes on with the run that a killed one leaves, and each page has one verdict in the end."""
    kill_group(met(long))
    run = (long.out / "a.jsonl" / ".winnow" / "run.json").read_bytes()
    assert long.run().code == 0
    assert (long.out / "a.jsonl" / ".winnow" / "run.json").read_bytes() == run
    assert Counter(line["url"] for line in verdicts(long.out / "a.jsonl")) == Counter(urls_of(site(0, 400)))


def test_sigterm_drains(long: Parts) -> None:
    """`docker stop` reaches winnow once: it ends the pages under way, and no further part is begun."""
    worker = met(long)
    worker.send_signal(signal.SIGTERM)
    done = ended(worker)
    assert done.code == 11, done.err
    assert [part.name for part in long.out.iterdir()] == ["a.jsonl"]
    assert summary(long.out / "a.jsonl")["finished"] is False


def test_ctrl_c_drains(long: Parts) -> None:
    """A terminal sends Ctrl-C to the script and to winnow: it still counts once."""
    worker = met(long)
    os.killpg(worker.pid, signal.SIGINT)
    done = ended(worker)
    assert done.code == 11, done.err
    assert summary(long.out / "a.jsonl")["finished"] is False


def test_sigterm_ends_the_waiting(long: Parts) -> None:
    """A worker that only waits for the parts of others stops at once."""
    os.killpg(met(long).pid, signal.SIGSTOP)
    waiting = long.start("--set", "index.lease=1s")
    wait_for((long.out / "c.jsonl" / "clusters.jsonl").exists, "the other parts")
    waiting.send_signal(signal.SIGTERM)
    assert ended(waiting).code == 11


def test_finished_parts_are_not_judged_again(parts: Parts) -> None:
    """Run again, a worker finds nothing to do, and says so."""
    parts.add("a.jsonl", site(0, 3))
    parts.add("b", site(1, 3))
    assert parts.run().code == 0
    before = parts.verdicts()
    done = parts.run()
    assert done.code == 0
    assert done.err.count("nothing left to do") == 2
    assert parts.verdicts() == before


def test_a_changed_part_does_not_stop_the_others(parts: Parts) -> None:
    """A part that winnow refuses is told by exit code 2, not tried for ever, and the other parts are judged."""
    parts.add("a.jsonl", site(0, 3))
    assert parts.run().code == 0
    parts.add("a.jsonl", site(0, 4))
    parts.add("b.jsonl", site(1, 3))
    done = parts.run()
    assert done.code == 2
    assert "has changed" in done.err
    assert "a.jsonl was refused" in done.err
    assert summary(parts.out / "b.jsonl")["finished"] is True


def test_damaged_input_is_told_and_done(parts: Parts) -> None:
    """Damage is no reason to start a finished container again: exit code 0, and a line in the log."""
    parts.add("a.jsonl", site(0, 3))
    with (parts.input / "a.jsonl").open("ab") as file:
        file.write(b'{"url": \n')
    done = parts.run()
    assert done.code == 0
    assert "a.jsonl is finished, but some of its input is damaged" in done.err


def test_a_part_that_cannot_be_read_is_not_done(parts: Parts) -> None:
    """A part without any readable input ends in exit code 5, the others are judged."""
    (parts.input / "a.jsonl").symlink_to("nowhere")
    parts.add("b.jsonl", site(0, 3))
    done = parts.run()
    assert done.code == 5
    assert "a.jsonl cannot be read" in done.err
    assert summary(parts.out / "b.jsonl")["finished"] is True


def test_an_empty_input_is_an_error(parts: Parts) -> None:
    """No parts at all is a mistake in the mount, not a finished job."""
    done = parts.run()
    assert done.code == 5
    assert "no parts in" in done.err


def test_a_lost_store_ends_the_worker(four: Parts) -> None:
    """Without the index there is nothing to do for any part: exit code 8 at once, for the restart policy to wait."""
    done = four.run("--redis", f"redis://127.0.0.1:{servers.free_port()}/0", "--set", "store.connect_timeout=200ms")
    assert done.code == 8
    assert len(list(four.out.iterdir())) == 1
