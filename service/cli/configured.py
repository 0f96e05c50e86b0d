"""The settings that a command runs with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import CONFIG, fail

if TYPE_CHECKING:
    import pydantic

    from service.settings import Settings

DevOption = Annotated[
    bool, typer.Option("--dev", help="Work on the development folder of `sealane serve --dev` (SEALANE_DEV_FOLDER).")
]


def load(dev: bool = False) -> Settings:
    """Settings from the environment; those of the development folder with `dev` or SEALANE_DEV. Exits if one is bad."""
    import pydantic

    from service.settings import Settings, dev_settings

    try:
        settings = Settings()
    except pydantic.ValidationError as error:
        fail(_text(error), CONFIG)
    return dev_settings(settings) if dev or settings.dev else settings


def _text(error: pydantic.ValidationError) -> str:
    """Names the variables and the rules; never the values, one of which may be a password."""
    items = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"SEALANE_{'_'.join(map(str, item['loc'])).upper()}: {item['msg']}" for item in items)
