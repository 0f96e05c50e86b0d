"""What the tables of both benchmarks share."""

from __future__ import annotations

from rich.console import Console

from service.bench.machine import Machine

_SUFFIXES = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size: int) -> str:
    """`size` bytes as a person writes it: 64 B, 1350 B, 8 KiB, 2 MiB."""
    for factor, suffix in _SUFFIXES:
        if size >= factor and size % factor == 0:
            return f"{size // factor} {suffix}"
    return f"{size} B"


def verdict(met: bool | None) -> str:
    """Whether a target is met, as a table says it."""
    return "" if met is None else "[green]met[/green]" if met else "[bold red]not met[/bold red]"


def print_machine(console: Console, machine: Machine) -> None:
    """One line on the machine and one on the versions."""
    console.print(f"{machine.processor}, {machine.processors} CPUs, {machine.system}, Python {machine.python}")
    console.print(", ".join(f"{name} {version}" for name, version in machine.versions.items()))
