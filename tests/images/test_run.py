"""Each image is run and does the main job over HTTP, on each CPU model, with the kernel that fits it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from image_harness import GUESTS, Image, State, free_port, guest

pytestmark = pytest.mark.images

OCTETS = {"content-type": "application/octet-stream"}
BODY = bytes(range(256)) * 40


@dataclass(frozen=True)
class Model:
    """An image, qemu's CPU model for it (None: this machine's own CPU), and the best kernel that this CPU offers."""

    architecture: str
    cpu: str | None
    best: str

    def __str__(self) -> str:
        return f"{self.architecture}-{self.best}"


def own_best() -> str:
    """The best kernel that this machine's CPU offers, by what its operating system says."""
    flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    avx512 = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
    if avx512 | {"avx512ifma"} <= flags:
        return "avx512"
    if avx512 <= flags:
        return "avx512f"
    return "avx2" if "avx2" in flags else "sse2"


MODELS = [Model("amd64", None, own_best())] + [
    Model(architecture, cpu, best)
    for architecture, name in GUESTS.items()
    for best, cpu in guest.ARCHITECTURES[name].cpus.items()
    # Debian's loong64 packages take LSX as given, Python included.
    if (architecture, best) != ("loong64", "scalar")
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_main_job(model: Model, image: Callable[[str], Image], states: Callable[[str], State]) -> None:
    state = states(model.architecture)
    key = f"made-with-{model.best}"
    with image(model.architecture).serving(
        free_port(), state=state.folder, environment=state.environment, cpu=model.cpu
    ) as client:
        assert client.get("/v1/engine").status_code == 401
        client.headers["authorization"] = f"Bearer {state.token}"
        described = client.get("/v1/engine").json()
        assert described["backend"] == "native"
        assert described["kernel"] == model.best
        assert set(described["selftest"].values()) == {"ok"}
        assert client.post(f"/v1/keys/{key}", json={}).status_code == 201
        assert client.post(f"/v1/keys/{key}-mac", json={"type": "poly1305-xchacha20"}).status_code == 201
        sealed = client.post(f"/v1/keys/{key}/seal", content=BODY, headers=OCTETS).content
        assert BODY not in sealed
        assert client.post(f"/v1/keys/{key}/open", content=sealed, headers=OCTETS).content == BODY
        broken = sealed[:-1] + bytes([sealed[-1] ^ 1])
        assert client.post(f"/v1/keys/{key}/open", content=broken, headers=OCTETS).status_code == 422
        stream = client.post(f"/v1/keys/{key}/seal-stream", content=BODY, headers=OCTETS).content
        assert client.post(f"/v1/keys/{key}/open-stream", content=stream, headers=OCTETS).content == BODY
        answer = client.post(f"/v1/keys/{key}/seal", json={"plaintext": "aGVsbG8=", "aad": "YWFk"}).json()
        opened = client.post(f"/v1/keys/{key}/open", json={"sealed": answer["sealed"], "aad": "YWFk"}).json()
        assert opened["plaintext"] == "aGVsbG8="
        mac = client.post(f"/v1/keys/{key}-mac/mac", content=BODY, headers=OCTETS).json()["mac"]
        for content, valid in ((BODY, True), (BODY[1:], False)):
            headers = {**OCTETS, "sealane-mac": mac}
            assert client.post(f"/v1/keys/{key}-mac/verify", content=content, headers=headers).json()["valid"] is valid
        assert client.get("/metrics").status_code == 200


def test_the_health_check_tells_ready_from_not(image: Callable[[str], Image], states: Callable[[str], State]) -> None:
    this, state, port = image("amd64"), states("amd64"), free_port()
    kind, *check = this.described["config"]["Healthcheck"]["Test"]
    assert kind == "CMD"
    environment = {"SEALANE_PORT": str(port)}

    def healthy() -> bool:
        try:
            this.run(check[1], entrypoint=check[:1], environment=environment)
        except pytest.fail.Exception:
            return False
        return True

    assert not healthy()
    with this.serving(port, state=state.folder, environment=state.environment):
        assert healthy()


@pytest.mark.parametrize("architecture", ["amd64", *GUESTS])
def test_python_finds_all_it_was_given(architecture: str, image: Callable[[str], Image]) -> None:
    """The fast parser and event loop are there, and every distribution's own requirements are met."""
    program = """
import importlib.metadata, importlib.util, sys
import httptools, uvloop, msgspec._core, markupsafe._speedups, pydantic_core, psycopg, engine, os
assert engine.info().backend == "native"
assert os.getuid() == 65532, os.getuid()
for place in ("/", "/opt/sealane/lib", "/usr/lib", "/etc"):
    try:
        open(os.path.join(place, "x"), "w")
    except OSError:
        continue
    raise SystemExit(f"could write to {place}")
for path in ("/bin/sh", "/usr/bin/dpkg", "/usr/bin/apt", "/usr/bin/cc", "/usr/bin/perl"):
    assert not os.path.exists(path), path
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
assert int(status["CapEff"], 16) == 0
for name, module in sys.modules.items():
    file = getattr(module, "__file__", None) or ""
    assert not file.endswith(".py") or os.path.exists(importlib.util.cache_from_source(file)), f"{name} is not compiled"
print(" ".join(sorted(d.name.lower() for d in importlib.metadata.distributions())))
"""
    names = image(architecture).run("-c", program, entrypoint=["/usr/bin/python3"]).split()
    assert "sealane" in names
    assert "uvloop" in names
