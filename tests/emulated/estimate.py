#!/usr/bin/env python3
"""Estimate the cycles per byte of the s390x kernels' inner loops with llvm-mca, for z14 and z15.

The model knows the pipelines and their latencies, and takes every load for a hit in the first-level cache. ChaCha20 is
the same in `vx`, the z13's kernel, and `vxe`.
"""

import re
import subprocess
from pathlib import Path

from guest import provision

ROOT = Path(__file__).resolve().parents[2]

LOOPS = [  # kernel, its architecture flags, function, bytes of one turn of its longest loop
    ("vx", "-mcpu=z13", "chacha20_columns", 256),
    ("vx", "-mcpu=z13", "poly1305_vectors", 128),
    ("vxe", "-mcpu=z14", "poly1305_vectors", 64),
]
ITERATIONS = 100


def assembly(kernel: str, architecture: str) -> str:
    """The kernel's assembly, as the wheels' compiler makes it."""
    source = ROOT / "engine" / "native" / "kernels" / f"{kernel}.c"
    output = ROOT / "build" / f"{kernel}.s"
    output.parent.mkdir(exist_ok=True)
    compiler = ROOT / "deploy" / "cross" / "cc"
    flags = ["-std=gnu11", "-O3", "-fomit-frame-pointer", "-g0", architecture, "-mzvector", "-Wno-psabi"]
    command = [str(compiler), "s390x-linux-gnu.2.36", *flags, "-S", str(source), "-o", str(output)]
    subprocess.run(command, check=True, capture_output=True)
    return output.read_text()


def longest_loop(text: str, function: str) -> list[str]:
    """The instructions of the longest loop of a function that calls nothing, from its label to the branch back."""
    body = text[text.index(f"\n{function}:") :]
    lines = body[: body.index(".Lfunc_end")].splitlines()
    labels = {match[1]: index for index, line in enumerate(lines) if (match := re.match(r"(\.LBB\w+):", line))}
    loops = []
    for end, line in enumerate(lines):
        target = re.search(r"(\.LBB\w+)\s*$", line)
        if target and labels.get(target[1], end) < end:
            inside = [line for line in lines[labels[target[1]] : end + 1] if re.match(r"\s+[a-z]", line)]
            if not any(line.split()[0] == "brasl" for line in inside):
                loops.append(inside)
    return max(loops, key=len)


def cycles(instructions: list[str], cpu: str, mca: Path) -> float:
    """Cycles of one turn in the steady state."""
    code = "\n".join(re.sub(r"\.LBB\w+", "0", line) for line in instructions)
    command = [str(mca), "-mtriple=s390x-linux-gnu", f"-mcpu={cpu}", f"-iterations={ITERATIONS}"]
    report = subprocess.run(command, input=code, text=True, check=True, capture_output=True).stdout
    total = re.search(r"Total Cycles:\s+(\d+)", report)
    assert total, report
    return int(total[1]) / ITERATIONS


def main() -> None:
    provision.zig()
    mca = provision.mca() / "llvm-mca"
    print("| kernel | loop | instructions | z14 cycles/byte | z15 cycles/byte |\n| --- | --- | ---: | ---: | ---: |")
    for kernel, architecture, function, size in LOOPS:
        loop = longest_loop(assembly(kernel, architecture), function)
        figures = " | ".join(f"{cycles(loop, cpu, mca) / size:.2f}" for cpu in ("z14", "z15"))
        print(f"| {kernel} | {function} | {len(loop)} | {figures} |")


if __name__ == "__main__":
    main()
