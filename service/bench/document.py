"""Writes measured figures into docs/performance.md, so that none is typed by hand:

    sealane bench engine --json --chart docs/performance.svg > engine.json
    sealane bench http --json > http.json
    python tests/emulated/count.py --sizes 16 64 256 1024 4096 16384 --json > count.json
    python -m service.bench.document docs/performance.md engine.json http.json count.json

Each file's tables replace what is between its `<!-- engine: begin -->` and `<!-- engine: end -->` (`http` and `count`
likewise).
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from service.bench.tables import size_text

Record = Mapping[str, Any]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = ["| " + " | ".join(headings) + " |", "| --- |" + " ---: |" * (len(headings) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def conditions(document: Record) -> str:
    """Where and how it was measured, as a list."""
    machine = document["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in document["settings"].items())
    lines = [
        f"{machine['processor']}, {machine['processors']} CPUs, {machine['system']}, Python {machine['python']}",
        versions,
        settings,
        *(f"{name}: {text}" for name, text in document.get("conditions", {}).items()),
    ]
    return "\n".join(f"- {line}" for line in lines)


def _outcome(least: float | None, met: bool | None) -> str:
    return "" if least is None else f"{least:.2f} {'met' if met else '**not met**'}"


def engine_section(document: Record) -> str:
    """For each operation and peer a table of sizes by kernels: nanoseconds per call and the ratio."""
    parts = [conditions(document)]
    results = document["results"]
    for (operation, peer), group in groupby(results, key=lambda row: (row["operation"], row["peer"])):
        rows = list(group)
        kernels = list(dict.fromkeys(row["kernel"] for row in rows))
        lines = []
        for size, same_size in groupby(rows, key=lambda row: row["size"]):
            by_kernel = {row["kernel"]: row for row in same_size}
            peer_ns = statistics.median(row["peer_nanoseconds"] for row in by_kernel.values())
            cells = [f"{by_kernel[name]['nanoseconds']:,.0f} ({by_kernel[name]['ratio']:.2f})" for name in kernels]
            lines.append([size_text(size), f"{peer_ns:,.0f}", *cells])
        parts.append(f"**{operation}**, ns per call (times as fast as {peer})")
        parts.append(table(["size", peer, *kernels], lines))
    judged = [row for row in results if row["target"] is not None]
    if judged:
        parts.append("**Targets**")
        parts.append(
            table(
                ["call", "size", "kernel", "peer", "measured", "at least"],
                [
                    [
                        row["operation"],
                        size_text(row["size"]),
                        row["kernel"],
                        row["peer"],
                        f"{row['ratio']:.2f}",
                        _outcome(row["target"], row["met"]),
                    ]
                    for row in judged
                ],
            )
        )
    return "\n\n".join(parts)


def http_section(document: Record) -> str:
    """One row a call: requests per second of all servers, the ratios, and the targets."""
    lines = []
    for row in document["results"]:
        verdicts = {verdict["peer"]: verdict for verdict in row["verdicts"]}
        cells = [row["call"], f"{row['figures']['sealane']['requests_per_second']:,.0f}"]
        for peer in ("openbao", "echo"):
            if peer not in row["figures"]:
                cells += ["not there", "", ""]
                continue
            verdict = verdicts.get(peer, {"at_least": None, "met": None})
            rate = f"{row['figures'][peer]['requests_per_second']:,.0f}"
            cells += [rate, f"{row['ratios'][peer]:.2f}", _outcome(verdict["at_least"], verdict["met"])]
        lines.append(cells)
    headings = ["call", "sealane /s", "OpenBao /s", "times", "at least", "echo /s", "of echo", "at least"]
    return conditions(document) + "\n\n" + table(headings, lines)


def count_section(counts: Iterable[Record]) -> str:
    """Instructions per byte of every vector kernel by operation and size, and how many times fewer than scalar's."""
    figures = {}
    for row in counts:
        key = row["architecture"], row["kernel"], row["operation"], row["size"]
        figures[key] = row["instructions_per_byte"]
    sizes = sorted({size for *_, operation, size in figures if "write" not in operation and size <= 16384})
    lines = []
    for architecture, kernel, operation in dict.fromkeys(key[:3] for key in figures):
        if kernel == "scalar" or "write" in operation:
            continue
        cells = []
        for size in sizes:
            own = figures[architecture, kernel, operation, size]
            cells.append(f"{own:.2f} ({figures[architecture, 'scalar', operation, size] / own:.2f})")
        lines.append([f"{kernel}, {operation}", *cells])
    streamed = []
    for architecture, kernel in dict.fromkeys(key[:2] for key in figures):
        own = {key[2:]: value for key, value in figures.items() if key[:2] == (architecture, kernel)}
        bulk = own.get(("poly1305", 2 << 20))
        writes = [value for (operation, _), value in own.items() if "write" in operation]
        if kernel != "scalar" and bulk:
            streamed.append([kernel, f"{bulk:.3f}", *(f"{value:.3f} ({value / bulk:.2f})" for value in writes)])
    parts = [
        "Per byte, and in brackets how many times fewer than the same architecture's scalar kernel:",
        table(["kernel", *map(size_text, sizes)], lines),
    ]
    if streamed:
        parts.append("Poly1305 as a stream, per byte, and in brackets times one update of 2 MiB:")
        parts.append(table(["kernel", "2 MiB", "64 B writes", "1 KiB writes"], streamed))
    return "\n\n".join(parts)


def replaced(text: str, name: str, section: str) -> str:
    """`text` with the section between the markers of `name`. ValueError if there are none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    new, count = pattern.subn(lambda _: f"{begin}\n{section}\n{end}", text)
    if count != 1:
        raise ValueError(f"wanted {begin} and {end} once each, found {count}")
    return new


def main(page: Path, files: Sequence[Path]) -> None:
    """Put the figures of each JSON file into the page."""
    text = page.read_text()
    for file in files:
        document: Any = msgspec.json.decode(file.read_bytes())
        if isinstance(document, list):
            text = replaced(text, "count", count_section(document))
        elif "conditions" in document:
            text = replaced(text, "http", http_section(document))
        else:
            text = replaced(text, "engine", engine_section(document))
    page.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
