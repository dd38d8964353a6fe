"""The errors that reach a user, each with the exit code it ends a command with.

    WinnowError            (never raised itself)
    ├── UsageError         2   the command line does not make sense
    ├── DiskFull           3   the output folder has no room left
    ├── ConfigError        4   a setting is unknown, malformed, or contradicts the index
    │   └── IndexMismatch  4   the namespace holds an index made with other parameters
    ├── InputError         5   an input path is missing or cannot be read
    ├── OutputError        2   the output folder cannot be used (not writable, busy, of another run)
    └── StoreError         8   the store cannot be reached, refuses us, or answers nonsense
        └── StoreAway      8   it was there, went away, and was waited for as long as anybody wanted

Every message names the thing, the cause and the fix. Outcomes of a page (failed, duplicate, thin) are
values, never exceptions.
"""

from __future__ import annotations


class WinnowError(Exception):
    """Base of everything a command turns into one line on stderr and an exit code."""

    exit_code = 1


class UsageError(WinnowError):
    exit_code = 2


class OutputError(WinnowError):
    exit_code = 2


class DiskFull(WinnowError):
    exit_code = 3


class ConfigError(WinnowError):
    exit_code = 4


class IndexMismatch(ConfigError):
    pass


class InputError(WinnowError):
    exit_code = 5


class StoreError(WinnowError):
    exit_code = 8


class StoreAway(StoreError):
    pass
