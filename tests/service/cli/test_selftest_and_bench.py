"""`sealane selftest` and `sealane bench`, from the command to what they print."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import Run

import engine


def test_selftest_names_every_kernel_and_backend(run: Run) -> None:
    result = run("selftest", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["in_use"] == engine.info().kernel
    assert {"reference", *engine.info().kernels} <= document["outcomes"].keys()
    assert "in use" in run("selftest").stdout


@pytest.mark.parametrize(("outcome", "code"), [("wrong tag", 1), ("not available: no module", 0), ("ok", 0)])
def test_selftest_fails_for_a_wrong_answer_only(
    run: Run, monkeypatch: pytest.MonkeyPatch, outcome: str, code: int
) -> None:
    check: Callable[[], dict[str, str]] = lambda: {"avx9": outcome}  # noqa: E731
    monkeypatch.setattr(engine, "check", check)
    result = run("selftest")
    assert result.exit_code == code
    assert ("failed: wrong tag" in result.stdout) is (code == 1)


def test_bench_engine(run: Run, tmp_path: Path) -> None:
    for package in ("cryptography", "nacl", "matplotlib"):
        pytest.importorskip(package)
    before = engine.info()
    kernel = before.kernel
    quick = ("bench", "engine", "--rounds", "1", "--burst", "0.01", "--kernel", kernel)
    result = run(*quick, "--json", "--chart", "chart.svg")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {row["kernel"] for row in document["results"]} == {kernel}
    for row in document["results"]:
        assert row["ratio"] == pytest.approx(row["peer_nanoseconds"] / row["nanoseconds"])
        assert row["met"] is (None if row["target"] is None else row["ratio"] >= row["target"])
    assert document["machine"]["versions"]["cryptography"]
    assert (tmp_path / "chart.svg").read_text().startswith("<?xml")
    assert engine.info() == before
    table = run(*quick)
    assert "seal xchacha20-poly1305, against PyNaCl" in table.stdout


def test_bench_engine_against_a_peer_on_avx2_alone(run: Run) -> None:
    for package in ("cryptography", "nacl"):
        pytest.importorskip(package)
    if "avx2" not in engine.info().kernels:
        pytest.skip("this machine has no avx2 kernel")
    result = run("bench", "engine", "--rounds", "1", "--burst", "0.01", "--kernel", "avx2", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["results"]
    limited = [row for row in rows if row["peer"] == "cryptography on AVX2 alone"]
    assert {row["operation"] for row in limited} == {r["operation"] for r in rows if r["peer"] == "cryptography"}
    assert all(row["target"] is None for row in rows if row["peer"] == "cryptography")
    assert any(row["target"] == 3.5 for row in limited)


@pytest.mark.parametrize(
    ("arguments", "text"), [(("--kernel", "mmx"), "avx2" if "avx2" in engine.info().kernels else "reference"),
                            (("--chart", "x.gif"), ".svg or .png")]
)  # fmt: skip
def test_bench_engine_mistakes(run: Run, arguments: tuple[str, ...], text: str) -> None:
    result = run("bench", "engine", "--rounds", "1", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_bench_http(run: Run) -> None:
    if shutil.which("wrk") is None:
        pytest.importorskip("httptools")
    result = run("bench", "http", "--rounds", "1", "--seconds", "1", "--connections", "2", "--workers", "1", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [row["call"] for row in document["results"]] == [
        "raw seal, 64 B", "raw seal, 8 KiB", "raw seal, 1 MiB", "JSON seal, 64 B", "JSON batch of 100, 64 B",
    ]  # fmt: skip
    peers = {"echo", *(["openbao"] if shutil.which("bao") else [])}
    for row in document["results"]:
        assert row["figures"].keys() == {"sealane", *peers}
        assert row["ratios"].keys() == peers
        assert all(figures["requests_per_second"] > 0 for figures in row["figures"].values())
        for verdict in row["verdicts"]:
            assert verdict["met"] is (verdict["measured"] >= verdict["at_least"])
    assert "uvicorn" in document["conditions"]["echo"]


def test_bench_http_wants_a_page_to_write(run: Run) -> None:
    result = run("bench", "http", "--report", "x.pdf")
    assert result.exit_code == 2
    assert ".html or .htm" in result.stderr
