"""Which ratios are promised for which kernel."""

from __future__ import annotations

import pytest

from service.bench.targets import engine_target

SEAL, XSEAL = "seal chacha20-poly1305", "seal xchacha20-poly1305"


@pytest.mark.parametrize(
    ("operation", "size", "kernel", "limited", "least"),
    [
        (SEAL, 64, "avx512", False, 3.5),
        ("open chacha20-poly1305", 1350, "avx512", False, 2.2),
        (SEAL, 16384, "avx512", False, 1.45),
        (SEAL, 1 << 20, "avx512", False, 1.2),
        (SEAL, 8192, "avx512", False, None),
        (SEAL, 64, "avx2", False, None),
        (SEAL, 64, "avx2", True, 3.5),
        (SEAL, 1350, "avx2", True, 2.2),
        (SEAL, 1 << 20, "avx2", True, 0.95),
        (SEAL, 64, "sse2", False, None),
        (XSEAL, 1350, "avx512", False, 5.0),
        (XSEAL, 16384, "avx512", False, 3.0),
        (XSEAL, 16384, "avx2", False, None),
        (XSEAL, 64, "scalar", False, None),
        ("chacha20", 64, "avx512", False, None),
    ],
)
def test_engine_targets(operation: str, size: int, kernel: str, limited: bool, least: float | None) -> None:
    assert engine_target(operation, size, kernel, limited) == least
