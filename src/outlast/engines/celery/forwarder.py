"""Sends due rows to the broker, from a thread of a Celery worker.

The store sees it as a worker with a lease: while that lasts, the store gives the tasks of the Celery worker to nobody
else. It claims a row, sends a message, then releases the row to Celery. If it crashes in between, the row is sent
again, and the attempt number ensures that the attempt runs once.
"""

import os
import socket
import threading
import time
from contextlib import suppress

from celery.worker import state  # type: ignore[import-untyped]

from outlast import clock
from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.engines.celery.engine import Engine, log
from outlast.engines.celery.message_codec import HEADER, decode_call
from outlast.errors import LeaseLostError, PayloadError
from outlast.ports.rows import Claim, Claimed, Kind, Reason, SettleAndClaim, Settlement
from outlast.queue.heartbeat import LeaseHeartbeat, register_worker
from outlast.queue.settlement import expiry_settlement, failure_note, release_settlement
from outlast.run.store_wait import is_store_outage

_BATCH = 100  # tasks per claim; sending them takes much less than a lease
_ERROR_PAUSES = (0.5, 30.0)  # seconds to wait after the first error of the broker or the store, and at most


class _ForgottenTasks:
    """Finds the tasks that run according to the store, but that this Celery worker does not know any more.

    This happens when the end of an attempt could not be written.
    """

    def __init__(self, engine: Engine, worker_id: str) -> None:
        self._engine, self._worker_id = engine, worker_id
        self._missing: set[tuple[int, int]] = set()
        self._next_at = 0.0

    def release(self) -> None:
        """Release forgotten tasks, at most once per heartbeat. No task is claimed meanwhile.

        The store is read first, so that it does not contain attempts that start in between, and a task is released
        only when it was missing twice. Its epoch ensures that an attempt that started later keeps the task.
        """
        if time.monotonic() < self._next_at:
            return
        running = set(self._engine.lending.running(self._worker_id))
        try:
            requests = [*state.reserved_requests, *state.active_requests]
        except RuntimeError:  # a request came or went meanwhile
            return
        headers = [request.request_dict.get(HEADER) for request in requests]
        known = {int(each["task"]) for each in headers if isinstance(each, dict) and "task" in each}
        missing = {each for each in running if each[0] not in known}
        forgotten, self._missing = missing & self._missing, missing - self._missing
        if forgotten:
            self._engine.lending.release_to_engine(sorted(forgotten), 0.0)
        self._next_at = time.monotonic() + self._engine.app.settings.heartbeat


