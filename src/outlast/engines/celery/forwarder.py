"""Sends rows that are due to the broker, from a thread of a Celery worker.

It is a worker of the store, with a lease: as long as that holds, what runs in the Celery worker is not given to others.
A claim, a message, then the row is lent: dying between any two of them has it sent again, and the number of the attempt
sees to it that it runs once.
"""

import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from celery.worker import state  # type: ignore[import-untyped]

from outlast import clock
from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.engines.celery.engine import Engine, log
from outlast.engines.celery.message_codec import HEADER, decode_call
from outlast.errors import LeaseLostError, PayloadError
from outlast.ports.rows import Claim, Claimed, Kind, Reason, SettleAndClaim, Settlement, WorkerRow
from outlast.queue.execution import expiry_settlement, release_settlement
from outlast.queue.failure_groups import GROUP_ALERT_EVERY as WATCH_EVERY
from outlast.queue.failure_groups import GroupAlerts
from outlast.queue.heartbeat import LeaseHeartbeat, PeriodicDuty
from outlast.queue.replay import REPLAY_EVERY, Replayer
from outlast.queue.settlement import failure_note
from outlast.run.store_wait import is_store_outage

_BATCH = 100  # tasks that are claimed at once; sending them takes much less than a lease
_ERROR_PAUSES = (0.5, 30.0)  # seconds to wait after the first failure of the broker or the store, and at most
_ROLL_UP_EVERY, _PRUNE_EVERY = 5.0, 60.0  # seconds
_FOREVER = 1e9  # seconds; longer than anybody keeps anything


