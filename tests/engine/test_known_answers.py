"""The vectors of RFC 8439 and draft-irtf-cfrg-xchacha-03, on every implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import engine

ANSWERS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("known_answers.json").read_text(encoding="ascii")
)
pytestmark = pytest.mark.usefixtures("implementation")


def cases(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", ANSWERS[name], ids=lambda case: case["source"])


def taken(case: dict[str, Any], *names: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(case[name]) for name in names)


@cases("chacha20")
def test_chacha20(case: dict[str, Any]) -> None:
    key, nonce, text, output = taken(case, "key", "nonce", "input", "output")
    assert engine.chacha20_xor(key, nonce, text, case["counter"]) == output
    assert engine.chacha20_xor(key, nonce, output, counter=case["counter"]) == text


@cases("hchacha20")
def test_hchacha20(case: dict[str, Any]) -> None:
    key, nonce, output = taken(case, "key", "nonce", "output")
    assert engine.hchacha20(key, nonce) == output


@cases("xchacha20")
def test_xchacha20(case: dict[str, Any]) -> None:
    key, nonce, text, output = taken(case, "key", "nonce", "input", "output")
    subkey = engine.hchacha20(key, nonce[:16])
    assert engine.chacha20_xor(subkey, bytes(4) + nonce[16:], text, case["counter"]) == output


@cases("poly1305")
def test_poly1305(case: dict[str, Any]) -> None:
    key, text, output = taken(case, "key", "input", "output")
    mac = engine.Poly1305(key)
    mac.update(text)
    assert mac.digest() == output


@cases("poly1305_key")
def test_poly1305_key(case: dict[str, Any]) -> None:
    key, nonce, output = taken(case, "key", "nonce", "output")
    assert engine.chacha20_xor(key, nonce, bytes(32)) == output


def test_mac_key_makes_the_one_time_key_from_block_0() -> None:
    key, nonce = bytes(range(32)), bytes(range(100, 124))
    subkey = engine.hchacha20(key, nonce[:16])
    by_hand = engine.Poly1305(engine.chacha20_xor(subkey, bytes(4) + nonce[16:], bytes(32)))
    mac = engine.MacKey(key).start(nonce)
    by_hand.update(b"message")
    mac.update(b"message")
    assert mac.export_state() == by_hand.export_state()
    assert mac.digest() == by_hand.digest()


@cases("aead")
def test_aead(case: dict[str, Any]) -> None:
    key, nonce, aad, text, output = taken(case, "key", "nonce", "aad", "input", "output")
    aead = engine.Aead(key, case["algorithm"])
    assert aead.seal(nonce, text, aad) == output
    assert aead.open(nonce, output, aad=aad) == text
