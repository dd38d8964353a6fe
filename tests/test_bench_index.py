"""The benches of the shared index give their figures, with and without datasketch, and know the truth they claim."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import index, recall
from tests.servers import valkey_binary


def run(monkeypatch: pytest.MonkeyPatch, module: object, *options: str) -> None:
    """Call a bench's main as the command line does, on our own server."""
    monkeypatch.setattr(sys, "argv", ["bench", "--redis-server", valkey_binary(), *options])
    module.main()  # type: ignore[attr-defined]


def test_without_datasketch_our_rows_are_still_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The bench says what is missing and how to get it, prints our figures and writes them down."""
    monkeypatch.setattr(index, "datasketch", None)
    sizes = ["--pages", "600", "--rate-pages", "300", "--rounds", "2", "--growth", "400", "900"]
    run(monkeypatch, index, *sizes, "--json", str(tmp_path / "figures.json"))
    printed = capsys.readouterr().out
    assert "pip install 'winnow[bench]'" in printed
    assert "bytes a page, of 600" in printed
    found = json.loads((tmp_path / "figures.json").read_bytes())
    assert found["their_bytes"] is None
    assert found["memory"]["bytes"] == pytest.approx(sum(found["memory"]["parts"].values()))
    assert 100 < found["memory"]["parts"]["documents"] < 1000
    assert 50 < found["memory"]["parts"]["buckets"] < 3000
    half, none = found["speed"]
    assert half["found"] == half["planted"] > 200
    assert (none["found"], none["planted"], none["theirs"]) == (0, 0, [])
    assert min(half["ours"] + none["ours"]) > 0
    assert [row["pages"] for row in found["growth"]] == [400, 900]
    assert all(row["rate"] > 0 and row["ratio"] > 0 and row["bytes"] > 100 for row in found["growth"])


def test_a_peer_is_measured_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """With both rates, the table has the median ratio, its spread, and that of the fastest rounds."""
    index.show_speed(index.Speed(300, 150, [200.0, 300.0, 800.0], 150, [100.0, 50.0, 200.0], 140))
    assert capsys.readouterr().out.splitlines() == [
        "pages/s, 50% copies                300         100    4.0 (2.0 to 6.0, fastest 4.0)",
        "  found, of 150 copies             150         140",
    ]


def test_recall_finds_copies_and_leaves_the_unlike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of near-equal pairs nearly all are found, of far ones hardly any is taken for a copy."""
    run(monkeypatch, recall, "--pairs", "300", "--json", str(tmp_path / "rows.json"))
    assert "with J >= 0.83, found" in capsys.readouterr().out
    *steps, alike, unlike = json.loads((tmp_path / "rows.json").read_bytes())
    assert sum(row["pairs"] for row in steps) > 280  # edits that meet may push a pair just below .4
    assert alike["pairs"] > 50
    assert alike["found"] >= 0.95 * alike["pairs"]
    assert unlike["pairs"] > 80
    assert unlike["copies"] <= 0.05 * unlike["pairs"]


def test_pairs_keep_to_their_lengths_and_spread() -> None:
    """Texts have 300 to 1,000 words, URLs 60 bytes, and no part of the similarities is left out."""
    rng = np.random.default_rng(1)
    pairs = [recall.pair(rng) for _ in range(400)]
    assert all(recall.SHORTEST - 10 <= len(words) <= recall.LONGEST + 10 for pair in pairs for words in pair)
    counts, _ = np.histogram([recall.jaccard(a, b) for a, b in pairs], [0, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    assert counts[0] <= 4
    assert counts[1:].min() > 30
    assert len(recall.url(1_234_567)) == 60


def test_exact_jaccard_of_words() -> None:
    """Of the words 0 to 8 and 1 to 9, four of six shingles are shared."""
    assert recall.jaccard([*range(9)], [*range(1, 10)]) == pytest.approx(4 / 6)
