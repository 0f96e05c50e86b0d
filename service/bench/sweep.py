"""`sealane bench http --report`: how each server bears more and more connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.bench.calls import CALLS
from service.bench.http import Settings, check, peers
from service.bench.load import Figures, Load

CONNECTIONS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Point:
    """What `server` did for `call` under this many connections, each with one request at a time."""

    call: str
    server: str
    connections: int
    figures: Figures


def run(
    load: Load,
    settings: Settings,
    bao: str | None,
    progress: Callable[[str], None] = lambda what: None,
    connections: Sequence[int] = CONNECTIONS,
) -> list[Point]:
    """One turn of each server at each number of connections, for every call; about calls x numbers x 3 x seconds.

    ServerFailed or LoadFailed, never a figure, when anything goes wrong.
    """
    points = []
    with peers(settings, bao) as started:
        for call in CALLS:
            requests = started.requests(call)
            for server, (request, is_right) in requests.items():
                check(server, request, is_right)
            for number in connections:
                progress(f"{call.name}, {number} connections")
                for server, (request, _) in requests.items():
                    points.append(Point(call.name, server, number, load.run(request, number, settings.seconds)))
    return points
