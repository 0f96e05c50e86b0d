"""The C extension as a backend. Importing this fails where it was not built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import engine._native as _native  # as a module, so that a missing one is named as such
from engine import protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

protocol.Aead.register(_native.Aead)
protocol.Poly1305.register(_native.Poly1305)
protocol.MacKey.register(_native.MacKey)


class NativeBackend:
    name = "native"

    def kernels(self) -> tuple[str, ...]:
        return _native.kernels()

    def kernel(self) -> str:
        return _native.kernel()

    def use_kernel(self, name: str) -> None:
        _native.use_kernel(name)

    def cpu_features(self) -> tuple[str, ...]:
        return _native.cpu_features()

    def aead(self, key: Buffer, algorithm: str) -> protocol.Aead:
        return _native.Aead(key, algorithm)

    def poly1305(self, one_time_key: Buffer) -> protocol.Poly1305:
        return _native.Poly1305(one_time_key)

    def poly1305_from_state(self, state: Buffer) -> protocol.Poly1305:
        return _native.Poly1305.from_state(state)

    def mac_key(self, key: Buffer) -> protocol.MacKey:
        return _native.MacKey(key)

    def chacha20_xor(self, key: Buffer, nonce: Buffer, data: Buffer, counter: int) -> bytes:
        return _native.chacha20_xor(key, nonce, data, counter)

    def hchacha20(self, key: Buffer, nonce: Buffer) -> bytes:
        return _native.hchacha20(key, nonce)


backend = NativeBackend()
