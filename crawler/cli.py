"""The command line: the composition root. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from crawler.version import VERSION
from dedup.errors import WinnowError

_EPILOG = """\b
Examples:
  winnow replay crawl.warc.gz --out out            judge an archive, keep what is novel
  winnow replay mirror/ more.jsonl --out out       folders and JSONL, too
  winnow replay *.warc.gz --out out --workers 4    share the work
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


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where the output goes.")
@click.option("--redis", metavar="URL", help="Your own Redis or Valkey instead of the embedded one.")
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

    import msgspec

    from crawler.replay import replay as run
    from dedup.settings import load

    settings = load(config, overrides)
    if redis is not None:
        settings = msgspec.structs.replace(settings, store=msgspec.structs.replace(settings.store, url=redis))
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


if __name__ == "__main__":
    main()
