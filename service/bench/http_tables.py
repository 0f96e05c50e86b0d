"""Results of the HTTP benchmark as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from service.bench.http import HttpResult
from service.bench.tables import verdict


def print_http_results(console: Console, results: Sequence[HttpResult]) -> None:
    """Ours and each peer side by side: requests per second, latencies and the ratio."""
    table = Table(title="HTTP: requests per second, latency in ms", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("call", "server", "requests/s", "p50", "p99", "ours/its"):
        table.add_column(heading, justify="left" if heading in ("call", "server") else "right", no_wrap=True)
    for result in results:
        name = result.call
        for server, figures in result.figures.items():
            ratio = f"{result.ratios[server]:.2f}" if server in result.ratios else ""
            table.add_row(
                name, server, f"{figures.requests_per_second:,.0f}", f"{figures.p50:.2f}", f"{figures.p99:.2f}", ratio
            )
            name = ""
        table.add_section()
    console.print(table)


def print_http_targets(console: Console, results: Iterable[HttpResult]) -> None:
    """The promises of docs/performance.md that this run could judge."""
    table = Table(title="targets: times the peer's requests per second", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("call", "peer", "at least", "measured", ""):
        table.add_column(heading, justify="right" if heading in ("at least", "measured") else "left")
    for result in results:
        for peer, least, measured, met in result.verdicts():
            table.add_row(result.call, peer, f"{least:.2f}", f"{measured:.2f}", verdict(met))
    console.print(table)
