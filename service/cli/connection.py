"""The client that commands use, and its errors told in one line.

SEALANE_URL and SEALANE_TOKEN say where and as whom; without them it is `sealane serve --dev` run in this folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.console import CONFIG, FAILED, NO_PERMISSION, UNAVAILABLE, USAGE, fail

if TYPE_CHECKING:
    from service.client import Client, ServiceError

_DEV_URL = "http://127.0.0.1:8417"


@contextmanager
def connected() -> Iterator[Client]:
    """The service at SEALANE_URL, or the development one. Exits with a fitting code where a call fails."""
    import httpx

    from service.client import Client, ServiceError

    url = os.environ.get("SEALANE_URL")
    token = os.environ.get("SEALANE_TOKEN") or (None if url else _dev_token())
    if not token:
        fail(f"{'SEALANE_URL is set, so a' if url else 'a'} token is wanted in SEALANE_TOKEN", CONFIG)
    try:
        with Client(url or _DEV_URL, token) as client:
            yield client
    except ServiceError as error:
        fail(str(error), _code(error))
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        fail("SEALANE_URL wants a URL such as http://127.0.0.1:8417", CONFIG)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        fail(f"the service at {'SEALANE_URL' if url else _DEV_URL} can't be reached: {error}", UNAVAILABLE)
    except httpx.TransportError as error:
        fail(f"the connection to the service broke: {error}", UNAVAILABLE)


def _dev_token() -> str | None:
    token = os.environ.get("SEALANE_DEV_TOKEN")
    if token:
        return token
    try:
        return (Path(os.environ.get("SEALANE_DEV_FOLDER") or ".dev") / "token").read_text().strip()
    except OSError:
        return None


def _code(error: ServiceError) -> int:
    from service.client import Malformed, NotAllowed, NotAuthenticated

    if isinstance(error, (NotAuthenticated, NotAllowed)):
        return NO_PERMISSION
    if isinstance(error, Malformed):
        return USAGE
    return UNAVAILABLE if error.status == 503 else FAILED
