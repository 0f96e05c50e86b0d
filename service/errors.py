"""What can go wrong in the service, in its own words; the HTTP side maps each to a problem (RFC 9457).

No error repeats input: details name rules and states, never keys' material, tokens, plaintext or body fragments.
"""


class SealaneError(Exception):
    """Base of all. `slug` is stable and identifies the kind; `title` is fixed per kind; `detail` says more."""

    slug = "error"
    title = "Something went wrong"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title


class Malformed(SealaneError):
    """What came is not of the form that was wanted; the detail says what was wanted."""

    slug = "malformed"
    title = "Malformed input"


class NotAuthenticated(SealaneError):
    """No token, or one that is malformed, unknown, expired or revoked: one answer for all of them."""

    slug = "not-authenticated"
    title = "A valid token is needed"


class NotAllowed(SealaneError):
    """The token may not do this with this key, or there is no such key: one answer for both."""

    slug = "not-allowed"
    title = "This token may not do that, or there is no such key"


class KeyNotFound(SealaneError):
    """There is no such key. Told only to those who may list it: see `Access.hide`."""

    slug = "key-not-found"
    title = "There is no such key"


class TokenNotFound(SealaneError):
    slug = "token-not-found"
    title = "There is no such token"


class KeyExists(SealaneError):
    slug = "key-exists"
    title = "A key of this name exists already"


class WrongKeyType(SealaneError):
    """A key serves one purpose: a MAC key never seals, a sealing key never MACs."""

    slug = "wrong-key-type"
    title = "A key of this type does not serve this purpose"


class DoesNotOpen(SealaneError):
    """One answer for a wrong key, AAD, tag or unknown version, so that nobody learns which it was."""

    slug = "does-not-open"
    title = "It does not open under this key and AAD"


class KeyDeleted(SealaneError):
    """The key is scheduled for deletion and not for use, or its deletion is due and can't be undone."""

    slug = "key-deleted"
    title = "The key is scheduled for deletion"


class LimitReached(SealaneError):
    """The key version has sealed as many messages as it safely may."""

    slug = "limit-reached"
    title = "The key version has sealed as many messages as it may; rotate the key"


class StorageUnavailable(SealaneError):
    slug = "storage-unavailable"
    title = "The storage is not available"


class NeedLease(StorageUnavailable):
    """The leased block of the message count is used up: `await keyring.ensure_lease(key, count)`, then try again."""

    title = "The key has to reserve more of its message count first; try again"


class AuditUnavailable(SealaneError):
    slug = "audit-unavailable"
    title = "The audit trail can't be written, so nothing is served"


class SpoolUnavailable(SealaneError):
    """All that the spool may hold is taken, or its disk is full or fails."""

    slug = "spool-unavailable"
    title = "The spool for streams is full or can't be used"


class UploadNotFound(SealaneError):
    """There is no such upload, or the token may not use it: one answer for both."""

    slug = "upload-not-found"
    title = "There is no such upload"


class UploadGone(SealaneError):
    """It was there, and can't be gone on with: expired, or of an earlier life of the database."""

    slug = "upload-gone"
    title = "The upload can't be gone on with; begin a new one"


class UploadConflict(SealaneError):
    """What the request takes for the state of the upload is not so. `offset`: what it is, if that was asked."""

    def __init__(self, detail: str = "", offset: int | None = None) -> None:
        super().__init__(detail)
        self.offset = offset


class UploadOffset(UploadConflict):
    slug = "upload-offset"
    title = "The upload is at another offset"


class UploadCompleted(UploadConflict):
    slug = "upload-completed"
    title = "The upload is complete already"


class UploadSuperseded(UploadConflict):
    slug = "upload-superseded"
    title = "Another request took this upload over"


class UploadLength(SealaneError):
    """Offset and length of the upload disagree with each other or with what was said before."""

    slug = "upload-length"
    title = "The length of the upload is not what was said"


class TooMany(SealaneError):
    slug = "too-many"
    title = "Too many requests"


class TooLarge(SealaneError):
    slug = "too-large"
    title = "Too large"


class Conflict(SealaneError):
    slug = "conflict"
    title = "The state of the resource does not allow this"


class SetupError(SealaneError):
    """The installation is not fit to serve; the detail ends with the command that mends it."""

    slug = "setup"
    title = "Sealane is not set up"


class MasterKeyError(SetupError):
    slug = "master-key"
    title = "The master key can't be used"
