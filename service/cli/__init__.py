"""The command `sealane`: one file for each group of commands."""

from service.cli.main import app

__all__ = ["app"]
