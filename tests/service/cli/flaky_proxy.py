"""A TCP proxy on loopback that cuts connections off after so many bytes, as bad networks do."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class FlakyProxy:
    """The n-th connection dies after `budgets[n]` bytes from the client; later ones live. `cuts` counts."""

    def __init__(self, url: str, budgets: list[int]) -> None:
        there = urlsplit(url)
        assert there.hostname is not None
        self._there = (there.hostname, there.port)
        self._budgets = iter(budgets)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # closing alone would not wake the thread that accepts
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._there)
                budget = next(self._budgets, None)
                threading.Thread(target=self._forward, args=(client, server, budget), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, None), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, budget: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if budget is not None and len(data) >= budget:
                    target.sendall(data[:budget])
                    self.cuts += 1
                    # No farewell: a reset, as from a router that forgot about it.
                    source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                target.sendall(data)
                budget = None if budget is None else budget - len(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def flaky(url: str, budgets: list[int]) -> Iterator[FlakyProxy]:
    proxy = FlakyProxy(url, budgets)
    try:
        yield proxy
    finally:
        proxy.close()
