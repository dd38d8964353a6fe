"""The race: several workers, each with the same texts in an order and under a host of its own, share one index.

    python -m tests.race [--workers 8] [--texts 20000] [--clusters 2000] [--seeds 10] [--store valkey|cluster|redis]
                         [--kill 1.0] [--restarts 2]

Among the texts are planted clusters of 2 to 10 near-copies (every pair at a Jaccard similarity of .9 or more). However
the workers meet, die (`--kill`: kill -9 of a random one every so many seconds) and lose the store (`--restarts`: it is
killed in mid-run and started again), of each cluster and of each single text exactly one page is kept over all workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from warcio.archiveiterator import ArchiveIterator

from tests import servers
from tests.texts import edited, text, words

ROOT = Path(__file__).resolve().parents[1]


class Text(NamedTuple):
    cluster: int
    words: str


class Plan(NamedTuple):
    """What a race is like."""

    workers: int = 8
    texts: int = 20_000
    clusters: int = 2_000
    length: int = 250
    kill: float = 0.0  # seconds between two kills; 0: nobody dies
    kills: int = 1_000_000  # at most
    restarts: int = 0  # of the store


class Result(NamedTuple):
    """How a race ended; everything but the first four must be 0."""

    pages: int
    kept: int
    seconds: float
    kills: int
    double: int  # clusters that are kept more than once
    none: int  # clusters that are not kept at all
    wrong: int  # copies of what is not kept, or not of their cluster
    unjudged: int  # pages without exactly one verdict line
    unwritten: int  # kept pages without exactly one whole WARC record

    @property
    def clean(self) -> bool:
        return not any(self[4:])


def corpus(plan: Plan, seed: int) -> list[Text]:
    """Return the texts: planted clusters first, single texts after them."""
    rng = random.Random(seed)
    texts: list[Text] = []
    for cluster in range(plan.clusters):
        original = text(rng.getrandbits(60), plan.length)
        copies = [edited(original, rng.getrandbits(60)) for _ in range(rng.randint(1, 9))]
        texts += [Text(cluster, one) for one in (original, *copies)]
    texts = texts[: plan.texts]
    return texts + [Text(plan.clusters + n, " ".join(words(rng, plan.length))) for n in range(plan.texts - len(texts))]


class Runner:
    """One worker: a `winnow replay` of its own, started again when it is killed."""

    def __init__(self, number: int, folder: Path, url: str, options: Sequence[str]) -> None:
        self.number = number
        self.input, self.out = folder / f"in-{number}.jsonl", folder / f"out-{number}"
        self._log = (folder / f"log-{number}").open("ab")
        self._command = [sys.executable, "-m", "crawler.cli", "replay", str(self.input), "--out", str(self.out)]
        self._command += ["--redis", url, *options]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, cwd=ROOT, stdout=self._log, stderr=self._log)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self._start()

    def lines(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return (self.out / "verdicts" / "worker-0.jsonl").read_bytes().count(b"\n")
        return 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


def race(plan: Plan, seed: int, folder: Path, store: servers.Restartable, options: Sequence[str] = ()) -> Result:
    """Run one race to its end and return what was found wrong."""
    texts = corpus(plan, seed)
    for number in range(plan.workers):
        order = random.Random(f"{seed} {number}").sample(range(len(texts)), len(texts))
        lines = (json.dumps({"url": f"http://w{number}.example/{i}", "text": texts[i].words}) for i in order)
        (folder / f"in-{number}.jsonl").write_text("\n".join(lines) + "\n")
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        runners = [Runner(n, folder, store.url, options) for n in range(plan.workers)]
        for runner in runners:
            stack.callback(runner.close)
        kills = _until_the_end(plan, seed, runners, store, len(texts) * plan.workers)
        seconds = time.monotonic() - began
        for runner in runners:
            log = (folder / f"log-{runner.number}").read_text(errors="replace")
            assert runner.process.returncode == 0, f"worker {runner.number}: {runner.process.returncode}\n{log[-2000:]}"
            assert "Traceback" not in log, log[-2000:]
    return _judge(plan, texts, runners, seconds, kills)


def _until_the_end(plan: Plan, seed: int, runners: Sequence[Runner], store: servers.Restartable, total: int) -> int:
    rng, kills, restarted = random.Random(seed), 0, 0
    next_kill = time.monotonic() + plan.kill
    while any(runner.process.poll() is None for runner in runners):
        time.sleep(0.05)
        alive = [runner for runner in runners if runner.process.poll() is None]
        if plan.kill and kills < plan.kills and alive and time.monotonic() >= next_kill:
            rng.choice(alive).kill()
            kills, next_kill = kills + 1, time.monotonic() + plan.kill
        if restarted < plan.restarts:
            done = sum(runner.lines() for runner in runners)
            if done >= total * (restarted + 1) / (plan.restarts + 1):
                store.restart()
                restarted += 1
    assert restarted == plan.restarts, "the race ended before the store was restarted"
    return kills


def _judge(plan: Plan, texts: Sequence[Text], runners: Sequence[Runner], seconds: float, kills: int) -> Result:
    cluster = {f"http://w{r.number}.example/{i}": t.cluster for r in runners for i, t in enumerate(texts)}
    verdicts = [line for runner in runners for line in _verdicts(runner.out)]
    judged = Counter(line["url"] for line in verdicts)
    novel = {line["url"] for line in verdicts if line["verdict"] == "novel"}
    kept: dict[int, int] = defaultdict(int)
    for one in novel:
        kept[cluster[one]] += 1
    wrong = sum(
        line["verdict"] not in ("novel", "duplicate")
        or (line["verdict"] == "duplicate" and (line["of"] not in novel or cluster[line["of"]] != cluster[line["url"]]))
        for line in verdicts
    )
    written = Counter(one for runner in runners for one in _records(runner.out))
    clusters = {t.cluster for t in texts}
    return Result(
        pages=len(verdicts),
        kept=len(novel),
        seconds=seconds,
        kills=kills,
        double=sum(count > 1 for count in kept.values()),
        none=len(clusters - set(kept)),
        wrong=wrong,
        unjudged=sum(judged[one] != 1 for one in cluster) + sum(one not in cluster for one in judged),
        unwritten=sum(written[one] != 1 for one in novel) + sum(one not in novel for one in written),
    )


def _verdicts(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "verdicts" / "worker-0.jsonl").read_bytes().splitlines()]


def _records(out: Path) -> Iterator[str]:
    """Yield the URL of each kept page whose record is whole: its digests are right."""
    for file in sorted((out / "kept").glob("*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests=True):
                if record.rec_type in ("response", "resource"):
                    record.content_stream().read()
                    if record.digest_checker.passed is not False:
                        yield record.rec_headers.get_header("WARC-Target-URI")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.race", description="Race workers over one index.")
    for name, default in Plan()._asdict().items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=["valkey", "cluster", "redis"], default="valkey")
    args = parser.parse_args()
    plan = Plan(**{name: getattr(args, name) for name in Plan._fields})
    bad = 0
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        with (
            tempfile.TemporaryDirectory() as scratch,
            servers.restartable(args.store, Path(scratch) / "store") as store,
        ):
            result = race(plan, seed, Path(scratch), store)
            bad += not result.clean
            print(f"{args.store} seed {seed}: {'clean' if result.clean else 'BROKEN'} {result}", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
