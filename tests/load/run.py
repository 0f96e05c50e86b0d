#!/usr/bin/env python3
"""Every load scenario in turn against a service of its own on the loopback interface, the key being rotated meanwhile:

    run.py [--seconds 60] [--users 8] [--workers 2] [--out build/load] [SCENARIO ...]

Writes SCENARIO.html and SCENARIO_*.csv. Fails if a request failed, or if the service's memory grew by more than 32 MiB
from a third of a scenario's time to its end.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = re.findall(r"^class (\w+)\(Caller\)", (HERE / "locustfile.py").read_text(), re.MULTILINE)
GROWTH = 32 * 2**20


def resident(process: int) -> int:
    """Bytes of memory of a process and its children."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        parent = re.search(r"^PPid:\t(\d+)", text, re.MULTILINE)
        if (int(status.parent.name) == process or (parent and int(parent[1]) == process)) and "VmRSS" in text:
            total += int(text.split("VmRSS:")[1].split()[0]) * 1024
    return total


def serve(folder: Path, workers: int) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "service.cli", "serve", "--dev", f"--port={port}", f"--workers={workers}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, "SEALANE_DEV_FOLDER": str(folder / "dev")}, stdout=log, stderr=log
        )
    until = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return process, f"http://127.0.0.1:{port}"
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                sys.exit((folder / "log").read_text()[-4000:])
            time.sleep(0.2)


def make_keys(url: str, token: str) -> None:
    for name, type in {"load": "xchacha20-poly1305", "load-mac": "poly1305-xchacha20"}.items():
        request = urllib.request.Request(
            f"{url}/v1/keys/{name}",
            data=json.dumps({"type": type}).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()


def load(scenario: str, url: str, service: int, options: argparse.Namespace, token: str) -> list[str]:
    """What was wrong, in words."""
    base = options.out / scenario
    command = [
        sys.executable, "-m", "locust", "-f", str(HERE / "locustfile.py"), "--headless", "--only-summary",
        f"--users={options.users + 1}", "--spawn-rate=100", "--run-time", f"{options.seconds}s", "--stop-timeout=10",
        "--host", url, "--html", f"{base}.html", "--csv", str(base), "--exit-code-on-error", "0", scenario, "Rotator",
    ]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, "SEALANE_TOKEN": token}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    time.sleep(options.seconds / 3)
    before = resident(service)
    said = process.communicate(timeout=options.seconds + 120)[1]
    after = resident(service)
    with open(f"{base}_stats.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    total = next(row for row in rows if row["Name"] == "Aggregated")
    count, failed = int(total["Request Count"]), int(total["Failure Count"])
    rotations = sum(int(row["Request Count"]) for row in rows if row["Name"] == "rotate")
    growth = (after - before) / 2**20
    print(
        f"{scenario:10} {count:8} requests, {failed} failed, {rotations} rotations, "
        f"median {total['Median Response Time']} ms, 99 % {total['99%']} ms, memory {growth:+.1f} MiB",
        flush=True,
    )
    wrong = []
    if process.returncode or not count or not rotations:
        wrong.append(f"{scenario}: {count} requests, {rotations} rotations, locust said\n{said[-999:]}")
    if failed:
        wrong.append(f"{scenario}: {failed} requests failed: see {base}_failures.csv")
    if after - before > GROWTH:
        wrong.append(f"{scenario}: memory grew by {growth:.0f} MiB")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "build" / "load")
    options = parser.parse_args()
    for unknown in set(options.scenarios) - set(SCENARIOS):
        parser.error(f"unknown scenario {unknown}; there are {', '.join(SCENARIOS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="sealane-load-") as scratch:
        service, url = serve(Path(scratch), options.workers)
        try:
            token = (Path(scratch) / "dev/token").read_text().strip()
            make_keys(url, token)
            for scenario in options.scenarios or SCENARIOS:
                wrong += load(scenario, url, service.pid, options, token)
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(60)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
