#!/usr/bin/env python3
"""Fetch what cross-building and emulation need into a cache folder outside the checkout.

    provision.py zig qemu mca root-loong64 root-s390x root-arm64      (or: all)

Prints `NAME PATH` for each item. Everything comes from PyPI and from Debian's archive, as this machine's own
pip and apt sources name them; nothing is installed on the machine itself, and Debian's packages are unpacked,
never configured, so that no foreign code runs. Each item is made in a folder of its own beside its final place
and renamed into it, under a lock: runs may be interrupted, repeated and run at once.
The folder is ${SEALANE_CACHE:-$HOME/.cache/sealane}.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement  # pip is needed anyway, and brings this along

CACHE = Path(os.environ.get("SEALANE_CACHE") or Path.home() / ".cache" / "sealane").absolute()

ZIG = "0.17.1"  # exact, because instruction counts depend on the compiler
TOOLS_SUITE = "trixie"  # the first Debian release whose qemu has LSX and LASX
QEMUS = ("qemu-loongarch64", "qemu-s390x", "qemu-aarch64")
ROOT_SUITE = "forky"  # the first suite with loong64

# The wheel's dependencies and what its tests import, as Debian builds them for every architecture. What
# pyproject.toml asks for and Debian has not, or too old, comes from PyPI.
ROOT_PACKAGES = (
    "base-files",  # the links from /lib to /usr/lib
    "coreutils",
    "dash",
    "libc-bin",
    "netbase",
    "python3",
    "python3-alembic",
    "python3-cryptography",
    "python3-fastapi",
    "python3-httpx",
    "python3-hypothesis",
    "python3-msgspec",
    "python3-nacl",
    "python3-packaging",
    "python3-pydantic-settings",
    "python3-pytest",
    "python3-rich",
    "python3-sqlalchemy",
    "python3-structlog",
    "python3-typer",
    "python3-uvicorn",
)
ROOT_PYTHON = "3.14"
ROOT_MACHINES = {"loong64": "loongarch64", "s390x": "s390x", "arm64": "aarch64"}
ROOT_GLIBC = range(38, 16, -1)  # 2.38 and before: what wheels from PyPI may ask for
ROOT_UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run `command`, give back its standard output; on failure show what it said and stop."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, check=False, text=True, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"provision: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time per item; the lock goes with the process, however that ends."""
    (CACHE / "locks").mkdir(parents=True, exist_ok=True)
    with (CACHE / "locks" / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(name: str, recipe: object, make: Callable[[Path], None]) -> Path:
    """The folder of item `name`, made by `make` unless one made by the same `recipe` is there."""
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]
    place = CACHE / f"{name}-{digest}"
    with locked(name):
        if not place.is_dir():
            fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
            try:
                make(fresh)
                fresh.chmod(0o755)
                fresh.rename(place)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        # A name that does not change with the recipe, for the zig wrapper and for people.
        link = CACHE / f".{name}-link"
        link.unlink(missing_ok=True)
        link.symlink_to(place.name)
        link.rename(CACHE / name)
    return place


