"""The store in a PostgreSQL database."""

from collections.abc import Callable
from typing import Literal

from outlast.stores.postgres.alerts import PostgresAlerts
from outlast.stores.postgres.connection import PostgresDatabase
from outlast.stores.postgres.counters import PostgresCounters
from outlast.stores.postgres.dead_letters import PostgresDeadLetters
from outlast.stores.postgres.external_attempts import PostgresEngineTasks
from outlast.stores.postgres.flow_control import PostgresFlowControl
from outlast.stores.postgres.jobs import PostgresJobs
from outlast.stores.postgres.notify import NotifyListener, NotifyThrottle
from outlast.stores.postgres.reads import PostgresReads
from outlast.stores.postgres.schema import PostgresSchema
from outlast.stores.postgres.sources import PostgresSources
from outlast.stores.postgres.tasks import PostgresTasks
from outlast.stores.postgres.workers import PostgresWorkers


class PostgresStore(
    PostgresTasks,
    PostgresEngineTasks,
    PostgresWorkers,
    PostgresAlerts,
    PostgresJobs,
    PostgresSchema,
    PostgresFlowControl,
    PostgresDeadLetters,
    PostgresSources,
    PostgresReads,
    PostgresCounters,
):
    """All protocols in one database, which many machines can share. The server's clock counts.

    Args:
        url: ``postgresql://user:password@host:5432/database``. The store connects on first use.
        schema: Schema of the tables; None for the one in the URL, ``?schema=…``, or else ``outlast``.
        min_size: Connections that are kept open.
        max_size: Maximum number of connections, without one that listens and one for the lock of each running job.
        prepare_threshold: Number of executions after which a statement is prepared; None for never. The default is 5,
            or never behind a pooler such as PgBouncer. Pass a number if your pooler supports prepared statements.
        pooled: Whether a pooler may switch sessions between transactions. Then a job lock keeps a transaction open.
            None detects a pooler; pass False for a pooler in session mode.
    """

    poll = 1.0
    """Seconds between two polls of an idle worker that is not notified."""
    rescue_every = 5.0
    """Seconds between two searches for workers whose lease has expired."""
    in_process = False
    """Whether other processes cannot see the data."""

    db: PostgresDatabase

    def __init__(
        self,
        url: str,
        *,
        schema: str | None = None,
        min_size: int = 1,
        max_size: int = 10,
        prepare_threshold: int | Literal["auto"] | None = "auto",
        pooled: bool | None = None,
    ) -> None:
        self.db = PostgresDatabase(url, schema, min_size, max_size, prepare_threshold, pooled=pooled)
        self.location = self.db.location()
        self.notify_throttle = NotifyThrottle(self.db.notify)
        self.job_locks = []

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function when tasks have been enqueued on any machine; return a function that ends this."""
        return NotifyListener(self.db, wake).end

    def receives_move(self) -> bool:
        """Return whether a SQLite file is being moved to these tables."""
        return bool(self.db.value("receives_move"))

    def close(self) -> None:
        """Close all connections, including those that hold job locks."""
        self.db.close()
        while self.job_locks:
            self.job_locks.pop().release()
