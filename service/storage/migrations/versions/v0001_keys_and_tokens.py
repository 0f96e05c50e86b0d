"""Keys, tokens, the master key's check value and the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("installation", sa.String(32), nullable=False),
    )
    op.create_table(
        "master_keys",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("check_value", sa.LargeBinary, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "service_keys",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("master_key_id", sa.Integer, sa.ForeignKey("master_keys.id"), nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("uid", sa.String(32), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("current", sa.BigInteger, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("delete_at", _MOMENT),
        sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "key_versions",
        sa.Column("key_name", sa.String(128), sa.ForeignKey("keys.name"), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("uid", sa.String(32), nullable=False),
        sa.Column("master_key_id", sa.Integer, sa.ForeignKey("master_keys.id"), nullable=False),
        sa.Column("wrapped", sa.LargeBinary),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("destroyed_at", _MOMENT),
        sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False, unique=True),
        sa.Column("grants", sa.JSON, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT),
        sa.Column("revoked_at", _MOMENT),
        sa.Column("revision", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "audit",
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("actor", sa.String(192), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(192), nullable=False),
        sa.Column("version", sa.BigInteger),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("request_id", sa.String(128)),
        sa.Column("mac", sa.LargeBinary(32), nullable=False),
    )


def downgrade() -> None:
    for table in ("audit", "tokens", "key_versions", "keys", "service_keys", "master_keys", "state"):
        op.drop_table(table)
