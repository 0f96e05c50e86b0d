"""The tables. Rows double as plain records: they are read whole, detached, and never loaded lazily."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    DateTime,
    Dialect,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetimes in UTC on every database: SQLite has no time zones, so they are put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    pass


class StateRow(Base):
    """One row. Every change first adds one to `revision`, which also locks out other changes until it commits:
    so revisions commit in order, and whoever has seen revision n needs only rows with a higher one."""

    __tablename__ = "state"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(BigInteger)
    installation: Mapped[str] = mapped_column(String(32))


class MasterKeyRow(Base):
    """A master key that this database knows, by a check value that only that key opens."""

    __tablename__ = "master_keys"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    check_value: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ServiceKeyRow(Base):
    """A key of the service itself (not of its callers), wrapped like any key version."""

    __tablename__ = "service_keys"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    master_key_id: Mapped[int] = mapped_column(ForeignKey("master_keys.id"))
    wrapped: Mapped[bytes] = mapped_column(LargeBinary)


class KeyRow(Base):
    """One row per name for ever: a destroyed key's row remembers its last version, so that none is used twice."""

    __tablename__ = "keys"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    uid: Mapped[str] = mapped_column(String(32))
    type: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16))
    current: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    delete_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revision: Mapped[int] = mapped_column(BigInteger, index=True)


class KeyVersionRow(Base):
    """`uid` ties the version to one life of its key's name; `wrapped` is emptied when the version is destroyed.
    `reserved` counts the messages that workers have leased, used or not."""

    __tablename__ = "key_versions"

    key_name: Mapped[str] = mapped_column(ForeignKey("keys.name"), primary_key=True)
    version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    uid: Mapped[str] = mapped_column(String(32))
    master_key_id: Mapped[int] = mapped_column(ForeignKey("master_keys.id"))
    wrapped: Mapped[bytes | None] = mapped_column(LargeBinary)
    reserved: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    destroyed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revision: Mapped[int] = mapped_column(BigInteger, index=True)


class MacStreamRow(Base):
    """A MAC over an upload. While the upload is open it has a wrapped `state`, at `position` bytes; once it is
    complete, a wrapped `result` instead: never both. `claim` names the request that may change the row now.
    `origin` tells in which life of the database it was made; see `service.storage.mac_streams`."""

    __tablename__ = "mac_streams"

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    key_name: Mapped[str] = mapped_column(ForeignKey("keys.name"), index=True)
    key_uid: Mapped[str] = mapped_column(String(32))
    key_version: Mapped[int] = mapped_column(BigInteger)
    verifies: Mapped[bool] = mapped_column(Boolean)
    position: Mapped[int] = mapped_column(BigInteger)
    length: Mapped[int | None] = mapped_column(BigInteger)
    claim: Mapped[bytes | None] = mapped_column(LargeBinary(16))
    origin: Mapped[str] = mapped_column(String(128))
    master_key_id: Mapped[int] = mapped_column(ForeignKey("master_keys.id"))
    state: Mapped[bytes | None] = mapped_column(LargeBinary)
    result: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class TokenRow(Base):
    """`hash` is SHA-256 of the token, which itself is stored nowhere."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    hash: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    grants: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revision: Mapped[int] = mapped_column(BigInteger, index=True)


class AuditRow(Base):
    """One change. Its `revision` is the change's own, so a missing number is a missing row; `mac` chains it to the
    row before."""

    __tablename__ = "audit"

    revision: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    actor: Mapped[str] = mapped_column(String(192))
    action: Mapped[str] = mapped_column(String(32))
    subject: Mapped[str] = mapped_column(String(192))
    version: Mapped[int | None] = mapped_column(BigInteger)
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
    request_id: Mapped[str | None] = mapped_column(String(128))
    mac: Mapped[bytes] = mapped_column(LargeBinary(32))
