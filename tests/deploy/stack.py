"""What deploy/compose.yaml runs in containers, run without: PostgreSQL, two replicas, nginx, Prometheus."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from deploy_harness import DEPLOY, PROJECT, absent

sys.path.insert(0, str(PROJECT / "tests" / "service"))
from postgres_cluster import Cluster, cluster, find_programs

OCTETS = {"content-type": "application/octet-stream"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


class Replica:
    """One replica on this machine, by the command that operators run."""

    def __init__(self, environment: dict[str, str], folder: Path, workers: int = 1) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {**os.environ, **environment, "SEALANE_PORT": str(self.port), "SEALANE_HOST": "127.0.0.1",
                             "SEALANE_WORKERS": str(workers)}  # fmt: skip
        self._log = folder / f"replica-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "serve"], env=self._environment, stdout=log, stderr=log
            )
        until(lambda: answers(f"{self.url}/readyz"), 120, f"a replica is ready: {self._log}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.process = None
        return code

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Stack:
    """The parts, running: `url` is the balancer's."""

    def __init__(self, folder: Path, replicas: list[Replica], url: str, token: str, database: Cluster) -> None:
        self.folder, self.replicas, self.url, self.token, self.database = folder, replicas, url, token, database

    def client(self, url: str | None = None) -> httpx.Client:
        return httpx.Client(
            base_url=url or self.url, headers={"authorization": f"Bearer {self.token}"}, timeout=30, trust_env=False
        )


def sealane(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def running(folder: Path) -> Iterator[Stack]:
    for program, package in {"nginx": "nginx-light", "prometheus": "prometheus"}.items():
        if not shutil.which(program):
            absent(f"{program} is not installed (Debian's {package})")
    if find_programs() is None:
        absent("PostgreSQL's server programs are not installed")
    with ExitStack() as stack:
        database = stack.enter_context(cluster())
        environment = {
            "SEALANE_DATABASE_URL": database.url,
            "SEALANE_MASTER_KEY_FILE": str(folder / "master.key"),
            "SEALANE_DRAIN_TIMEOUT": "20",
            "SEALANE_SPOOL_FOLDER": str(folder / "spool"),
        }
        token = sealane(environment, "init")
        replicas = [Replica(environment, folder) for _ in range(2)]
        for replica in replicas:
            stack.callback(replica.close)
            replica.start()
        url = stack.enter_context(nginx(folder, replicas))
        yield Stack(folder, replicas, url, token, database)


@contextmanager
def nginx(folder: Path, replicas: list[Replica]) -> Iterator[str]:
    """The balancer with the configuration that compose gives it, but for addresses and folders."""
    port = free_port()
    text = (DEPLOY / "nginx/sealane.conf").read_text().replace("listen 8080;", f"listen 127.0.0.1:{port};")
    for number, replica in enumerate(replicas, 1):
        text = text.replace(f"sealane-{number}:8417", f"127.0.0.1:{replica.port}")
    text = text.replace("/tmp/sealane-bodies", str(folder / "bodies"))
    assert "8417" not in re.sub(r"127\.0\.0\.1:\d+", "", text)
    temporary = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n"
        + ("user root;\n" if os.geteuid() == 0 else "")
        + f"events {{}}\nhttp {{ access_log off;\n{temporary}{text}}}\n"
    )
    process = subprocess.Popen(["nginx", "-c", configuration, "-e", folder / "nginx.log"], cwd=folder)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/readyz"), 30, "the balancer answers")
        yield url
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def prometheus(folder: Path, replicas: list[Replica]) -> Iterator[httpx.Client]:
    """Prometheus with the configuration that compose gives it, scraping these replicas each second."""
    port = free_port()
    place = folder / "prometheus"
    place.mkdir()
    text = (DEPLOY / "prometheus/prometheus.yml").read_text().replace("scrape_interval: 10s", "scrape_interval: 1s")
    for number, replica in enumerate(replicas, 1):
        text = text.replace(f"sealane-{number}:8417", f"127.0.0.1:{replica.port}")
    (place / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "prometheus/alerts.yml", place)
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log,
        )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            until(lambda: answers(f"{client.base_url}/-/ready"), 60, "Prometheus is ready")
            yield client
    finally:
        process.terminate()
        process.wait(20)


class Load:
    """Clients that seal and open until they are told to stop; what failed, and how."""

    def __init__(self, stack: Stack, clients: int = 4) -> None:
        self.done = 0
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(stack, number)) for number in range(clients)]
        self.clients = clients

    def _work(self, stack: Stack, number: int) -> None:
        body = bytes([number]) * 5000
        with stack.client() as client:
            while not self._stop.is_set():
                try:
                    sealed = client.post("/v1/keys/load/seal", content=body, headers=OCTETS)
                    opened = client.post("/v1/keys/load/open", content=sealed.content, headers=OCTETS)
                    wrong = [] if opened.content == body else [f"{sealed.status_code} {opened.status_code}"]
                except httpx.TransportError as error:
                    wrong = [repr(error)]
                with self._lock:
                    self.done += 1
                    self.failures += wrong

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def another(self, count: int) -> None:
        """Returns once `count` more rounds are done."""
        wanted = self.done + count
        until(lambda: self.done >= wanted, 120, f"{count} more rounds")
