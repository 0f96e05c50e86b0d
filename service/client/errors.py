"""Error answers (RFC 9457) as exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx
import msgspec

_TYPE_PREFIX = "urn:sealane:problem:"
UNKNOWN = "unknown"
#: What answers without a body mean where the client asks after an upload.
_OF_HEAD = {
    401: {"type": "not-authenticated", "title": "A valid token is needed"},
    404: {"type": "upload-not-found", "title": "There is no such upload"},
    410: {"type": "upload-gone", "title": "The upload can't be gone on with; begin a new one"},
}


class ServiceError(Exception):
    """An error answer: its HTTP `status`, the stable `slug` of its type, and `title` and `detail` for a person."""

    slug: str = UNKNOWN
    _by_slug: ClassVar[dict[str, type[ServiceError]]] = {}

    def __init__(self, status: int, slug: str, title: str, detail: str) -> None:
        super().__init__(f"{title}: {detail}" if detail and detail != title else title)
        self.status = status
        self.slug = slug
        self.title = title
        self.detail = detail

    def __init_subclass__(cls) -> None:
        ServiceError._by_slug[cls.slug] = cls

    @staticmethod
    def of(problem: Mapping[str, Any]) -> ServiceError:
        """The error for a problem object; of the subclass for its type if there is one."""
        slug = str(problem.get("type", UNKNOWN)).removeprefix(_TYPE_PREFIX)
        error = ServiceError._by_slug.get(slug, ServiceError)
        title, detail = str(problem.get("title", "unknown problem")), str(problem.get("detail", ""))
        return error(int(problem.get("status", 0)), slug, title, detail)

    @staticmethod
    def from_response(response: httpx.Response) -> ServiceError:
        """The error that a response which was read, and has no 2xx status, stands for."""
        if response.headers.get("content-type", "").startswith("application/problem+json"):
            try:
                problem = msgspec.json.decode(response.content, type=dict[str, Any])
                return ServiceError.of({"status": response.status_code, **problem})
            except (msgspec.MsgspecError, ValueError):
                pass
        if response.request.method == "HEAD" and response.status_code in _OF_HEAD:
            return ServiceError.of({"status": response.status_code, **_OF_HEAD[response.status_code]})
        # Not the service's own: a proxy's, or another server altogether. Its body is nothing to show.
        return ServiceError(response.status_code, UNKNOWN, f"the answer was HTTP {response.status_code}", "")


class Malformed(ServiceError):
    """What was sent is not of the form that is wanted; `detail` says what is."""

    slug = "malformed"


class WrongKeyType(ServiceError):
    """A MAC key was asked to seal or open, or a sealing key to MAC or verify."""

    slug = "wrong-key-type"


class NotAuthenticated(ServiceError):
    """The token is malformed, unknown, expired or revoked."""

    slug = "not-authenticated"


class NotAllowed(ServiceError):
    """The token may not do that, or there is no such key."""

    slug = "not-allowed"


class KeyNotFound(ServiceError):
    """There is no such key; said only to tokens that may list it."""

    slug = "key-not-found"


class KeyExists(ServiceError):
    """A key of this name exists already."""

    slug = "key-exists"


class KeyDeleted(ServiceError):
    """The key is scheduled for deletion."""

    slug = "key-deleted"


class LimitReached(ServiceError):
    """The key version has sealed as many messages as it may; rotate the key."""

    slug = "limit-reached"


class TooLarge(ServiceError):
    """The body is larger than the service takes."""

    slug = "too-large"


class DoesNotOpen(ServiceError):
    """Wrong key, AAD, tag or unknown version, and nobody learns which."""

    slug = "does-not-open"


class UploadNotFound(ServiceError):
    """There is no such upload, or the token may not use it."""

    slug = "upload-not-found"


class UploadGone(ServiceError):
    """The upload expired, or the service was set back: begin a new one."""

    slug = "upload-gone"
