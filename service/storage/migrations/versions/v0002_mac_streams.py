"""MACs over uploads that pause and resume."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "mac_streams",
        sa.Column("id", sa.String(26), primary_key=True),
        sa.Column("key_name", sa.String(128), sa.ForeignKey("keys.name"), nullable=False, index=True),
        sa.Column("key_uid", sa.String(32), nullable=False),
        sa.Column("key_version", sa.BigInteger, nullable=False),
        sa.Column("verifies", sa.Boolean, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("length", sa.BigInteger),
        sa.Column("claim", sa.LargeBinary(16)),
        sa.Column("origin", sa.String(128), nullable=False),
        sa.Column("master_key_id", sa.Integer, sa.ForeignKey("master_keys.id"), nullable=False),
        sa.Column("state", sa.LargeBinary),
        sa.Column("result", sa.LargeBinary),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=False, index=True),
    )


def downgrade() -> None:
    op.drop_table("mac_streams")
