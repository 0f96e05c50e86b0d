"""`sealane bench http`: our service, OpenBao and an empty echo under the same load, taking turns."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import httpx

from service.bench import servers
from service.bench.calls import CALLS, Call, Check
from service.bench.load import Figures, Load, Request
from service.bench.processes import ServerFailed
from service.bench.targets import HTTP_TARGETS, HttpTarget

OURS, OPENBAO, ECHO = "sealane", "openbao", "echo"


@dataclass(frozen=True)
class Settings:
    """How a run is laid out. A run takes about calls x rounds x 3 x `seconds`."""

    rounds: int = 5
    seconds: float = 2.0
    connections: int = 16
    workers: int = 2


@dataclass(frozen=True)
class HttpResult:
    """One call. `figures` are medians over the rounds, `ratios` medians of the ratios within each round."""

    call: str
    items: int
    figures: dict[str, Figures]
    ratios: dict[str, float]
    targets: HttpTarget

    def verdicts(self) -> list[tuple[str, float, float, bool]]:
        """For each target that this run could judge: the peer, the promise, the measured ratio, whether it is met."""
        promised = ((OPENBAO, self.targets.openbao), (ECHO, self.targets.echo))
        return [
            (peer, least, self.ratios[peer], self.ratios[peer] >= least)
            for peer, least in promised
            if least is not None and peer in self.ratios
        ]


def as_record(result: HttpResult) -> dict[str, object]:
    """A result as `--json` prints it: its fields, and the verdicts."""
    verdicts = [
        dict(zip(("peer", "at_least", "measured", "met"), verdict, strict=True)) for verdict in result.verdicts()
    ]
    return {**asdict(result), "verdicts": verdicts}


@dataclass(frozen=True)
class Peers:
    """Where the started servers are. `openbao` is None where there is no `bao`."""

    ours: tuple[str, str]
    echo: str
    openbao: tuple[str, str] | None

    def requests(self, call: Call) -> dict[str, tuple[Request, Check]]:
        """The request for each server, with the check of its answer."""
        requests: dict[str, tuple[Request, Check]] = {OURS: (call.ours(*self.ours), call.ours_is_right)}
        if self.openbao is not None:
            requests[OPENBAO] = (call.openbao(*self.openbao), call.openbao_is_right)
        requests[ECHO] = (call.echo(self.echo), call.echo_is_right)
        return requests


@contextmanager
def peers(settings: Settings, bao: str | None) -> Iterator[Peers]:
    """Start all servers with data in a temporary folder; end them and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="sealane-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        ours = stack.enter_context(servers.sealane(folder, settings.workers))
        echo = stack.enter_context(servers.echo(folder, settings.workers))
        openbao = stack.enter_context(servers.openbao(bao, folder)) if bao else None
        yield Peers(ours, echo, openbao)


def check(server: str, request: Request, is_right: Check) -> None:
    """ServerFailed if the answer to one such request is not right."""
    answer = httpx.request(
        request.method, request.url, headers=request.headers, content=request.body, timeout=30, trust_env=False
    )
    if answer.status_code != 200:
        raise ServerFailed(f"{server} answered {answer.status_code} to {request.url}")
    if not is_right(answer.content):
        raise ServerFailed(f"{server} gave a wrong answer to {request.url}")


def measure(call: Call, started: Peers, load: Load, settings: Settings) -> HttpResult:
    """One call at all servers: an answer of each is checked, then they take turns under load."""
    requests = started.requests(call)
    for server, (request, is_right) in requests.items():
        check(server, request, is_right)
    runs: dict[str, list[Figures]] = {server: [] for server in requests}
    order = list(requests)
    for number in range(settings.rounds):
        start = number % len(order)
        for server in (*order[start:], *order[:start]):
            runs[server].append(load.run(requests[server][0], settings.connections, settings.seconds))
    return HttpResult(
        call=call.name,
        items=call.items,
        figures={server: _median(figures) for server, figures in runs.items()},
        ratios={server: _ratio(runs[OURS], runs[server]) for server in order if server != OURS},
        targets=HTTP_TARGETS[call.name],
    )


def _median(runs: list[Figures]) -> Figures:
    return Figures(*(statistics.median(getattr(run, field.name) for run in runs) for field in fields(Figures)))


def _ratio(ours: list[Figures], peer: list[Figures]) -> float:
    pairs = zip(ours, peer, strict=True)
    return statistics.median(mine.requests_per_second / theirs.requests_per_second for mine, theirs in pairs)


def run(
    load: Load, settings: Settings, bao: str | None, progress: Callable[[str], None] = lambda call: None
) -> list[HttpResult]:
    """Measure every call. ServerFailed or LoadFailed, never a figure, when anything goes wrong."""
    with peers(settings, bao) as started:
        results = []
        for call in CALLS:
            progress(call.name)
            results.append(measure(call, started, load, settings))
        return results
