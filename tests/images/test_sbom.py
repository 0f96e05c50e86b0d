"""The bills of materials that `make images` leaves are valid CycloneDX and name what is in the images."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from image_harness import GUESTS, PROJECT, Image, absent

pytestmark = pytest.mark.images


@pytest.mark.parametrize("architecture", ["amd64", *GUESTS])
def test_it_is_valid_and_whole(architecture: str, image: Callable[[str], Image]) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    file = PROJECT / "dist" / f"sealane-{architecture}.cdx.json"
    if not file.exists():
        absent(f"{file} is not there: run make images")
    text = file.read_text()
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None
    named = {component["name"].lower() for component in json.loads(text)["components"]}
    root = image(architecture).root
    there = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    there |= {
        line.partition(": ")[2].lower()
        for file in (root / "opt/sealane/lib").glob("*.dist-info/METADATA")
        for line in file.read_text().splitlines()
        if line.startswith("Name: ")
    }
    assert {"python3", "libc6", "sealane", "fastapi"} <= named
    assert named == there
