"""Fixtures that bring a test to every implementation of the engine in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from effort import SMALL
from implementations import IMPLEMENTATIONS

import engine


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    """Makes one implementation the one in use, and puts the former one back."""
    before = engine.info().kernel
    engine.use(request.param)
    yield request.param
    engine.use(before)


#: OpenSSL is compared where there is time; everywhere the known answers and its own tests hold it.
NOT_COMPARED = ("reference", "openssl") if SMALL else ("reference",)


@pytest.fixture(params=[name for name in IMPLEMENTATIONS if name not in NOT_COMPARED])
def compared(request: pytest.FixtureRequest) -> Iterator[str]:
    """As ``implementation``, but for the one that the others are compared with."""
    before = engine.info().kernel
    engine.use(request.param)
    yield request.param
    engine.use(before)


@pytest.fixture(params=["xchacha20-poly1305", "chacha20-poly1305"])
def algorithm(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
