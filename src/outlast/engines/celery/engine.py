"""What a Celery app and an app of ours share once they are attached to each other."""

import logging
import os
import re
import socket
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from kombu.asynchronous import get_event_loop

from outlast import clock
from outlast.classify import classify
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.ports.engine import EngineTasks
from outlast.ports.store import limit_store_wait, seconds_left
from outlast.worker.queue_access import attempt_reports_of

if TYPE_CHECKING:
    from outlast.app import App


# Where the engine says what it does; failed attempts are told of as a worker of ours tells of them.

log = logging.getLogger("outlast.celery")


# Waits for a store that is busy or restarts: a few seconds, over all that is asked of it for one attempt.

STORE_TIMEOUT = 5.0
"""Seconds that one attempt waits for the store: the task behind it waits as long."""
_PAUSES = (0.2, 0.8, 2.0)  # seconds between the tries of what cannot be left out
P = ParamSpec("P")
T = TypeVar("T")


def within_store_timeout(work: Callable[P, T]) -> Callable[P, T]:
    """Have all that a function asks of the store wait for it no longer than an attempt may, together."""

    @wraps(work)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> T:
        with limit_store_wait(STORE_TIMEOUT):
            return work(*args, **kwargs)

    return bounded


def retry_store_call(work: Callable[[], T]) -> T:
    """Do what must not be left out: a database that is busy or restarts is asked again while there is time."""
    for pause in _PAUSES:
        try:
            return work()
        except Exception as trouble:
            if not classify(trouble).retryable or seconds_left(STORE_TIMEOUT) <= pause:
                raise
            clock.sleep(pause)
    return work()


# A thread beside the loop of a Celery worker, for what may have to wait for the store.

LoopCallback = Callable[[], object]


class BackgroundThread:
    """Does one thing after the other beside the loop, and then in the loop what is left to do there.

    Where there is no such thread, or no loop, it is done at once.
    """

    def __init__(self) -> None:
        """Begin closed."""
        self._thread: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Have a thread from now on."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="outlast-celery-aside")

    def close(self) -> None:
        """Wait for what was begun; what comes from now on is done at once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def do(self, work: Callable[[], LoopCallback | None]) -> None:
        """Do something that may take a while.

        Args:
            work: Returns what is left to do in the loop, where the broker may be talked to.
        """
        loop: Any = get_event_loop()
        if self._thread is None or loop is None:
            _run_logged(_run_logged(work))
        else:
            self._thread.submit(lambda: loop.call_soon(_run_logged, _run_logged(work)))


def _run_logged(work: Callable[[], Any] | None) -> Any:
    try:
        return None if work is None else work()
    except Exception as error:  # noqa: BLE001  # neither the thread nor the loop may end because of it
        log.error("the end of an attempt could not be reported: %s", classify(error))  # noqa: TRY400  # redacted
        return None


class CeleryTaskRules(NamedTuple):
    """What holds for one task of Celery's.

    Attributes:
        name: Of the task, Celery's.
        policy: What is tried again, how often and when.
        resource: What it depends on, if anything.
    """

    name: str
    policy: RetryPolicy
    resource: str | None


class Engine:
    """A Celery app whose failures an app of ours knows of; `attach` makes it.

    Args:
        celery_app: The Celery app.
        app: Ours.
        policy: For tasks that bring none of their own.
        queue: The queue of ours in which rows of Celery's tasks wait.
        resend_after: Seconds after which a message that was sent and has not been seen is taken for lost.

    Attributes:
        worker_id: Of the Celery worker that this process is, or is a child of; empty elsewhere.
        aside: Where that Celery worker waits for the store.
    """

    def __init__(
        self, celery_app: Any, app: "App", *, policy: RetryPolicy | None, queue: str, resend_after: float
    ) -> None:
        """Keep the settings; nothing is opened yet."""
        self.celery_app, self.app = celery_app, app
        self.policy = policy or app.policy
        self.queue, self.resend_after = queue, resend_after
        self.worker_id = ""
        self.aside = BackgroundThread()
        found = attempt_reports_of(app)
        if not isinstance(found, EngineTasks):
            message = f"the store {type(app.store).__name__} cannot lend tasks to another engine"
            raise ConfigError(message)
        self.lending: EngineTasks = found

    def rules(self, task: Any) -> CeleryTaskRules:
        """Return what holds for a task."""
        policy = task.policy or self.policy
        return CeleryTaskRules(task.name, policy, task.resource or policy.resource)

    def begin_worker(self) -> None:
        """Have a name as a worker; the processes that it forks have the same."""
        self.worker_id = _new_id()

    def forward(self) -> int:
        """Send what is due to the broker, once, and return how many tasks that were.

        A Celery worker does it by itself. This is for a process that is none: a script, a test.
        """
        from outlast.engines.celery.forwarder import Forwarder  # noqa: PLC0415  # most processes need none

        return Forwarder(self, _new_id()).once()


def _new_id() -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", f"celery-{socket.gethostname()}-{os.getpid()}")[:80]
    return f"{name}-{uuid.uuid4().hex[:12]}"  # also a file's name
