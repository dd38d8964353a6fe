"""What tests of whole runs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawler import running


@pytest.fixture
def no_server_is_left(out: Path) -> Iterator[None]:
    """Whatever a test does to a run, also one that fails, at its end the folder's server is gone."""
    yield
    left = running.servers_of(out)
    running.end_servers(out)
    assert not left
