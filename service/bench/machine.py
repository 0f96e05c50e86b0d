"""Where a benchmark ran: enough to judge its figures by."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = ("cryptography", "pynacl", "uvicorn", "uvloop", "httptools", "fastapi")


@dataclass(frozen=True)
class Machine:
    """The processor, how many of them this process may use, the interpreter, and the versions of what was measured."""

    processor: str
    processors: int
    system: str
    python: str
    versions: dict[str, str]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() in ("model name", "cpu model", "processor 0"):
            return value.strip()
    return platform.processor() or platform.machine()


def _openssl() -> str | None:
    try:
        from cryptography.hazmat.backends.openssl import backend
    except ImportError:
        return None
    return backend.openssl_version_text()


def describe() -> Machine:
    """This machine. Packages that are not installed are left out of `versions`."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if (openssl := _openssl()) is not None:
        versions["openssl"] = openssl
    return Machine(
        processor=_processor(),
        processors=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        versions=versions,
    )
