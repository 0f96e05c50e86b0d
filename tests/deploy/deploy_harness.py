"""Fixtures and words that the tests of deploy/ share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "deploy"
IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def absent(reason: str) -> None:
    """Skip for want of something, or fail where nothing may be wanting."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)
