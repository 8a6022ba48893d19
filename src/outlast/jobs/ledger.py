"""What a run writes down, in batches, and the lock that keeps two runs apart."""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from outlast import clock
from outlast.classify import classify
from outlast.errors import JobLockedError, OutlastError
from outlast.jobs.context import log
from outlast.jobs.target import TargetResult
from outlast.ports.job_rows import JobLock, Jobs, RunState, TargetDone

_BATCH = 1000
_WRITE_INTERVAL = 0.5  # seconds after which what there is is written, and the lock is looked at
_TRIES = 30
_PAUSE = 1.0


class LockLostError(OutlastError):
    """The lock of a job is gone in the middle of its run: a connection broke, or its file was removed."""

    def __str__(self) -> str:
        """Say what that means."""
        return "the lock of the job was lost, and somebody else may run it by now"


class NoLedger:
    """Keeps nothing: a run without a ledger cannot be resumed."""

    def add(self, results: Sequence[TargetResult]) -> None:
        """Forget them."""

    def tick(self) -> None:
        """Have nothing to write."""

    def flush(self) -> None:
        """Have nothing to write."""

    def stop_waiting(self) -> None:
        """Have nothing to wait for."""

    def end(self, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """Have nothing to end."""


class Ledger(NoLedger):
    """The ledger of one run.

    What could not be written is kept, and tried again when there is more, or at the end.

    Args:
        store: Where it is kept.
        run_id: Which run.
        lock: Without which nobody else is kept from running the job.
        give: Gives failed targets to a queue, before they are written down as failed.
    """

    def __init__(
        self, store: Jobs, run_id: str, lock: JobLock, give: Callable[[Sequence[TargetDone]], None] | None = None
    ) -> None:
        """Begin with nothing to write."""
        self._store = store
        self._run_id = run_id
        self._job_lock = lock
        self._give = give
        self._rows: list[TargetDone] = []
        self._looked_at = self._written_at = clock.monotonic()
        self._tries = _TRIES
        self._is_lost = False
        self._lock = threading.RLock()  # on an event loop it is another thread each time

    def add(self, results: Sequence[TargetResult]) -> None:
        """Take in what became of targets; it is written when there is enough of it, or after half a second."""
        with self._lock:
            self._rows += [done.row for done in results if done.row is not None]
            self.tick()

    def tick(self) -> None:
        """Write what there is, if it is time to; see that the lock is ours.

        Raises:
            LockLostError: Once, if it is not.
            Exception: What the store says, if it takes nothing for half a minute.
        """
        with self._lock:
            now = clock.monotonic()
            if len(self._rows) >= _BATCH or (self._rows and now - self._written_at >= _WRITE_INTERVAL):
                self._write()
            if now - self._looked_at >= _WRITE_INTERVAL and not self._is_lost:
                self._looked_at = now
                if not self._job_lock.held():
                    self._is_lost = True
                    raise LockLostError

    def flush(self) -> None:
        """Write all there is.

        Raises:
            Exception: What the store says.
        """
        with self._lock:
            self._write()

    def stop_waiting(self) -> None:
        """Wait no more for a store that is down: somebody wants to leave."""
        self._tries = 1

    def end(self, state: RunState, exit_code: int, summary: dict[str, Any]) -> None:
        """Write what is left, and end the run.

        Raises:
            Exception: What the store says.
        """
        with self._lock:
            self._write()
            retry_store_call(lambda: self._store.end_run(self._run_id, state, exit_code, summary), self._tries)

    def _write(self) -> None:
        self._written_at = clock.monotonic()
        try:
            while self._rows:
                batch = self._rows[:_BATCH]
                if self._give is not None:
                    retry_store_call(lambda batch=batch: self._give(batch), self._tries)  # type: ignore[misc]  # bound now
                retry_store_call(lambda batch=batch: self._store.add_targets(self._run_id, batch), self._tries)  # type: ignore[misc]  # the same
                del self._rows[: len(batch)]
        except Exception:
            self._tries = 1  # it was waited for once
            raise


def retry_store_call(write: Callable[[], object], tries: int = _TRIES) -> Any:
    """Ask the store, again and again for half a minute if it is down: what was done should not be done twice.

    Returns:
        What it answers.
    """
    for attempt in range(1, tries + 1):
        try:
            return write()
        except Exception as error:
            failure = classify(error)
            if attempt == tries or not failure.retryable:
                raise
            if attempt == 1:
                with suppress(Exception):
                    log.warning("the ledger is not to be had, trying for %.0f s: %s", tries * _PAUSE, failure)
        clock.sleep(_PAUSE)
    return None


def lock_holder() -> str:
    """Return who we are, for others who want to run the same job."""
    return f"{socket.gethostname()[:30]}, process {os.getpid()}, since {time.strftime('%m-%d %H:%M:%S')}"


def lock_job(store: Jobs, job: str) -> JobLock:
    """Keep a job to oneself.

    Raises:
        JobLockedError: If somebody else runs it.
    """
    lock = store.lock_job(job, lock_holder())
    if lock is None:
        raise JobLockedError(job, store.job_holder(job))
    return lock
