"""The two files that sum up a run: summary.json and clusters.jsonl.

Clusters are compiled from the verdict lines: copies are spread over temporary files by their cluster, so that memory
holds one of the parts at a time, however many copies there are.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from crawler.counters import total
from crawler.ledger import Checkpoint, write_whole
from crawler.sinks import explained
from dedup.model import Cluster, Member

_PARTS = 64


class _Line(msgspec.Struct):
    """The fields of a verdict line that clusters are made of."""

    url: str
    verdict: str
    how: str | None
    of: str | None
    cluster: str | None
    distance: int | None
    jaccard: float | None


def summarise(folder: Path, checkpoints: Sequence[Checkpoint | None]) -> dict[str, Any]:
    """Write summary.json and return what it says."""
    summary = summary_of(checkpoints)
    file = folder / "summary.json"
    with explained(file):
        write_whole(file, msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    return summary


def summary_of(checkpoints: Sequence[Checkpoint | None]) -> dict[str, Any]:
    """Return the counts of a run."""
    known = [checkpoint for checkpoint in checkpoints if checkpoint is not None]
    counters = total([checkpoint.counters for checkpoint in known])
    seconds = max((checkpoint.seconds for checkpoint in known), default=0.0)
    records: dict[str, int] = defaultdict(int)
    for checkpoint in known:
        for kind, count in checkpoint.other.items():
            records[kind] += count
    return {
        "pages": counters.pages,
        "verdicts": {v: getattr(counters, v) for v in ("novel", "duplicate", "soft404", "thin", "failed")},
        "how": dict(sorted(counters.how.items())),
        "reasons": dict(sorted(counters.reasons.items())),
        "damaged": counters.damaged,
        "records": dict(sorted(records.items())),
        "bytes": counters.bytes,
        "seconds": round(seconds, 3),
        "pages_per_second": round(counters.pages / seconds, 1) if seconds else 0.0,
        "workers": len(checkpoints),
        "finished": len(known) == len(checkpoints) and all(checkpoint.finished for checkpoint in known),
    }


def compile_clusters(folder: Path) -> int:
    """Write clusters.jsonl, largest first within each part, and return how many clusters there are."""
    target = folder / "clusters.jsonl"
    draft = folder / ".clusters.jsonl.new"
    count = 0
    with explained(target), tempfile.TemporaryDirectory(dir=folder / ".winnow") as scratch:
        parts = [Path(scratch) / str(number) for number in range(_PARTS)]
        _spread(folder, parts)
        with draft.open("wb") as out:
            for part in parts:
                for cluster in _clusters(part):
                    out.write(msgspec.json.encode(cluster) + b"\n")
                    count += 1
        draft.replace(target)
    return count


def _spread(folder: Path, parts: Sequence[Path]) -> None:
    decode = msgspec.json.Decoder(_Line).decode
    outs = [part.open("wb") for part in parts]
    try:
        for log in sorted((folder / "verdicts").glob("*.jsonl")):
            with log.open("rb") as lines:
                for raw in lines:
                    line = decode(raw)
                    if line.verdict == "duplicate" and line.cluster is not None:
                        outs[int(line.cluster[:2], 16) % _PARTS].write(raw)
    finally:
        for out in outs:
            out.close()


def _clusters(part: Path) -> Iterator[Cluster]:
    decode = msgspec.json.Decoder(_Line).decode
    members: dict[str, list[Member]] = defaultdict(list)
    representative: dict[str, str] = {}
    with part.open("rb") as lines:
        for raw in lines:
            line = decode(raw)
            cluster = line.cluster or ""
            representative[cluster] = line.of or ""
            members[cluster].append(Member(line.url, line.how or "", line.jaccard, line.distance))
    for cluster, copies in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        yield Cluster(cluster, representative[cluster], 1 + len(copies), tuple(copies))
