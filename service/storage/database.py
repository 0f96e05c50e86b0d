"""Connections and transactions, on SQLite or PostgreSQL, with one meaning for every fault."""

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, create_engine, event, select, text, update
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from service.errors import SetupError, StorageUnavailable
from service.storage.faults import unavailable
from service.storage.models import StateRow

T = TypeVar("T")

_WRITE: Final = "sealane_write"
_DURABLE: Final = "sealane_durable"
_ALONE: Final = "sealane_alone"
_NAMED: Final = re.compile(r":(\w+)")
_THREADS: Final = 4

# FULL: a key that was handed out must survive a power cut, or what it sealed is lost. secure_delete: destroyed key
# material does not linger in free pages.
_PRAGMAS = (
    "busy_timeout=5000",
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
    "trusted_schema=OFF",
)

# Seconds and milliseconds after which a PostgreSQL server counts as gone; well under the staleness limit.
_POSTGRES_ARGUMENTS = {
    "connect_timeout": 3,
    "options": "-c statement_timeout=5000 -c lock_timeout=4000 -c idle_in_transaction_session_timeout=10000",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
    "application_name": "sealane",
}


class Database:
    """One per process; its methods block, so the service calls them in threads.

    `url`: an SQLAlchemy URL. SetupError if it is none, or names another database than SQLite or PostgreSQL.
    """

    def __init__(self, url: str) -> None:
        self.url = _checked(url)
        self.file = Path(self.url.database or "") if self.is_sqlite else None
        self._identity: tuple[int, int] | None = None
        self._alone: Connection | None = None
        self._alone_identity: tuple[int, int] | None = None
        self._alone_lock = Lock()
        self._engine = self._connect()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sealane-storage")

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @property
    def place(self) -> str:
        """Where it is, without user and password, for messages to the operator."""
        return str(self.file) if self.file else f"{self.url.host or 'local'}/{self.url.database}"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading. StorageUnavailable if the database fails."""
        with self._session(write=False) as session:
            yield session

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Session]:
        """A transaction, committed at the end and undone as a whole by any exception.

        Not `durable`: it need not be on disk when this returns. It survives the end of this process, but a power cut
        may undo it; later durable ones never survive without it.
        StorageUnavailable if the database fails. IntegrityError is let through: it is an answer, not a fault.
        """
        with self._session(write=True, durable=durable) as session:
            if not durable and not self.is_sqlite:
                session.execute(text("SET LOCAL synchronous_commit TO OFF"))
            yield session

    @contextmanager
    def change(self) -> Iterator[tuple[Session, int]]:
        """A `write` with a revision of its own. Changes are in line: one at a time, in the order of revisions."""
        with self.write() as session:
            session.execute(update(StateRow).where(StateRow.id == 1).values(revision=StateRow.revision + 1))
            revision = session.scalar(select(StateRow.revision).where(StateRow.id == 1))
            if revision is None:
                raise StorageUnavailable("the database is empty; run: sealane init")
            yield session, revision

    def update_alone(self, statement: str, values: dict[str, Any]) -> int:
        """One UPDATE as a transaction of its own, for what is written often; how many rows it changed. It is not
        durable, as `write` says. `statement` names its values as `:name`. StorageUnavailable."""
        if not self.is_sqlite:
            statement = _NAMED.sub(r"%(\1)s", statement)
        with self.translated(), self._alone_lock:
            self._check_file()
            try:
                return self._execute_alone(statement, values)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The connection may have died while nobody used it. Whether the statement took effect is not known:
                # it must say by what it changes that it may be tried again.
                return self._execute_alone(statement, values)

    def _execute_alone(self, statement: str, values: dict[str, Any]) -> int:
        """On a connection that is kept: taking one from the pool costs more than the statement does."""
        if self._alone is None or self._alone_identity != self._identity:
            self._alone = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT", **{_ALONE: True})
            self._alone_identity = self._identity
            cheap = "PRAGMA synchronous=NORMAL" if self.is_sqlite else "SET synchronous_commit TO OFF"
            self._alone.exec_driver_sql(cheap)
        try:
            return self._alone.exec_driver_sql(statement, values).rowcount
        except BaseException:
            broken, self._alone = self._alone, None
            broken.invalidate()
            broken.close()
            raise

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A bare connection in a writing transaction, for migrations."""
        with self.translated(), self._engine.execution_options(**{_WRITE: True}).begin() as connection:
            self._check_file()
            yield connection

    def truncate_log(self) -> None:
        """Empties SQLite's write-ahead log into the database, so that overwritten material is not left there."""
        if self.is_sqlite:
            with self.translated(), self._engine.connect() as connection:
                raw = connection.connection.driver_connection
                assert isinstance(raw, sqlite3.Connection)
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def call(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs blocking work in a thread of the database's own: one that hangs must not hold up those who compute."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def close(self) -> None:
        """Closes connections; work that hangs is left to its time-outs."""
        self._threads.shutdown(wait=False)
        if self._alone_lock.acquire(timeout=1):
            if self._alone is not None:
                self._alone.close()
                self._alone = None
            self._alone_lock.release()
        self._engine.dispose()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns SQLAlchemy's errors into StorageUnavailable."""
        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise unavailable(error) from None

    @contextmanager
    def _session(self, *, write: bool, durable: bool = True) -> Iterator[Session]:
        with self.translated():
            self._check_file()
            connection = self._engine.connect().execution_options(**{_WRITE: write, _DURABLE: durable})
            with connection, Session(connection, expire_on_commit=False) as session, session.begin():
                yield session
                # Flushed here, so that a fault on the way is told from one while committing.
                session.flush()

    def _check_file(self) -> None:
        """SQLite goes on happily with a file that was deleted or replaced, and what it writes there is lost."""
        if self.file is None:
            return
        try:
            status = os.stat(self.file)
        except FileNotFoundError:
            raise StorageUnavailable("the database file is gone, or was never made by: sealane init") from None
        except OSError:
            raise StorageUnavailable("the database file can't be opened") from None
        identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        elif self._identity != identity:
            # Another file took its place: old connections see the old one.
            self._engine.dispose()
            self._identity = identity

    def _connect(self) -> Engine:
        if self.is_sqlite:
            # rw: a file that is gone is an error, never an empty database made anew.
            uri = URL.create("sqlite", database=f"file:{self.file}", query={"mode": "rw", "uri": "true"})
            engine = create_engine(uri, hide_parameters=True, pool_size=_THREADS, max_overflow=4, pool_timeout=5)
            event.listen(engine, "connect", _configure_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        try:
            return create_engine(
                self.url,
                hide_parameters=True,
                connect_args=_POSTGRES_ARGUMENTS,
                pool_size=_THREADS,
                max_overflow=4,
                pool_timeout=5,
                # A connection that died while idle is replaced without an error.
                pool_pre_ping=True,
            )
        except ModuleNotFoundError:
            raise SetupError("PostgreSQL needs its driver; run: pip install 'sealane[postgres]'") from None


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise SetupError("SEALANE_DATABASE_URL is not a URL; wanted sqlite:////path or postgresql://...") from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise SetupError("SEALANE_DATABASE_URL must begin with sqlite: or postgresql:")
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise SetupError("SEALANE_DATABASE_URL must name a file: sqlite:////path/sealane.db")
    return parsed


def _configure_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    # The driver must not open or close transactions by itself: `_begin_sqlite` does.
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE: a writer waits for its turn at the start instead of failing in the middle.
    options: dict[str, Any] = dict(connection.get_execution_options())
    if options.get(_ALONE):
        return
    if options.get(_WRITE):
        # With a write-ahead log, NORMAL leaves the syncing to the next durable commit.
        connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if options.get(_DURABLE, True) else 'NORMAL'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("BEGIN")
