"""The ledger of a run, written in batches, and the lock that prevents two runs of a job at the same time."""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from outlast import clock
from outlast.classify import classify
from outlast.errors import JobLockedError, OutlastError
from outlast.jobs.context import log
from outlast.jobs.target import TargetResult
from outlast.ports.job_rows import JobLock, Jobs, RunState, TargetDone
from outlast.ports.source_rows import NewAlert

ResultT = TypeVar("ResultT")
_BATCH = 1000
_WRITE_INTERVAL = 0.5  # seconds between two writes, and between two checks of the lock
_TRIES = 30
_PAUSE = 1.0


class LockLostError(OutlastError):
    """The lock of a job was lost during its run: a connection broke, or the lock file was removed."""

    def __str__(self) -> str:
        """Return the message."""
        return "the lock of the job was lost, so another process may be running it"


class NoLedger:
    """Records nothing: a run without a ledger cannot be resumed."""

    def add(self, results: Sequence[TargetResult]) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def check_lock(self) -> None:
        """Do nothing."""

    def stop_waiting(self) -> None:
        """Do nothing."""

    def end(self, state: RunState, exit_code: int, summary: dict[str, Any], alerts: Sequence[NewAlert]) -> None:
        """Do nothing."""


class Ledger(NoLedger):
    """The ledger of one run.

    Results that cannot be written are kept, and written with the next ones or at the end.

    Args:
        store: Store of the ledger.
        run_id: Id of the run.
        lock: The job lock.
        send_failed: Enqueues failed targets, before they are recorded as failed.
    """

    def __init__(
        self, store: Jobs, run_id: str, lock: JobLock, send_failed: Callable[[Sequence[TargetDone]], None] | None = None
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._job_lock = lock
        self._send_failed = send_failed
        self._rows: list[TargetDone] = []
        self._checked_at = self._written_at = clock.monotonic()
        self._tries = _TRIES
        self._is_lost = False
        self._lock = threading.RLock()  # an event loop calls it from a different thread each time

    def add(self, results: Sequence[TargetResult]) -> None:
        """Add results; they are written once there are 1000, or after half a second. Check the lock.

        Raises:
            LockLostError: If the lock was lost; raised once.
            Exception: The error of the store, if writing fails for half a minute.
        """
        with self._lock:
            self._rows += [done.row for done in results if done.row is not None]
            now = clock.monotonic()
            if len(self._rows) >= _BATCH or (self._rows and now - self._written_at >= _WRITE_INTERVAL):
                self._write()
            if now - self._checked_at >= _WRITE_INTERVAL:
                self.check_lock()

    def flush(self) -> None:
        """Write all results.

        Raises:
            Exception: The error of the store.
        """
        with self._lock:
            self._write()

    def check_lock(self) -> None:
        """Check whether this process still holds the lock of the job.

        Raises:
            LockLostError: If the lock was lost; raised once.
        """
        with self._lock:
            self._checked_at = clock.monotonic()
            if not self._is_lost and not self._job_lock.held():
                self._is_lost = True
                raise LockLostError

    def stop_waiting(self) -> None:
        """Stop retrying: the process is about to exit."""
        self._tries = 1

    def end(self, state: RunState, exit_code: int, summary: dict[str, Any], alerts: Sequence[NewAlert]) -> None:
        """Write the remaining results and the end of the run.

        Raises:
            Exception: The error of the store.
        """
        with self._lock:
            self._write()
            retry_store_call(lambda: self._store.end_run(self._run_id, state, exit_code, summary, alerts), self._tries)

    def _write(self) -> None:
        self._written_at = clock.monotonic()
        try:
            while self._rows:
                batch = self._rows[:_BATCH]
                self._write_batch(batch)
                del self._rows[: len(batch)]
        except Exception:
            self._tries = 1  # waiting for the store once is enough
            raise

    def _write_batch(self, batch: list[TargetDone]) -> None:
        send_failed = self._send_failed
        if send_failed is not None:
            retry_store_call(lambda: send_failed(batch), self._tries)
        retry_store_call(lambda: self._store.add_targets(self._run_id, batch), self._tries)


def retry_store_call(write: Callable[[], ResultT], tries: int = _TRIES) -> ResultT:
    """Return the result of a store call, retried every second for half a minute while the store is down.

    It is worth the wait: targets whose results are lost would be processed again.
    """
    attempt = 1
    while True:
        try:
            return write()
        except Exception as error:
            failure = classify(error)
            if attempt >= tries or not failure.retryable:
                raise
            if attempt == 1:
                with suppress(Exception):
                    log.warning("the ledger is unavailable, retrying for %.0f s: %s", tries * _PAUSE, failure)
        clock.sleep(_PAUSE)
        attempt += 1


def lock_holder() -> str:
    """Return the name of this process, shown to others that try to run the same job."""
    return f"{socket.gethostname()[:30]}, process {os.getpid()}, since {time.strftime('%m-%d %H:%M:%S')}"


def lock_job(store: Jobs, job: str) -> JobLock:
    """Return the lock of a job.

    Raises:
        JobLockedError: If another process holds it.
    """
    lock = store.lock_job(job, lock_holder())
    if lock is None:
        raise JobLockedError(job, store.job_holder(job))
    return lock
