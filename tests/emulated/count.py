#!/usr/bin/env python3
"""Count the instructions that kernels of other architectures spend per byte, exactly.

    count.py                                             the table of every kernel
    count.py --sizes 16 64 256 1024 4096 16384 --arch s390x --json
    count.py --cpu la464 --op chacha20 --size 16384 --kernel lasx --hot 8 build/kernelbench-loongarch64

Each figure is the difference between a run of few and one of more iterations, divided by the extra bytes, so that
start-up falls out. qemu logs each translation block when it is translated, one ` ---- ` line per guest instruction,
and again, in one line, each time that it runs. The figures are those of counting with one instruction per block, for
a fiftieth of the log. They are instructions, not cycles, and the same on any machine.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from guest import ARCHITECTURES, Architecture, emulated

OPERATIONS = ("chacha20", "poly1305", "aead-seal", "aead-open", "xaead-seal")
STREAMED = ("poly1305-write64", "poly1305-write1k")
SAME_ADDRESSES = ["setarch", "-R"]  # start-up takes a few instructions more or less with where the stack is
STREAM_BYTES = 1 << 16  # what the streamed operations write per iteration
BULK_BYTES = 2 << 20  # the one large update that streaming is compared with
# Instructions per byte at 16 KiB that each kernel is to stay within, and how much dearer small writes may be.
GOALS = {
    "lasx": {"chacha20": 2.20, "poly1305": 0.65, "aead-seal": 3.00},
    "lsx": {"chacha20": 4.25, "poly1305": 1.25, "aead-seal": 5.60},
    "vx": {"chacha20": 4.15, "poly1305": 1.50, "aead-seal": 5.75},
    "vxe": {"chacha20": 4.15, "poly1305": 0.95, "aead-seal": 5.15},
    "neon": {"chacha20": 4.75, "poly1305": 1.40, "aead-seal": 6.30},
}
STREAM_GOALS = {"poly1305-write64": 1.40, "poly1305-write1k": 1.10}
STREAM_GOALS_LASX = {"poly1305-write64": 1.70, "poly1305-write1k": 1.15}


@dataclass(frozen=True)
class Figure:
    """Instructions per byte of one operation of one kernel at one size in bytes."""

    architecture: str
    kernel: str
    operation: str
    size: int
    instructions_per_byte: float


def executed(log: Iterable[bytes]) -> Counter[bytes]:
    """Guest instructions executed per symbol, from qemu's log of `nochain,exec,op`."""
    length: dict[bytes, int] = {}  # of each translation block, by its address
    counts: Counter[bytes] = Counter()
    translated = 0
    first = last = b""
    for line in log:
        if line.startswith(b"Trace "):
            # Trace 0: 0x7f6de9c1c800 [cs_base/pc/flags/cflags] symbol
            _, _, block, place, *symbol = line.split()
            if translated:
                if int(place.split(b"/")[1], 16) != int(first, 16):
                    raise ValueError(f"qemu runs {place.decode()} after translating {first.decode()}")
                length[block] = translated
                translated = 0
            last = symbol[0] if symbol else b"?"
            counts[last] += length[block]
        elif line.startswith(b" ---- "):
            if not translated:
                first = line.split()[1]
            translated += 1
        elif line.startswith(b"OP:"):
            translated = 0
        elif line.startswith(b"Stopped execution"):
            # Stopped execution of TB chain before 0x7f6de9c1c800 [pc] symbol: it was logged, but did not run.
            counts[last] -= length[line.split()[6]]
    return counts


