"""Brings the database to this release's schema, and tells whether it is there."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from service.errors import SetupError
from service.storage.database import Database

# Any fixed number: two replicas that start at once must not both migrate.
_ADVISORY_LOCK = 0x5EA1A4E
_MIGRATIONS = Path(__file__).parent / "migrations"


def _config() -> Config:
    config = Config()
    # Configuration values go through %-interpolation.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


def migrate(connection: Connection) -> None:
    """Runs the missing migrations inside the connection's transaction, so that they happen as a whole or not at all."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check_schema(database: Database) -> None:
    """SetupError, with the command that mends it, unless the schema is this release's. StorageUnavailable."""
    script = ScriptDirectory.from_config(_config())
    with database.read() as session:
        found = MigrationContext.configure(session.connection()).get_current_revision()
    if found == script.get_current_head():
        return
    if found is None:
        raise SetupError(f"the database at {database.place} has no schema; run: sealane init")
    if any(revision.revision == found for revision in script.walk_revisions()):
        raise SetupError(f"the database at {database.place} has an older schema; run: sealane init")
    raise SetupError(
        f"the database at {database.place} was made by a newer release; upgrade: pip install --upgrade sealane"
    )
