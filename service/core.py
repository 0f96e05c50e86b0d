"""One worker's service without HTTP: storage, master key, keys, tokens, uploads and audit trail, wired together."""

import asyncio

from service.access import Access
from service.audit import AUDIT_KEY, AuditTrail
from service.follower import Follower
from service.keyring import Keyring
from service.leases import Leases
from service.master import MasterKey, load_master_key, service_key, wipe
from service.settings import Settings
from service.storage import Database
from service.storage.schema import check_schema
from service.uploads import Uploads


class Core:
    """`Core.open(settings)` for checks that block, `await start()` in the worker's loop, `await stop()` at the end."""

    def __init__(self, settings: Settings, database: Database, master: MasterKey, audit: AuditTrail) -> None:
        self.settings = settings
        self.database = database
        self.master = master
        self.audit = audit
        self.follower = Follower(database, interval=settings.poll_interval, max_staleness=settings.max_staleness)
        self.access = Access(database, self.follower, audit)
        leases = Leases(database, horizon=settings.max_staleness)
        self.keyring = Keyring(database, master, self.follower, audit, leases, deletion_delay=settings.deletion_delay)
        self.uploads = Uploads(database, master, self.keyring, self.follower, settings)
        self.follower.add_chore(audit.follow_rotation, always=True)

    @classmethod
    def open(cls, settings: Settings) -> "Core":
        """SetupError if the schema is not this release's, MasterKeyError (one of those) for a missing, exposed or wrong
        master key, StorageUnavailable, AuditUnavailable. Their details say what to do."""
        database = Database(settings.database_url.get_secret_value())
        try:
            check_schema(database)
            master = load_master_key(
                database,
                settings.master_key_file,
                group_readable=settings.master_key_group_readable,
                other=settings.master_key_other_file,
            )
            key = service_key(database, master, AUDIT_KEY)
            audit = AuditTrail(key, settings.audit_file, sync=settings.audit_sync)
            wipe(key)
            audit.open()
        except BaseException:
            database.close()
            raise
        return cls(settings, database, master, audit)

    async def start(self) -> None:
        """Loads everything, then follows the storage. StorageUnavailable."""
        await self.follower.start()

    async def stop(self) -> None:
        await self.uploads.stop()
        await self.follower.stop()
        await self.keyring.stop()
        self.audit.close()
        await asyncio.to_thread(self.database.close)
