"""A worker's place in the store: registered, alive by heartbeats from a thread of its own, gone at the end."""

import os
import socket
import threading
import uuid
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from outlast.beacon import shining
from outlast.errors import SchemaError
from outlast.ports.rows import Worker
from outlast.ports.store import Store
from outlast.queue.heart import Chore, Heart
from outlast.queue.replaying import EVERY as REPLAY_EVERY
from outlast.queue.replaying import Replayer
from outlast.queue.watching import EVERY as WATCH_EVERY
from outlast.queue.watching import Watch
from outlast.worker import logs
from outlast.worker.settings import BaseSettings

__all__ = ["Lease"]

_ROLL_UP_EVERY = 5.0  # seconds


class Lease:
    """What keeps a worker's tasks its own while it lives, and gives them to others when it dies.

    Args:
        store: Where tasks are.
        name: The worker's, for people.
        settings: Its lease and queues.

    Attributes:
        id: Of this run, or of the latest lease: one that was lost is followed by another.
        suspects: Whether a task waits that was running when a worker died.
    """

    def __init__(self, store: Store, name: str, settings: BaseSettings) -> None:
        """Begin without a lease."""
        self.id = ""
        self.suspects = False
        self._beaten = ""
        self._store, self._name, self._settings = store, name, settings
        self._lock = threading.Lock()
        self._heart: Heart | None = None
        self._thread: threading.Thread | None = None
        self._unfit: SchemaError | None = None
        self._light = ExitStack()

    @property
    def begun(self) -> bool:
        """Whether the worker is registered."""
        return self._heart is not None

    @property
    def holds(self) -> bool:
        """Whether the lease surely holds; without it nothing may be claimed."""
        return self._heart is not None and self._heart.holds

    def check(self) -> None:
        """See that the tables still fit, as far as it was noticed.

        Raises:
            SchemaError: If the lease was lost by a migration.
        """
        if self._unfit is not None:
            raise self._unfit

    def begin(self) -> None:
        """Register, and let the heart beat.

        Raises:
            SchemaError: If the tables are missing or do not fit.
        """
        self.check()
        if self._heart is not None:
            return
        self._store.check_schema()
        self.renew(self.id)
        settings = self._settings
        heart = Heart(
            self._store,
            self._beating,
            lease=settings.lease,
            every=settings.heartbeat,
            state=lambda: "running",
            on_lost=self._lost,
        )
        often = min(settings.heartbeat, getattr(self._store, "rescue_every", settings.heartbeat))
        replayer = Replayer(self._store, lambda: self.id)
        watch = Watch(self._store, None)  # an age of its own could contradict the App's, and both would tell in turns
        heart.chores = [
            Chore(often, lambda: heart.rescue(settings.crash_limit)),
            Chore(often, self._look),
            Chore(_ROLL_UP_EVERY, self._store.roll_up),
            Chore(REPLAY_EVERY, replayer.carry_on),
            Chore(WATCH_EVERY, watch.look_at_groups),
        ]
        self._heart = heart
        self._thread = threading.Thread(target=heart.run, name="outlast-heart", daemon=True)
        self._thread.start()
        self._light.enter_context(shining(self._store, lambda: self.id, leased=True))

    def renew(self, lost: str) -> str:
        """Register anew, unless somebody else has seen to it already, and return the id.

        Args:
            lost: The id that is not known any more.
        """
        with self._lock:
            if self.id == lost:
                self.id = f"{self._name}:{uuid.uuid4().hex[:12]}".replace("/", "_")
                now = datetime.now(UTC)
                row = Worker(
                    self.id, self._name, socket.gethostname(), os.getpid(), self._settings.queues, 1, "running", 0,
                    alive=True, started_at=now, heartbeat_at=now,
                )  # fmt: skip
                try:
                    self._store.register(row, self._settings.lease)
                except SchemaError as error:
                    self._unfit = error
                    raise
                if self._heart is not None:
                    self._heart.renewed()
            return self.id

    def end(self) -> None:
        """Let the heart rest and leave; what is still held is given back at no cost to the tasks."""
        heart, self._heart = self._heart, None
        if heart is None:
            return
        self._light.close()
        heart.stop()
        if self._thread is not None:
            self._thread.join(self._settings.heartbeat)
        with suppress(Exception):  # the lease runs out by itself
            self._store.leave(self.id)

    def _beating(self) -> str:
        self._beaten = self.id
        return self._beaten

    def _lost(self, _: str) -> None:
        if self._heart is None:  # a last beat after it has left
            return
        logs.log.error("worker %s was taken for dead; it begins anew, and what it was doing is dropped", self._beaten)
        self.renew(self._beaten)

    def _look(self) -> None:
        if self._store.suspects_due(self._settings.queues):
            self.suspects = True
