"""Which backends and kernels are found, tested, chosen and reported."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import registry as registry_module
from engine import selftest
from engine.backends import reference
from engine.registry import BUILT_IN, ENTRY_POINT_GROUP, Registry

#: Other architectures are mostly emulated, and times mean nothing there.
timed = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="timed on x86-64 only")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _same_engine_afterwards() -> Iterator[None]:
    before = engine.info().kernel
    yield
    engine.use(before)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "SEALANE_ENGINE"}
    return subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_extension_is_here_and_every_kernel_is_good() -> None:
    outcomes = engine.check()
    assert outcomes["native"] == "ok"
    assert outcomes["reference"] == "ok"
    native = [name for name in outcomes if name not in BUILT_IN]
    assert {name: outcomes[name] for name in native} == dict.fromkeys(native, "ok")
    assert "scalar" in native


def test_info() -> None:
    engine.use("native")
    info = engine.info()
    assert info.backend == "native"
    assert info.kernel == info.kernels[0]
    assert info.kernels[-1] == "scalar"
    assert set(info.kernels) <= set(info.selftest)
    assert isinstance(info.cpu_features, tuple)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.kernel = "other"  # type: ignore[misc]
    info.selftest["scalar"] = "changed"
    assert engine.info().selftest["scalar"] == "ok"
    assert dataclasses.asdict(info)["backend"] == "native"


def test_use() -> None:
    aead_before = engine.Aead(bytes(32))
    for kernel in engine.info().kernels:
        engine.use(kernel)
        assert (engine.info().backend, engine.info().kernel) == ("native", kernel)
    engine.use("reference")
    assert (engine.info().backend, engine.info().kernel) == ("reference", "reference")
    assert isinstance(engine.Aead(bytes(32)), reference.ReferenceAead)
    assert not isinstance(aead_before, reference.ReferenceAead)
    engine.use("native")
    assert engine.info().kernel == engine.info().kernels[0]


@pytest.mark.parametrize("name", ["", "rot13", "Native", "lasx"])
def test_use_of_an_unknown_name_lists_the_known_ones(name: str) -> None:
    if name in engine.info().kernels:
        pytest.skip(f"{name} can be used here")
    before = engine.info()
    with pytest.raises(ValueError, match=f"not '{name}'") as raised:
        engine.use(name)
    for known in (*before.kernels, *BUILT_IN):
        assert known in str(raised.value)
    assert engine.info().kernel == before.kernel
    wrong: Any = 3
    with pytest.raises(TypeError, match="name must be str, not int"):
        engine.use(wrong)


def test_types_are_those_of_the_protocol() -> None:
    for name in (*engine.info().kernels, "reference"):
        engine.use(name)
        mac = engine.Poly1305(one_time_key=bytes(32))
        assert isinstance(engine.Aead(bytes(32)), engine.Aead)
        assert isinstance(mac, engine.Poly1305)
        assert isinstance(engine.Poly1305.from_state(mac.export_state()), engine.Poly1305)
        assert isinstance(engine.MacKey(key=bytes(32)), engine.MacKey)
        assert isinstance(engine.MacKey(bytes(32)).start(bytes(24)), engine.Poly1305)


def test_each_implementation_offers_all_of_the_protocol() -> None:
    for name in (engine.info().kernels[0], *engine.info().backends):
        engine.use(name)
        made = (engine.Aead(bytes(32)), engine.Poly1305(bytes(32)), engine.MacKey(bytes(32)))
        for object_, wanted in zip(made, (engine.Aead, engine.Poly1305, engine.MacKey), strict=True):
            for method in (attribute for attribute in vars(wanted) if not attribute.startswith("_")):
                assert getattr(type(object_), method) is not getattr(wanted, method), (name, method)


def test_attributes_of_an_aead_are_read_only(implementation: str, algorithm: str) -> None:
    aead: Any = engine.Aead(bytes(32), algorithm)
    assert aead.algorithm == algorithm
    for attribute in ("algorithm", "nonce_size", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(aead, attribute, 12)


def test_an_error_is_one_class() -> None:
    assert issubclass(engine.InvalidTag, Exception)
    for name in (engine.info().kernels[0], *engine.info().backends):
        engine.use(name)
        with pytest.raises(engine.InvalidTag):
            engine.Aead(bytes(32)).open(bytes(24), bytes(20))
        with pytest.raises(engine.InvalidTag):
            engine.Poly1305(bytes(32)).verify(b"x" * 16)


@pytest.mark.parametrize("name", ["reference", "scalar", "native"])
def test_the_environment_chooses(name: str) -> None:
    ran = run("import engine; i = engine.info(); print(i.backend, i.kernel)", SEALANE_ENGINE=name)
    backend, kernel = ran.stdout.split()
    assert backend == ("reference" if name == "reference" else "native")
    assert kernel == (name if name != "native" else engine.info().kernels[0])


def test_choosing_another_backend_runs_no_kernel() -> None:
    ran = run("import engine; i = engine.info(); print(i.backend, *i.selftest)", SEALANE_ENGINE="reference")
    assert ran.stdout.split() == ["reference", "reference"]


def test_the_environment_is_refused_when_wrong() -> None:
    ran = run("import engine", SEALANE_ENGINE="rot13")
    assert ran.returncode != 0
    assert "engine must be one of" in ran.stderr.splitlines()[-1]
    assert "'rot13'" in ran.stderr


@timed
def test_import_is_quick_and_imports_no_backend_that_is_not_used() -> None:
    # Finding it first keeps an editable install's look at the build out of the time.
    code = (
        "import sys, time, importlib.util; importlib.util.find_spec('engine');"
        "start = time.perf_counter(); import engine; took = time.perf_counter() - start;"
        "names = sorted(name for name in sys.modules if name.startswith(('cryptography', 'engine.b')));"
        "print(took, engine.info().backend, *names)"
    )
    tries = []
    for _ in range(5):
        took, backend, *imported = run(code).stdout.split()
        assert backend == "native"
        assert imported == ["engine.backends", "engine.backends.arguments", "engine.backends.native"]
        tries.append(float(took))
    assert min(tries) < 0.05


def test_without_metadata_and_without_the_extension_the_others_serve(tmp_path: Path) -> None:
    """A source tree alone, isolated from installed packages: no metadata, no extension, no cryptography."""
    without_extension = shutil.ignore_patterns("*.so", "native", "__pycache__")
    shutil.copytree(Path(engine.__file__).parent, tmp_path / "engine", ignore=without_extension)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import engine
info = engine.info()
assert info.backend == info.kernel == "reference", info
assert info.kernels == (), info
assert info.selftest["native"].startswith("not available: "), info
assert info.selftest["openssl"].startswith("not available: "), info
assert issubclass(engine.InvalidTag, Exception)
try:
    engine.use("avx2")
except ValueError as error:
    assert "native, openssl, reference" in str(error), error
try:
    engine.use("openssl")
except ValueError as error:
    assert "cryptography" in str(error), error
else:
    raise AssertionError
aead = engine.Aead(bytes(32))
assert aead.open_framed(aead.seal_framed(b"12345678", b"text"), 8) == b"text"
print("served")
"""
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "served\n", ran.stderr


