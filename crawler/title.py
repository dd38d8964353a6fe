"""What others see of this process: its command line, without the password of a store's URL."""

from __future__ import annotations

import sys

from dedup.store.connect import mask


def hide_secrets() -> None:
    """Show the command line with masked URLs in `ps` and /proc, if one of its words holds a password."""
    shown = [mask(word) for word in sys.argv]
    if shown != sys.argv:
        import setproctitle  # noqa: PLC0415  (only where it is needed)

        setproctitle.setproctitle(" ".join(shown))
