"""Results of the stream benchmark as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from service.bench.streams import StreamResult
from service.bench.tables import verdict


def print_stream_results(console: Console, results: Sequence[StreamResult], mebibytes: int) -> None:
    """Throughput beside the echo's, with the promise of docs/performance.md, and how far memory grew."""
    title = f"streams of {mebibytes} MiB: MiB/s, times the echo's, growth of resident memory in MiB"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("call", "MiB/s", "echo", "ours/its", "at least", "", "growth"):
        table.add_column(heading, justify="left" if heading in ("call", "") else "right", no_wrap=True)
    for result in results:
        table.add_row(
            result.call, f"{result.mib_per_second:,.0f}", f"{result.echo_mib_per_second:,.0f}", f"{result.ratio:.2f}",
            f"{result.target:.2f}", verdict(result.met), f"{result.growth_mib:.1f}",
        )  # fmt: skip
    console.print(table)
