"""Debian packages of any architecture, fetched by apt with a state of its own and unpacked, never configured."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cross"))
import provision

SUITE = provision.ROOT_SUITE


def unpack(
    architecture: str, names: Sequence[str], folder: Path, *, without: Sequence[str] = (), only: Sequence[str] = ()
) -> list[str]:
    """Unpack `names` and all they depend on into `folder`; the names of what was unpacked.

    Of these, `without` are left out, and all but `only` where that is given.

    Each package's description goes to var/lib/dpkg/status.d, where scanners look for it in images without dpkg.
    """
    address, keyring = provision.debian_source()
    with tempfile.TemporaryDirectory(prefix="sealane-apt-") as home:
        apt = Path(home)
        for part in ("lists/partial", "cache/archives/partial", "state", "sources", "packages"):
            (apt / part).mkdir(parents=True)
        (apt / "status").write_text("")  # nothing counts as installed, so every dependency is named
        (apt / "sources" / "suite.sources").write_text(
            f"Types: deb\nURIs: {address}\nSuites: {SUITE}\nComponents: main\n"
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
        provision.run(*get, "update")
        plan = provision.run(*get, "install", "--yes", "--print-uris", *names)
        planned = re.findall(r"^'\S+' ([a-z0-9][a-z0-9.+-]*)_\S+\.deb \d+", plan, re.MULTILINE)
        wanted = sorted(set(only or planned) - set(without))
        provision.run(*get, "download", *wanted, cwd=apt / "packages")
        described = folder / "var/lib/dpkg/status.d"
        described.mkdir(parents=True, exist_ok=True)
        # base-files first: it has the links from /lib to /usr/lib that the others' files go through.
        for package in sorted(
            (apt / "packages").glob("*.deb"), key=lambda file: (not file.name.startswith("base-files_"), file.name)
        ):
            provision.run("dpkg-deb", "-x", package, folder)
            name = package.name.partition("_")[0]
            description = subprocess.run(["dpkg-deb", "-f", package], check=True, capture_output=True, text=True).stdout
            (described / name).write_text(description)
        return wanted
