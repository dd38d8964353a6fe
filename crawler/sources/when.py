"""Times as archives write them, as seconds since 1970. What cannot be understood is None, never an error."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_SHORTER = ("%Y%m%d%H%M%S", "%Y-%m", "%Y")  # Heritrix's 14 digits; WARC 1.1 allows a bare month or year


def epoch(written: str | float | None) -> int | None:
    """Return an ISO 8601 time, a 14-digit timestamp or a number of seconds as whole seconds since 1970.

    >>> epoch("1970-01-02T00:00:00Z"), epoch("19700102000000"), epoch(86400.7), epoch("soon")
    (86400, 86400, 86400, None)
    """
    if written is None:
        return None
    if isinstance(written, int | float):
        return int(written) if math.isfinite(written) else None
    text = written.strip()
    try:
        return _seconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        pass
    for pattern in _SHORTER:
        try:
            return _seconds(datetime.strptime(text, pattern).replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            continue
    return None


def _seconds(moment: datetime) -> int:
    """Return the moment's epoch; a time without a zone is UTC, as WARC says."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return math.floor(moment.timestamp())
