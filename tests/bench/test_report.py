"""The page of the HTTP benchmark, from real servers under load to what a browser gets."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from service.bench import http, machine, report, sweep
from service.bench.calls import CALLS
from service.bench.load import best_generator

pytest.importorskip("matplotlib")


class Page(HTMLParser):
    """Counts the elements, and sees that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.slow
def test_a_page_of_what_was_measured(tmp_path: Path) -> None:
    if shutil.which("wrk") is None:
        pytest.importorskip("httptools")
    load = best_generator()
    settings = http.Settings(rounds=1, seconds=1, connections=2, workers=1)
    results = http.run(load, settings, None)
    points = sweep.run(load, settings, None, connections=(1, 3))
    assert {(point.call, point.server, point.connections) for point in points} == {
        (call.name, server, number) for call in CALLS for server in (http.OURS, http.ECHO) for number in (1, 3)
    }
    for point in points:
        figures = point.figures
        assert figures.requests_per_second > 0
        assert 0 < figures.p50 <= figures.p90 <= figures.p99 <= figures.p999
    path = tmp_path / "report.html"
    report.write(path, machine.describe(), {"load generator": "<3 & more"}, results, points)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert page.seen.count("svg") == len(CALLS)
    assert "script" not in page.seen
    text = " ".join(page.text)
    assert "load generator: <3 & more" in text
    for result in results:
        assert f"{result.figures[http.OURS].requests_per_second:,.0f}" in text
        assert result.call in text
