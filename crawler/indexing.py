"""`winnow status`, `winnow forget` and `winnow index`: a look at a run and its index, and the end of parts of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from crawler.attach import attached
from crawler.outcome import summary_of
from crawler.rundir import RunDir, manifest_of
from dedup.errors import UsageError
from dedup.settings import Settings
from dedup.store import life
from dedup.store.life import Part, Stats


async def status(out: Path | None, settings: Settings, *, as_json: bool) -> None:
    """Print the counters of the run in `out`, and what its index holds and costs."""
    told: dict[str, Any] = {}
    if out is not None:
        run = manifest_of(out)
        state = "running" if RunDir.is_owned(out) else "finished" if RunDir.is_finished(out, run) else "stopped"
        told["run"] = {
            "folder": str(out),
            "kind": run.kind,
            "state": state,
            **summary_of(RunDir.checkpoints_of(out, run)),
        }
        if not as_json:
            _print_run(told["run"])
    async with attached(out, settings) as store:
        found = await life.stats(await life.open_as_made(store, settings.index.namespace))
    if as_json:
        _print_json({**told, "index": _as_dict(found)})
    else:
        _print_stats(found)


async def stats(out: Path | None, settings: Settings, *, as_json: bool) -> None:
    """Print what an index holds and costs."""
    async with attached(out, settings) as store:
        found = await life.stats(await life.open_as_made(store, settings.index.namespace))
    if as_json:
        _print_json(_as_dict(found))
    else:
        _print_stats(found)


async def forget(url: str, out: Path | None, settings: Settings, *, as_json: bool) -> None:
    """Take a kept page out of the index, and say what that was."""
    async with attached(out, settings) as store:
        index = await life.open_as_made(store, settings.index.namespace)
        gone = await life.forget(index, url)
    if as_json:
        _print_json({"url": url, **msgspec.to_builtins(gone)})
    else:
        print(
            f"forgot {url}: {gone.documents} kept page(s), {gone.records} bucket records; its site's lines stay counted"
        )


async def drop(out: Path | None, settings: Settings, *, sure: bool, as_json: bool) -> None:
    """Delete a namespace, if the user is sure."""
    namespace = settings.index.namespace
    async with attached(out, settings) as store:
        if not sure:
            raise UsageError(f"this deletes all of the index {namespace!r} in {store.name}: add --yes to do it")
        dropped = await life.drop(store, namespace)
        name = store.name
    if as_json:
        _print_json({"namespace": namespace, "keys": dropped})
    else:
        print(f"dropped the index {namespace!r} from {name}: {dropped:,} keys")


def _as_dict(found: Stats) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "bytes_a_page": round(found.bytes_a_page, 1)}


def _print_json(told: Mapping[str, Any]) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n")


def _print_run(run: Mapping[str, Any]) -> None:
    counts = "  ".join(f"{count:,} {name}" for name, count in run["verdicts"].items() if count)
    print(f"{run['kind']} in {run['folder']}: {run['state']}")
    print(
        f"{run['pages']:,} pages: {counts or 'none yet'}; "
        f"{run['seconds']:,.0f} s, {run['pages_per_second']:,.0f} pages/s"
    )


def _print_stats(found: Stats) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"index '{found.namespace}', schema {found.schema}: "
        f"{found.pages:,} pages kept, {found.claims:,} claims under way"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("memory", "keys", "MB", "bytes a page"):
        table.add_column(column, justify="left" if column == "memory" else "right")
    pages = found.pages or 1

    def row(name: str, part: Part) -> None:
        table.add_row(name, f"{part.keys:,}", f"{part.bytes / 1e6:,.1f}", f"{part.bytes / pages:,.0f}")

    row("documents", found.documents)
    row("buckets", found.buckets)
    whole = Part(found.documents.keys + found.buckets.keys, found.documents.bytes + found.buckets.bytes)
    row("index", whole)
    row(f"line census of {found.sites:,} site{'' if found.sites == 1 else 's'}", found.census)
    console.print(table)
    for node, used in sorted(found.memory_by_node.items()):
        console.print(f"server {node}: {used / 1e6:,.1f} MB used in all, {found.pages_by_node.get(node, 0):,} pages")
