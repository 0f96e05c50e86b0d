"""Problems as RFC 9457 describes them: every error answer of the service is one of the kinds listed here.

Details are written by us and name rules; nothing that came in a request may go into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from service.errors import SealaneError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:sealane:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """A stable kind of problem: `slug` ends its `type` URN, `title` never varies, `status` is its HTTP status."""

    slug: str
    status: int
    title: str

    @property
    def type(self) -> str:
        return TYPE_PREFIX + self.slug


KINDS: dict[str, Kind] = {
    kind.slug: kind
    for kind in (
        Kind("malformed", 400, "Malformed input"),
        Kind("upload-length", 400, "The length of the upload is not what was said"),
        Kind("wrong-key-type", 400, "A key of this type does not serve this purpose"),
        Kind("not-authenticated", 401, "A valid token is needed"),
        Kind("not-allowed", 403, "This token may not do that, or there is no such key"),
        Kind("not-found", 404, "There is nothing here"),
        Kind("key-not-found", 404, "There is no such key"),
        Kind("token-not-found", 404, "There is no such token"),
        Kind("upload-not-found", 404, "There is no such upload"),
        Kind("method-not-allowed", 405, "This method is not allowed here"),
        Kind("body-too-slow", 408, "The body came too slowly"),
        Kind("key-exists", 409, "A key of this name exists already"),
        Kind("key-deleted", 409, "The key is scheduled for deletion"),
        Kind("limit-reached", 409, "The key version has sealed as many messages as it may; rotate the key"),
        Kind("conflict", 409, "The state of the resource does not allow this"),
        Kind("upload-offset", 409, "The upload is at another offset"),
        Kind("upload-completed", 409, "The upload is complete already"),
        Kind("upload-superseded", 409, "Another request took this upload over"),
        Kind("upload-gone", 410, "The upload can't be gone on with; begin a new one"),
        Kind("too-large", 413, "Too large"),
        Kind("batch-too-large", 413, "Too many items in one batch"),
        Kind("unsupported-media-type", 415, "This media type is not served here"),
        Kind("does-not-open", 422, "It does not open under this key and AAD"),
        Kind("too-many", 429, "Too many requests"),
        Kind("internal", 500, "The service failed"),
        Kind("not-ready", 503, "The service is not ready"),
        Kind("draining", 503, "The service is shutting down"),
        Kind("storage-unavailable", 503, "The storage is not available"),
        Kind("spool-unavailable", 503, "The spool for streams is full or can't be used"),
        Kind("audit-unavailable", 503, "The audit trail can't be written, so nothing is served"),
    )
}

RETRY_AFTER = {"too-many": "1", "not-ready": "1", "draining": "1", "storage-unavailable": "1", "audit-unavailable": "5",
               "spool-unavailable": "5"}  # fmt: skip


class Problem(Exception):
    """An error answer. `detail` is for a person; `extra` are further members; `headers` go with the response."""

    def __init__(
        self, slug: str, detail: str = "", *, headers: dict[str, str] | None = None, close: bool = False, **extra: Any
    ) -> None:
        self.kind = KINDS[slug]
        super().__init__(detail or self.kind.title)
        self.detail = detail or self.kind.title
        self.headers = headers or {}
        self.close = close
        self.extra = extra

    @property
    def status(self) -> int:
        return self.kind.status

    @property
    def type(self) -> str:
        return self.kind.slug

    @property
    def title(self) -> str:
        return self.kind.title

    def members(self) -> dict[str, Any]:
        """The members of the problem object: type, title, status, detail and what is particular to it."""
        kind = self.kind
        return {"type": kind.type, "title": kind.title, "status": kind.status, "detail": self.detail, **self.extra}

    def body(self) -> bytes:
        return msgspec.json.encode(self.members())

    def all_headers(self) -> dict[str, str]:
        """Headers that this kind of answer owes the client, and its own."""
        owed: dict[str, str] = {}
        if self.kind.status == 401:
            owed["www-authenticate"] = 'Bearer realm="sealane"'
        if self.kind.slug in RETRY_AFTER:
            owed["retry-after"] = RETRY_AFTER[self.kind.slug]
        if self.close:
            owed["connection"] = "close"
        return owed | self.headers


def from_error(error: SealaneError) -> Problem:
    """The problem for an error of the domain; one of an unlisted kind is our own failure and says nothing."""
    return Problem(error.slug, error.detail) if error.slug in KINDS else Problem("internal")


def malformed(detail: str, **extra: Any) -> Problem:
    """400: `detail` says what was wanted."""
    return Problem("malformed", detail, **extra)


def too_large(limit: int) -> Problem:
    """413 for a body of more than `limit` bytes; the rest of it is not waited for."""
    return Problem("too-large", f"a body here may have at most {limit} bytes", close=True, limit=limit)


def unsupported_media_type(*wanted: str) -> Problem:
    """415 that names the media types which are served."""
    return Problem("unsupported-media-type", "send Content-Type: " + " or ".join(wanted), accepted=list(wanted))


def method_not_allowed(allow: str) -> Problem:
    """405 with the methods that are allowed, as in the Allow header."""
    return Problem("method-not-allowed", f"allowed here: {allow}", headers={"allow": allow})
