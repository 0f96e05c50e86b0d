"""Measured figures get into the page as they were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.bench.document import main, replaced

_MACHINE = {"processor": "P", "processors": 2, "system": "Linux x", "python": "3", "versions": {"openssl": "4"}}
_PAGE = "before\n<!-- engine: begin -->\nold\n<!-- engine: end -->\n<!-- http: begin --><!-- http: end -->\nafter\n"


def _engine_row(kernel: str, nanoseconds: float, target: float | None) -> dict[str, object]:
    ratio = 1000 / nanoseconds
    return {
        "operation": "seal x", "size": 16384, "kernel": kernel, "peer": "cryptography", "nanoseconds": nanoseconds,
        "peer_nanoseconds": 1000.0, "ratio": ratio, "target": target,
        "met": None if target is None else ratio >= target,
    }  # fmt: skip


def test_both_sections(tmp_path: Path) -> None:
    page, engine, http = tmp_path / "page.md", tmp_path / "engine.json", tmp_path / "http.json"
    page.write_text(_PAGE)
    rows = [_engine_row("fast", 250.0, 3.5), _engine_row("slow", 800.0, 1.5), _engine_row("other", 2000.0, None)]
    engine.write_text(json.dumps({"machine": _MACHINE, "settings": {"rounds": 40}, "results": rows}))
    figures = {"p50": 1.0, "p99": 2.0}
    call = {
        "call": "raw seal",
        "figures": {
            "sealane": {"requests_per_second": 9000.4, **figures},
            "echo": {"requests_per_second": 10000.0, **figures},
        },
        "ratios": {"echo": 0.9},
        "verdicts": [{"peer": "echo", "at_least": 0.7, "measured": 0.9, "met": True}],
    }
    document = {"machine": _MACHINE, "settings": {}, "conditions": {"echo": "stock"}, "results": [call]}
    http.write_text(json.dumps(document))
    main(page, [engine, http])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| 16 KiB | 1,000 | 250 (4.00) | 800 (1.25) | 2,000 (0.50) |" in text
    assert "| seal x | 16 KiB | fast | cryptography | 4.00 | 3.50 met |" in text
    assert "| seal x | 16 KiB | slow | cryptography | 1.25 | 1.50 **not met** |" in text
    assert "| raw seal | 9,000 | not there |  |  | 10,000 | 0.90 | 0.70 met |" in text
    assert "- echo: stock" in text
    main(page, [engine, http])
    assert page.read_text() == text


def test_a_page_without_the_markers_is_left_alone() -> None:
    with pytest.raises(ValueError, match="engine: begin"):
        replaced("nothing here", "engine", "x")
