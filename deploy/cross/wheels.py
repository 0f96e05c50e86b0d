#!/usr/bin/env python3
"""Build the wheel of every architecture on this machine, without emulation:  wheels.py [--out dist] [ARCHITECTURE ...]

The extension keeps to the limited API, whose headers are the same everywhere: the build machine's own serve. The C
library's oldest version that a wheel runs on is in its cross file, goes into its tag, and is checked in the result.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import provision

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
ELF_MACHINE = {
    "x86_64": (62, "little"),
    "aarch64": (183, "little"),
    "s390x": (22, "big"),
    "loongarch64": (258, "little"),
}
ABI3_SINCE = "cp311"


def glibc(architecture: str) -> tuple[int, int]:
    """The C library version that the architecture's cross file compiles for."""
    found = re.search(r"linux-gnu\.(\d+)\.(\d+)", (HERE / f"{architecture}.ini").read_text())
    if not found:
        raise SystemExit(f"{architecture}.ini names no C library version")
    return int(found[1]), int(found[2])


def check(wheel: Path, architecture: str) -> None:
    """Stop unless every extension in the wheel is for `architecture`, abi3, and asks for no newer C library."""
    machine, order = ELF_MACHINE[architecture]
    with zipfile.ZipFile(wheel) as archive:
        extensions = [name for name in archive.namelist() if name.endswith(".so")]
        if not extensions:
            raise SystemExit(f"{wheel.name}: no extension inside")
        for name in extensions:
            content = archive.read(name)
            if not name.endswith(".abi3.so"):
                raise SystemExit(f"{wheel.name}: {name} is not named as abi3")
            if content[:4] != b"\x7fELF" or int.from_bytes(content[18:20], order) != machine:  # type: ignore[arg-type]
                raise SystemExit(f"{wheel.name}: {name} is not for {architecture}")
            versions = {(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
            if versions and max(versions) > glibc(architecture):
                raise SystemExit(f"{wheel.name}: {name} wants glibc {max(versions)}")


def build(architecture: str, out: Path) -> Path:
    """Build one architecture's wheel into `out`, replacing one of the same architecture."""
    major, minor = glibc(architecture)
    tag = f"manylinux_{major}_{minor}_{architecture}"
    environment = {
        **os.environ,
        "_PYTHON_HOST_PLATFORM": tag,  # what sysconfig then says the platform is, and the wheel's tag with it
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # this Python's meson and ninja
    }
    with tempfile.TemporaryDirectory(prefix="sealane-wheel-") as scratch:
        # Isolated, pip would look for the build tools of the foreign platform.
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        command += ["--wheel-dir", scratch, str(PROJECT)]
        for setting in (f"--cross-file={HERE / architecture}.ini", "-Dprograms=false"):
            command += ["-C", f"setup-args={setting}"]
        command += ["-C", f"build-dir={scratch}/build"]
        done = subprocess.run(command, env=environment, check=False, text=True, capture_output=True)
        if done.returncode:
            raise SystemExit(f"wheel for {architecture}:\n{done.stdout[-4000:]}{done.stderr[-8000:]}")
        (wheel,) = Path(scratch).glob("*.whl")
        if not wheel.name.endswith(f"-{ABI3_SINCE}-abi3-{tag}.whl"):
            raise SystemExit(f"{wheel.name} is not tagged {ABI3_SINCE}-abi3-{tag}")
        check(wheel, architecture)
        out.mkdir(parents=True, exist_ok=True)
        for older in out.glob(f"sealane-*_{architecture}.whl"):
            older.unlink()
        return Path(shutil.move(wheel, out / wheel.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=", ".join(ELF_MACHINE))
    parser.add_argument("--out", type=Path, default=PROJECT / "dist")
    options = parser.parse_args()
    for unknown in set(options.architectures) - set(ELF_MACHINE):
        parser.error(f"unknown architecture {unknown}; there are {', '.join(ELF_MACHINE)}")
    if importlib.util.find_spec("mesonpy") is None:
        sys.exit(f"{sys.executable} has no meson-python: install what pyproject.toml's build-system asks for")
    provision.zig()
    for architecture in options.architectures or ELF_MACHINE:
        print(build(architecture, options.out), flush=True)


if __name__ == "__main__":
    main()
