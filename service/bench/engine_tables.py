"""Results of the engine benchmark as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table

from service.bench.engine import Result
from service.bench.tables import size_text, verdict


def _nanoseconds(value: float) -> str:
    return f"{value:,.0f}"


def _rate(size: int, nanoseconds: float) -> str:
    return f"{size / nanoseconds * 1e3:,.0f}"


def print_results(console: Console, results: Sequence[Result]) -> None:
    """One table for each operation: ours and the peer's side by side, and how many times as fast ours is."""
    for (operation, peer), group in groupby(results, key=lambda result: (result.operation, result.peer)):
        table = Table(title=f"{operation}, against {peer}", title_justify="left", box=box.SIMPLE_HEAD)
        for heading in ("size", "kernel", "ns", "MB/s", "peer ns", "peer MB/s", "ratio"):
            table.add_column(heading, justify="left" if heading == "kernel" else "right", no_wrap=True)
        for _, same_size in groupby(group, key=lambda result: result.size):
            rows = list(same_size)
            for result in rows:
                table.add_row(
                    size_text(result.size),
                    result.kernel,
                    _nanoseconds(result.nanoseconds),
                    _rate(result.size, result.nanoseconds),
                    _nanoseconds(result.peer_nanoseconds),
                    _rate(result.size, result.peer_nanoseconds),
                    f"{result.ratio:.2f}",
                )
            if len(rows) > 1:
                table.add_section()
        console.print(table)


def print_targets(console: Console, results: Iterable[Result]) -> None:
    """The promises of docs/performance.md that this run could judge, each with met or not met."""
    table = Table(title="targets: times as fast as the peer", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("call", "size", "kernel", "peer", "at least", "measured", ""):
        table.add_column(heading, justify="right" if heading in ("size", "at least", "measured") else "left")
    for result in results:
        if result.target is not None:
            row = (result.operation, size_text(result.size), result.kernel, result.peer)
            table.add_row(*row, f"{result.target:.2f}", f"{result.ratio:.2f}", verdict(result.met))
    if table.row_count:
        console.print(table)
    else:
        console.print("No target is stated for these kernels.")