def run(command: list[str]) -> Counter[bytes]:
    """`executed` of one run of `command`, a qemu command line."""
    log = ["-d", "nochain,exec,op"]
    process = subprocess.Popen(
        [*SAME_ADDRESSES, command[0], *log, *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    counts = executed(process.stderr)
    if process.wait():
        raise SystemExit(f"exit status {process.returncode}: {' '.join(command)}")
    return counts


def iterations(operation: str, size: int) -> tuple[int, int]:
    """How many iterations the shorter and the longer run make.

    A MAC goes on from one iteration to the next and buffers, so both runs must be past its set-up, and the difference
    must be whole buffers.
    """
    if not operation.startswith("poly1305"):
        return 2, 6
    few = max(1, STREAM_BYTES // size)
    return few, 2 * few


def per_byte(
    architecture: Architecture, cpu: str, program: Path, operation: str, size: int, kernel: str | None = None
) -> dict[bytes, float]:
    """Instructions per byte of one operation in its steady state, by symbol."""
    choice = ["--kernel", kernel] if kernel else []
    few, many = iterations(operation, size)
    counts: dict[bytes, float] = defaultdict(float)
    for count, sign in (many, 1), (few, -1):
        command = emulated(architecture, cpu, program, operation, str(size), str(count), *choice)
        for symbol, executions in run(command).items():
            counts[symbol] += sign * executions / ((many - few) * size)
    return counts


def kernels(architecture: Architecture, cpu: str, program: Path) -> list[str]:
    """Kernels that `program` offers on `cpu`, best first."""
    done = subprocess.run(emulated(architecture, cpu, program, "--list"), check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout.split()


def measure(architecture: Architecture, program: Path, sizes: Sequence[int]) -> list[Figure]:
    """Every operation of every kernel of one architecture."""
    cpu = architecture.default_cpu
    work = []
    for kernel in kernels(architecture, cpu, program):
        work += [(kernel, operation, size) for operation in OPERATIONS for size in sizes]
        work += [(kernel, operation, STREAM_BYTES) for operation in STREAMED]
        work += [(kernel, "poly1305", BULK_BYTES)]

    def figure(item: tuple[str, str, int]) -> Figure:
        kernel, operation, size = item
        total = sum(per_byte(architecture, cpu, program, operation, size, kernel).values())
        return Figure(architecture.name, kernel, operation, size, round(total, 4))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(figure, work))


def table(figures: Sequence[Figure], sizes: Sequence[int]) -> str:
    """Markdown: a row per kernel and operation; a figure over its goal is marked."""
    lines = ["| kernel | operation | " + " | ".join(f"{size} B" for size in sizes) + " | goal | times scalar |"]
    lines += ["| --- " * (len(sizes) + 4) + "|"]
    found = {(f.architecture, f.kernel, f.operation, f.size): f.instructions_per_byte for f in figures}
    for architecture, kernel in dict.fromkeys((f.architecture, f.kernel) for f in figures):
        name = kernel if kernel != "scalar" else f"scalar {architecture}"
        for operation in OPERATIONS:
            values = [found[architecture, kernel, operation, size] for size in sizes]
            goal = GOALS.get(kernel, {}).get(operation)
            said = "" if goal is None else f"{goal:.2f} {'met' if values[-1] <= goal else '**missed**'}"
            scalar = [found[architecture, "scalar", operation, size] for size in sizes]
            ratios = [f"{plain / value:.2f}" for plain, value in zip(scalar, values, strict=True)]
            times = "" if kernel == "scalar" else ", ".join(ratios)
            cells = " | ".join(f"{value:.3f}" for value in values)
            lines.append(f"| {name} | {operation} | {cells} | {said} | {times} |")
    lines += ["", "| kernel | one 2 MiB update | 64 B writes | times | 1 KiB writes | times |", "| --- " * 6 + "|"]
    for architecture, kernel in dict.fromkeys((f.architecture, f.kernel) for f in figures):
        name = kernel if kernel != "scalar" else f"scalar {architecture}"
        bulk = found[architecture, kernel, "poly1305", BULK_BYTES]
        cells = f"{bulk:.3f}"
        goals = STREAM_GOALS_LASX if kernel == "lasx" else STREAM_GOALS
        for operation in STREAMED:
            value = found[architecture, kernel, operation, STREAM_BYTES]
            verdict = "" if value / bulk <= goals[operation] else f" **over {goals[operation]:.2f}**"
            cells += f" | {value:.3f} | {value / bulk:.2f}{verdict}"
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def one(options: argparse.Namespace) -> None:
    """One figure, and where its instructions are spent."""
    name = options.arch[0] if options.arch else options.program.name.rsplit("-", 1)[-1]
    architecture = ARCHITECTURES[name]
    cpu = options.cpu or architecture.default_cpu
    counts = per_byte(architecture, cpu, options.program, options.op, options.size, options.kernel)
    print(f"{sum(counts.values()):.3f} instructions/byte")
    for symbol, count in sorted(counts.items(), key=lambda item: -item[1])[: options.hot]:
        print(f"{count:9.3f} {symbol.decode()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=Path, help="a static kernelbench, to count one operation of it")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="the table of these alone")
    parser.add_argument("--sizes", nargs="+", type=int, default=[64, 1024, 16384], help="bytes per message")
    parser.add_argument("--json", action="store_true", help="figures instead of the table")
    parser.add_argument("--op", default="aead-seal", help="one operation (with a program)")
    parser.add_argument("--size", type=int, default=16384, help="its bytes per iteration")
    parser.add_argument("--kernel", help="its kernel; the best one if not given")
    parser.add_argument("--cpu", help="qemu's CPU model")
    parser.add_argument("--hot", type=int, default=0, metavar="N", help="the N symbols that cost most")
    parser.add_argument("--build", type=Path, default=Path("build"), help="where the kernelbench programs lie")
    options = parser.parse_args()
    if options.program:
        return one(options)
    figures: list[Figure] = []
    for name in options.arch or ARCHITECTURES:
        program = options.build / f"kernelbench-{name}"
        if not program.exists():
            sys.exit(f"{program} is not there: run make kernelbench")
        figures += measure(ARCHITECTURES[name], program, options.sizes)
    if options.json:
        print(json.dumps([asdict(figure) for figure in figures], indent=1))
    else:
        print(table(figures, options.sizes))
    return None


if __name__ == "__main__":
    main()
