"""The kernels without Python, on every CPU model: which there are to choose from, and the C tests of each."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from guest import Architecture, emulated
from models import MODELS, Model

pytestmark = pytest.mark.emulated


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_cpu_decides_which_kernels_there_are(model: Model, usable: Callable[[Model], list[str]]) -> None:
    assert usable(model) == model.kernels


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_c_tests(
    model: Model,
    program: Callable[[str, Architecture], Path],
    run: Callable[..., str],
    usable: Callable[..., list[str]],
) -> None:
    said = run(emulated(model.architecture, model.cpu, program("kerneltest", model.architecture)))
    results = re.findall(r"^(\w+): (\d+) checks, (\d+) failures$", said, re.MULTILINE)
    assert [name for name, _, _ in results] == usable(model)
    for name, checks, failures in results:
        assert int(checks) > 10_000, name
        assert failures == "0", name
