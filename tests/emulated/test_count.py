"""The instruction counter, against the way of counting that needs no reasoning: one instruction per block."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import VECTORS, absent
from count import SAME_ADDRESSES, executed, kernels, per_byte
from guest import Architecture
from models import BEST_MODELS, Model

pytestmark = pytest.mark.emulated
SLOW_COUNTER = VECTORS / "tools" / "insns_per_byte.py"


@pytest.mark.parametrize("model", BEST_MODELS, ids=str)
def test_it_agrees_with_counting_every_instruction(model: Model, program: Callable[[str, Architecture], Path]) -> None:
    if not SLOW_COUNTER.exists():
        absent(f"{SLOW_COUNTER} is not there")
    bench, architecture = program("kernelbench", model.architecture), model.architecture
    kernel = kernels(architecture, model.cpu, bench)[0]
    ours = sum(per_byte(architecture, model.cpu, bench, "aead-seal", 1024, kernel).values())
    slow = [
        *SAME_ADDRESSES,
        sys.executable,
        str(SLOW_COUNTER),
        "--json",
        "--qemu",
        str(architecture.qemu),
        "--cpu",
        model.cpu,
    ]
    slow += ["--bytes", "1024", "--", str(bench), "aead-seal", "1024", "{iters}", "--kernel", kernel]
    theirs = json.loads(subprocess.run(slow, check=True, stdout=subprocess.PIPE).stdout)["insns_per_byte"]
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_it_reads_what_qemu_logs() -> None:
    log = b"""OP:
 ld_i32 loc0,env,$0xfffffffffffffff0

 ---- 0000000001012850 0000000000000004
 mov_i64 r2,r15

 ---- 0000000001012854 0000000000000004

Trace 0: 0x7f00 [00000000/0000000001012850/0802000f/00000200] start
Trace 0: 0x7f00 [00000000/0000000001012850/0802000f/00000200] start
OP:
 ---- 0000000001016b44 0000000000000004
Trace 0: 0x7f40 [00000000/0000000001016b44/0802000f/00000200] close_file
Trace 0: 0x7f00 [00000000/0000000001012850/0802000f/00000200] start
Stopped execution of TB chain before 0x7f00 [0000000001012850] start
""".splitlines(keepends=True)
    assert executed(log) == {b"start": 4, b"close_file": 1}
    with pytest.raises(ValueError, match="after translating"):
        executed([b" ---- 0000000000000010 0\n", b"Trace 0: 0x1 [0/20/0/0] start\n"])
