"""Alembic's entry: migrates over the connection that `service.storage.schema.migrate` hands in."""

from alembic import context

from service.storage.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite can undo DDL too, since the driver is kept from committing by itself.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
