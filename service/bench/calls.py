"""The HTTP calls that are compared: for each, our request, OpenBao's for the same plaintext, and the echo's for the
same body as ours; and what a right answer looks like, since a fast wrong one must not count."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass

from service.bench.load import Request
from service.bench.servers import KEY
from service.bench.targets import KIB, MIB

_OVERHEAD = 8 + 24 + 16  # header, XChaCha20 nonce and tag of a sealed message
BATCH = 100
Check = Callable[[bytes], bool]


@dataclass(frozen=True)
class Call:
    """One row of the table. `items` is how many seals one request makes."""

    name: str
    size: int
    items: int
    raw: bool

    def _plaintexts(self) -> list[str]:
        return [base64.b64encode(bytes([index]) * self.size).decode() for index in range(self.items)]

    def ours(self, url: str, token: str) -> Request:
        """The request to our service."""
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{url}/v1/keys/{KEY}/seal"
        if self.raw:
            return Request(url, {**headers, "Content-Type": "application/octet-stream"}, bytes(self.size))
        texts = self._plaintexts()
        body = {"plaintext": texts[0]} if self.items == 1 else {"items": [{"plaintext": text} for text in texts]}
        return Request(url, {**headers, "Content-Type": "application/json"}, _encode(body))

    def ours_is_right(self, answer: bytes) -> bool:
        """Whether our answer holds as many sealed messages, of the right length, as were asked for."""
        if self.raw:
            return len(answer) == self.size + _OVERHEAD
        document = json.loads(answer)
        results = [document] if self.items == 1 else document["results"]
        lengths = [len(base64.b64decode(result["sealed"])) for result in results]
        return lengths == [self.size + _OVERHEAD] * self.items

    def openbao(self, url: str, token: str) -> Request:
        """The request to OpenBao: always JSON, it has no raw form."""
        texts = self._plaintexts()
        body = {"plaintext": texts[0]} if self.items == 1 else {"batch_input": [{"plaintext": text} for text in texts]}
        headers = {"X-Vault-Token": token, "Content-Type": "application/json"}
        return Request(f"{url}/v1/transit/encrypt/{KEY}", headers, _encode(body))

    def openbao_is_right(self, answer: bytes) -> bool:
        """Whether OpenBao's answer holds as many ciphertexts as were asked for."""
        data = json.loads(answer)["data"]
        results = [data] if self.items == 1 else data["batch_results"]
        return len(results) == self.items and all(result["ciphertext"].startswith("vault:") for result in results)

    def echo(self, url: str) -> Request:
        """The request to the echo: our body, and no token since it checks none."""
        return Request(url, {}, self.ours("", "").body)

    def echo_is_right(self, answer: bytes) -> bool:
        """Whether the echo gave our body back."""
        return answer == self.ours("", "").body


def _encode(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


CALLS = (
    Call("raw seal, 64 B", 64, 1, raw=True),
    Call("raw seal, 8 KiB", 8 * KIB, 1, raw=True),
    Call("raw seal, 1 MiB", MIB, 1, raw=True),
    Call("JSON seal, 64 B", 64, 1, raw=False),
    Call(f"JSON batch of {BATCH}, 64 B", 64, BATCH, raw=False),
)
