"""Settings: one frozen struct a section, strict TOML in, every unknown key an error.

Precedence: defaults < --config FILE < --set section.key=value < a command's own flags. Sizes and times may be
written for people (`10MiB`, `30s`). config/default.toml lists every key with its default and its meaning; a test
holds the two together.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NewType, get_type_hints

import msgspec

from dedup.errors import ConfigError
from dedup.model import SketchParams

Size = NewType("Size", int)
Seconds = NewType("Seconds", float)

_SIZE_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_TIME_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_A_YEAR = 366 * 86400.0
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


class ExtractSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_body: Size = Size(10 * 2**20)


class CensusSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    share: float = 0.5
    min_pages: int = 10
    max_lines: int = 20_000
    hold_pages: int = 2_000
    hold_bytes: Size = Size(64 * 2**20)
    hold_window: int = 5_000


class SketchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    threshold: float = 0.75
    max_distance: int = 3
    floor: float = 0.5
    bands: int = SketchParams().bands
    rows: int = SketchParams().rows
    seed: int = 1


class IndexSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: str = "winnow"
    lease: Seconds = Seconds(60.0)


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str = ""
    appendfsync: Literal["always", "everysec", "no"] = "everysec"
    connect_timeout: Seconds = Seconds(10.0)
    start_timeout: Seconds = Seconds(60.0)
    patience: Seconds = Seconds(300.0)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    check_hostname: bool = True


class KeptSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    warc: bool = True
    text: bool = True
    copies: Literal["none", "revisit", "full"] = "revisit"
    max_file: Size = Size(2**30)
    level: int = 6


class ReplaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch: int = 256
    batch_bytes: Size = Size(8 * 2**20)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    extract: ExtractSettings = ExtractSettings()
    census: CensusSettings = CensusSettings()
    sketch: SketchSettings = SketchSettings()
    index: IndexSettings = IndexSettings()
    store: StoreSettings = StoreSettings()
    kept: KeptSettings = KeptSettings()
    replay: ReplaySettings = ReplaySettings()

    @property
    def params(self) -> SketchParams:
        return SketchParams(bands=self.sketch.bands, rows=self.sketch.rows, seed=self.sketch.seed)


def load(file: Path | None = None, overrides: Iterable[str] = ()) -> Settings:
    """Return the settings of a TOML file with `section.key=value` overrides on top.

    >>> load(overrides=["kept.max_file=10MiB"]).kept.max_file
    10485760
    """
    table: dict[str, Any] = {}
    if file is not None:
        table = _read(file)
        _check_names(table, str(file))
        _convert(table, str(file))  # what is wrong after this is not the file's fault
    for text in overrides:
        _override(table, text)
    return _convert(table, "--set")


def parse_size(text: str) -> int:
    """Return bytes: `10MiB`, `64 kB`, `512`.

    >>> parse_size("1.5 KiB")
    1536
    """
    return int(_quantity(text, _SIZE_UNITS, "a size such as 512, 64kB or 10MiB"))


def parse_seconds(text: str) -> float:
    """Return seconds: `30s`, `5m`, `250ms`, `1.5h`, `2`.

    >>> parse_seconds("5m")
    300.0
    """
    return _quantity(text, _TIME_UNITS, "a time such as 30s, 5m or 250ms")


def _quantity(text: str, units: Mapping[str, float], wanted: str) -> float:
    match = _QUANTITY.fullmatch(text)
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"expected {wanted}, got {text!r}")
    return float(match[1]) * unit


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {file}: {error.strerror}; check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None


def _override(table: dict[str, Any], text: str) -> None:
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot:
        raise ConfigError(f"--set {text}: expected section.key=value, as in --set kept.warc=false")
    _check_names({section: {key: None}}, f"--set {text}")
    hint = get_type_hints(get_type_hints(Settings)[section])[key]
    table.setdefault(section, {})[key] = _value(value.strip(), hint)


def _value(text: str, hint: Any) -> Any:
    """Return the value that text spells on the command line, where quotes and a leading 0 may be left off."""
    if hint is str:
        return text.strip("\"'")
    try:
        return float(text) if hint is float else tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, ValueError):
        return text


def _check_names(table: Mapping[str, Any], origin: str) -> None:
    sections = get_type_hints(Settings)
    for section, values in table.items():
        if section not in sections:
            raise ConfigError(f"{origin}: unknown section [{section}]{_nearest(section, sections)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: [{section}] must be a section, not a value")
        keys = get_type_hints(sections[section])
        everywhere = {f"{s}.{k}" for s, hint in sections.items() for k in get_type_hints(hint)}
        for key in values:
            if key not in keys:
                near = _nearest(key, keys, prefix=f"{section}.") or _nearest(f"{section}.{key}", everywhere)
                raise ConfigError(f"{origin}: unknown setting {section}.{key}{near}")


def _nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


def _convert(table: dict[str, Any], origin: str) -> Settings:
    sections = get_type_hints(Settings)
    for section, values in table.items():
        hints = get_type_hints(sections[section])
        for key, value in values.items():
            parse = {Size: parse_size, Seconds: parse_seconds}.get(hints[key])
            if parse is not None and isinstance(value, str):
                try:
                    values[key] = parse(value)
                except ValueError as error:
                    raise ConfigError(f"{origin}: {section}.{key}: {error}") from None
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        raise ConfigError(f"{origin}: {where.rstrip('`') or 'settings'}: {what}") from None
    _check_ranges(settings, origin)
    return settings


def _check_ranges(settings: Settings, origin: str) -> None:
    sketch, census, store = settings.sketch, settings.census, settings.store
    rules = [
        (settings.extract.max_body >= 1, "extract.max_body must be at least 1 byte"),
        (0 < census.share <= 1, "census.share must be above 0 and at most 1"),
        (census.min_pages >= 1, "census.min_pages must be at least 1"),
        (census.max_lines >= 100, "census.max_lines must be at least 100"),
        (min(census.hold_pages, census.hold_window, census.hold_bytes) >= 0, "census.hold_* must be 0 or more"),
        (0 < sketch.threshold <= 1, "sketch.threshold must be above 0 and at most 1"),
        (0 <= sketch.floor <= 1, "sketch.floor must be between 0 and 1"),
        (0 <= sketch.max_distance <= 3, "sketch.max_distance must be 0 to 3: the tables find no more"),
        (sketch.bands >= 1 and sketch.rows >= 1, "sketch.bands and sketch.rows must be at least 1"),
        (
            sketch.bands * sketch.rows <= SketchParams().slots,
            f"sketch.bands x sketch.rows must be at most {SketchParams().slots}, the slots of a signature",
        ),
        (bool(re.fullmatch(r"[\w.-]{1,64}", settings.index.namespace)), "index.namespace: letters, digits, . _ -"),
        (0 <= sketch.seed < 2**32, "sketch.seed must be 0 to 4294967295"),
        (1 <= settings.index.lease <= _A_YEAR, "index.lease must be at least 1s and at most a year"),
        (0 < store.connect_timeout <= _A_YEAR, "store.connect_timeout must be above 0 and at most a year"),
        (0 <= store.patience <= _A_YEAR, "store.patience must be 0 or more and at most a year"),
        (0 < store.start_timeout <= _A_YEAR, "store.start_timeout must be above 0 and at most a year"),
        (settings.replay.batch >= 1, "replay.batch must be at least 1"),
        (settings.replay.batch_bytes >= 1, "replay.batch_bytes must be at least 1 byte"),
        (settings.kept.max_file >= 1, "kept.max_file must be at least 1 byte"),
        (0 <= settings.kept.level <= 9, "kept.level must be 0 to 9"),
    ]
    for holds, message in rules:
        if not holds:
            raise ConfigError(f"{origin}: {message}")
