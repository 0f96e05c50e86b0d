"""A temporary PostgreSQL cluster on a Unix socket, gone when the process that made it is.

`python tests/service/postgres_cluster.py COMMAND...` runs a command with SEALANE_TEST_POSTGRES_URL set to one.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "SEALANE_TEST_POSTGRES_URL"
_PDEATHSIG = 1


def find_programs() -> Path | None:
    """The folder with `initdb` and `postgres`; of several, that on the path, else the newest."""
    found = shutil.which("postgres")
    candidates = [Path(found)] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_release, reverse=True)
    for program in candidates:
        folder = program.resolve().parent
        if (folder / "initdb").exists():
            return folder
    return None


def _release(program: Path) -> float:
    try:
        return float(program.parts[-3])
    except ValueError:
        return 0.0


class Cluster:
    """A cluster in a new folder. The server refuses to run as root, so it runs as another user then."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._who: dict[str, object] = {}
        # Short, since a socket's path may have 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="sealane-pg-", dir="/tmp"))
        if os.geteuid() == 0:
            account = _account()
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql+psycopg://sealane@/postgres?host={self.folder}"
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "sealane", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        options = {
            "listen_addresses": "", "unix_socket_directories": str(self.folder), "max_connections": "200",
            # Nothing here outlives the machine.
            "fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB",
        }  # fmt: skip
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                preexec_fn=_end_with_parent, **self._who,
            )  # type: ignore[call-overload]  # fmt: skip
        end = time.monotonic() + 60
        ready = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder), "-U", "sealane", "-d", "postgres"]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL does not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: in good order; SIGQUIT: as in a crash."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
            **self._who,
        )  # type: ignore[call-overload]  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stderr}")


def _account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGQUIT)


@contextmanager
def cluster() -> Iterator[Cluster]:
    programs = find_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL's server programs are not installed: apt-get install postgresql")
    made = Cluster(programs)
    try:
        yield made
    finally:
        made.close()


def main() -> int:
    with cluster() as made:
        return subprocess.run(sys.argv[1:], env={**os.environ, VARIABLE: made.url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
