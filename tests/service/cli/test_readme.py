"""The README's lines work as they stand there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_harness import Server

import engine

README = Path(__file__).parents[3] / "README.md"


def test_the_curl_lines(server: Server, tmp_path: Path) -> None:
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    blocks = re.findall(r"<!-- test: begin -->\n```sh\n(.*?)```\n<!-- test: end -->", README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    script = "set -euo pipefail\n" + "echo\n".join(blocks)
    assert script.count("http://127.0.0.1:8417") == 1
    (tmp_path / ".dev").mkdir()
    (tmp_path / ".dev" / "token").write_text(server.token + "\n")
    done = subprocess.run(
        ["bash", "-c", script.replace("http://127.0.0.1:8417", server.url)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plaintext, rest = done.stdout.split("\n", 1)
    assert plaintext == "attack at dawn"
    mac, at = json.JSONDecoder().raw_decode(rest)
    assert mac["key_version"] == 1
    info, end = json.JSONDecoder().raw_decode(rest[at:].lstrip())
    assert info["kernel"] == engine.info().kernel
    batch = json.loads(rest[at:].lstrip()[end:])
    assert ["sealed" in result for result in batch["results"]] == [True, True]
    assert len((tmp_path / "sealed").read_bytes()) == len("attack at dawn\n") + 48
