"""The store in a PostgreSQL database."""

from collections.abc import Callable
from typing import Literal

from outlast.stores.postgres.alerts import PostgresAlerts
from outlast.stores.postgres.connection import PostgresDatabase
from outlast.stores.postgres.counters import PostgresCounterRepair, PostgresRollup
from outlast.stores.postgres.dead_letters import PostgresDeadLetters, PostgresTriage
from outlast.stores.postgres.flow_control import (
    PostgresBreakers,
    PostgresCooldowns,
    PostgresLimits,
    PostgresPeriodic,
    PostgresQueues,
)
from outlast.stores.postgres.jobs import PostgresJobs
from outlast.stores.postgres.notify import NotifyListener, NotifyThrottle
from outlast.stores.postgres.reads import PostgresLists, PostgresReads
from outlast.stores.postgres.schema import PostgresSchema
from outlast.stores.postgres.sources import PostgresCycles, PostgresSources
from outlast.stores.postgres.tasks import PostgresTasks
from outlast.stores.postgres.workers import PostgresWorkers

__all__ = ["PostgresStore"]


class PostgresStore(
    PostgresTasks,
    PostgresWorkers,
    PostgresDeadLetters,
    PostgresQueues,
    PostgresCooldowns,
    PostgresBreakers,
    PostgresLimits,
    PostgresPeriodic,
    PostgresSources,
    PostgresCycles,
    PostgresAlerts,
    PostgresJobs,
    PostgresReads,
    PostgresCounterRepair,
    PostgresLists,
    PostgresRollup,
    PostgresTriage,
    PostgresSchema,
):
    """All duties in one database, which may be shared by many machines; its clock is the one that counts.

    Args:
        url: ``postgresql://user:password@host:5432/database``; nothing is opened before it is needed.
        schema: Where the tables are; None for the first that the search path finds.
        min_size: Connections that are kept open.
        max_size: Connections at most; one more listens, and one holds the lock of each job that runs.
        prepare_threshold: After so many runs a statement is prepared; None for never. By default after 5, and never
            behind a pooler such as PgBouncer. Give a number there if it keeps prepared statements.
        pooled: Whether sessions may change with every transaction, because a pooler stands before the server: then the
            lock of a job is a transaction's. None to find it out; False for a pooler that keeps sessions.
    """

    poll = 1.0
    """Seconds between two looks of an idle worker, should nobody call it."""
    rescue_every = 5.0
    """Seconds between two looks for workers whose lease ran out."""
    in_process = False
    """Whether other processes see nothing of it."""

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
        """Open nothing yet."""
        self.db = PostgresDatabase(
            url,
            schema=schema,
            min_size=min_size,
            max_size=max_size,
            prepare_threshold=prepare_threshold,
            pooled=pooled,
        )
        self.notify_throttle = NotifyThrottle(lambda: self.db.fetch("notify"))
        self.job_locks = []

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when somebody has enqueued something, on whatever machine."""
        return NotifyListener(self.db, wake).end

    def receives_move(self) -> bool:
        """Tell whether a SQLite file is being moved to these tables, and the move is not over."""
        return bool(self.db.fetch("receives_move")[0][0])

    def close(self) -> None:
        """Give the connections back, those that hold the locks of jobs too."""
        super().close()
        while self.job_locks:
            self.job_locks.pop().release()
