"""The engine from its wheel under each architecture's own Python."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT, VECTORS, counts
from models import BEST_MODELS, PYTHON_MODELS, Model

pytestmark = pytest.mark.emulated
# What tests/engine may skip here: each names why it can't matter on these machines.
MAY_SKIP = re.compile(
    r"timed on x86-64 only|needs a C compiler and glibc to count allocations|\w+ can be used here"
    # Debian's cryptography is older than the module that this compares with.
    r"|could not import 'cryptography\.cobblestone'|an emulator's own memory is in the way"
    # Of the Python backends, on any machine.
    r"|the reference is too slow for this one|needs more chunks than the reference does in reasonable time"
    r"|Python code holds the GIL between chunks"
)


@pytest.mark.parametrize("model", PYTHON_MODELS, ids=str)
def test_info_names_the_best_kernel_of_the_cpu(
    model: Model, python: Callable[..., list[str]], run: Callable[..., str], wheel: Callable[[str], Path]
) -> None:
    facts: dict[str, Any] = json.loads(run(python(model, "/src/programs/facts.py")))
    assert facts["machine"] == model.architecture.name
    assert facts["file"].startswith("/src/site/")
    info = facts["info"]
    assert (info["backend"], info["kernel"]) == ("native", model.best)
    assert info["kernels"] == model.kernels
    assert {name: info["selftest"][name] for name in model.kernels} == dict.fromkeys(model.kernels, "ok")
    # This Python takes the wheel by its tag, and has all that the wheel wants.
    assert wheel(model.architecture.name).stem.split("-", 2)[2] in facts["tags"]
    assert facts["unmet"] == []


@pytest.mark.parametrize("model", BEST_MODELS, ids=str)
def test_the_engines_own_tests(model: Model, python: Callable[..., list[str]], run: Callable[..., str]) -> None:
    """All kernels of the architecture in one run: the best CPU model has every one of them."""
    command = python(
        model,
        *("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir=/src/project"),
        *("-c", "/src/project/pyproject.toml", "/src/project/tests/engine"),
        binds={
            PROJECT / "tests" / "engine": "/src/project/tests/engine",
            PROJECT / "pyproject.toml": "/src/project/pyproject.toml",
            VECTORS: "/src/shared",
        },
        environment={"SEALANE_TEST_EFFORT": "small", "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis"},
    )
    said = run(command)
    print(said[-3000:])
    assert counts(said)["passed"] > 500
    reasons = re.findall(r"^SKIPPED \[\d+\] (.*)$", said, re.MULTILINE)
    assert [reason for reason in reasons if not MAY_SKIP.search(reason)] == []
