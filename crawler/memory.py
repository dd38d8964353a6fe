"""The allocator, tuned for a worker: pages are parsed into megabytes that are given back at once, again and again.

glibc returns such memory to the kernel each time and fetches it anew, a page fault for every 4 KiB; and Python's
collector walks all modules in search of cycles that a pipeline of frozen values hardly makes. On the manuals that
bench/ uses, the two together cost a tenth of a run.
"""

from __future__ import annotations

import ctypes
import gc
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEEP = 32 * 2**20  # freed memory that stays with the process


def tune() -> None:
    """Keep freed memory at hand, and leave what is imported by now out of garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, _KEEP)
            mallopt(_M_TRIM_THRESHOLD, 2 * _KEEP)
