"""What a person sees: a bar on a terminal, a line of counters a minute elsewhere, a table at the end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from crawler.counters import Counters

_EVERY = 60.0


class Display(Protocol):
    """Shows the counters of a run while it goes on."""

    def show(self, counters: Counters, read: int) -> None: ...
    def say(self, message: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def display(total: int | None, *, quiet: bool) -> Display:
    """Return what suits the terminal; all of it goes to stderr, so that stdout can be piped."""
    if quiet:
        return Silent()
    if sys.stderr.isatty():
        return Bar(total)
    return Lines()


class _Rate:
    """Pages a second over about the last ten seconds."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def update(self, pages: int) -> float:
        now = time.monotonic()
        self._seen = [(at, n) for at, n in self._seen if now - at < 10] + [(now, pages)]
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last > first else 0.0


class Silent:
    def show(self, counters: Counters, read: int) -> None:
        pass

    def say(self, message: str) -> None:
        print(message, file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass


class Lines(Silent):
    """One line of counters a minute: for logs."""

    def __init__(self) -> None:
        self._rate = _Rate()
        self._told = time.monotonic()

    def show(self, counters: Counters, read: int) -> None:
        rate = self._rate.update(counters.pages)
        if time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            self.say(
                f"pages {counters.pages}  kept {counters.novel}  copies {counters.duplicate}  thin {counters.thin}  "
                f"failed {counters.failed}  {rate:.0f} pages/s"
            )


class Bar(Silent):
    """A progress bar that ends where the input does."""

    def __init__(self, total: int | None) -> None:
        self._rate = _Rate()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            _Counts(),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("replay", total=total or None, counters=Counters(), rate=0.0)

    def show(self, counters: Counters, read: int) -> None:
        rate = self._rate.update(counters.pages)
        self._progress.update(self._task, completed=read, counters=counters, rate=rate)

    def say(self, message: str) -> None:
        self._progress.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._progress.stop()


class _Counts(ProgressColumn):
    def render(self, task: Task) -> Text:
        counters: Counters = task.fields["counters"]
        text = Text()
        for label, value, style in (
            ("pages", counters.pages, "bold"),
            ("kept", counters.novel, "green"),
            ("copies", counters.duplicate, "yellow"),
            ("failed", counters.failed, "red"),
        ):
            text.append(f"{value:,}", style).append(f" {label}  ", "dim")
        return text.append(f"{task.fields['rate']:,.0f}/s", "cyan")


def print_summary(summary: dict[str, Any], folder: str, clusters: int) -> None:
    """Print the end of a run for a person."""
    console = Console(highlight=False)
    pages = summary["pages"] or 1
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    table.add_column(style="dim")
    how = ", ".join(f"{count:,} {name}" for name, count in summary["how"].items())
    reasons = ", ".join(f"{count:,} {name}" for name, count in summary["reasons"].items())
    notes = {"novel": "kept", "duplicate": how, "thin": "nothing left once stripped", "failed": reasons}
    for name, count in summary["verdicts"].items():
        if count or name in ("novel", "duplicate"):
            table.add_row(name, f"{count:,}", f"{count / pages:.1%}", notes.get(name, ""))
    table.add_row("pages", f"{summary['pages']:,}", "", f"{summary['bytes'] / 1e6:,.1f} MB of bodies")
    console.print(table)
    records = ", ".join(f"{count:,} {name}" for name, count in summary["records"].items())
    if records:
        console.print(f"other records, only counted: {records}")
    groups = f"{clusters:,} {'cluster' if clusters == 1 else 'clusters'} of copies"
    console.print(f"{groups} · {summary['seconds']:,.1f} s · {summary['pages_per_second']:,.0f} pages/s")
    console.print(f"output in {folder}", soft_wrap=True)
