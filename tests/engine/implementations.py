"""Which implementations there are to test: each usable native kernel, and each other backend."""

from __future__ import annotations

import engine


def _found() -> tuple[str, ...]:
    outcomes = engine.check()
    backends = [name for name in engine.info().backends if name != "native" and outcomes[name] == "ok"]
    return (*engine.info().kernels, *backends)


IMPLEMENTATIONS = _found()