class Forwarder:
    """Sends rows to the broker.

    Args:
        engine: The engine.
        worker_id: Its id in the store, which the processes that run tasks use too.
        concurrency: Number of tasks that the Celery worker runs at the same time; only shown.
        name: Name of the Celery worker; only shown.
    """

    def __init__(self, engine: Engine, worker_id: str, *, concurrency: int = 1, name: str | None = None) -> None:
        self._engine, self._store, self._worker_id = engine, engine.app.store, worker_id
        self._queues = (engine.queue,)
        self._concurrency, self._name = concurrency, name or f"{socket.gethostname()}:{os.getpid()}"
        self._stopping, self._ended, self._wake = threading.Event(), threading.Event(), threading.Event()
        self._lost = self._known = self._suspects = False
        self._forgotten = _ForgottenTasks(engine, worker_id)
        self._thread: threading.Thread | None = None
        self._pause = DoublingPause(*_ERROR_PAUSES)

    def start(self) -> None:
        """Register and start to send.

        If the store cannot be reached, the thread waits for it: Celery tasks run without it.

        Raises:
            SchemaError: If the tables have another version.
        """
        try:
            self._register()
        except Exception as error:
            if not is_store_outage(error):
                raise
            log.error("the store cannot be reached, retrying: %s", classify(error))
            self._lost = True
        self._thread = threading.Thread(target=self._run, name="outlast-celery", daemon=True)
        self._thread.start()

    def stop_sending(self) -> None:
        """Send no more rows; running tasks go on under the lease."""
        self._stopping.set()
        self._wake.set()

    def end(self) -> None:
        """Release the lease, and with it the tasks that are still running."""
        self._ended.set()
        self.stop_sending()
        if self._thread is not None:
            self._thread.join(self._engine.app.settings.heartbeat)

    def forward_once(self) -> int:
        """Send the due rows in this thread; return how many there were."""
        self._register()
        try:
            return sum(iter(self._forward, 0))
        finally:
            self._store.leave(self._worker_id)

    def _run(self) -> None:
        heartbeat = self._make_heartbeat()
        stop_listening = self._store.listen(self._wake.set)
        thread = threading.Thread(target=heartbeat.run, name="outlast-celery-heartbeat", daemon=True)
        thread.start()
        try:
            while not self._ended.is_set():
                self._tick(heartbeat)
        finally:
            stop_listening()
            heartbeat.stop()
            with suppress(Exception):  # the lease expires anyway
                self._store.leave(self._worker_id)

    def _tick(self, heartbeat: LeaseHeartbeat) -> None:
        wait = self._store.poll
        try:
            if self._lost:
                self._register_again(heartbeat)
            self._forgotten.release()
            if not self._stopping.is_set() and heartbeat.holds:
                due = self._store.next_due(self._queues)
                if (due == 0 or self._suspects) and self._forward():
                    return
                wait = min(wait, due or wait)
            self._pause.reset()
        except LeaseLostError:
            self._lost = True
        except Exception as error:  # noqa: BLE001  # an error of the broker or the store may be temporary
            wait = self._pause.grow()
            failure = classify(error)
            log.error(
                "due tasks could not be sent (%s), retrying in %.1f s: %s", failure.category, wait, failure.message
            )
            self._ended.wait(wait)  # not the wake event: new tasks do not shorten this wait
            return
        self._wake.wait(max(wait, 0.005))
        self._wake.clear()

    def _forward(self) -> int:
        """Claim due rows, send them, and let them wait for their messages; return how many rows were claimed."""
        claimed = self._claim(Claim(self._queues, _BATCH, 0))
        if not claimed:
            claimed = self._claim(Claim(self._queues, 1, 0, suspect=True))
            self._suspects = bool(claimed)
        sent: list[tuple[int, int]] = []
        settled: list[Settlement] = []
        try:
            for each in claimed:
                settlement = self._send(each)
                if settlement is None:
                    sent.append((each.id, each.epoch))
                else:
                    settled.append(settlement)
        except Exception:
            done = {number for number, _ in sent} | {each.task_id for each in settled}
            settled += [release_settlement(each) for each in claimed if each.id not in done]
            raise
        finally:
            if sent:
                self._engine.lending.release_to_engine(sent, self._engine.resend_after)
            if settled:
                self._store.settle_and_claim(SettleAndClaim(self._worker_id, [], settled, []))
        return len(claimed)

    def _claim(self, claim: Claim) -> list[Claimed]:
        return self._store.settle_and_claim(SettleAndClaim(self._worker_id, [], [], [], claim)).claimed

    def _send(self, claimed: Claimed) -> Settlement | None:
        """Send a task; return None, or the settlement of a task that cannot be sent."""
        if claimed.expires_in is not None and claimed.expires_in <= 0:
            return expiry_settlement(claimed.id, claimed.epoch)
        try:
            call = decode_call(claimed.parameters, now=clock.now())
        except PayloadError as error:
            return Settlement(
                claimed.id, claimed.epoch, Kind.FAIL, note=failure_note(classify(error)), reason=Reason.UNDECODABLE
            )
        retries = 0 if call.uses_celery_retry else claimed.retry_count
        header = {"task": claimed.id, "attempt": claimed.retry_count + 1, "retries": retries}
        # another process waits for the result: a result kept in this one would never be removed
        headers = call.options["headers"] | {HEADER: header, "ignore_result": bool(call.options.get("ignore_result"))}
        options = call.options | {"headers": headers, "retries": retries, "ignore_result": True}
        self._engine.celery_app.send_task(
            claimed.task_type, args=call.args, kwargs=call.kwargs, add_to_parent=False, **options
        )
        return None

    def _register(self) -> None:
        self._store.check_schema()
        lease = self._engine.app.settings.lease
        register_worker(self._store, self._worker_id, self._name, self._queues, self._concurrency, lease)
        self._known = True

    def _register_again(self, heartbeat: LeaseHeartbeat) -> None:
        """Register again with the same id: the processes that run tasks know no other."""
        if self._known:
            log.error("the lease was lost; results of tasks that other workers have taken over are dropped")
        self._store.leave(self._worker_id)  # removes its old row and lock
        self._register()
        self._lost = False
        heartbeat.renewed()

    def _make_heartbeat(self) -> LeaseHeartbeat:
        settings = self._engine.app.settings

        def on_lost(_worker_id: str) -> None:
            self._lost = True
            self._wake.set()

        def check_suspects() -> None:
            if self._store.suspects_due(self._queues):
                self._suspects = True
                self._wake.set()

        heartbeat = LeaseHeartbeat(
            self._store, lambda: self._worker_id, lease=settings.lease, every=settings.heartbeat,
            state=lambda: "stopping" if self._stopping.is_set() else "running", on_lost=on_lost,
        )  # fmt: skip
        heartbeat.add_fleet_duties(
            crash_limit=settings.crash_limit, alert_age=settings.alert_age, check_suspects=check_suspects
        )
        heartbeat.add_pruning(settings)
        return heartbeat
