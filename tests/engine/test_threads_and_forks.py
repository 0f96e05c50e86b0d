"""Objects shared by threads, and nonces after a fork; on every implementation."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

import oracle
import pytest

import engine

pytestmark = pytest.mark.usefixtures("implementation")
THREADS = 4


def slow() -> bool:
    return engine.info().backend != "native"


def together(work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... at once, and raises what one of them raised."""
    barrier, errors = threading.Barrier(THREADS), []

    def run(index: int) -> None:
        try:
            barrier.wait()
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_an_aead_is_shared(algorithm: str) -> None:
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    sizes = (64, 1000, 5000) if slow() else (64, 1000, 5000, 40000, oracle.LONG)
    expected = {size: oracle.sealed(algorithm, size) for size in sizes}

    def work(index: int) -> None:
        out = bytearray(oracle.LONG + 16)
        for turn in range(3 if slow() else 60):
            size = sizes[(index + turn) % len(sizes)]
            assert aead.seal(nonce, oracle.MESSAGE[:size]) == expected[size]
            assert aead.open(nonce, expected[size]) == oracle.MESSAGE[:size]
            assert aead.seal_into(nonce, oracle.MESSAGE[:size], out) == size + 16
            assert out[: size + 16] == expected[size]
            forged = bytearray(expected[size])
            forged[index] ^= 1
            with pytest.raises(engine.InvalidTag):
                aead.open(nonce, forged)

    together(work)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 64, 1000, 2049, 100_003])
def test_updates_of_a_poly1305_are_whole(size: int) -> None:
    """Equal pieces, so that their order does not matter; long ones run without the GIL."""
    piece = b"\x5c" * size
    turns = min(300, 400_000 // size // THREADS)
    message = piece * (turns * THREADS)
    expected = oracle.Tags(oracle.KEY, message).of(len(message))
    mac = engine.Poly1305(oracle.KEY)

    def work(_: int) -> None:
        for _ in range(turns):
            mac.update(piece)

    together(work)
    assert mac.digest() == expected


def test_small_and_large_updates_at_once() -> None:
    """One byte value throughout, so that only the total length counts."""
    small, large = b"\x5c" * 7, b"\x5c" * 150_001
    turns = 4
    mac = engine.Poly1305(oracle.KEY)
    total = 2 * turns * (len(large) + 100 * len(small))
    expected = oracle.Tags(oracle.KEY, b"\x5c" * total).of(total)

    def work(index: int) -> None:
        for _ in range(turns):
            if index % 2:
                mac.update(large)
            else:
                for _ in range(100):
                    mac.update(small)

    together(work)
    assert mac.digest() == expected


def test_states_and_tags_while_others_update() -> None:
    """Each state is that of a whole number of updates, and after the tag nothing more gets in."""
    piece = b"\x5c" * 40_000
    turns = 5
    tags = oracle.Tags(oracle.KEY, piece * (turns * 2))
    possible = {count: tags.of(count * len(piece)) for count in range(turns * 2 + 1)}
    mac = engine.Poly1305(oracle.KEY)
    seen: list[bytes] = []

    def work(index: int) -> None:
        for _ in range(turns):
            with contextlib.suppress(ValueError):  # once the tag is there
                if index < 2:
                    mac.update(piece)
                else:
                    seen.append(engine.Poly1305.from_state(mac.export_state()).digest())
        if index == 3:
            seen.append(mac.digest())

    together(work)
    assert set(seen) <= set(possible.values())
    assert mac.digest() in possible.values()


def test_one_mac_is_finished_once_by_many() -> None:
    mac = engine.Poly1305(oracle.KEY)
    mac.update(oracle.MESSAGE[:5000])
    expected = oracle.poly1305().of(5000)

    def work(_: int) -> None:
        for _ in range(50):
            assert mac.digest() == expected
            mac.verify(expected)

    together(work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_nonces_after_a_fork_differ(algorithm: str) -> None:
    aead = engine.Aead(oracle.KEY, algorithm)
    aead.seal_framed(b"", b"so that anything that is drawn ahead has been drawn")
    count, size = 70, aead.nonce_size

    def nonces() -> list[bytes]:
        single = [aead.seal_framed(b"", b"")[:size] for _ in range(count)]
        return single + [message[:size] for message in aead.seal_framed_many(b"", [(b"", b"")] * count)]

    readers = []
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                with os.fdopen(writer, "wb") as pipe:
                    pipe.write(b"".join(nonces()))
            finally:
                os._exit(0)
        os.close(writer)
        readers.append((child, reader))
    drawn = nonces()
    for child, reader in readers:
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        assert len(data) == 2 * count * size
        drawn += [data[start : start + size] for start in range(0, len(data), size)]
    assert len(drawn) == len(set(drawn)) == 8 * count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_keys_survive_a_fork(algorithm: str) -> None:
    """Locked memory is not inherited as locked, but what is in it is."""
    aead, nonce = engine.Aead(oracle.KEY, algorithm), oracle.nonce(algorithm)
    mac_key, mac = engine.MacKey(oracle.KEY), engine.Poly1305(oracle.KEY)
    mac.update(oracle.MESSAGE[:999])
    expected = aead.seal(nonce, b"text") + mac_key.start(bytes(24)).digest() + oracle.poly1305().of(2000)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mac.update(oracle.MESSAGE[999:2000])
            os.write(writer, aead.seal(nonce, b"text") + mac_key.start(bytes(24)).digest() + mac.digest())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == expected
    os.waitpid(child, 0)
    mac.update(oracle.MESSAGE[999:2000])
    assert mac.digest() == oracle.poly1305().of(2000)
