"""An empty ASGI application: reads the whole body and answers with the same bytes. The limit that the HTTP rows are
measured against, on the same server as the service: `uvicorn service.bench.echo:app --no-access-log`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]

_CONTENT_TYPE = (b"content-type", b"application/octet-stream")


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer any HTTP request with 200 and its own body, in one response."""
    if scope["type"] != "http":
        return
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        chunks = [body]
        while message.get("more_body"):
            message = await receive()
            chunks.append(message.get("body", b""))
        body = b"".join(chunks)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [_CONTENT_TYPE, length]})
    await send({"type": "http.response.body", "body": body})
