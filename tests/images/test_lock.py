"""The lock holds what the project asks for, whole and with hashes. Needs no image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2]
LOCKS = [PROJECT / "deploy/image" / name for name in ("requirements.lock", "build.lock")]
MACHINES = ["x86_64", "aarch64", "s390x", "loongarch64"]


def entries(lock: Path) -> list[tuple[Requirement, list[str]]]:
    lines = lock.read_text().replace("\\\n", " ").splitlines()
    found = []
    for line in filter(None, map(str.strip, lines)):
        head, *hashes = re.split(r"\s+--hash=", line)
        found.append((Requirement(head), [value.strip() for value in hashes]))
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_version_is_exact_and_has_hashes(lock: Path) -> None:
    assert entries(lock)
    for requirement, hashes in entries(lock):
        assert [part.operator for part in requirement.specifier] == ["=="], requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_it_names_no_host(lock: Path) -> None:
    assert "//" not in lock.read_text()


@pytest.mark.parametrize("machine", MACHINES)
def test_it_has_what_the_project_asks_for(machine: str) -> None:
    """If this fails, pyproject.toml has changed since: run make lock."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["postgres"]]
    environment = {"platform_machine": machine, "sys_platform": "linux", "platform_system": "Linux"}
    locked = {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
        for requirement, _ in entries(LOCKS[0])
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }
    from_debian = {"pydantic"} if machine == "loongarch64" else set()
    for requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        name = canonicalize_name(requirement.name)
        if name in from_debian:
            assert name not in locked
            continue
        assert name in locked, f"{requirement} is not locked for {machine}: run make lock"
        assert requirement.specifier.contains(locked[name]), f"{requirement}, locked {locked[name]}: run make lock"


def test_the_compiler_is_the_one_that_counts_were_measured_with() -> None:
    source = (PROJECT / "deploy/cross/provision.py").read_text()
    (version,) = re.findall(r'^ZIG = "([^"]+)"', source, re.MULTILINE)
    assert f"ziglang=={version} " in LOCKS[1].read_text()
