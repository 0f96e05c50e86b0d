"""Settings, from `SEALANE_*` variables. `SEALANE_ENGINE` is the engine's own and read by it at import."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

Seconds = Annotated[float, Field(gt=0)]
DEV_FOLDER = Path(".dev")


class Settings(BaseSettings):
    """Every setting with its default. Times are in seconds, sizes in bytes."""

    # Validation errors must not repeat values: one of them may be a password in a URL.
    model_config = SettingsConfigDict(env_prefix="SEALANE_", hide_input_in_errors=True, extra="ignore", frozen=True)

    # Storage and master key
    database_url: SecretStr = Field(
        default=SecretStr("sqlite:////var/lib/sealane/sealane.db"),
        description="SQLAlchemy URL: sqlite:////absolute/path.db, or postgresql://user:password@host/database",
    )
    master_key_file: Path = Field(
        default=Path("/etc/sealane/master.key"), description="32 bytes, readable by the service's user alone"
    )
    master_key_group_readable: bool = Field(
        default=False,
        description="accept a master key file that its group may read (Kubernetes secrets under an fsGroup)",
    )
    master_key_other_file: Path | None = Field(
        default=None, description="while the master key is rotated, the other one: it unwraps and wraps nothing"
    )
    poll_interval: Seconds = Field(default=0.5, le=60, description="how often a worker asks for changes")
    max_staleness: Seconds = Field(
        default=300, description="how long loaded keys and tokens serve on when the database is lost"
    )
    deletion_delay: float = Field(
        default=7 * 86400, ge=0, description="from scheduling a key's deletion to its destruction"
    )

    # Audit trail of calls (that of changes is always in the database)
    audit_file: Path | None = Field(default=None, description="one JSON line per call is appended here")
    audit_sync: bool = Field(default=False, description="a call is answered only once its line is on disk (fdatasync)")

    # MACs over uploads that pause and resume
    upload_lifetime: Seconds = Field(default=86400, description="from an upload's creation until it can't be resumed")
    upload_retention: Seconds = Field(default=3600, description="how long the result of a complete upload is told")
    upload_checkpoint_bytes: int = Field(default=2**20, ge=1, description="after so many bytes the state is stored")
    upload_checkpoint_seconds: Seconds = Field(default=5, description="or after so long, if bytes came")
    max_uploads: int = Field(default=10_000, ge=1, description="uploads that may be open at once in all")

    # Server
    host: str = "127.0.0.1"
    port: int = Field(default=8417, ge=0, le=65535)
    workers: int = Field(default=0, ge=0, description="0: one per CPU that the process may use")
    root_path: str = ""
    max_message_bytes: int = Field(default=32 * 2**20, ge=1, description="largest body of a message call")
    max_batch_items: int = Field(default=10_000, ge=1)
    header_timeout: Seconds = 10
    body_timeout: Seconds = Field(default=30, description="longest wait for the next piece of a body")
    body_min_rate: int = Field(
        default=1024, ge=0, description="bytes a second; a body that was awaited for body_timeout may not be slower"
    )
    keep_alive_timeout: Seconds = Field(default=75, description="how long an idle connection is kept")
    readiness_delay: float = Field(
        default=0, ge=0, description="after SIGTERM, how long readiness fails before the listeners close"
    )
    drain_timeout: Seconds = Field(default=30, description="longest wait for requests in flight after SIGTERM")
    max_streams: int = Field(default=256, ge=1, description="sealed streams that a worker serves at once")
    spool_folder: Path = Field(
        default=Path("/var/lib/sealane/spool"),
        description="ciphertext that waits for its verification or its reader; on a disk, not in memory",
    )
    spool_stream_bytes: int = Field(default=16 * 2**30, ge=2**20, description="most of one stream in the spool")
    spool_total_bytes: int = Field(
        default=64 * 2**30, ge=2**20, description="most of all streams in the spool, of all workers that share it"
    )
    fused_writes: bool = Field(default=True, description="send response head and body in one write where uvicorn fits")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    # Development
    dev: bool = False
    dev_folder: Path = DEV_FOLDER
    dev_token: SecretStr | None = None


def dev_settings(settings: Settings) -> Settings:
    """`settings` for `serve --dev`: SQLite and a master key in `dev_folder`, whatever else was set."""
    folder = settings.dev_folder.absolute()
    return settings.model_copy(
        update={
            "dev": True,
            "database_url": SecretStr(f"sqlite:///{folder / 'sealane.db'}"),
            "master_key_file": folder / "master.key",
            "spool_folder": folder / "spool",
        }
    )
