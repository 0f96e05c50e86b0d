"""What a key seals, opens and MACs, and every way in which it refuses."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import engine
from service.core import Core
from service.errors import DoesNotOpen, KeyDeleted, Malformed, SealaneError, StorageUnavailable, WrongKeyType
from service.formats import MESSAGE_OVERHEAD, header
from service.keys import Key
from service.master import MasterKey
from service.storage import KeyVersionRow

SEALING = ("xchacha20-poly1305", "chacha20-poly1305")


@pytest.fixture
def keys(workers) -> Iterator[tuple[dict[str, Key], Core]]:
    """One key of each type by its type, `other` and `other-mac`; usable after their worker stopped polling."""

    async def make() -> tuple[dict[str, Key], Core]:
        async with workers() as (core,):
            names = {kind: kind for kind in (*SEALING, "poly1305-xchacha20")}
            for name, kind in (names | {"other": "xchacha20-poly1305", "other-mac": "poly1305-xchacha20"}).items():
                await core.keyring.create(name, kind, actor="test")
            made = {name: core.keyring.get(name) for name in (*names, "other", "other-mac")}
            await core.keyring.ensure_lease(made["chacha20-poly1305"], 1000)
            lease = made["chacha20-poly1305"].versions[1].lease
            assert lease is not None
            left = lease.left
            return made, core, left

    made, core, left = asyncio.run(make())
    lease = made["chacha20-poly1305"].versions[1].lease
    lease.add(left)
    return made, core


@pytest.mark.parametrize("kind", SEALING)
@pytest.mark.parametrize("plaintext", [b"", b"x", b"plain" * 300])
@pytest.mark.parametrize("aad", [b"", b"order 66"])
def test_seal_then_open(keys, kind: str, plaintext: bytes, aad: bytes) -> None:
    key = keys[0][kind]
    message, version = key.seal(plaintext, aad)
    assert version == 1
    assert message[:8] == header(1, kind, 1)
    assert len(message) == len(plaintext) + MESSAGE_OVERHEAD[kind]
    for data in (message, bytearray(message), memoryview(message)):
        assert key.open(data, aad) == (plaintext, 1)
    again, _ = key.seal(plaintext, aad)
    assert again != message
    with pytest.raises(DoesNotOpen):
        key.open(message, aad + b"x")


def test_pieces_count_as_their_concatenation(keys) -> None:
    key = keys[0]["xchacha20-poly1305"]
    message, _ = key.seal([b"one", b"", b"two"], b"aad")
    assert key.open(message, b"aad") == (b"onetwo", 1)


@pytest.mark.parametrize("kind", SEALING)
def test_every_cut_and_every_flipped_bit(keys, kind: str) -> None:
    key = keys[0][kind]
    message, _ = key.seal(b"attack at dawn", b"aad")
    for length in range(len(message)):
        with pytest.raises(Malformed if length < MESSAGE_OVERHEAD[kind] else DoesNotOpen):
            key.open(message[:length], b"aad")
    for bit in range(8 * len(message)):
        flipped = bytearray(message)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((Malformed, DoesNotOpen)) as caught:
            key.open(flipped, b"aad")
        if bit >= 64:
            assert caught.type is DoesNotOpen
    with pytest.raises(DoesNotOpen):
        key.open(message + b"x", b"aad")


def test_one_answer_for_wrong_key_algorithm_and_version(keys) -> None:
    message, _ = keys[0]["xchacha20-poly1305"].seal(b"secret")
    future = message[:4] + (9).to_bytes(4) + message[8:]
    details = set()
    for key, data in (
        (keys[0]["other"], message),
        (keys[0]["chacha20-poly1305"], message),
        (keys[0]["xchacha20-poly1305"], future),
    ):
        with pytest.raises(DoesNotOpen) as caught:
            key.open(data)
        details.add(caught.value.detail)
    assert len(details) == 1
    assert keys[0]["xchacha20-poly1305"].may_be_newer(future)
    assert not keys[0]["xchacha20-poly1305"].may_be_newer(message)
    assert not keys[0]["xchacha20-poly1305"].may_be_newer(b"short")


def test_batches(keys) -> None:
    key = keys[0]["xchacha20-poly1305"]
    messages, version = key.seal_many([(b"one", b"1"), (b"", b""), (b"three", b"3")])
    assert version == 1
    bad = messages[2][:-1] + bytes([messages[2][-1] ^ 1])
    opened = key.open_many([(messages[0], b"1"), (messages[1], b""), (bad, b"3"), (b"short", b"")])
    assert opened[:2] == [(b"one", 1), (b"", 1)]
    assert [type(item) for item in opened[2:]] == [DoesNotOpen, Malformed]


def test_libsodium_and_openssl_open_ours(keys) -> None:
    """The bytes are the standards', not only our own: AAD is header and caller's AAD."""
    bindings = pytest.importorskip("nacl.bindings")
    aead = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead")
    message, _ = keys[0]["xchacha20-poly1305"].seal(b"attack", b"aad")
    with keys[0]["xchacha20-poly1305"].versions[1].secret() as secret:
        opened = bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
            message[32:], message[:8] + b"aad", message[8:32], bytes(secret)
        )
    assert opened == b"attack"
    message, _ = keys[0]["chacha20-poly1305"].seal(b"attack", b"aad")
    with keys[0]["chacha20-poly1305"].versions[1].secret() as secret:
        assert (
            aead.ChaCha20Poly1305(bytes(secret)).decrypt(message[8:20], message[20:], message[:8] + b"aad") == b"attack"
        )


def test_mac_by_independent_arithmetic(keys) -> None:
    """One-time key and tag from OpenSSL's ChaCha20 and Poly1305; HChaCha20, which it lacks, from the engine."""
    poly1305 = pytest.importorskip("cryptography.hazmat.primitives.poly1305")
    mac = keys[0]["poly1305-xchacha20"].mac_start()
    mac.update(b"mess")
    mac.update(b"age")
    made = mac.finish()
    assert made[:8] == header(3, "poly1305-xchacha20", 1)
    with keys[0]["poly1305-xchacha20"].versions[1].secret() as secret:
        subkey = engine.hchacha20(bytes(secret), made[8:24])
    one_time = _chacha20_block0(subkey, bytes(4) + made[24:32])
    assert poly1305.Poly1305.generate_tag(one_time, made[:8] + b"message") == made[32:]


