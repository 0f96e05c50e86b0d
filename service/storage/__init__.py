"""Keys, tokens and the audit trail at rest: SQLAlchemy over SQLite or PostgreSQL. Knows nothing of HTTP."""

from service.storage.database import Database
from service.storage.models import (
    AuditRow,
    KeyRow,
    KeyVersionRow,
    MacStreamRow,
    MasterKeyRow,
    ServiceKeyRow,
    StateRow,
    TokenRow,
)

__all__ = [
    "AuditRow",
    "Database",
    "KeyRow",
    "KeyVersionRow",
    "MacStreamRow",
    "MasterKeyRow",
    "ServiceKeyRow",
    "StateRow",
    "TokenRow",
]
