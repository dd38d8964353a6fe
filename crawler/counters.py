"""What a run has done so far, in numbers: the progress bar, summary.json and the metrics all read this."""

from __future__ import annotations

from collections import Counter
from typing import Self

import msgspec

from dedup.model import Verdict


class Counters(msgspec.Struct):
    """Counts of verdicts; those of several workers add up."""

    pages: int = 0
    novel: int = 0
    duplicate: int = 0
    soft404: int = 0
    thin: int = 0
    failed: int = 0
    damaged: int = 0  # of the failed: the input itself is broken
    bytes: int = 0  # of the bodies that were judged
    how: dict[str, int] = msgspec.field(default_factory=dict)
    reasons: dict[str, int] = msgspec.field(default_factory=dict)

    def count(self, verdict: Verdict, *, size: int = 0, damaged: bool = False) -> None:
        self.pages += 1
        setattr(self, verdict.verdict, getattr(self, verdict.verdict) + 1)
        self.damaged += damaged
        self.bytes += size
        if verdict.how is not None:
            self.how[verdict.how] = self.how.get(verdict.how, 0) + 1
        if verdict.reason is not None:
            kind = verdict.reason.partition(":")[0]  # 'truncated: 17 of 90 bytes' counts as 'truncated'
            self.reasons[kind] = self.reasons.get(kind, 0) + 1

    def copy(self) -> Self:
        return msgspec.convert(msgspec.to_builtins(self), type(self))


def total(parts: list[Counters]) -> Counters:
    """Return the counters of several workers as one."""
    whole = Counters()
    for part in parts:
        for name in ("pages", "novel", "duplicate", "soft404", "thin", "failed", "damaged", "bytes"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        whole.how = dict(Counter(whole.how) + Counter(part.how))
        whole.reasons = dict(Counter(whole.reasons) + Counter(part.reasons))
    return whole
