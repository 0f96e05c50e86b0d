"""What surrounds a call that FastAPI serves: its identity, headers, counters, and an end without loose bytes."""

from __future__ import annotations

import asyncio
from typing import Any

from service.errors import SealaneError
from service.logs import where
from service.problems import Problem, from_error
from service.runtime import Runtime
from service.telemetry import CALLS, CLIENT_CLOSED, OK, OUTCOME
from service.wire import COMMON, EXCHANGE, Body, Disconnected, Message, Receive, Scope, Send, refuse, request_id

# Those that come this way at all: a stream's route is met here only with a method that it does not have.
_OPERATIONS = {operation for operation, form in CALLS if form == "json"}


class Managed:
    """One such call. It stands in the scope as `sealane`, for the routes and the handlers of errors."""

    def __init__(self, runtime: Runtime, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        # Its server and the scope would else hold each other until the garbage collector comes.
        (scope.get("extensions") or {}).pop(EXCHANGE, None)
        self._runtime = runtime
        self._receive = receive
        self._send = send
        self._head = scope["method"] == "HEAD"
        self._lingers = False
        self._started = False
        self._sent = 0
        self.identity = request_id(headers)
        self.outcome = OK
        self.body = Body(self._received, headers, runtime.watch)

    async def serve(self, app: Any, scope: Scope) -> None:
        """Let `app` answer, and see the call to its end."""
        counters = self._runtime.metrics.call("other")
        begun = counters.start()
        try:
            await app(scope, self._received, self._answer)
        except Disconnected:
            self.outcome = CLIENT_CLOSED
        except (Problem, SealaneError) as error:
            problem = error if isinstance(error, Problem) else from_error(error)
            self.outcome = OUTCOME[problem.type]
            self._sent = await refuse(self._send, self.body, problem, self.identity)
        except asyncio.CancelledError:
            self.outcome = CLIENT_CLOSED
            raise
        except Exception as error:
            self.outcome = OUTCOME["internal"]
            self._runtime.log.error(
                "a call failed", request_id=self.identity.decode(), error=type(error).__qualname__, at=where(error)
            )
            if not self._started:
                self._sent = await refuse(self._send, self.body, Problem("internal"), self.identity)
        finally:
            operation = _operation(scope)
            if operation != "other":
                served = self._runtime.metrics.call(operation)
                counters.move(served)
                counters = served
            counters.finish(self.outcome, begun, self.body.size, self._sent)

    async def _received(self) -> Message:
        self.body.touched = True
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self.body.complete = True
        return message

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            given = {name for name, _ in message["headers"]}
            headers = [*message["headers"], (b"x-request-id", self.identity)]
            headers += [header for header in COMMON if header[0] not in given]
            self._lingers = self.body.abandoned()
            if self._lingers and b"connection" not in given:
                headers.append((b"connection", b"close"))
            await self._send({**message, "headers": headers})
            return
        content = b"" if self._head else message.get("body", b"")
        self._sent += len(content)
        if self._lingers and not message.get("more_body", False):
            await self._send({"type": "http.response.body", "body": content, "more_body": True})
            await self.body.linger()
            content = b""
        await self._send({**message, "body": content})


def _operation(scope: Scope) -> str:
    """Which of the counted operations the route belongs to."""
    name = str(getattr(scope.get("route"), "name", None) or "other")
    name = "operations" if name.startswith(("operations", "docs")) else name
    return name if name in _OPERATIONS else "other"