def test_the_built_in_table_is_what_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"][ENTRY_POINT_GROUP] == BUILT_IN


# Backends from elsewhere


class Extra(reference.ReferenceBackend):
    name = "extra"


class Wrong(reference.ReferenceBackend):
    """Right but for one thing that the self-test must see."""

    name = "wrong"

    def hchacha20(self, key: Any, nonce: Any) -> bytes:
        return bytes(32)


class Kernels(reference.ReferenceBackend):
    """One good kernel and one bad one; the bad one would be preferred."""

    name = "native"

    def __init__(self) -> None:
        self.used = "fast"

    def kernels(self) -> tuple[str, ...]:
        return ("fast", "slow")

    def kernel(self) -> str:
        return self.used

    def use_kernel(self, name: str) -> None:
        self.used = name

    def hchacha20(self, key: Any, nonce: Any) -> bytes:
        right = super().hchacha20(key, nonce)
        return right if self.used == "slow" else right[::-1]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entry points of packages that are not ours."""
    points = importlib.metadata.EntryPoints(
        importlib.metadata.EntryPoint(name, f"{__name__}:{what}", ENTRY_POINT_GROUP)
        for name, what in (("extra", "EXTRA"), ("wrong", "WRONG"), ("broken", "MISSING"))
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **selection: points.select(**selection))
    registry_module._entry_points.cache_clear()
    yield
    registry_module._entry_points.cache_clear()


EXTRA, WRONG = Extra(), Wrong()


@pytest.mark.usefixtures("elsewhere")
def test_a_backend_from_elsewhere_needs_an_entry_point_only() -> None:
    registry = Registry()
    registry.use("extra")
    assert registry.info().backend == "extra"
    assert registry.info().selftest["extra"] == "ok"
    assert "extra" in registry.names()


@pytest.mark.usefixtures("elsewhere")
def test_a_backend_that_fails_is_not_used_and_is_named() -> None:
    registry = Registry()
    registry.use_best()
    for name, reason in (("wrong", "wrong answer: HChaCha20"), ("broken", "not available: ")):
        with pytest.raises(ValueError, match=rf"not '{name}' \({name}: {reason}"):
            registry.use(name)
        assert registry.info().selftest[name].startswith(reason)
        assert registry.info().backend == "native"
    outcomes = registry.check()
    assert outcomes["extra"] == "ok"
    assert set(outcomes) >= {"extra", "wrong", "broken", *BUILT_IN}


def test_a_kernel_that_fails_is_not_used_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Kernels()
    monkeypatch.setattr(registry_module, "_import", lambda name: backend)
    registry = Registry()
    registry.use_best()
    info = registry.info()
    assert (info.backend, info.kernel, info.kernels) == ("native", "slow", ("slow",))
    assert info.selftest == {"fast": "wrong answer: HChaCha20", "slow": "ok", "native": "ok"}
    with pytest.raises(ValueError, match=r"not 'fast' \(fast: wrong answer: HChaCha20\)"):
        registry.use("fast")
    assert backend.used == "slow"


def test_no_kernel_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Kernels()
    monkeypatch.setattr(backend, "kernels", lambda: ("fast",))
    good = reference.ReferenceBackend()
    monkeypatch.setattr(registry_module, "_import", lambda name: backend if name == "native" else good)
    registry = Registry()
    registry.use_best()
    assert registry.info().backend == "reference"
    assert registry.info().kernels == ()
    assert registry.info().selftest["native"] == "no kernel passed its self-test"


# The self-test


class Flipped:
    """A backend that gives one wrong bit in the answers of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(reference.backend, name)

    def poly1305(self, key: Any) -> Any:
        return _FlippedPoly1305(key, self.kind)

    def chacha20_xor(self, key: Any, nonce: Any, data: Any, counter: int) -> bytes:
        answer = bytearray(reference.backend.chacha20_xor(key, nonce, data, counter))
        if self.kind == "chacha20":
            answer[-1] ^= 1
        return bytes(answer)

    def aead(self, key: Any, algorithm: str) -> Any:
        return _FlippedAead(reference.backend.aead(key, algorithm), self.kind)


