"""The speeds that are promised: least ratios to the peer, by operation, size and kernel. See docs/performance.md."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20

_AEAD_AVX512 = {64: 3.5, 1350: 2.2, 16 * KIB: 1.45, MIB: 1.2}
_AEAD_AVX2 = {64: 3.5, 1350: 2.2, 16 * KIB: 0.95, MIB: 0.95}
_XAEAD = {64: 5.0, 1350: 5.0, 16 * KIB: 3.0}


def engine_target(operation: str, size: int, kernel: str, peer_limited: bool) -> float | None:
    """The least ratio promised for this call, or None. What AVX2 alone promises holds against a peer on AVX2 alone."""
    word, _, algorithm = operation.partition(" ")
    if word not in ("seal", "open"):
        return None
    if algorithm == "xchacha20-poly1305":
        return _XAEAD.get(size) if kernel == "avx512" else None
    if kernel == "avx512" and not peer_limited:
        return _AEAD_AVX512.get(size)
    if kernel == "avx2" and peer_limited:
        return _AEAD_AVX2.get(size)
    return None


@dataclass(frozen=True)
class HttpTarget:
    """Least ratios for one HTTP call; None where nothing is promised."""

    openbao: float | None
    echo: float | None


HTTP_TARGETS: dict[str, HttpTarget] = {
    "raw seal, 64 B": HttpTarget(2.75, 0.7),
    "raw seal, 8 KiB": HttpTarget(5.0, None),
    "raw seal, 1 MiB": HttpTarget(9.0, 0.75),
    "JSON seal, 64 B": HttpTarget(2.5, None),
    "JSON batch of 100, 64 B": HttpTarget(3.5, None),
}

# Least ratios to the echo's throughput, by call.
STREAM_TARGETS: dict[str, float] = {
    "seal-stream": 0.6,
    "open-stream?release=chunk": 0.6,
    "open-stream": 0.35,
    "mac": 0.9,
}
