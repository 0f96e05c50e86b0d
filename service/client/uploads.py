"""Uploads that go on by themselves after whatever broke them off; how to send is the clients' business.

What is not certain to have arrived is kept in memory, one segment at most, so that pipes can be sent again, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, TypedDict

import httpx
from tenacity import RetryCallState, retry_if_exception
from tenacity.retry import retry_base

from service.client import calls
from service.client.calls import Call
from service.client.data import PIECE
from service.client.errors import ServiceError
from service.client.results import Begun, Mac, UploadState

SEGMENT = 16 << 20  # bytes that one request appends
PATIENCE = 60.0  # seconds without a byte's progress, from the first failure on

_LONGEST_PAUSE = 5.0
_AGAIN = frozenset({408, 429, 502, 503, 504})
#: Another request, perhaps an earlier one of ours, is or was at the same upload: ask how far it came.
_ASK = frozenset({"upload-offset", "upload-completed", "upload-superseded"})


class Policy(TypedDict):
    """What `Retrying` and `AsyncRetrying` of tenacity are made with."""

    retry: retry_base
    wait: Callable[[RetryCallState], float]
    stop: Callable[[RetryCallState], bool]
    reraise: bool


class Upload:
    """One upload as far as it is known here. Each attempt begins or asks; then segments are filled and sent."""

    def __init__(
        self,
        begin: Call[Begun],
        resume: str | None,
        started: Callable[[str], object] | None,
        progress: Callable[[int], object] | None,
        patience: float,
    ) -> None:
        self.begin = begin
        self.id = resume
        self.state = UploadState(0, False, None, None)
        self._started = started
        self._progress = progress
        self._patience = patience
        self._failing_since: float | None = None
        self._failures = 0  # since then
        self._start = 0  # of the segment, in the upload
        self._segment = bytearray()
        self._last = False

    @property
    def policy(self) -> Policy:
        return Policy(
            retry=retry_if_exception(_is_transient),
            wait=self._pause,
            stop=self._is_stuck,
            reraise=True,
        )

    def begun(self, begun: Begun) -> None:
        self.id = begun.id
        if self._started is not None:
            self._started(begun.id)

    def found(self, state: UploadState) -> None:
        """What the service said when it was asked."""
        if self._start == 0 and not self._segment:
            self._start = state.offset  # of an earlier life of ours: nothing was read yet
        elif not state.complete and not self._start <= state.offset <= self._end:
            raise ServiceError(
                409, "upload-offset", "The upload can't be gone on with", "it lost bytes, or has some of another client"
            )
        self._take(state)

    @property
    def wants_data(self) -> bool:
        """Whether the segment is all sent, and not the last."""
        return self.state.offset == self._end and not self._last

    def add(self, piece: bytes) -> bool:
        """Append to the segment; whether it is full now."""
        if self._start < self.state.offset:
            self._start = self.state.offset
            self._segment.clear()
        self._segment += piece
        return len(self._segment) >= SEGMENT

    def end(self) -> None:
        """There is no more data."""
        self._last = True

    def rest(self) -> Iterator[bytes]:
        """What the service does not have of the segment."""
        for position in range(self.state.offset, self._end, PIECE):
            at = position - self._start
            yield bytes(self._segment[at : at + PIECE])
            if self._progress is not None:
                self._progress(min(position + PIECE, self._end))

    def append(self, content: Any) -> Call[UploadState]:
        """The call that sends `content`, which is `rest`."""
        assert self.id is not None
        size = self._end - self.state.offset
        return calls.append_upload(self.id, self.state.offset, content, size, self._last)

    def appended(self, state: UploadState) -> None:
        self._take(state)

    @property
    def mac(self) -> Mac:
        """Of a complete upload."""
        assert self.state.mac is not None
        return Mac(self.state.mac, int.from_bytes(self.state.mac[4:8], "big"))

    @property
    def valid(self) -> bool:
        """Of a complete upload that verifies."""
        return self.state.valid is True

    @property
    def _end(self) -> int:
        return self._start + len(self._segment)

    def _take(self, state: UploadState) -> None:
        if state.offset > self.state.offset or state.complete:
            self._failing_since, self._failures = None, 0
        self.state = state
        if self._progress is not None:
            self._progress(state.offset)

    def _is_stuck(self, _: RetryCallState) -> bool:
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._failures += 1
        return now - self._failing_since >= self._patience

    def _pause(self, _: RetryCallState) -> float:
        """Seconds: twice as long each time that nothing got through, and never the same for two clients."""
        return min(_LONGEST_PAUSE, 0.1 * 2.0**self._failures) * random.uniform(0.5, 1)


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, ServiceError):
        return error.status in _AGAIN or error.slug in _ASK
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return False
    return isinstance(error, httpx.TransportError)
