"""The engine that connects a Celery app and an Outlast app; and how it waits for the store."""

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
from outlast.ports.external_attempts import EngineTasks
from outlast.ports.store import limit_store_wait, seconds_left
from outlast.worker.queue_access import attempt_reports_of

if TYPE_CHECKING:
    from outlast.app import App


log = logging.getLogger("outlast.celery")

STORE_TIMEOUT = 5.0
"""Seconds that one attempt may wait for the store in total: the next task waits as long."""
_PAUSES = (0.2, 0.8, 2.0)  # seconds between the retries of a store call
P = ParamSpec("P")
T = TypeVar("T")


def within_store_timeout(work: Callable[P, T]) -> Callable[P, T]:
    """Limit the time that all store calls of a function wait together to `STORE_TIMEOUT`."""

    @wraps(work)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> T:
        with limit_store_wait(STORE_TIMEOUT):
            return work(*args, **kwargs)

    return bounded


def retry_store_call(work: Callable[[], T]) -> T:
    """Return the result of a store call, retried while the database is busy or restarts and there is time left."""
    for pause in _PAUSES:
        try:
            return work()
        except Exception as error:
            if not classify(error).retryable or seconds_left(STORE_TIMEOUT) <= pause:
                raise
            clock.sleep(pause)
    return work()


LoopCallback = Callable[[], object]


class BackgroundThread:
    """Runs functions that may wait for the store in a thread, in order, so that the loop of the worker goes on.

    What such a function returns is then called in the loop. Without a thread or a loop, both run at once.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Start the thread."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="outlast-celery-background")

    def close(self) -> None:
        """Wait for the thread to finish; later functions run at once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def do(self, work: Callable[[], LoopCallback | None]) -> None:
        """Run a function in the thread.

        Args:
            work: Returns what to call in the loop afterwards, where the broker can be used; None for nothing.
        """
        loop: Any = get_event_loop()
        if self._thread is None or loop is None:
            _run_logged(_run_logged(work))
        else:
            self._thread.submit(lambda: loop.call_soon(_run_logged, _run_logged(work)))


def _run_logged(work: Callable[[], Any] | None) -> Any:
    try:
        return None if work is None else work()
    except Exception as error:  # noqa: BLE001  # must end neither the thread nor the loop
        log.error("the end of an attempt could not be reported: %s", classify(error))  # noqa: TRY400  # redacted
        return None


class CeleryTaskRules(NamedTuple):
    """The settings of one Celery task.

    Attributes:
        name: Name of the task in Celery.
        policy: What to retry, how often and when.
        resource: What the task depends on, if anything.
    """

    name: str
    policy: RetryPolicy
    resource: str | None


class Engine:
    """A Celery app whose failures an Outlast app records; `attach` creates it.

    Args:
        celery_app: The Celery app.
        app: The Outlast app.
        policy: Policy for tasks without their own.
        queue: Queue of the rows of Celery tasks.
        resend_after: Seconds after which a message that no worker has taken counts as lost.

    Attributes:
        worker_id: Id of the Celery worker that this process is or belongs to; empty elsewhere.
        background_thread: Thread in which that Celery worker waits for the store.
    """

    def __init__(
        self, celery_app: Any, app: "App", *, policy: RetryPolicy | None, queue: str, resend_after: float
    ) -> None:
        self.celery_app, self.app = celery_app, app
        self.policy = policy or app.policy
        self.queue, self.resend_after = queue, resend_after
        self.worker_id = ""
        self.background_thread = BackgroundThread()
        found = attempt_reports_of(app)
        if not isinstance(found, EngineTasks):
            raise ConfigError(f"the store {type(app.store).__name__} cannot lend tasks to another engine")
        self.lending: EngineTasks = found

    def rules(self, task: Any) -> CeleryTaskRules:
        """Return the settings of a task."""
        policy = task.policy or self.policy
        return CeleryTaskRules(task.name, policy, task.resource or policy.resource)

    def begin_worker(self) -> None:
        """Take a new worker id, which the processes that this one forks share."""
        self.worker_id = _new_id()

    def forward(self) -> int:
        """Send the due tasks to the broker, once, and return how many there were.

        A Celery worker does this by itself. Use it in other processes, such as a script or a test.
        """
        from outlast.engines.celery.forwarder import Forwarder  # noqa: PLC0415  # most processes do not need it

        return Forwarder(self, _new_id()).forward_once()


def _new_id() -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", f"celery-{socket.gethostname()}-{os.getpid()}")[:80]
    return f"{name}-{uuid.uuid4().hex[:12]}"  # also valid as a file name