class Forwarder:
    """Brings rows to the broker.

    Args:
        engine: What is attached to what.
        worker_id: Under which it is known to the store; the processes that run tasks have to know it.
        concurrency: How many tasks the Celery worker runs at once, for people.
        name: Of the Celery worker, for people.
    """

    def __init__(self, engine: Engine, worker_id: str, *, concurrency: int = 1, name: str | None = None) -> None:
        """Begin stopped."""
        self._engine, self._store, self._worker_id = engine, engine.app.store, worker_id
        self._settings, self._queues = engine.app.settings, (engine.queue,)
        self._concurrency, self._name = concurrency, name or f"{socket.gethostname()}:{os.getpid()}"
        self._leaving, self._ended, self._wake = threading.Event(), threading.Event(), threading.Event()
        self._lost = self._known = self._suspects = False
        self._missing: set[tuple[int, int]] = set()
        self._thread: threading.Thread | None = None
        self._pause, self._tidy_at = DoublingPause(*_ERROR_PAUSES), 0.0

    def start(self) -> None:
        """Register and begin to send; what is wrong with the tables is raised here.

        A store that cannot be reached is waited for in the thread: Celery's tasks run without it.

        Raises:
            SchemaError: If the tables are of another version.
        """
        try:
            self._register()
        except Exception as error:
            if not is_store_outage(error):
                raise
            log.error("the store cannot be reached, tried again: %s", classify(error))
            self._lost = True
        self._thread = threading.Thread(target=self._live, name="outlast-celery", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Send no more; what runs goes on under the lease."""
        self._leaving.set()
        self._wake.set()

    def end(self) -> None:
        """Give the lease back, and with it what was begun and is not over."""
        self.leave()
        self._ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self._settings.heartbeat)

    def once(self) -> int:
        """Send what is due, in this thread; return how many tasks that were."""
        self._register()
        try:
            sent = 0
            while batch := self._forward():
                sent += batch
            return sent
        finally:
            self._store.leave(self._worker_id)

    def _live(self) -> None:
        heart = self._heart()
        deafen = self._store.listen(self._wake.set)
        thread = threading.Thread(target=heart.run, name="outlast-celery-heart", daemon=True)
        thread.start()
        try:
            while not self._ended.is_set():
                self._step(heart)
        finally:
            deafen()
            heart.stop()
            with suppress(Exception):  # then the lease runs out
                self._store.leave(self._worker_id)

    def _step(self, heart: LeaseHeartbeat) -> None:
        wait = self._store.poll
        try:
            if self._lost:
                self._begin_anew(heart)
            self._tidy()
            if not self._leaving.is_set() and heart.holds:
                due = self._store.next_due(self._queues)
                if (due == 0 or self._suspects) and self._forward():
                    return
                wait = min(wait, due or wait)
            self._pause.reset()
        except LeaseLostError:
            self._lost = True
        except Exception as error:  # noqa: BLE001  # of the broker or the store; it may pass
            wait = self._pause.grow()
            failure = classify(error)
            log.error("due tasks could not be sent (%s), again in %.1f s: %s", failure.category, wait, failure.message)
            self._ended.wait(wait)  # a call that there is more to do does not make it shorter
            return
        self._wake.wait(max(wait, 0.005))
        self._wake.clear()

    def _forward(self) -> int:
        """Claim what is due, send it, and have it wait for its messages; return how many tasks that were."""
        claimed = self._claimed(Claim(self._queues, _BATCH, 0))
        if not claimed:
            claimed = self._claimed(Claim(self._queues, 1, 0, suspect=True))
            self._suspects = bool(claimed)
        sent: list[tuple[int, int]] = []
        settled: list[Settlement] = []
        try:
            for each in claimed:
                refused = self._sent(each)
                if refused is None:
                    sent.append((each.id, each.epoch))
                else:
                    settled.append(refused)
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

    def _tidy(self) -> None:
        """Give back what runs by the books, and of which this Celery worker knows nothing any more.

        For after a write that failed: the attempt is over, and nobody could say so. Here nothing is claimed meanwhile.
        The books are read first, so that what begins in between is not in them, and what is given back has been missed
        twice. Its epoch sees to it that nothing is taken from an attempt that began later.
        """
        if time.monotonic() < self._tidy_at:
            return
        running = set(self._engine.lending.running(self._worker_id))
        try:
            requests = [*state.reserved_requests, *state.active_requests]
        except RuntimeError:  # one came or went while they were listed
            return
        known = [request.request_dict.get(HEADER) for request in requests]
        held = {int(each["task"]) for each in known if isinstance(each, dict) and "task" in each}
        missing = {each for each in running if each[0] not in held}
        over, self._missing = missing & self._missing, missing - self._missing
        if over:
            self._engine.lending.release_to_engine(sorted(over), 0.0)
        self._tidy_at = time.monotonic() + self._settings.heartbeat

    def _claimed(self, claim: Claim) -> list[Claimed]:
        return self._store.settle_and_claim(SettleAndClaim(self._worker_id, [], [], [], claim)).claimed

    def _sent(self, claimed: Claimed) -> Settlement | None:
        """Send a task; return what becomes of one that cannot be sent."""
        if claimed.expires_in is not None and claimed.expires_in <= 0:
            return expiry_settlement(claimed)
        try:
            call = decode_call(claimed.parameters, now=clock.now())
        except PayloadError as error:
            return Settlement(
                claimed.id, claimed.epoch, Kind.FAIL, note=failure_note(classify(error)), reason=Reason.UNDECODABLE
            )
        retries = 0 if call.itself else claimed.retry_count
        header = {"task": claimed.id, "attempt": claimed.retry_count + 1, "retries": retries}
        # whoever waits for the result is elsewhere: here nobody is told of it, which would be kept for ever
        given = call.options["headers"] | {HEADER: header, "ignore_result": bool(call.options.get("ignore_result"))}
        options = call.options | {"headers": given, "retries": retries, "ignore_result": True}
        self._engine.celery_app.send_task(
            claimed.task_type, args=call.args, kwargs=call.kwargs, add_to_parent=False, **options
        )
        return None

    def _register(self) -> None:
        self._store.check_schema()
        now = datetime.now(UTC)
        row = WorkerRow(
            self._worker_id, self._name, socket.gethostname(), os.getpid(), self._queues, self._concurrency,
            "running", 0, alive=True, started_at=now, heartbeat_at=now,
        )  # fmt: skip
        self._store.register(row, self._settings.lease)
        self._known = True

    def _begin_anew(self, heart: LeaseHeartbeat) -> None:
        """Register again, under the same name: the processes that run tasks know no other."""
        if self._known:
            log.error("the lease was lost; what ran meanwhile is dropped where others have it by now")
        self._store.leave(self._worker_id)  # what is left of it: its row, its lock
        self._register()
        self._lost = False
        heart.renewed()

    def _heart(self) -> LeaseHeartbeat:
        settings, store = self._settings, self._store

        def lost(_worker_id: str) -> None:
            self._lost = True
            self._wake.set()

        def suspects() -> None:
            if self._store.suspects_due(self._queues):
                self._suspects = True
                self._wake.set()

        def whose() -> str:
            return self._worker_id

        def prune() -> None:
            store.prune(done_before=_FOREVER if settings.keep_done is None else settings.keep_done)
            if settings.keep_dead is not None:
                store.prune_dead_letters(older_than=settings.keep_dead)

        heart = LeaseHeartbeat(
            store, whose, lease=settings.lease, every=settings.heartbeat,
            state=lambda: "stopping" if self._leaving.is_set() else "running", on_lost=lost,
        )  # fmt: skip
        often = min(settings.heartbeat, store.rescue_every)
        heart.duties = [
            PeriodicDuty(often, partial(heart.rescue, settings.crash_limit)),
            PeriodicDuty(often, suspects),
            PeriodicDuty(_PRUNE_EVERY, prune),
            PeriodicDuty(_ROLL_UP_EVERY, store.roll_up),
            PeriodicDuty(REPLAY_EVERY, Replayer(store, whose).advance_replays),
            PeriodicDuty(WATCH_EVERY, GroupAlerts(store, settings.alert_age).check_groups),
        ]
        return heart
