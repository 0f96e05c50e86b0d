"""The benchmark of streams runs, on little data: its figures mean nothing here, its checks do."""

from __future__ import annotations

import json
import subprocess
import sys


def test_bench_http_streams() -> None:
    command = [sys.executable, "-m", "service.cli", "bench", "http", "--streams", "--stream-mib", "4", "--rounds", "1"]
    done = subprocess.run([*command, "--workers", "1", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [result["call"] for result in results] == ["seal-stream", "open-stream?release=chunk", "open-stream", "mac"]
    assert all(result["ratio"] > 0 and result["mib_per_second"] > 0 for result in results)
