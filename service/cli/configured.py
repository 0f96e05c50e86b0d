"""The settings that a command runs with."""

from __future__ import annotations

from typing import Annotated

import typer

from service.settings import Settings, dev_settings

DevOption = Annotated[
    bool, typer.Option("--dev", help="Work on the development folder of `sealane serve --dev` (SEALANE_DEV_FOLDER).")
]


def load(dev: bool = False) -> Settings:
    """Settings from the environment; those of the development folder with `dev` or SEALANE_DEV."""
    settings = Settings()
    return dev_settings(settings) if dev or settings.dev else settings
