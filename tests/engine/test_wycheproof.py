"""C2SP/wycheproof's cases for both AEADs, on every implementation; read where they are, skipped where they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import engine

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "wycheproof"
FILES = {
    "chacha20-poly1305": "chacha20_poly1305_test.json",
    "xchacha20-poly1305": "xchacha20_poly1305_test.json",
}


@pytest.mark.usefixtures("implementation")
def test_wycheproof(algorithm: str) -> None:
    file = FOLDER / FILES[algorithm]
    if not file.exists():
        pytest.skip(f"{file.name} is not in ../shared/vectors/wycheproof")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    ran = 0
    for group in content["testGroups"]:
        assert group["type"] == "AeadTest"
        for case in group["tests"]:
            check(algorithm, case)
            ran += 1
    assert ran == content["numberOfTests"] > 300


def check(algorithm: str, case: dict[str, Any]) -> None:
    key, nonce, aad, text, ciphertext, tag = (
        bytes.fromhex(case[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")
    )
    sealed = ciphertext + tag
    aead = engine.Aead(key, algorithm)
    if len(nonce) != aead.nonce_size:
        assert case["result"] == "invalid"
        for refused in (aead.open, aead.seal):
            with pytest.raises(ValueError, match=f"nonce must be {aead.nonce_size} bytes, not {len(nonce)}"):
                refused(nonce, sealed, aad)
    elif case["result"] == "invalid":
        with pytest.raises(engine.InvalidTag):
            aead.open(nonce, sealed, aad)
    else:
        assert aead.open(nonce, sealed, aad) == text, case["tcId"]
        assert aead.seal(nonce, text, aad) == sealed, case["tcId"]
