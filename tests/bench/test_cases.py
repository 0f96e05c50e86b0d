"""Both sides of each case do the same work, and the cases are the ones that are promised."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("cryptography")
pytest.importorskip("nacl")

from service.bench import cases
from service.bench.cases import Case, all_cases

ALL = [case for case in all_cases() if case.size <= 16384]


def _call(case: Case, side: str) -> object:
    contender = case.ours() if side == "ours" else case.peer()
    return contender.function(*contender.arguments)


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.operation}-{case.size}")
def test_ours_and_the_peer_give_the_same_bytes(case: Case) -> None:
    ours, peer = _call(case, "ours"), _call(case, "peer")
    if "writes" in case.operation:
        assert ours is peer is None
    else:
        assert ours == peer
        assert isinstance(ours, bytes)


def test_streams_of_writes_end_in_the_same_tag() -> None:
    for case in ALL:
        if "writes" not in case.operation:
            continue
        ours, peer = case.ours(), case.peer()
        for _ in range(5):
            ours.function(*ours.arguments)
            peer.function(*peer.arguments)
        ours_mac, peer_mac = ours.function.__self__, peer.function.__self__  # type: ignore[attr-defined]
        assert ours_mac.digest() == peer_mac.finalize()


def test_sizes() -> None:
    sizes = Counter((case.operation, case.size) for case in all_cases())
    assert set(sizes.values()) == {1}
    for operation in ("chacha20", "chacha20, set up in each call"):
        assert [size for o, size in sizes if o == operation] == [16, 64, 256, 1024, 8192, 16384]
    for way in ("in one piece", "stream of writes"):
        for alignment in ("aligned", "unaligned"):
            assert {s for o, s in sizes if o == f"poly1305 {way}, {alignment}"} == {64, 1024, 2 << 20}
    for word in ("seal", "open"):
        for algorithm in ("chacha20-poly1305", "xchacha20-poly1305"):
            assert {s for o, s in sizes if o == f"{word} {algorithm}"} == {64, 1350, 8192, 16384, 1 << 20}


def test_peers() -> None:
    for case in all_cases():
        assert case.peer_name == (cases.PYNACL if "xchacha20" in case.operation else cases.CRYPTOGRAPHY)
