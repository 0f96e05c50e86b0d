"""Images as `make images` leaves them, run without a container engine, as strictly as one would run them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests" / "emulated"))
import guest  # noqa: E402

IMAGE = os.environ.get("SEALANE_IMAGE", "localhost/sealane")
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
START_SECONDS = 300
# Docker's name -> what guest.py calls it; amd64 is this machine's own here.
GUESTS = {"arm64": "aarch64", "s390x": "s390x", "loong64": "loongarch64"}


def absent(reason: str) -> None:
    """Skip for want of something, or fail where nothing may be wanting."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class Image:
    """One architecture's image: its configuration, and its files in a folder of this machine."""

    architecture: str
    config: dict[str, Any]
    described: dict[str, Any]
    root: Path

    @property
    def user(self) -> tuple[int, int]:
        user, _, group = self.config["User"].partition(":")
        return int(user), int(group)

    def command(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        entrypoint: list[str] | None = None,
        state: Path | None = None,
        cpu: str | None = None,
    ) -> list[str]:
        """The command line that runs the image: root file system read-only, /tmp and `state` writable, the image's own
        user and environment, no capabilities and no way to gain any. It becomes the program, so signals reach it."""
        uid, gid = self.user
        variables = dict(pair.split("=", 1) for pair in self.config["Env"]) | (environment or {})
        if cpu:
            variables["QEMU_CPU"] = cpu
        program = [*(entrypoint or self.config["Entrypoint"]), *(arguments or self.config["Cmd"])]
        steps = [
            "set -e",
            # Over itself, and in a mount namespace of this run alone, with which it goes.
            f"at={shlex.quote(str(self.root))}",
            "mount --bind $at $at",
            "mount -o remount,bind,ro $at",
            "mount -t proc proc $at/proc",
            "mount --rbind /dev $at/dev",
            "mount -t tmpfs -o mode=1777 tmpfs $at/tmp",
        ]
        if state:
            steps.append(f"mount --bind {shlex.quote(str(state))} $at/var/lib/sealane")
        assignments = " ".join(shlex.quote(f"{name}={value}") for name, value in variables.items())
        # The three rights are chroot's; they are lost with the change of user, and can't come back.
        confine = [
            _host("setpriv"), "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all,+sys_chroot,+setuid,+setgid",
            _host("chroot"), f"--userspec={uid}:{gid}", "--groups=",
        ]  # fmt: skip
        steps.append(f"exec env -i {assignments} {shlex.join(confine)} $at {shlex.join(program)}")
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(steps)]

    def run(self, *arguments: str, timeout: float = 300, check: bool = True, **options: Any) -> str:
        done = subprocess.run(
            self.command(*arguments, **options), capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode:
            pytest.fail(f"exit status {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}", pytrace=False)
        return done.stdout

    @contextmanager
    def serving(self, port: int, **options: Any) -> Iterator[httpx.Client]:
        """The service in this image, ready; stopped by the image's own signal, as an engine would."""
        environment = {"SEALANE_PORT": str(port), "SEALANE_HOST": "127.0.0.1", "SEALANE_WORKERS": "1"}
        command = self.command(environment={**environment, **options.pop("environment", {})}, **options)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
                until = time.monotonic() + START_SECONDS
                while not _ready(client):
                    if process.poll() is not None or time.monotonic() > until:
                        process.kill()
                        said = process.communicate()[0].decode(errors="replace")
                        pytest.fail(f"not ready, exit status {process.returncode}\n{said[-6000:]}", pytrace=False)
                    time.sleep(0.5)
                yield client
            process.send_signal(signal.Signals[self.config.get("StopSignal") or "SIGTERM"])
            assert process.wait(timeout=60) in (0, -signal.SIGTERM)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _host(name: str) -> str:
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert path, f"{name} is not on this machine"
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def buildah(*arguments: str) -> str:
    return subprocess.run(["buildah", *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="session")
def image() -> Iterator[Callable[[str], Image]]:
    """An architecture's image, its files unpacked."""
    made: dict[str, Image] = {}
    containers: list[str] = []

    def found(architecture: str) -> Image:
        if architecture in made:
            return made[architecture]
        if os.geteuid() != 0 or not shutil.which("buildah"):
            absent("images are unpacked by buildah, as root")
        name = f"{IMAGE}:{architecture}"
        try:
            described = json.loads(buildah("inspect", "--type", "image", name))
        except subprocess.CalledProcessError:
            absent(f"{name} is not there: run make images")
        if architecture in GUESTS:
            try:
                guest.register(guest.ARCHITECTURES[GUESTS[architecture]])
            except (SystemExit, OSError, subprocess.CalledProcessError) as error:
                absent(f"cannot set up emulation: {error}")
        containers.append(buildah("from", "--pull-never", "--arch", architecture, name))
        root = Path(buildah("mount", containers[-1]))
        made[architecture] = Image(architecture, described["Docker"]["config"], described["Docker"], root)
        return made[architecture]

    yield found
    for container in containers:
        buildah("rm", container)


@pytest.fixture(scope="session")
def states(image: Callable[[str], Image], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], State]:
    """A folder for /var/lib/sealane in which the image's own `sealane init` has made all that serving needs."""
    made: dict[str, State] = {}

    def found(architecture: str) -> State:
        if architecture not in made:
            this = image(architecture)
            folder = tmp_path_factory.mktemp(f"state-{architecture}")
            os.chown(folder, *this.user)
            folder.chmod(0o700)
            environment = {"SEALANE_MASTER_KEY_FILE": "/var/lib/sealane/master.key"}
            token = this.run("init", environment=environment, state=folder).strip()
            made[architecture] = State(folder, token, environment)
        return made[architecture]

    return found


@dataclass(frozen=True)
class State:
    """Database and master key in a folder, the token that may do everything, the settings that go with them."""

    folder: Path
    token: str
    environment: dict[str, str]
