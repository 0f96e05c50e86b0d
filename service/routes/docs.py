"""The documentation pages. Their scripts and styles come from this server alone, never from another site."""

from __future__ import annotations

import importlib.util
import secrets
from functools import cache
from html import escape
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from service.problems import Problem

router = APIRouter(include_in_schema=False)

# The package is used for the files that it ships; its code is not.
_PACKAGE = "fastapi_offline"
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "redoc.standalone.js": "text/javascript",
}
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sealane</title><link rel="icon" href="data:,">{style}</head>
<body style="margin:0"><div id="page"></div>
<script src="{script}"></script><script nonce="{nonce}">{start}</script></body>
</html>
"""


@cache
def _folder() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "static"


@router.get("/docs", name="docs-swagger")
async def swagger(request: Request) -> Response:
    """The API in Swagger UI, where calls can be tried."""
    root = _root(request)
    start = (
        f'SwaggerUIBundle({{url:"{root}/openapi.json",dom_id:"#page",deepLinking:true,validatorUrl:null,'
        "presets:[SwaggerUIBundle.presets.apis],layout:\"BaseLayout\"})"
    )  # fmt: skip
    return _page(f"{root}/docs/swagger-ui-bundle.js", start, f"{root}/docs/swagger-ui.css")


@router.get("/redoc", name="docs-redoc")
async def redoc(request: Request) -> Response:
    """The API in ReDoc, for reading."""
    root = _root(request)
    start = f'Redoc.init("{root}/openapi.json",{{hideLoading:true}},document.getElementById("page"))'
    return _page(f"{root}/docs/redoc.standalone.js", start)


@router.get("/docs/{asset}", name="docs-asset")
async def asset(asset: str) -> Response:
    """A script or style of the pages."""
    content = _asset(asset) if asset in _ASSETS else None
    if content is None:
        raise Problem("not-found")
    return Response(content, media_type=_ASSETS[asset], headers={"cache-control": "public, max-age=3600"})


@cache
def _asset(name: str) -> bytes | None:
    """The file, without the one picture that ReDoc would load from its makers' site."""
    folder = _folder()
    if folder is None or not (folder / name).is_file():
        return None
    return (folder / name).read_bytes().replace(b"https://cdn.redoc.ly/redoc/logo-mini.svg", b"data:,")


def _root(request: Request) -> str:
    """The path under which a proxy serves us; it is the operator's setting, and goes into a script."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    if any(character in root for character in "\"'<>\\&"):
        raise Problem("not-found")
    return root


def _page(script: str, start: str, style: str = "") -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    link = f'<link rel="stylesheet" href="{escape(style)}">' if style else ""
    # Both pages make styles as they go, and ReDoc runs its search in a worker that it makes from a blob.
    policy = (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; worker-src blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    content = _PAGE.format(style=link, script=escape(script), nonce=nonce, start=start)
    return HTMLResponse(
        content,
        headers={"content-security-policy": policy, "referrer-policy": "no-referrer", "x-frame-options": "DENY"},
    )
