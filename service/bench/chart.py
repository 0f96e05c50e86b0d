"""The engine benchmark as a picture, drawn with matplotlib (extra `bench`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.bench.engine import Result
from service.bench.tables import size_text

ENDINGS = (".svg", ".png")

_PANELS = (
    "chacha20",
    "poly1305 in one piece, aligned",
    "poly1305 stream of writes, unaligned",
    "seal chacha20-poly1305",
    "open chacha20-poly1305",
    "seal xchacha20-poly1305",
)


def draw(results: Sequence[Result], path: Path) -> None:
    """Write bars of the ratio to the peer, one panel an operation, as SVG or PNG by the name's ending.

    ImportError without matplotlib, ValueError for another ending.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"a chart's file name ends in {' or '.join(ENDINGS)}, this one in {path.suffix!r}")
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sealane"  # the same figures give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: a quarter of the size
    from matplotlib import pyplot

    kernels = list(dict.fromkeys(result.kernel for result in results))
    figure, grid = pyplot.subplots(3, 2, figsize=(11, 10), layout="constrained")
    width = 0.8 / len(kernels)
    for panel, operation in zip(grid.flat, _PANELS, strict=True):
        rows = [r for r in results if r.operation == operation and "alone" not in r.peer]
        sizes = sorted({r.size for r in rows})
        for index, kernel in enumerate(kernels):
            by_size = {r.size: r.ratio for r in rows if r.kernel == kernel}
            places = [number + (index - (len(kernels) - 1) / 2) * width for number in range(len(sizes))]
            bars = panel.bar(places, [by_size.get(size, 0.0) for size in sizes], width, label=kernel)
            panel.bar_label(bars, fmt="%.1f", fontsize=6, padding=1)
        panel.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
        peer = rows[0].peer if rows else "the peer"
        panel.set_title(f"{operation}: times as fast as {peer}", fontsize=9, loc="left")
        panel.set_xticks(range(len(sizes)), [size_text(size) for size in sizes], fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(kernels))
    figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    pyplot.close(figure)
