"""sealane bench: ours beside its peers, in one run."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import engine
from service.cli.console import USAGE, err, fail, out, print_json

app = typer.Typer(help="Measure ours beside its peers, in one run, with ratios.", no_args_is_help=True)

_EXTRA = "the benchmark's peers are not installed: pip install 'sealane[bench]' ({})"


@app.command("engine")
def bench_engine(
    kernel: Annotated[
        list[str] | None,
        typer.Option(help="Measure this kernel or backend only; may be given again. Default: every usable kernel."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds in which ours and the peer take turns.")] = 40,
    burst: Annotated[float, typer.Option(min=0.01, max=1000, help="Milliseconds of each turn.")] = 1.0,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    chart: Annotated[Path | None, typer.Option(help="Also draw a chart into this .svg or .png file.")] = None,
) -> None:
    """ChaCha20, Poly1305, seal and open on each kernel, beside cryptography (OpenSSL) and PyNaCl (libsodium)."""
    try:
        from service.bench import chart as charts
        from service.bench import engine as bench
        from service.bench import engine_tables, machine, tables
    except ImportError as error:
        fail(_EXTRA.format(error))
    if chart is not None and chart.suffix.lower() not in charts.ENDINGS:
        fail(f"--chart wants a name that ends in {' or '.join(charts.ENDINGS)}, not {chart.name!r}", USAGE)
    settings = bench.Settings(rounds=rounds, burst_seconds=burst / 1000)
    kernels = list(kernel or engine.info().kernels or [engine.info().kernel])
    try:
        with err.status("measuring") as status:
            results = bench.run(kernels, settings, lambda operation, size: status.update(f"{operation}, {size} B"))
            for name in kernels:
                if name == "avx2":
                    status.update("avx2 again, against a peer on AVX2 alone")
                    results += bench.run_against_limited_peer(name, settings)
    except ValueError as error:  # an unknown kernel: the engine's message lists the known ones
        fail(str(error), USAGE)
    here = machine.describe()
    if json_output:
        document = {"machine": here, "settings": settings, "results": [bench.as_record(result) for result in results]}
        print_json(document)
    else:
        tables.print_machine(out, here)
        engine_tables.print_results(out, results)
        engine_tables.print_targets(out, results)
    if chart is not None:
        try:
            charts.draw(results, chart)
        except ImportError as error:
            fail(_EXTRA.format(error))


@app.command("http")
def bench_http(
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Rounds in which the servers take turns.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, max=60, help="Seconds of each turn.")] = 2.0,
    connections: Annotated[
        int, typer.Option(min=1, max=1000, help="Connections, each with one request at a time.")
    ] = 16,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers of our service and of the echo.")] = 2,
    streams: Annotated[bool, typer.Option("--streams", help="Measure long streams instead, one at a time.")] = False,
    stream_mib: Annotated[int, typer.Option(min=1, max=4096, help="With --streams: MiB of each.")] = 1024,
    report: Annotated[
        Path | None, typer.Option(help="Also try 1 to 128 connections, and write an .html page with charts.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Our service beside OpenBao (where `bao` is on the path) and an empty echo, under wrk, all on loopback."""
    from service.bench import http as bench
    from service.bench import http_tables, machine, servers, sweep, tables
    from service.bench import report as reports
    from service.bench.load import LoadFailed, best_generator
    from service.bench.processes import ServerFailed

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so every server is ended
    if streams:
        _bench_streams(rounds, workers, stream_mib, json_output)
        return
    if report is not None:
        if report.suffix.lower() not in reports.ENDINGS:
            fail(f"--report wants a name that ends in {' or '.join(reports.ENDINGS)}, not {report.name!r}", USAGE)
        if find_spec("matplotlib") is None:
            fail(_EXTRA.format("no module matplotlib"))
    settings = bench.Settings(rounds=rounds, seconds=seconds, connections=connections, workers=workers)
    bao = servers.find_bao()
    try:
        load = best_generator()
        with err.status("starting the servers") as status:
            results = bench.run(load, settings, bao, status.update)
            points = sweep.run(load, settings, bao, status.update) if report is not None else []
    except (LoadFailed, ServerFailed) as error:
        fail(str(error))
    here = machine.describe()
    conditions = {
        "load generator": f"{load.name}, {connections} connections, {rounds} rounds of {seconds:g} s",
        "sealane": f"serve --dev, {workers} workers, engine {engine.info().backend} {engine.info().kernel}",
        "openbao": f"{servers.openbao_version(bao)}, Transit, chacha20-poly1305" if bao else "no `bao` on the path",
        "echo": servers.echo_settings(workers),
    }
    if report is not None:
        reports.write(report, here, conditions, results, points)
    if json_output:
        records = [bench.as_record(result) for result in results]
        print_json({"machine": here, "conditions": conditions, "settings": settings, "results": records})
        return
    tables.print_machine(out, here)
    for name, text in conditions.items():
        out.print(f"{name}: {text}")
    http_tables.print_http_results(out, results)
    http_tables.print_http_targets(out, results)


def _bench_streams(rounds: int, workers: int, mebibytes: int, json_output: bool) -> None:
    from service.bench import machine, servers, stream_tables, tables
    from service.bench import streams as bench
    from service.bench.processes import ServerFailed

    try:
        with err.status("starting the servers") as status:
            results = bench.run(mebibytes * 2**20, rounds, workers, status.update)
    except (ServerFailed, OSError) as error:
        fail(str(error))
    here = machine.describe()
    conditions = {
        "streams": f"{mebibytes} MiB, one at a time over one connection, {rounds} rounds in turns after one to warm up",
        "sealane": f"serve --dev, {workers} workers, engine {engine.info().backend} {engine.info().kernel}",
        "echo": f"{servers.echo_settings(workers)}, sending each piece back as it comes",
    }
    if json_output:
        records = [bench.as_record(result) for result in results]
        print_json({"machine": here, "conditions": conditions, "results": records})
        return
    tables.print_machine(out, here)
    for name, text in conditions.items():
        out.print(f"{name}: {text}")
    stream_tables.print_stream_results(out, results, mebibytes)