def debian_source() -> tuple[str, str]:
    """(address, keyring or "") of the Debian archive that this machine itself uses, in either of apt's notations."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.MULTILINE))
    codename, etc = release.get("VERSION_CODENAME", ""), Path("/etc/apt")
    for file in sorted(etc.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.+)$", stanza, re.MULTILINE))
            if codename in fields.get("Suites", "").split() and "main" in fields.get("Components", "").split():
                return fields["URIs"].split()[0], fields.get("Signed-By", "").strip()
    for file in [etc / "sources.list", *sorted(etc.glob("sources.list.d/*.list"))]:
        for line in file.read_text().splitlines() if file.exists() else []:
            found = re.match(rf"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+{codename}\s+.*\bmain\b", line)
            if found:
                signed = re.search(r"signed-by=(\S+)", found[1] or "")
                return found[2], signed[1] if signed else ""
    raise SystemExit(f"provision: no Debian archive for {codename or 'this system'} among this machine's apt sources")


def unpack_packages(suite: str, architecture: str, names: Sequence[str], folder: Path) -> None:
    """Unpack `names` and all they depend on into `folder`, through apt with a state of its own."""
    address, keyring = debian_source()
    with tempfile.TemporaryDirectory(prefix="sealane-apt-") as home:
        apt = Path(home)
        for part in ("lists/partial", "cache/archives/partial", "state", "sources", "packages"):
            (apt / part).mkdir(parents=True)
        (apt / "status").write_text("")  # nothing counts as installed, so every dependency is named
        (apt / "sources" / "suite.sources").write_text(
            f"Types: deb\nURIs: {address}\nSuites: {suite}\nComponents: main\n"
            + (f"Signed-By: {keyring}\n" if keyring else "")
        )
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "true",
            "Dir::Cache": apt / "cache",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": apt / "sources",
            "Dir::State": apt / "state",
            "Dir::State::lists": apt / "lists",
            "Dir::State::status": apt / "status",
        }
        get = ["apt-get", "-q", *(part for key, value in settings.items() for part in ("-o", f"{key}={value}"))]
        run(*get, "update")
        plan = run(*get, "install", "--yes", "--print-uris", *names)
        wanted = re.findall(r"^'\S+' ([a-z0-9][a-z0-9.+-]*)_\S+\.deb \d+", plan, re.MULTILINE)
        run(*get, "download", *wanted, cwd=apt / "packages")
        # base-files first: it has the links from /lib to /usr/lib that the others' files go through.
        packages = sorted((apt / "packages").glob("*.deb"), key=lambda file: not file.name.startswith("base-files_"))
        for package in packages:
            run("dpkg-deb", "-x", package, folder)


def make_zig(folder: Path) -> None:
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", folder, f"ziglang=={ZIG}")


def make_qemu(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sealane-qemu-") as whole:
        unpack_packages(TOOLS_SUITE, "amd64", ["qemu-user"], Path(whole))
        for name in QEMUS:  # static programs: each is enough by itself
            shutil.copy2(Path(whole, "usr/bin", name), folder / name)


def make_mca(folder: Path) -> None:
    unpack_packages(TOOLS_SUITE, "amd64", ["llvm-19"], folder)
    start = folder / "llvm-mca"  # with that suite's own C library, whatever this machine's is
    start.write_text(
        '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
        'exec "$here/usr/lib64/ld-linux-x86-64.so.2" --library-path "$here/usr/lib/x86_64-linux-gnu:'
        '$here/usr/lib/llvm-19/lib" "$here/usr/lib/llvm-19/bin/llvm-mca" "$@"\n'
    )
    start.chmod(0o755)


def dependencies(architecture: str) -> list[Requirement]:
    """What pyproject.toml has the wheel depend on there."""
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    there = {"platform_machine": ROOT_MACHINES[architecture], "python_version": ROOT_PYTHON}
    wanted = [Requirement(text) for text in project["dependencies"]]
    return [requirement for requirement in wanted if not requirement.marker or requirement.marker.evaluate(there)]


def unmet(architecture: str, folder: Path) -> list[str]:
    """Those of `dependencies` that the Python packages in `folder` do not meet."""
    found = {re.sub(r"[-_.]+", "-", d.name).lower(): d.version for d in distributions(path=[str(folder)])}
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in dependencies(architecture)
        if not requirement.specifier.contains(found.get(re.sub(r"[-_.]+", "-", requirement.name).lower(), "0"))
    ]


def make_root(architecture: str, folder: Path) -> None:
    unpack_packages(ROOT_SUITE, architecture, ROOT_PACKAGES, folder)
    wheels = unmet(architecture, folder / "usr/lib/python3/dist-packages")
    if wheels:
        platforms = [f"--platform=manylinux_2_{minor}_{ROOT_MACHINES[architecture]}" for minor in ROOT_GLIBC]
        run(
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"),
            *(f"--python-version={ROOT_PYTHON}", *platforms),
            *("--target", folder / f"usr/local/lib/python{ROOT_PYTHON}/dist-packages", *wheels),
        )
    for unused in ROOT_UNUSED:
        shutil.rmtree(folder / unused, ignore_errors=True)
    for mountpoint in ("dev", "proc", "tmp", "src"):
        (folder / mountpoint).mkdir(exist_ok=True)
    for name, line in {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n",
                       "hosts": "127.0.0.1 localhost\n::1 localhost\n"}.items():  # fmt: skip
        (folder / "etc" / name).write_text(line)


def zig() -> Path:
    return cached("zig", ZIG, make_zig)


def qemu() -> Path:
    return cached("qemu", [TOOLS_SUITE, QEMUS], make_qemu)


def mca() -> Path:
    return cached("mca", [TOOLS_SUITE, "llvm-19"], make_mca)


def root(architecture: str) -> Path:
    recipe = [ROOT_SUITE, architecture, ROOT_PACKAGES, list(map(str, dependencies(architecture))), ROOT_UNUSED]
    return cached(f"root-{architecture}", recipe, lambda folder: make_root(architecture, folder))


ITEMS: dict[str, Callable[[], Path]] = {
    "zig": zig,
    "qemu": qemu,
    "mca": mca,
    **{f"root-{architecture}": (lambda name=architecture: root(name)) for architecture in ROOT_MACHINES},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="+", choices=["all", *ITEMS], metavar="ITEM", help=f"all, {', '.join(ITEMS)}")
    names = list(dict.fromkeys(parser.parse_args().items))
    if "all" in names:
        names = list(ITEMS)
    CACHE.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:  # one downloads while the other unpacks
        for name, place in zip(names, pool.map(lambda name: ITEMS[name](), names), strict=True):
            print(name, place, flush=True)


if __name__ == "__main__":
    main()
