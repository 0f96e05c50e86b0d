"""Begin or finish MACs with every kernel of this machine; JSON in and out.

{"key": ..., "message": ..., "cuts": [...]} -> {kernel: {cut: state}}, of a MAC that has had the message up to the cut;
{"key": ..., "message": ..., "states": [[cut, state], ...]} -> {kernel: [tag, ...]}, of MACs that go on from there.
"""

import json
import sys

import engine

job = json.load(sys.stdin)
key, message = bytes.fromhex(job["key"]), bytes.fromhex(job["message"])


def pieces(data: bytes) -> list[bytes]:
    """Unequal ones, so that a kernel's buffer is met at every fill."""
    sizes, found = [1, 15, 33, 64, 600, 2100], []
    while data:
        sizes.append(sizes.pop(0))
        found.append(data[: sizes[-1]])
        data = data[sizes[-1] :]
    return found


def begun(cut: int) -> str:
    mac = engine.Poly1305(key)
    for piece in pieces(message[:cut]):
        mac.update(piece)
    return mac.export_state().hex()


def finished(cut: int, state: str) -> str:
    mac = engine.Poly1305.from_state(bytes.fromhex(state))
    for piece in pieces(message[cut:]):
        mac.update(piece)
    return mac.digest().hex()


answer: dict[str, object] = {}
for kernel in (*engine.info().kernels, "reference"):
    engine.use(kernel)
    if "cuts" in job:
        answer[kernel] = {str(cut): begun(cut) for cut in job["cuts"]}
    else:
        answer[kernel] = [finished(cut, state) for cut, state in job["states"]]
json.dump(answer, sys.stdout)
