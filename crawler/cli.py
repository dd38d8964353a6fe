"""The command line: the composition root. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawler.version import VERSION
from dedup.errors import WinnowError

if TYPE_CHECKING:
    from dedup.settings import Settings

_EPILOG = """\b
Examples:
  winnow replay crawl.warc.gz --out out            judge an archive, keep what is novel
  winnow replay mirror/ more.jsonl --out out       folders and JSONL, too
  winnow replay *.warc.gz --out out --workers 4    share the work
  winnow replay a/ --out a --redis redis://db/0    one index for several machines
  winnow status --out out                          how far it is, and what the index costs
  winnow forget URL --out out                      take a kept page out of the index
  winnow compare a.html b.html                     are these two copies of each other?

\b
Exit codes: 0 done, 2 usage, 3 disk full, 4 bad configuration, 5 some input was damaged or missing,
8 store unavailable, 11 stopped gracefully (run again to go on), 13 forced.
"""


_STOPPED = 11


class _Group(click.Group):
    """Turns our errors into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WinnowError as error:
            click.echo(f"winnow: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(_STOPPED)  # before there was anything to drain


@click.group(
    cls=_Group, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(VERSION, prog_name="winnow")
def main() -> None:
    """Winnow keeps only what a crawl has not seen, and says why."""


def _settings_options(command: Any) -> Any:
    for option in (
        click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings in TOML."),
        click.option("--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    ):
        command = option(command)
    return command


def _settings(redis: str | None, config: Path | None, overrides: tuple[str, ...]) -> Settings:
    """Return the settings, with the store of --redis; a password there is hidden from `ps`."""
    import msgspec

    from crawler.title import hide_secrets
    from dedup.settings import load

    hide_secrets()
    settings = load(config, overrides)
    if redis is None:
        return settings
    return msgspec.structs.replace(settings, store=msgspec.structs.replace(settings.store, url=redis))


_redis_option = click.option(
    "--redis",
    metavar="URL",
    envvar="WINNOW_REDIS",
    help="Your own Redis or Valkey instead of the embedded one; also by the variable WINNOW_REDIS.",
)


def _run_options(command: Any) -> Any:
    """Let a command find a run by its folder, or an index by its store."""
    out = click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The folder of a run.")
    return out(_redis_option(_settings_options(command)))


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where the output goes.")
@_redis_option
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes that share the work [default: 1].")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@_settings_options
def replay(
    paths: tuple[str, ...],
    out: Path,
    redis: str | None,
    workers: int | None,
    quiet: bool,
    config: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Judge saved pages; run again to resume.

    PATH is a WARC (.warc, .warc.gz), a JSONL file with {"url", "html" or "text"} a line (.jsonl, .jsonl.gz), an HTML or
    text file, a folder (HOST/PATH below it is http://HOST/PATH), or - for standard input.
    """
    import asyncio

    from crawler.replay import replay as run

    settings = _settings(redis, config, overrides)
    sys.exit(asyncio.run(run(paths, out, settings, workers=workers, quiet=quiet, as_json=as_json)))


@main.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@_settings_options
def compare(a: Path, b: Path, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Compare two files by the rules of the index: similarity, distance, verdict, lines."""
    from crawler.comparing import compare_files
    from dedup.settings import load

    compare_files(a, b, load(config, overrides), as_json=as_json)


@main.command()
@_run_options
def status(out: Path | None, redis: str | None, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show the counters of a run, going on or finished, and what its index holds and costs."""
    import asyncio

    from crawler import indexing

    asyncio.run(indexing.status(out, _settings(redis, config, overrides), as_json=as_json))


@main.command()
@click.argument("url")
@_run_options
def forget(
    url: str, out: Path | None, redis: str | None, config: Path | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Take a kept page out of the index: the next page with its text is novel again."""
    import asyncio

    from crawler import indexing

    asyncio.run(indexing.forget(url, out, _settings(redis, config, overrides), as_json=as_json))


@main.group()
def index() -> None:
    """Look at an index, or delete it."""


@index.command()
@_run_options
def stats(out: Path | None, redis: str | None, config: Path | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show what an index holds, and the memory of its parts."""
    import asyncio

    from crawler import indexing

    asyncio.run(indexing.stats(out, _settings(redis, config, overrides), as_json=as_json))


@index.command()
@click.option("--yes", is_flag=True, help="Do it: there is no way back.")
@_run_options
def drop(
    yes: bool, out: Path | None, redis: str | None, config: Path | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Delete all of an index: claims, buckets, kept documents, line census."""
    import asyncio

    from crawler import indexing

    asyncio.run(indexing.drop(out, _settings(redis, config, overrides), sure=yes, as_json=as_json))


if __name__ == "__main__":
    main()
