"""The master key is rotated while two workers serve, and nothing that was sealed before is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from service import rotation
from service.core import Core
from service.errors import MasterKeyError
from service.master import make_master_key
from service.settings import Settings


async def opened(settings: Settings) -> Core:
    core = Core.open(settings)
    await core.start()
    return core


def test_every_step_while_serving(settings: Settings, tmp_path: Path) -> None:
    new = tmp_path / "new.key"
    asyncio.run(rotate(settings, new))
    assert new.stat().st_mode & 0o777 == 0o600


async def rotate(settings: Settings, new: Path) -> None:
    old = settings.master_key_file
    before = await opened(settings)
    await before.keyring.create("early", "xchacha20-poly1305", actor="test")
    await before.keyring.rotate("early", actor="test")
    sealed, _ = before.keyring.get("early").seal(b"attack at dawn", b"")

    assert rotation.add(settings, new, "test") == 2
    assert rotation.add(settings, new, "test") == 2  # may be repeated

    first = settings.model_copy(update={"master_key_other_file": new})
    second = settings.model_copy(update={"master_key_file": new, "master_key_other_file": old})
    holding = await opened(first)
    wrapping = await opened(second)
    # Whoever wraps under which, all who hold both can use it.
    await wrapping.keyring.create("late", "xchacha20-poly1305", actor="test")
    await holding.keyring.find("late")
    late, _ = holding.keyring.get("late").seal(b"retreat at dusk", b"")
    assert wrapping.keyring.get("late").open(late, b"")[0] == b"retreat at dusk"

    assert rotation.status(second)[1] > 0
    with pytest.raises(MasterKeyError, match="OTHER_FILE"):
        Core.open(settings.model_copy(update={"master_key_file": new}))
    count = rotation.rewrap(second, "test")
    assert count >= 3  # two versions and the audit trail's key
    assert rotation.rewrap(second, "test") == 0
    assert rotation.status(second)[1] == 0
    for core in (before, holding, wrapping):  # those that run go on
        assert core.keyring.get("early").open(sealed, b"")[0] == b"attack at dawn"
        await core.stop()

    alone = settings.model_copy(update={"master_key_file": new})
    after = await opened(alone)
    assert after.keyring.get("early").open(sealed, b"")[0] == b"attack at dawn"
    assert after.keyring.get("late").open(late, b"")[0] == b"retreat at dusk"
    await after.keyring.rotate("early", actor="test")
    assert after.audit.verify(after.database) > 5
    await after.stop()
    with pytest.raises(MasterKeyError):
        Core.open(settings)  # the old one alone opens nothing any more


def test_a_key_that_the_database_does_not_know_is_refused(settings: Settings, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.key"
    make_master_key(stranger)
    with pytest.raises(MasterKeyError, match="wrong one"):
        Core.open(settings.model_copy(update={"master_key_other_file": stranger}))
