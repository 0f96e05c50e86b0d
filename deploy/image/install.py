#!/usr/bin/env python3
"""Install what the image holds beside Debian's packages, for another architecture, without emulation.

    install.py ARCHITECTURE ROOT

ARCHITECTURE is Docker's name for it. Into ROOT/opt/sealane/lib go the locked requirements, as PyPI's wheels or, where
there are none, cross-built from locked sources, and Sealane itself.
Then all Python files there are compiled, so that a read-only container starts fast, in a way that depends on nothing
but their content. Runs under the same Python version as the image has.
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT / "deploy/cross"), str(PROJECT / "deploy/base")]
import debian  # noqa: E402
import provision  # noqa: E402
import root as base  # noqa: E402
import wheels  # noqa: E402
from packaging.requirements import Requirement  # noqa: E402

MACHINE = {"amd64": "x86_64", "arm64": "aarch64", "s390x": "s390x", "loong64": "loongarch64"}
# PyPI has no wheels of these there; all are plain C.
FROM_SOURCE = {"s390x": {"httptools", "markupsafe", "msgspec"}, "loongarch64": {"httptools", "markupsafe", "msgspec"}}
# The C library versions that wheels may ask for; the image's own is newer than all.
GLIBC = range(5, 42)
LIB = "opt/sealane/lib"


def locked(machine: str) -> dict[str, str]:
    """The requirements of one architecture, name -> lines of a requirements file, without their markers."""
    environment = {"platform_machine": machine, "sys_platform": "linux", "platform_system": "Linux"}
    found = {}
    text = (HERE / "requirements.lock").read_text().replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        head, *hashes = re.split(r"\s+--hash=", line)
        requirement = Requirement(head)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            options = " ".join(f"--hash={value.strip()}" for value in hashes)
            found[requirement.name] = f"{requirement.name}{requirement.specifier} {options}"
    return found


def pip(*arguments: str | Path, environment: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", *map(str, arguments), "--quiet", "--disable-pip-version-check", "--no-deps"]
    # As root into a folder of our own is what is meant here.
    quiet = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_WARN_SCRIPT_LOCATION": "1"}
    environment = {**os.environ, **quiet, **(environment or {})}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-8000:]}")


def install(machine: str, target: Path, *what: str | Path) -> None:
    tags = [f"manylinux_2_{minor}" for minor in reversed(GLIBC)] + ["manylinux2014", "linux"]
    platforms = [f"--platform={tag}_{machine}" for tag in tags]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    pip("install", "--target", target, "--no-compile", "--only-binary=:all:", f"--python-version={version}",
        "--implementation=cp", *platforms, *what)  # fmt: skip


def unpack_headers(architecture: str) -> None:
    """Put the target's Python headers where this Python says that its own are: Debian's choose one of several
    pyconfig.h by the compiler's word, from folders that a cross compiler does not look into."""
    place = Path(sysconfig.get_path("include"))
    if (place / "Python.h").exists():
        sys.exit(f"{place} has headers already, which this would replace: it is for containers")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    package = f"libpython{version}-dev"
    with tempfile.TemporaryDirectory(prefix="sealane-headers-") as folder:
        debian.unpack(architecture, [package], Path(folder), only=[package])
        include = Path(folder, "usr/include")
        shutil.copytree(include / f"python{version}", place)
        (own,) = include.glob(f"*-linux-gnu*/python{version}/pyconfig.h")
        shutil.copy(own, place / "pyconfig.h")


def cross_built(machine: str, requirements: list[str], scratch: Path) -> list[Path]:
    """Wheels of locked sources, compiled here for `machine`."""
    major, minor = wheels.glibc(machine)
    compiler = f"{wheels.HERE / 'cc'} {machine}-linux-gnu.{major}.{minor}"
    list_file = scratch / "sources.txt"
    list_file.write_text("\n".join(requirements) + "\n")
    environment = {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared -s",
        "CFLAGS": f"-O2 -fPIC -fno-sanitize=all -ffile-prefix-map={scratch}=.",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{sys.version_info.major}{sys.version_info.minor}-{machine}-linux-gnu.so",
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }
    out = scratch / "built"
    pip("wheel", "--no-build-isolation", "--no-binary=:all:", "--require-hashes", "-r", list_file, "-w", out,
        environment=environment)  # fmt: skip
    built = sorted(out.glob("*.whl"))
    for wheel in built:
        if not wheel.name.endswith(f"linux_{machine}.whl"):
            sys.exit(f"{wheel.name} is not for {machine}")
    return built


def settle(root: Path) -> None:
    """The command, and nothing that tells one build from the next."""
    lib = root / LIB
    for unused in (lib / "bin", lib / "share", lib / "include"):
        shutil.rmtree(unused, ignore_errors=True)
    for record in [*lib.glob("*.dist-info/direct_url.json"), *lib.glob("*.dist-info/REQUESTED")]:
        record.unlink()  # say from which folder here it was installed
    for tests in [*lib.glob("*/tests"), *lib.glob("greenlet")]:
        shutil.rmtree(tests)
    for folder in lib.rglob("__pycache__"):
        shutil.rmtree(folder)
    # Records list what was taken away too, with the hash of the folder that it named.
    for record in lib.glob("*.dist-info/RECORD"):
        with record.open(newline="") as file:
            rows = [row for row in csv.reader(file) if row and (lib / row[0]).exists()]
        with record.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    command = root / "opt/sealane/bin/sealane"
    command.parent.mkdir(parents=True, exist_ok=True)
    # Workers import it too, and must not run it.
    command.write_text('#!/usr/bin/python3\nfrom service.cli import app\n\nif __name__ == "__main__":\n    app()\n')
    command.chmod(0o755)
    shutil.copy(HERE / "healthcheck.py", root / "opt/sealane/healthcheck.py")
    shutil.copy(HERE / "sitecustomize.py", lib / "sitecustomize.py")


def make(architecture: str, root: Path) -> None:
    machine = MACHINE[architecture]
    unpack_headers(base.DEBIAN_NAME[architecture])
    requirements = locked(machine)
    sources = [requirements.pop(name) for name in sorted(FROM_SOURCE.get(machine, ()))]
    wheels.ABI3_SINCE = f"cp{sys.version_info.major}{sys.version_info.minor}"  # the tag names the Python that builds
    with tempfile.TemporaryDirectory(prefix="sealane-site-") as folder:
        # A name that is the same in every build, should a compiler write it down.
        scratch = Path(folder) / "site"
        scratch.mkdir()
        list_file = scratch / "requirements.txt"
        list_file.write_text("\n".join(requirements.values()) + "\n")
        install(machine, root / LIB, "--require-hashes", "-r", list_file)
        if sources:
            install(machine, root / LIB, *cross_built(machine, sources, scratch))
        install(machine, root / LIB, wheels.build(machine, scratch / "own"))
    settle(root)
    base.compile_python(root, root / LIB)
    # Becomes the service's own folder; the spool is in it so that a volume mounted there gets the service's user.
    (root / "state/spool").mkdir(parents=True)
    base.date(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", choices=MACHINE)
    parser.add_argument("root", type=Path)
    options = parser.parse_args()
    provision.zig()
    make(options.architecture, options.root)


if __name__ == "__main__":
    main()
