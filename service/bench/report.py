"""The HTTP benchmark as one HTML page that needs nothing else, its charts drawn with matplotlib (extra `bench`)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from service.bench.http import ECHO, OPENBAO, OURS, HttpResult
from service.bench.machine import Machine
from service.bench.sweep import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".html", ".htm")

# Told apart by people who see no red or green, too, and by their markers.
_LOOKS = {OURS: ("#0072b2", "o"), OPENBAO: ("#d55e00", "s"), ECHO: ("#777777", "^")}
_PERCENTILES = {"50 %": "p50", "90 %": "p90", "99 %": "p99", "99.9 %": "p999"}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sealane: HTTP benchmark</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
td, th {{ padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: right }}
td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) {{ text-align: left }}
.not {{ color: #b00020; font-weight: bold }}
figure {{ margin: 1.5rem 0 }} svg {{ max-width: 100%; height: auto }}
</style></head><body>
<h1>Sealane beside its peers, over HTTP</h1>
<p>All servers and the load generator share one machine, so only what stands side by side can be compared. A run in
which a single request failed gives no figure.</p>
<ul>{conditions}</ul>
{sections}
</body></html>
"""


def write(
    path: Path, machine: Machine, conditions: Mapping[str, str], results: Sequence[HttpResult], points: Sequence[Point]
) -> None:
    """Write the page. ImportError without matplotlib, OSError where it can't be written."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    here = f"{machine.processor}, {machine.processors} CPUs, {machine.system}, Python {machine.python}"
    lines = [here, versions, *(f"{name}: {text}" for name, text in conditions.items())]
    sections = [
        "<h2>Promises</h2>",
        _promises(results),
        "<h2>Throughput and latency</h2>",
        _figures(results),
        "<h2>Under more and more connections</h2>",
    ]
    for call in dict.fromkeys(point.call for point in points):
        sections += [f"<h3>{escape(call)}</h3>", _charts([point for point in points if point.call == call])]
    page = _PAGE.format(conditions="".join(f"<li>{escape(line)}</li>" for line in lines), sections="\n".join(sections))
    path.write_text(page, encoding="utf-8")


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _promises(results: Sequence[HttpResult]) -> str:
    rows = [
        (
            escape(result.call),
            escape(peer),
            f"{least:.2f}",
            f"{measured:.2f}",
            "met" if met else '<span class="not">not met</span>',
        )
        for result in results
        for peer, least, measured, met in result.verdicts()
    ]
    return "<p>Requests per second, as times the peer's.</p>" + _table(
        ("call", "peer", "at least", "measured", ""), rows
    )


def _figures(results: Sequence[HttpResult]) -> str:
    rows = [
        (
            escape(result.call),
            escape(server),
            f"{figures.requests_per_second:,.0f}",
            *(f"{getattr(figures, name):.2f}" for name in _PERCENTILES.values()),
        )
        for result in results
        for server, figures in result.figures.items()
    ]
    latencies = (f"{share} within, ms" for share in _PERCENTILES)
    return _table(("call", "server", "requests/s", *latencies), rows)


def _charts(points: Sequence[Point]) -> str:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: it can be searched and read aloud
    from matplotlib import pyplot

    figure, (throughput, tail, percentiles) = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    most = max(point.connections for point in points)
    for server in dict.fromkeys(point.server for point in points):
        mine = sorted((point for point in points if point.server == server), key=lambda point: point.connections)
        colour, marker = _LOOKS[server]
        look = {"color": colour, "marker": marker, "label": server, "markersize": 4}
        numbers = [point.connections for point in mine]
        throughput.plot(numbers, [point.figures.requests_per_second for point in mine], **look)
        tail.plot(numbers, [point.figures.p99 for point in mine], **look)
        last = next(point.figures for point in mine if point.connections == most)
        percentiles.plot(list(_PERCENTILES), [getattr(last, name) for name in _PERCENTILES.values()], **look)
    for panel, title in ((throughput, "requests per second"), (tail, "99 % of the answers within, ms")):
        _by_connections(panel, title, sorted({point.connections for point in points}))
    throughput.set_ylim(bottom=0)
    _by_factors(tail)
    _by_factors(percentiles)
    percentiles.set_title(f"latency with {most} connections, ms", fontsize=10, loc="left")
    for panel in (throughput, tail, percentiles):
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(visible=True, alpha=0.3)
    figure.legend(*throughput.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    svg = drawn.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}</figure>"


def _by_connections(panel: Axes, title: str, numbers: Sequence[int]) -> None:
    panel.set_xscale("log", base=2)
    panel.set_xticks(numbers, [str(number) for number in numbers])
    panel.set_xlabel("connections, each with one request at a time", fontsize=8)
    panel.set_title(title, fontsize=10, loc="left")


def _by_factors(panel: Axes) -> None:
    from matplotlib import ticker

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, place: f"{value:g}"))
    panel.yaxis.set_minor_locator(ticker.NullLocator())
