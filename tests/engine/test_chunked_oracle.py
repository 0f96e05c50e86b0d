"""The oracle itself against Cobblestone-256 of ``cryptography``: the same construction by others, over AES-256-GCM."""

from __future__ import annotations

import chunked_oracle
import oracle
import pytest

cobblestone = pytest.importorskip("cryptography.cobblestone")
KEY, CONTEXT = oracle.KEY, b"a context"
SIZES = (0, 1, 16_383, 16_384, 16_385, 40_000)


@pytest.mark.parametrize("size", SIZES)
def test_both_ways(size: int) -> None:
    text = oracle.data("cobblestone", size)
    encryptor = cobblestone.Cobblestone256Encryptor(KEY, CONTEXT)
    stream = encryptor.update(text) + encryptor.finalize()
    assert chunked_oracle.opened(KEY, CONTEXT, stream, chunked_oracle.AES_256_GCM) == text
    assert chunked_oracle.seal(KEY, CONTEXT, text, stream[:24], chunked_oracle.AES_256_GCM) == stream
    decryptor = cobblestone.Cobblestone256Decryptor(KEY, CONTEXT)
    ours = chunked_oracle.seal(KEY, CONTEXT, text, bytes(24), chunked_oracle.AES_256_GCM)
    assert decryptor.update(ours) + decryptor.finalize() == text
