"""Uploads over real sockets to two replicas on one storage."""

from __future__ import annotations

import base64
import os
import socket
import time

import httpx
from replicas import KEY, Replica

from service.core import Core
from service.settings import Settings
from service.storage import MacStreamRow

DATA = os.urandom(300_000)


def verified(client: httpx.Client, data: bytes, mac: bytes) -> bool:
    headers = {"content-type": "application/octet-stream", "sealane-mac": base64.b64encode(mac).decode()}
    answer = client.post(f"/v1/keys/{KEY}/verify", content=data, headers=headers)
    return bool(answer.json()["valid"])


class Scene:
    """Two replicas on one storage."""

    def __init__(self, settings: Settings, token: str, servers: list[Replica]) -> None:
        self.settings, self.token, self.servers = settings, token, servers
        self.clients = [server.client(token) for server in servers]

    def begin(self) -> str:
        return str(self.clients[0].post(f"/v1/keys/{KEY}/mac-streams").headers["location"])

    def head(self, location: str, at: int = 0) -> httpx.Headers:
        answer = self.clients[at].head(location)
        assert answer.status_code == 204
        return answer.headers

    def patch(self, location: str, offset: int, content: bytes, complete: bool = True, at: int = 0) -> httpx.Response:
        return self.clients[at].patch(location, content=content, headers={
            "content-type": "application/partial-upload", "upload-offset": str(offset),
            "upload-complete": "?1" if complete else "?0",
        })  # fmt: skip

    def socket(self, location: str, offset: int, size: int, at: int = 0, complete: bool = True) -> socket.socket:
        """A connection on which an append has been announced."""
        connection = socket.create_connection(("127.0.0.1", self.servers[at].port), timeout=20)
        connection.sendall(
            f"PATCH {location} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/partial-upload\r\nupload-offset: {offset}\r\n"
            f"upload-complete: ?{int(complete)}\r\ncontent-length: {size}\r\n\r\n".encode()
        )
        return connection

    def ends_right(self, location: str, at: int = 1) -> int:
        """Go on from wherever it is; where that was."""
        state = self.head(location, at)
        offset = int(state["upload-offset"])
        if state["upload-complete"] == "?1":
            mac = state["sealane-mac"]
        else:
            answer = self.patch(location, offset, DATA[offset:], at=at)
            assert answer.status_code == 200, answer.text
            mac = answer.json()["mac"]
        assert verified(self.clients[at], DATA, base64.b64decode(mac))
        return offset

    def waits_for(self, location: str, least: int) -> None:
        """Until so much of it is in the storage; asked of the storage, since a question would stop the append."""
        core = Core.open(self.settings)
        end = time.monotonic() + 60
        try:
            while True:
                with core.database.read() as session:
                    row = session.get(MacStreamRow, location.rpartition("/")[2])
                if row is not None and row.position >= least:
                    return
                assert time.monotonic() < end
                time.sleep(0.02)
        finally:
            core.database.close()
            core.audit.close()
