#!/usr/bin/env python3
"""Run a program of another architecture: a static one under qemu alone, anything else inside that one's root folder.

    guest.py loongarch64 --cpu la464,lasx=off -- build/kernelbench-loongarch64 --list
    guest.py s390x --root --bind tests:/src/tests -- python3 -c 'import sys; print(sys.byteorder)'

Inside a root folder programs start others, so the kernel has to know what to do with foreign ones: qemu is registered
with binfmt_misc, which needs root once per boot. Mounts live in a namespace of the one run and go with it.
"""

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy" / "cross"))
import provision

BINFMT = Path("/proc/sys/fs/binfmt_misc")


@dataclass(frozen=True)
class Architecture:
    """One guest architecture: its names, how its ELF header looks, its CPU models by best kernel."""

    name: str  # as meson, wheels and uname say
    debian: str
    machine: bytes  # e_machine as it stands in the file
    big_endian: bool
    cpus: Mapping[str, str]  # best kernel that the model allows -> qemu's -cpu

    @property
    def qemu(self) -> Path:
        return provision.qemu() / f"qemu-{self.name}"

    @property
    def root(self) -> Path:
        return provision.root(self.debian)

    @property
    def default_cpu(self) -> str:
        return next(iter(self.cpus.values()))

    def magic(self) -> tuple[bytes, bytes]:
        """What an executable's first 20 bytes must be under which mask: 64-bit ELF, any ABI, EXEC or DYN."""
        end = b"\2" if self.big_endian else b"\1"
        kind = b"\0\2" if self.big_endian else b"\2\0"
        kind_mask = b"\xff\xfe" if self.big_endian else b"\xfe\xff"
        magic = b"\x7fELF\2" + end + b"\1" + bytes(9) + kind + self.machine
        mask = b"\xff" * 7 + bytes(9) + kind_mask + b"\xff\xff"
        return magic, mask


ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            "loongarch64",
            "loong64",
            (258).to_bytes(2, "little"),
            False,
            {"lasx": "la464", "lsx": "la464,lasx=off", "scalar": "la464,lsx=off"},
        ),
        Architecture(
            "s390x",
            "s390x",
            (22).to_bytes(2, "big"),
            True,
            # With vx=off alone the VXE bits stay set, which no machine has: all three go together.
            {"vxe": "max", "vx": "max,vxeh=off,vxeh2=off", "scalar": "max,vx=off,vxeh=off,vxeh2=off"},
        ),
        Architecture("aarch64", "arm64", (183).to_bytes(2, "little"), False, {"neon": "max,sve=off"}),
    )
}


def register(architecture: Architecture) -> None:
    """Have the kernel run this architecture's programs with our qemu; nothing to do where it does already."""
    if not (BINFMT / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "none", str(BINFMT)], check=True)
    entry = BINFMT / f"sealane-{architecture.name}"
    if entry.exists():
        if str(architecture.qemu) in entry.read_text():
            return
        entry.write_text("-1")
    magic, mask = ("".join(f"\\x{byte:02x}" for byte in part) for part in architecture.magic())
    # F: the interpreter is opened now, so that it is found from inside any root folder. The newest entry wins.
    rule = f":{entry.name}:M:0:{magic}:{mask}:{architecture.qemu}:F"
    with contextlib.suppress(FileExistsError):  # another run was faster
        (BINFMT / "register").write_text(rule)


def emulated(architecture: Architecture, cpu: str, program: str | Path, *arguments: str) -> list[str]:
    """The command line that runs a static program under qemu, without any root folder."""
    return [str(architecture.qemu), "-cpu", cpu, str(program), *arguments]


def inside(
    architecture: Architecture,
    cpu: str,
    command: Sequence[str],
    binds: Mapping[Path, str] | None = None,
    environment: Mapping[str, str] | None = None,
    writable: Mapping[Path, str] | None = None,
) -> list[str]:
    """The command line that runs `command` in the architecture's root folder, /src its own to write in for the run.

    `binds` (ours -> theirs, under /src or /tmp) are read-only there, `writable` ones are not.

    The process that it starts becomes the guest program itself, so signals reach it.
    """
    register(architecture)
    root = architecture.root
    steps = ["set -e", f"cd {shlex.quote(str(root))}"]
    steps += ["mount -t proc proc proc", "mount --rbind /dev dev"]
    steps += ["mount -t tmpfs tmpfs tmp", "mount -t tmpfs tmpfs src"]
    for ours, theirs in {**(binds or {}), **(writable or {})}.items():
        target = shlex.quote("." + theirs)
        source = shlex.quote(str(ours.absolute()))
        make = f"mkdir -p {target}" if ours.is_dir() else f"mkdir -p $(dirname {target}); : > {target}"
        steps += [make, f"mount --bind {source} {target}"]
        if ours not in (writable or {}):
            steps.append(f"mount -o remount,bind,ro {target}")
    variables = {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "QEMU_CPU": cpu,
        **(environment or {}),
    }
    assignments = " ".join(shlex.quote(f"{name}={value}") for name, value in variables.items())
    steps += [f"exec env -i {assignments} {_host_program('chroot')} . {shlex.join(command)}"]
    namespace = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        namespace.insert(1, "--map-root-user")
    return [*namespace, "sh", "-c", "\n".join(steps)]


def _host_program(name: str) -> str:
    """Full path of a host program, which the guest's PATH may not lead to."""
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    raise FileNotFoundError(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", choices=ARCHITECTURES)
    parser.add_argument("--cpu", help="qemu's CPU model; the best one if not given")
    parser.add_argument("--root", action="store_true", help="run inside the root folder")
    parser.add_argument("--bind", action="append", default=[], metavar="OURS:THEIRS", help="read-only, under /src")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    architecture = ARCHITECTURES[options.architecture]
    cpu = options.cpu or architecture.default_cpu
    if options.root:
        binds = {Path(ours): theirs for ours, theirs in (bind.split(":") for bind in options.bind)}
        environment = dict(pair.split("=", 1) for pair in options.env)
        command = inside(architecture, cpu, options.command, binds, environment)
    else:
        command = emulated(architecture, cpu, *options.command)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
