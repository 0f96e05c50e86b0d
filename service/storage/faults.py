"""What a database error means, said without repeating any of it: statements and URLs may hold secrets."""

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.errors import StorageUnavailable

_SQLITE = {
    "SQLITE_READONLY": "the database is read-only",
    "SQLITE_FULL": "the disk of the database is full",
    "SQLITE_IOERR": "the disk of the database reports an error",
    "SQLITE_CANTOPEN": "the database file can't be opened",
    "SQLITE_BUSY": "the database is locked by another process",
    "SQLITE_LOCKED": "the database is locked by another process",
    "SQLITE_CORRUPT": "the database file is damaged",
    "SQLITE_NOTADB": "the file is not a database",
    "SQLITE_PERM": "the database file may not be accessed",
    "SQLITE_AUTH": "the database file may not be accessed",
}

# By SQLSTATE, whole or by its class (PostgreSQL's manual, appendix A).
_SQLSTATES = {
    "25006": "the database is read-only",
    "53100": "the disk of the database is full",
    "53300": "the database takes no more connections",
    "57014": "the database did not answer in time",
    "55P03": "the database did not answer in time",
    "42501": "the database does not allow this user to do that",
    "3D000": "there is no such database on the server",
    "08": "the connection to the database was lost",
    "28": "the database does not accept the user or password",
    "53": "the database is out of resources",
    "57": "the database is shutting down or starting",
    "58": "the disk of the database reports an error",
}
_SCHEMA = "the database has no schema or an older one; run: sealane init"


def unavailable(error: SQLAlchemyError) -> StorageUnavailable:
    """The StorageUnavailable that says what `error` means to an operator."""
    return StorageUnavailable(_meaning(error))


def _meaning(error: SQLAlchemyError) -> str:
    if isinstance(error, PoolTimeout):
        return "all connections to the database are busy"
    cause = error.orig if isinstance(error, DBAPIError) else None
    sqlite = getattr(cause, "sqlite_errorname", None)
    if isinstance(sqlite, str):
        # Extended names such as SQLITE_IOERR_WRITE begin with the primary one.
        for name, meaning in _SQLITE.items():
            if sqlite.startswith(name):
                return meaning
        if "no such table" in str(cause) or "no such column" in str(cause):
            return _SCHEMA
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        if state in ("42P01", "42703", "3F000"):
            return _SCHEMA
        return _SQLSTATES.get(state) or _SQLSTATES.get(state[:2]) or "the database refused the operation"
    if isinstance(error, DBAPIError) and sqlite is None:
        return "the database can't be reached"
    return "the database refused the operation"
