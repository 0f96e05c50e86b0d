"""Answers of any length, in pieces as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

import httpx

from service.client.data import PIECE


class Stream:
    """Iterate over it once, to its end, or close it; it closes itself at the end and as a context manager.

    Whatever breaks the answer off, the service or the network, raises `httpx.TransportError`: only an iteration that
    ended without it has given everything.
    """

    def __init__(self, response: httpx.Response, key_version: int) -> None:
        self._response = response
        self._pieces = response.iter_bytes(PIECE)
        self.key_version = key_version

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up what has not come yet."""
        self._response.close()


class AsyncStream:
    """As `Stream`, for asyncio."""

    def __init__(self, response: httpx.Response, key_version: int) -> None:
        self._response = response
        self._pieces = response.aiter_bytes(PIECE)
        self.key_version = key_version

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give up what has not come yet."""
        await self._response.aclose()