class _FlippedPoly1305:
    def __init__(self, key: Any, kind: str) -> None:
        self.mac, self.kind = reference.ReferencePoly1305(key), kind
        self.update = self.mac.update

    def export_state(self) -> bytes:
        state = bytearray(self.mac.export_state())
        state[33] ^= self.kind == "state"
        return bytes(state)

    def digest(self) -> bytes:
        tag = bytearray(self.mac.digest())
        tag[15] ^= self.kind == "poly1305"
        return bytes(tag)


class _FlippedAead:
    def __init__(self, aead: Any, kind: str) -> None:
        self.aead, self.kind = aead, kind

    def seal(self, nonce: Any, text: Any, aad: Any) -> bytes:
        sealed = bytearray(self.aead.seal(nonce, text, aad))
        if self.kind == "seal" or (self.kind == "long seal" and len(text) > 1000):
            sealed[-1] ^= 1
        return bytes(sealed)

    def open(self, nonce: Any, sealed: Any, aad: Any) -> bytes:
        if self.kind == "credulous":
            return bytes(reference.backend.chacha20_xor(bytes(32), bytes(12), sealed, 0))
        try:
            text = bytearray(self.aead.open(nonce, sealed, aad))
        except engine.InvalidTag:
            if self.kind != "forged":
                raise
            return b""
        if self.kind == "open":
            text[0] ^= 1
        return bytes(text)


@pytest.mark.parametrize("kind", ["poly1305", "state", "chacha20", "seal", "long seal", "open", "forged", "credulous"])
def test_the_self_test_sees_a_wrong_answer(kind: str) -> None:
    wrong: Any = Flipped(kind)
    with pytest.raises(selftest.SelfTestError):
        selftest.run(wrong)


def test_the_self_test_passes_a_right_one() -> None:
    right: Any = Flipped("nothing")
    selftest.run(right)
    selftest.run(reference.backend)


@timed
def test_the_self_test_of_a_kernel_takes_under_5_ms() -> None:
    code = (
        "import time, engine; from engine import selftest; from engine.protocol import selection; took = []\n"
        "for _ in range(5):\n"
        "    start = time.perf_counter(); selftest.run(selection.backend); took.append(time.perf_counter() - start)\n"
        "print(min(took))"
    )
    for kernel in engine.info().kernels:
        assert float(run(code, SEALANE_ENGINE=kernel).stdout) < 0.005
