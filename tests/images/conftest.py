"""Fixtures for tests of images, and when they run."""

import pytest
from image_harness import image, states

__all__ = ["image", "states"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs images runs when asked for by `-m images` (make test-images)."""
    if "images" in (config.getoption("markexpr") or ""):
        return
    ours = [item for item in items if item.get_closest_marker("images")]
    if ours:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)
