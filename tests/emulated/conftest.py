"""Fixtures: what the tests run, unpacked, and the tools to run it. In CI nothing here is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from guest import ARCHITECTURES, Architecture, emulated, inside, provision, register
from models import Model

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
VECTORS = PROJECT.parent / "shared"
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """These take minutes and a download: they run when asked for by `-m emulated` (make test-emulated)."""
    if "emulated" in (config.getoption("markexpr") or ""):
        return
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if here:
        items[:] = [item for item in items if item not in here]
        config.hook.pytest_deselected(items=here)


def absent(reason: str) -> None:
    """Skip for want of something, or fail where nothing may be wanting."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def tools() -> None:
    """qemu and the root folders are there and the kernel knows what to do with foreign programs."""
    try:
        for architecture in ARCHITECTURES.values():
            provision.root(architecture.debian)
            register(architecture)
    except (SystemExit, OSError, subprocess.CalledProcessError) as error:
        absent(f"cannot set up emulation: {error}")


@pytest.fixture(scope="session")
def program(tools: None) -> Callable[[str, Architecture], Path]:
    """A static program by name and architecture, as `make kernelbench` leaves it."""

    def found(name: str, architecture: Architecture) -> Path:
        path = PROJECT / "build" / f"{name}-{architecture.name}"
        if not path.exists():
            absent(f"{path} is not there: run make kernelbench")
        return path

    return found


@pytest.fixture(scope="session")
def wheel() -> Callable[[str], Path]:
    """The wheel of an architecture, as `make wheels` leaves it."""

    def found(architecture: str) -> Path:
        wheels = sorted((PROJECT / "dist").glob(f"sealane-*_{architecture}.whl"))
        if len(wheels) != 1:
            absent(f"{len(wheels)} wheels for {architecture} in dist: run make wheels")
        return wheels[0]

    return found


@pytest.fixture(scope="session")
def site(wheel: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with an architecture's wheel installed in it, as pip would but for compiled Python files."""
    folders: dict[str, Path] = {}

    def found(architecture: str) -> Path:
        if architecture not in folders:
            folder = tmp_path_factory.mktemp(f"site-{architecture}")
            with zipfile.ZipFile(wheel(architecture)) as archive:
                archive.extractall(folder)
            folders[architecture] = folder
        return folders[architecture]

    return found


@pytest.fixture(scope="session")
def python(tools: None, site: Callable[[str], Path]) -> Callable[..., list[str]]:
    """The command line of an architecture's own Python, with the wheel and the tests' programs, on a CPU model."""

    def command(
        model: Model,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        binds: Mapping[Path, str] | None = None,
        writable: Mapping[Path, str] | None = None,
    ) -> list[str]:
        return inside(
            model.architecture,
            model.cpu,
            ["python3", *arguments],
            {site(model.architecture.name): "/src/site", PROGRAMS: "/src/programs", **(binds or {})},
            {"PYTHONPATH": "/src/site", "PYTHONDONTWRITEBYTECODE": "", **(environment or {})},
            writable,
        )

    return command


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """Run a command line to its end and give back its output; the test fails with all that it said if it fails."""

    def finished(command: Sequence[str], given: str = "", timeout: float = 1200, **options: Any) -> str:
        done = subprocess.run(
            command, input=given, text=True, capture_output=True, timeout=timeout, check=False, **options
        )
        if done.returncode:
            pytest.fail(f"exit status {done.returncode}\n{done.stdout[-12000:]}\n{done.stderr[-4000:]}", pytrace=False)
        return done.stdout

    return finished


@pytest.fixture(scope="session")
def usable(program: Callable[[str, Architecture], Path], run: Callable[..., str]) -> Callable[[Model], list[str]]:
    """The kernels that the C programs can run on a model, best first."""

    def kernels(model: Model) -> list[str]:
        return run(
            emulated(model.architecture, model.cpu, program("kernelbench", model.architecture), "--list")
        ).split()

    return kernels


def counts(pytest_output: str) -> dict[str, int]:
    """`{"passed": 12, ...}` from pytest's last line."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", pytest_output)}
