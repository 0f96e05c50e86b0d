"""The header fields of resumable uploads (draft-ietf-httpbis-resumable-upload): Items and Dictionaries of RFC 9651.

A value of another type is as good as none, so says the draft.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from service.problems import malformed
from service.upload_rows import Progress
from service.wire import HeaderList, Headers, declared_length

PARTIAL: Final = b"application/partial-upload"

# An item may carry parameters, which mean nothing here.
_INTEGER: Final = re.compile(rb" *(\d{1,15})(?:;.*)? *").fullmatch
_BOOLEAN: Final = re.compile(rb" *\?([01])(?:;.*)? *").fullmatch


def offset_of(headers: Headers) -> int:
    """Upload-Offset, which must be there."""
    offset = _integer(headers.get(b"upload-offset"))
    if offset is None:
        raise malformed("wanted the header Upload-Offset: the number of bytes that the upload has")
    return offset


def complete_of(headers: Headers) -> bool | None:
    """Upload-Complete: whether the upload ends with this request; None without it."""
    found = _BOOLEAN(headers.get(b"upload-complete", b""))
    return None if found is None else found[1] == b"1"


def length_of(headers: Headers, offset: int, complete: bool) -> int | None:
    """How long the whole upload is, if the request says so in Upload-Length or by its own length."""
    length = _integer(headers.get(b"upload-length"))
    rest = declared_length(headers) if complete and b"transfer-encoding" not in headers else None
    if rest is None:
        return length
    if length not in (None, offset + rest):
        raise malformed("wanted Upload-Length to be what Upload-Offset and Content-Length come to")
    return offset + rest


def state_headers(progress: Progress) -> HeaderList:
    """What an answer says of an upload's state; never its result."""
    left = max(0, int((progress.expires_at - datetime.now(UTC)).total_seconds()))
    headers = [
        (b"upload-offset", b"%d" % progress.offset),
        (b"upload-complete", b"?1" if progress.complete else b"?0"),
        (b"upload-limit", b"max-age=%d" % left),
    ]
    if progress.length is not None:
        headers.append((b"upload-length", b"%d" % progress.length))
    return headers


def _integer(text: bytes | None) -> int | None:
    found = None if text is None else _INTEGER(text)
    return None if found is None else int(found[1])
