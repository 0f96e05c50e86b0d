"""An empty ASGI application: answers with the bytes of the request. The limit that the HTTP rows are measured against,
on the same server as the service: `uvicorn service.bench.echo:app --no-access-log`. At /stream it sends each piece back
as soon as it has come; elsewhere it reads the whole body first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_CONTENT_TYPE = (b"content-type", b"application/octet-stream")


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Answer any HTTP request with 200 and its own body, in one response."""
    if scope["type"] != "http":
        return
    message = await receive()
    if scope["path"] == "/stream":
        await _streamed(scope, message, receive, send)
        return
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


async def _streamed(scope: Message, message: Message, receive: Receive, send: Send) -> None:
    length = [header for header in scope["headers"] if header[0] == b"content-length"]
    await send({"type": "http.response.start", "status": 200, "headers": [_CONTENT_TYPE, *length]})
    while message["type"] == "http.request":
        more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": more})
        if not more:
            return
        message = await receive()
