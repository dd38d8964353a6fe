"""Settings: strict, readable, and all of them in config/default.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest

from dedup.errors import ConfigError
from dedup.settings import Settings, load, parse_seconds, parse_size

DEFAULT = Path(__file__).resolve().parents[2] / "config" / "default.toml"


def written(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "winnow.toml"
    path.write_text(content)
    return path


def test_default_toml_names_every_setting() -> None:
    """config/default.toml and the structs have the same sections and keys, in both directions."""
    table = tomllib.loads(DEFAULT.read_text())
    in_file = {(section, key) for section, keys in table.items() for key in keys}
    in_code = {(s, key) for s, hint in get_type_hints(Settings).items() for key in get_type_hints(hint)}
    assert in_file == in_code


def test_default_toml_has_the_defaults() -> None:
    """What the file says is what happens without it."""
    assert load(DEFAULT) == load() == Settings()


def test_default_toml_explains_every_setting() -> None:
    """Each key stands below a comment, its own or that of the group it belongs to."""
    commented = False
    for line in DEFAULT.read_text().splitlines():
        if not line or line.startswith("["):
            commented = False
        assert commented or not line or line[0] in "#[", line
        commented = commented or line.startswith("#")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("64kB", 64_000),
        ("10MiB", 10 << 20),
        ("1.5 KiB", 1536),
        ("1gb", 10**9),
        (" 2 GiB ", 2 << 30),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """Sizes are written for people, decimal and binary."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("250ms", 0.25), ("5m", 300), ("1.5h", 5400), ("2", 2), ("1d", 86400)]
)
def test_times(text: str, seconds: float) -> None:
    """Times are written for people."""
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "MiB", "10 apples", "-1", "1e3", "10MiB/s"])
def test_quantities_that_are_none(text: str) -> None:
    """What is neither is refused with an example of what is."""
    with pytest.raises(ValueError, match="such as"):
        parse_size(text)
    with pytest.raises(ValueError, match="such as"):
        parse_seconds(text)


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    """Keys of the file win over defaults; sizes and times may be strings or numbers."""
    settings = load(written(tmp_path, '[kept]\nmax_file = "10MiB"\n[index]\nlease = 5\n[extract]\nmax_body = 7\n'))
    assert (settings.kept.max_file, settings.index.lease, settings.extract.max_body) == (10 << 20, 5.0, 7)
    assert settings.census == Settings().census


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    """--set wins over --config, and the last --set over the ones before."""
    file = written(tmp_path, "[kept]\nlevel = 1\nwarc = false\n")
    settings = load(file, ["kept.level=2", "kept.level=3"])
    assert (settings.kept.level, settings.kept.warc) == (3, False)


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("kept.warc=false", "kept", "warc", False),
        ("kept.copies=none", "kept", "copies", "none"),
        ('kept.copies="full"', "kept", "copies", "full"),
        ("census.share=.7", "census", "share", 0.7),
        ("census.share=1", "census", "share", 1.0),
        ("index.namespace=007", "index", "namespace", "007"),
        ("index.lease = 2m", "index", "lease", 120.0),
        ("store.url=redis://:a=b@host/0", "store", "url", "redis://:a=b@host/0"),
    ],
)
def test_overrides_are_read_by_their_type(override: str, section: str, key: str, value: object) -> None:
    """On the command line quotes may be left off: the setting's type decides."""
    assert getattr(getattr(load(overrides=[override]), section), key) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("kept.wrac=true", "unknown setting kept.wrac; did you mean kept.warc?"),
        ("kept.threshold=1", "unknown setting kept.threshold; did you mean sketch.threshold?"),
        ("sketches.bands=1", "unknown section [sketches]; did you mean sketch?"),
        ("nonsense", "expected section.key=value"),
        ("kept=1", "expected section.key=value"),
        ("kept.level=ten", "kept.level: Expected `int`, got `str`"),
        ("kept.level=10", "kept.level must be 0 to 9"),
        ("kept.warc=maybe", "kept.warc: Expected `bool`, got `str`"),
        ("kept.copies=some", "kept.copies: Invalid enum value 'some'"),
        ("kept.max_file=big", "kept.max_file: expected a size such as"),
        ("index.lease=soon", "index.lease: expected a time such as"),
        ("index.namespace=a{b}", "index.namespace: letters, digits"),
        ("sketch.max_distance=9", "sketch.max_distance must be 0 to 3"),
        ("sketch.bands=200", "sketch.bands x sketch.rows must be at most"),
        ("census.share=nan", "census.share must be above 0"),
        ("census.share=0", "census.share must be above 0"),
        ("replay.batch=0", "replay.batch must be at least 1"),
        ("replay.batch_bytes=0", "replay.batch_bytes must be at least 1"),
        ("extract.max_body=0", "extract.max_body must be at least 1"),
        ("kept.max_file=0", "kept.max_file must be at least 1"),
        ("index.lease=inf", "index.lease must be at least 1s"),
        ("sketch.seed=-1", "sketch.seed must be 0 to"),
        ("census.hold_bytes=-1", "census.hold_* must be 0 or more"),
        ("store.connect_timeout=0", "store.connect_timeout must be above 0"),
    ],
)
def test_bad_overrides(override: str, message: str) -> None:
    """Each message names the setting, what is wrong, and what would be right."""
    with pytest.raises(ConfigError) as caught:
        load(overrides=[override])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[kept]\nwrac = true\n", "unknown setting kept.wrac; did you mean kept.warc?"),
        ("[keep]\nwarc = true\n", "unknown section [keep]; did you mean kept?"),
        ("kept = 1\n", "[kept] must be a section"),
        ("[kept\n", "is not valid TOML"),
        ("[kept]\nlevel = true\n", "kept.level: Expected `int`, got `bool`"),
        ("[extract]\nmax_body = -5\n", "extract.max_body must be at least 1"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    """The same in a file, whose name the message begins with."""
    file = written(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(file) in str(caught.value) and message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is named, with the option that named it."""
    with pytest.raises(ConfigError, match=r"none\.toml: No such file or directory; check --config"):
        load(tmp_path / "none.toml")


def test_a_bad_override_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    """With a good file and a bad --set, the message names --set."""
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, "[kept]\nlevel = 1\n"), ["kept.level=ten"])
    assert "winnow.toml" not in str(caught.value) and "--set" in str(caught.value)
