"""The master key's file: refused with the command that mends it, and found out when it is the wrong one."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import engine
from service.core import Core
from service.errors import MasterKeyError, StorageUnavailable
from service.master import MasterKey, Purpose, load_master_key, make_master_key, read_master_key, wipe
from service.setup import initialise
from service.storage import Database, MasterKeyRow


def _command(error: MasterKeyError) -> str:
    """The command at the end of the detail, without its words before."""
    found = re.search(r"(?:run|for a new one): (.+)$", error.detail)
    assert found
    return found[1]


def test_a_made_key_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "master.key"
    make_master_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    secret = read_master_key(path)
    assert bytes(secret) == path.read_bytes()
    assert len(set(secret)) > 8
    with pytest.raises(FileExistsError):
        make_master_key(path)
    wipe(secret)
    assert secret == bytes(32)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o644, 0o666, 0o777, 0o610])
def test_exposed_files_and_the_command_that_mends_them(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "master.key"
    make_master_key(path)
    path.chmod(mode)
    with pytest.raises(MasterKeyError, match="others than its owner") as caught:
        read_master_key(path)
    subprocess.run(["sh", "-c", _command(caught.value)], check=True)
    read_master_key(path)


def test_group_readable_only_when_allowed(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    make_master_key(path)
    for mode in (0o440, 0o640):
        path.chmod(mode)
        read_master_key(path, group_readable=True)
    for mode in (0o444, 0o660, 0o604):
        path.chmod(mode)
        with pytest.raises(MasterKeyError, match="chmod 640"):
            read_master_key(path, group_readable=True)


def test_a_missing_file_and_the_command_that_makes_one(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    with pytest.raises(MasterKeyError, match="missing") as caught:
        read_master_key(path)
    subprocess.run(["sh", "-c", _command(caught.value)], check=True)
    read_master_key(path)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_files_of_another_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "master.key"
    path.write_bytes(os.urandom(size))
    path.chmod(0o600)
    with pytest.raises(MasterKeyError, match=f"holds {size} bytes, wanted 32"):
        read_master_key(path)


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(MasterKeyError, match="not a file"):
        read_master_key(tmp_path)


def test_the_wrong_key_is_named_as_such(settings) -> None:
    settings.master_key_file.unlink()
    make_master_key(settings.master_key_file)
    with pytest.raises(MasterKeyError, match="wrong one for the database") as caught:
        Core.open(settings)
    assert str(settings.master_key_file) in caught.value.detail
    assert settings.master_key_file.read_bytes().hex() not in caught.value.detail
    with pytest.raises(MasterKeyError, match="wrong one"):
        initialise(settings)


def test_a_missing_key_is_not_made_anew_for_a_database_that_has_one(settings) -> None:
    settings.master_key_file.unlink()
    with pytest.raises(MasterKeyError, match="missing"):
        initialise(settings)
    assert not settings.master_key_file.exists()


def test_a_forged_check_value_does_not_pass(settings) -> None:
    database = Database(settings.database_url.get_secret_value())
    load_master_key(database, settings.master_key_file)
    with database.write() as session:
        session.get_one(MasterKeyRow, 1).check_value = bytes(67)
    with pytest.raises(MasterKeyError, match="wrong"):
        load_master_key(database, settings.master_key_file)
    database.close()


@pytest.mark.parametrize(
    "other",
    [
        Purpose("service", "orders", "xchacha20-poly1305", 1, "u"),
        Purpose("key", "orders2", "xchacha20-poly1305", 1, "u"),
        Purpose("key", "orders", "chacha20-poly1305", 1, "u"),
        Purpose("key", "orders", "xchacha20-poly1305", 2, "u"),
        Purpose("key", "orders", "xchacha20-poly1305", 1, "v"),
        # The same characters, otherwise divided.
        Purpose("key", "ordersx", "chacha20-poly1305", 1, "u"),
    ],
)
def test_wrapping_binds_kind_name_type_version_and_life(other: Purpose) -> None:
    master = MasterKey({1: engine.Aead(bytes(32))})
    purpose = Purpose("key", "orders", "xchacha20-poly1305", 1, "u")
    key_id, wrapped = master.wrap(b"s" * 32, purpose)
    assert key_id == 1
    assert len(wrapped) == 24 + 32 + 16
    assert master.unwrap(1, wrapped, purpose) == b"s" * 32
    with pytest.raises(StorageUnavailable, match="unwrap"):
        master.unwrap(1, wrapped, other)
    for length in range(len(wrapped)):
        with pytest.raises(StorageUnavailable, match="unwrap"):
            master.unwrap(1, wrapped[:length], purpose)


def test_a_later_master_key_wraps_while_the_earlier_still_unwraps() -> None:
    """What a rotation of the master key stands on: rows name theirs."""
    purpose = Purpose("key", "orders", "xchacha20-poly1305", 1, "u")
    first = MasterKey({1: engine.Aead(bytes(32))})
    _, old = first.wrap(b"old", purpose)
    both = MasterKey({2: engine.Aead(b"\1" * 32), 1: engine.Aead(bytes(32))})
    key_id, new = both.wrap(b"new", purpose)
    assert key_id == 2
    assert both.unwrap(1, old, purpose) == b"old"
    assert both.unwrap(2, new, purpose) == b"new"
    with pytest.raises(StorageUnavailable, match="master key"):
        first.unwrap(2, new, purpose)
