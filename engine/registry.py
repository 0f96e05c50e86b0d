"""Which backends there are, which of them passed their self-test, and which one is in use."""

from __future__ import annotations

import functools
import importlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine import selftest
from engine.protocol import Backend, selection

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "sealane.backends"
#: Our own, best first. Known without metadata, so that a bare source tree works and an import scans no packages.
BUILT_IN = {
    "native": "engine.backends.native:backend",
    "openssl": "engine.backends.openssl:backend",
    "reference": "engine.backends.reference:backend",
}
OK = "ok"


@dataclass(frozen=True, slots=True)
class Info:
    """What the engine runs on, as far as it has been tried: ``engine.check()`` tries the rest.

    ``kernels`` and ``backends`` can be used, best first; ``selftest`` maps each name to "ok" or to why not.
    """

    backend: str
    kernel: str
    kernels: tuple[str, ...]
    backends: tuple[str, ...]
    cpu_features: tuple[str, ...]
    selftest: dict[str, str]


class Registry:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loaded: dict[str, Backend] = {}
        self._kernels: dict[str, str] = {}  # usable kernel -> its backend, best first
        self._selftest: dict[str, str] = {}

    def use(self, name: str) -> None:
        """Give objects made from now on this kernel or backend; "native" means the best kernel.

        Raises ``ValueError`` for a name that is unknown or that cannot be used here, with the ones that can.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be str, not {type(name).__name__}")
        with self._lock:
            # A name of ours runs nothing else, so that it is a way around a kernel that crashes.
            if name not in BUILT_IN:
                self._load("native")
            if name not in self._kernels and (name in BUILT_IN or name in self.names()):
                self._load(name)
            if name in self._loaded:
                self._select(self._loaded[name])
            elif name in self._kernels:
                self._select(self._loaded[self._kernels[name]], name)
            else:
                reason = f" ({name}: {self._selftest[name]})" if name in self._selftest else ""
                known = ", ".join(dict.fromkeys((*self._kernels, *self.names())))
                raise ValueError(f"engine must be one of {known}, not {name!r}{reason}")

    def use_best(self) -> None:
        """Use the first backend that loads and passes its self-test."""
        with self._lock:
            for name in BUILT_IN:
                if self._load(name):
                    self._select(self._loaded[name])
                    return
        raise RuntimeError(f"no backend of the engine works: {self._selftest}")

    def names(self) -> tuple[str, ...]:
        """Every known backend, whether it works here or not."""
        return tuple(dict.fromkeys((*BUILT_IN, *_entry_points())))

    def info(self) -> Info:
        with self._lock:
            backend = selection.backend
            return Info(
                backend=backend.name,
                kernel=backend.kernel(),
                kernels=tuple(self._kernels),
                backends=tuple(name for name in self._loaded),
                cpu_features=self._loaded.get("native", backend).cpu_features(),
                selftest=dict(self._selftest),
            )

    def check(self) -> dict[str, str]:
        """Load and test every known backend that has not been yet; what ``info().selftest`` then says."""
        with self._lock:
            in_use, kernel = selection.backend, selection.backend.kernel()
            for name in self.names():
                self._load(name)
            self._select(in_use, kernel if kernel in self._kernels else None)
            return dict(self._selftest)

    def _load(self, name: str) -> bool:
        """Import a backend and test all of it, once; whether it can be used."""
        if name in self._loaded:
            return True
        if name in self._selftest:
            return False
        try:
            backend = _import(name)
        except Exception as error:  # a backend from elsewhere may fail in any way, and another one can serve
            self._selftest[name] = f"not available: {error}"
            return False
        kernels = {kernel: _outcome(backend, kernel) for kernel in backend.kernels()}
        good = [kernel for kernel, outcome in kernels.items() if outcome == OK]
        if kernels:
            self._selftest.update(kernels)
            self._selftest[name] = OK if good else "no kernel passed its self-test"
        else:
            self._selftest[name] = _outcome(backend)
        if self._selftest[name] != OK:
            return False
        self._kernels.update((kernel, name) for kernel in good)
        self._loaded[name] = backend
        return True

    def _select(self, backend: Backend, kernel: str | None = None) -> None:
        best = next((known for known, owner in self._kernels.items() if owner == backend.name), None)
        chosen = kernel or best
        if chosen is not None:
            backend.use_kernel(chosen)
        selection.backend = backend


def _outcome(backend: Backend, kernel: str | None = None) -> str:
    try:
        if kernel is not None:
            backend.use_kernel(kernel)
        selftest.run(backend)
    except Exception as error:  # whatever it is, this backend or kernel is not to be trusted
        return str(error) or type(error).__name__
    return OK


def _import(name: str) -> Backend:
    found: Backend
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found = getattr(importlib.import_module(module), attribute)
    else:
        found = _entry_points()[name].load()
    return found


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    """Backends that installed packages declare. Imported here, because finding them takes longer than all the rest."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


registry = Registry()
