"""Steady state allocates nothing but what is returned: counted beneath the C library's allocator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import engine

HERE = Path(__file__).parent
RETURN_BYTES = ("seal,", "seal_chunks,", "open_chunks,")


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux") or "gnu" not in sysconfig.get_config_var("MULTIARCH"):
        pytest.skip("needs a C compiler and glibc to count allocations")
    library = tmp_path_factory.mktemp("counter") / "count_allocations.so"
    source = HERE / "count_allocations.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("kernel", engine.info().kernels)
def test_steady_state_allocates_nothing(counter: Path, kernel: str) -> None:
    environment = os.environ | {
        "LD_PRELOAD": str(counter),
        "PYTHONMALLOC": "malloc",  # otherwise Python's small objects come from arenas and are not seen
        "SEALANE_ENGINE": kernel,
    }
    ran = subprocess.run(
        [sys.executable, HERE / "allocations_program.py"], env=environment, capture_output=True, text=True, check=True
    )
    results: dict[str, float] = json.loads(ran.stdout)
    counted = {name: count for name, count in results.items() if name.startswith(RETURN_BYTES)}
    assert len(counted) == 18
    # The method sees an allocation where there is one: the bytes that seal and its like return.
    assert set(counted.values()) == {1.0}, counted
    silent = {name: count for name, count in results.items() if name not in counted}
    assert len(silent) == 33
    assert set(silent.values()) == {0.0}, silent
