"""Settings come from SEALANE_* and never tell a secret."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import Settings, dev_settings


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALANE_DATABASE_URL", "postgresql://sealane:hunter2@db/sealane")
    monkeypatch.setenv("SEALANE_MAX_STALENESS", "60")
    settings = Settings()
    assert settings.max_staleness == 60
    assert settings.database_url.get_secret_value().endswith("@db/sealane")
    assert "hunter2" not in repr(settings) + str(settings)


def test_errors_do_not_repeat_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALANE_PORT", "hunter2")
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert "hunter2" not in str(caught.value)
    assert "port" in str(caught.value)


def test_dev_settings_stay_in_their_folder(tmp_path: Path) -> None:
    settings = dev_settings(Settings(dev_folder=tmp_path / "dev"))
    assert settings.dev
    assert settings.master_key_file.is_relative_to(tmp_path)
    assert str(tmp_path) in settings.database_url.get_secret_value()