def _chacha20_block0(key: bytes, nonce: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    cipher = Cipher(algorithms.ChaCha20(key, bytes(4) + nonce), mode=None)
    return cipher.encryptor().update(bytes(32))


@pytest.mark.parametrize("message", [b"", b"x", b"message" * 1000])
def test_mac_then_verify(keys, message: bytes) -> None:
    key = keys[0]["poly1305-xchacha20"]
    mac = key.mac_start()
    mac.update(message)
    made = mac.finish()
    assert len(made) == 48
    assert _verify(key, made, message)
    assert not _verify(key, made, message + b"x")
    assert not _verify(keys[0]["other-mac"], made, message)


def test_mac_every_bit_and_cut(keys) -> None:
    key = keys[0]["poly1305-xchacha20"]
    mac = key.mac_start()
    mac.update(b"message")
    made = mac.finish()
    for length in range(48):
        with pytest.raises(Malformed):
            key.verify_start(made[:length])
    for bit in range(8 * 48):
        flipped = bytearray(made)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert not _verify(key, flipped, b"message")
        except Malformed:
            assert bit < 64


def _verify(key: Key, mac: bytes | bytearray, message: bytes) -> bool:
    verifier = key.verify_start(mac)
    for start in range(0, len(message), 100):
        verifier.update(message[start : start + 100])
    return verifier.finish()


def test_a_key_serves_one_purpose(keys) -> None:
    sealing, macs = keys[0]["xchacha20-poly1305"], keys[0]["poly1305-xchacha20"]
    message, _ = sealing.seal(b"x")
    mac = macs.mac_start().finish()
    for refused in (
        lambda: macs.seal(b"x"),
        lambda: macs.seal_many([(b"x", b"")]),
        lambda: macs.open(message),
        lambda: macs.open(mac),
        sealing.mac_start,
        lambda: sealing.verify_start(mac),
    ):
        with pytest.raises(WrongKeyType):
            refused()
    with pytest.raises(Malformed):
        sealing.open(mac)
    with pytest.raises(Malformed):
        macs.verify_start(message)


def test_use_from_many_threads_at_once(keys) -> None:
    """First use too, where the version unwraps."""
    key = keys[0]["other"]
    assert key.versions[1].aead is None
    with ThreadPoolExecutor(8) as pool:
        messages = list(pool.map(lambda i: key.seal(b"%d" % i)[0], range(200)))
        assert list(pool.map(lambda m: key.open(m)[0], messages)) == [b"%d" % i for i in range(200)]


def test_wrapped_versions_are_bound_to_their_place(workers, backend) -> None:
    """A row that is altered, or exchanged with another's, does not unwrap."""

    async def scenario() -> None:
        async with workers() as (core,):
            for name in ("one", "two", "three"):
                await core.keyring.create(name, actor="test")
            with core.database.write() as session:
                rows = {name: session.get_one(KeyVersionRow, (name, 1)) for name in ("one", "two", "three")}
                wrapped = {name: bytes(row.wrapped or b"") for name, row in rows.items()}
                rows["one"].wrapped, rows["two"].wrapped = wrapped["two"], wrapped["one"]
                rows["three"].wrapped = wrapped["three"][:-1]
        async with workers() as (core,):
            for name in ("one", "two", "three"):
                with pytest.raises(StorageUnavailable, match="unwrap") as caught:
                    core.keyring.get(name).seal(b"x")
                assert isinstance(caught.value, SealaneError)
            core.keyring.get("one").versions[1]._master = MasterKey({2: core.master._keys[1]})
            with pytest.raises(StorageUnavailable, match="master key"):
                core.keyring.get("one").seal(b"x")

    asyncio.run(scenario())


def test_a_key_pending_deletion_is_not_for_use(workers) -> None:
    async def scenario() -> None:
        async with workers() as (core,):
            await core.keyring.create("orders", actor="test")
            await core.keyring.create("orders-mac", "poly1305-xchacha20", actor="test")
            message, _ = core.keyring.get("orders").seal(b"x")
            mac = core.keyring.get("orders-mac").mac_start().finish()
            for name in ("orders", "orders-mac"):
                await core.keyring.schedule_deletion(name, actor="test")
            key, macs = core.keyring.get("orders"), core.keyring.get("orders-mac")
            for refused in (
                lambda: key.seal(b"x"),
                lambda: key.seal_many([]),
                lambda: key.open(message),
                macs.mac_start,
                lambda: macs.verify_start(mac),
            ):
                with pytest.raises(KeyDeleted):
                    refused()
            await core.keyring.undo_deletion("orders", actor="test")
            assert core.keyring.get("orders").open(message) == (b"x", 1)

    asyncio.run(scenario())
