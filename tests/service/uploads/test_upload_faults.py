"""Connections cut in every phase, two clients at once, an end in mid-stream: over real sockets, on real servers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from replicas import furnish, replicas
from storage_backends import Backend
from upload_scene import DATA, Scene

from service.settings import Settings

STEP = 4096


@pytest.fixture(scope="module")
def scene(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("faults")
    settings = backend.fresh(folder)
    token = furnish(settings)
    with replicas(settings, folder, 2, upload_checkpoint_bytes=STEP, body_timeout=2) as servers:
        yield Scene(settings, token, servers)


PHASES = {
    "head": 0, "first-byte": 1, "before-a-checkpoint": STEP - 1, "at-a-checkpoint": STEP, "middle": 150_000,
    "before-the-last-byte": len(DATA) - 1, "after-the-last-byte": len(DATA),
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_cut_in_every_phase(scene: Scene, phase: str, reset: bool) -> None:
    location = scene.begin()
    sent = PHASES[phase]
    connection = scene.socket(location, 0, len(DATA))
    connection.sendall(DATA[:sent])
    # A server that has it all has stored it but for less than a checkpoint; what it has not read when the connection
    # breaks is lost, as the draft allows.
    least = max(0, sent - STEP + 1)
    scene.waits_for(location, least)
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    offset = int(scene.head(location, 0)["upload-offset"])
    assert least <= offset <= sent
    assert scene.ends_right(location) == offset


def test_a_connection_cut_while_the_head_came(scene: Scene) -> None:
    location = scene.begin()
    with socket.create_connection(("127.0.0.1", scene.servers[0].port)) as connection:
        connection.sendall(f"PATCH {location} HTTP/1.1\r\nhost: x\r\nupload-off".encode())
    assert scene.ends_right(location) == 0


@pytest.mark.parametrize("other", [0, 1])
def test_two_at_once_one_wins_and_the_other_can_go_on(scene: Scene, other: int) -> None:
    location = scene.begin()
    first = scene.socket(location, 0, len(DATA), at=0)
    first.sendall(DATA[: STEP // 2])
    time.sleep(0.2)
    # From the same checkpoint, at the same replica or the other.
    second = scene.patch(location, 0, DATA[:100_000], complete=False, at=other)
    assert (second.status_code, second.headers["upload-offset"]) == (204, "100000")
    first.sendall(DATA[STEP // 2 :])
    answer = b""
    while b"upload-superseded" not in answer:
        more = first.recv(65536)
        assert more, answer
        answer += more
    assert answer.startswith(b"HTTP/1.1 409")
    first.close()
    assert scene.ends_right(location, at=0) == 100_000


def test_many_at_once(scene: Scene) -> None:
    """Eight clients that each do as one client does: one MAC, and all who ask are told the same."""
    location = scene.begin()
    macs: list[str] = []

    def insist(at: int) -> None:
        with scene.servers[at % 2].client(scene.token) as client:
            for _ in range(200):
                state = client.head(location)
                assert state.status_code == 204
                if state.headers["upload-complete"] == "?1":
                    macs.append(state.headers["sealane-mac"])
                    return
                offset = int(state.headers["upload-offset"])
                end = min(len(DATA), offset + 30_000)
                answer = client.patch(location, content=DATA[offset:end], headers={
                    "content-type": "application/partial-upload", "upload-offset": str(offset),
                    "upload-complete": f"?{int(end == len(DATA))}",
                })  # fmt: skip
                assert answer.status_code in (200, 204, 409), answer.text
        raise AssertionError("no end")

    threads = [threading.Thread(target=insist, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(macs) == 8
    assert len(set(macs)) == 1
    scene.ends_right(location)


def test_a_dead_connection_does_not_keep_the_upload(scene: Scene) -> None:
    """The client is gone and nobody told the server: the upload goes on at once all the same."""
    for at in (0, 1):
        location = scene.begin()
        connection = scene.socket(location, 0, len(DATA))
        connection.sendall(DATA[: 3 * STEP])
        scene.waits_for(location, STEP)
        begun = time.monotonic()
        assert scene.ends_right(location, at=at) >= STEP
        assert time.monotonic() - begun < 10
        connection.close()


def test_a_body_that_is_too_slow_is_kept(scene: Scene) -> None:
    location = scene.begin()
    connection = scene.socket(location, 0, len(DATA))
    connection.sendall(DATA[:1000])
    answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"upload-offset: 1000\r\n" in answer.lower()
    connection.close()
    assert scene.ends_right(location) == 1000


def test_abandoning_stops_an_append(scene: Scene) -> None:
    location = scene.begin()
    connection = scene.socket(location, 0, len(DATA))
    connection.sendall(DATA[: 2 * STEP])
    scene.waits_for(location, STEP)
    assert scene.clients[1].delete(location).status_code == 204
    connection.sendall(DATA[2 * STEP :])
    assert connection.recv(65536).startswith(b"HTTP/1.1 409")
    connection.close()
    assert scene.clients[0].head(location).status_code == 404


def test_sigterm_in_mid_stream_stores_what_came(settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 2, drain_timeout=6) as servers:
        scene = Scene(settings, token, servers)
        location = scene.begin()
        connection = scene.socket(location, 0, len(DATA))
        # Under a checkpoint's size: nothing but the signal has it stored.
        connection.sendall(DATA[:10_000])
        time.sleep(0.3)
        servers[0].terminate()
        scene.waits_for(location, 10_000)
        # For a while it takes more; then it says how far it is, in time before it ends.
        connection.sendall(DATA[10_000:20_000])
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503")
        offset = scene.ends_right(location, at=1)
        assert b"upload-offset: %d\r\n" % offset in answer.lower()
        assert 10_000 <= offset <= 20_000
        connection.close()


def test_sigterm_lets_a_short_append_finish(settings: Settings, tmp_path: Path) -> None:
    token = furnish(settings)
    with replicas(settings, tmp_path, 1, drain_timeout=10) as servers:
        scene = Scene(settings, token, servers)
        location = scene.begin()
        connection = scene.socket(location, 0, 20_000)
        connection.sendall(DATA[:10_000])
        time.sleep(0.3)
        servers[0].terminate()
        time.sleep(0.3)
        connection.sendall(DATA[10_000:20_000])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()
