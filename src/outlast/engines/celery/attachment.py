"""The beacon of each process that runs Celery's tasks: how its breakers stand, and what is ordered of them."""

import inspect
import os
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery import Celery, bootsteps, signals  # type: ignore[import-untyped]
from celery import Task as CeleryTask
from celery.concurrency import prefork  # type: ignore[import-untyped]
from kombu.utils.imports import symbol_by_name

from outlast.breaker_sync import breaker_store_of, process_name, sync_breakers
from outlast.decide.policy import RetryPolicy
from outlast.engines.celery.attempt import AttemptRunner
from outlast.engines.celery.engine import Engine
from outlast.engines.celery.forwarder import Forwarder
from outlast.errors import ConfigError
from outlast.ports.store import limit_store_wait
from outlast.queue.definition import required_seconds

if TYPE_CHECKING:
    from outlast.app import App


_STORE_WAIT = 1.0  # seconds that a process waits for the store when it begins, and ends; Celery grants it four


class ProcessBreakerSync:
    """Has one beacon in a process, however often it is told to begin.

    Args:
        engine: What is attached to what.

    Attributes:
        wanted: Whether a worker of that engine runs here, or has begun this process.
    """

    def __init__(self, engine: Engine) -> None:
        """Begin dark."""
        self.wanted = False
        self._engine, self._lit, self._pid = engine, ExitStack(), 0

    def begin(self) -> None:
        """Tell of the breakers of this process, and obey what stands."""
        if self._pid == os.getpid():
            return
        self._lit, self._pid = ExitStack(), os.getpid()
        with limit_store_wait(_STORE_WAIT):
            self._lit.enter_context(sync_breakers(breaker_store_of(self._engine.app.store), process_name, leased=False))

    def end(self) -> None:
        """Have the process forgotten."""
        if self._pid == os.getpid():
            self._pid = 0
            with limit_store_wait(_STORE_WAIT):
                self._lit.close()


# The base class that the tasks of an attached Celery app get.


class OutlastTask:
    """Runs a task's function so that what it raises is known to the store.

    Attributes:
        policy: What is tried again, how often and when; None for the engine's.
        resource: What the task depends on; while that cools down, it waits and spends no attempt.
    """

    policy: RetryPolicy | None = None
    resource: str | None = None
    outlast_engine: Engine
    outlast_course: AttemptRunner
    Request = "outlast.engines.celery.worker_request:OutlastRequest"

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Check what the task was declared with."""
        named: Any = cls
        function, name, policy, resource = named.run, named.name, named.policy, named.resource
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            message = f"task {name} is a coroutine function, which Celery does not run; use asyncio.run within it"
            raise ConfigError(message)
        if policy is not None and not isinstance(policy, RetryPolicy):
            message = (
                f"task {name}: policy is {policy!r}; give a RetryPolicy, or a preset such as outlast.preset('etl')"
            )
            raise ConfigError(message)
        if resource is not None and not (isinstance(resource, str) and resource):
            message = f"task {name}: resource is {resource!r}; give a name, by custom the host"
            raise ConfigError(message)
        parent: Any = super()
        parent.on_bound(app)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function: for a worker as an attempt that is looked after, for anybody else as it is."""
        task: Any = self
        parent: Any = super()
        request = task.request
        if request.called_directly or getattr(request, "outlast_runs", False):  # the second: it has called itself
            return parent.__call__(*args, **kwargs)
        # a class of the program's own may have something to do around the call; Celery's would forget the message
        call = task.run if _is_celery_call(parent.__call__) else parent.__call__
        if request.is_eager or task.name.startswith("celery."):
            return call(*args, **kwargs)
        request.outlast_runs = True
        try:
            return self.outlast_course.run(task, call, args, kwargs)
        finally:
            request.outlast_runs = False

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,  # noqa: FBT001, FBT002  # Celery's own
        eta: Any = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """Retry by Celery's own means; the row waits for the new message from before that can come."""
        task: Any = self
        parent: Any = super()
        self.outlast_course.retries(task.request, eta or (task.default_retry_delay if countdown is None else countdown))
        return parent.retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)


def _is_celery_call(call: Any) -> bool:
    return getattr(call, "__func__", None) is CeleryTask.__call__


def task_class(engine: Engine, base: type) -> type:
    """Return the class of an engine's tasks.

    Args:
        engine: What is attached to what.
        base: What the Celery app has used so far.
    """
    parts = {
        "abstract": True,
        "outlast_engine": engine,
        "outlast_course": AttemptRunner(engine),
        "__module__": __name__,
    }
    return type("OutlastTask", (OutlastTask, base), parts)


# Makes a Celery app one whose failures the store knows of.

_MIN_RESEND = 1.0  # seconds


def attach(
    celery_app: Any,
    app: "App",
    *,
    policy: RetryPolicy | None = None,
    queue: str = "celery",
    resend_after: float | timedelta = timedelta(hours=1),
) -> Engine:
    """Have an app look after the failures of a Celery app's tasks.

    Call it once, before tasks are used. Each task may bring ``policy=`` and ``resource=`` of its own:
    ``@celery_app.task(policy=outlast.preset("etl"), resource="api.example.com")``.

    Args:
        celery_app: The Celery app.
        app: Where failures are written; an app of ours that other processes use as well.
        policy: For tasks that bring none of their own; by default the app's.
        queue: Where the rows of Celery's tasks wait. No worker of ours may look there.
        resend_after: Seconds after which a message that was sent, and that no worker has taken, is taken for lost.

    Returns:
        The engine.

    Raises:
        ConfigError: If a setting cannot be used, or the Celery app has made its tasks already.
    """
    if not isinstance(celery_app, Celery):
        message = f"{celery_app!r} is no Celery app"
        raise ConfigError(message)
    base = symbol_by_name(celery_app.task_cls)  # type: ignore[no-untyped-call]  # kombu has few types
    if issubclass(base, OutlastTask):
        message = f"{celery_app.main} is attached already"
        raise ConfigError(message)
    if celery_app.finalized or "Task" in vars(celery_app):
        message = f"the tasks of {celery_app.main} are made already; call attach right after Celery(…)"
        raise ConfigError(message)
    given: object = policy
    if given is not None and not isinstance(given, RetryPolicy):
        message = f"policy is {policy!r}; give a RetryPolicy, or a preset such as outlast.preset('etl')"
        raise ConfigError(message)
    engine = Engine(
        celery_app,
        app,
        policy=policy,
        queue=queue,
        resend_after=required_seconds("resend_after", resend_after, _MIN_RESEND),
    )
    _check_queue(engine)
    lights = ProcessBreakerSync(engine)
    celery_app.task_cls = task_class(engine, base)
    celery_app.steps["worker"].add(_worker_step(engine, lights))
    _connect_signals(engine, lights)
    app.engines["Celery"] = "celery -A MODULE:CELERY_APP worker"
    return engine


def _check_queue(engine: Engine) -> None:
    """See that no task of ours waits where Celery's do: a worker of ours would take both."""
    ours = sorted(each.name for each in engine.app.tasks_by_name.values() if each.queue == engine.queue)
    if ours:
        message = f"task {ours[0]} waits in queue {engine.queue!r} too; give attach another queue="
        raise ConfigError(message)


def _worker_step(engine: Engine, lights: ProcessBreakerSync) -> type:
    """Return the part of a Celery worker that sends due rows; it begins after the pool, and before any message."""

    class Step(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
        requires = frozenset({"celery.worker.components:Pool"})

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            _check_queue(engine)
            engine.begin_worker()  # before the pool forks
            lights.wanted = True
            self._bridge = Forwarder(engine, engine.worker_id, concurrency=parent.concurrency, name=parent.hostname)
            parent.outlast_bridge = self._bridge

        def start(self, parent: Any) -> None:
            self._bridge.start()
            engine.aside.open()
            if not issubclass(parent.pool_cls, prefork.TaskPool):  # there the processes of the pool have their own
                lights.begin()

        def stop(self, parent: Any) -> None:  # noqa: ARG002  # Celery's own
            self._bridge.leave()
            engine.aside.close()
            lights.end()
            lights.wanted = False

        def terminate(self, parent: Any) -> None:  # noqa: ARG002  # Celery's own, in a hurry
            lights.end()
            lights.wanted = False

    return Step


def _connect_signals(engine: Engine, lights: ProcessBreakerSync) -> None:
    def is_ours(task: Any) -> bool:
        return getattr(task, "outlast_engine", None) is engine

    def succeeded(sender: Any = None, **_: Any) -> None:
        if is_ours(sender):
            sender.outlast_course.succeeded(sender.request)

    def failed(sender: Any = None, exception: Any = None, **_: Any) -> None:
        if is_ours(sender):
            sender.outlast_course.record_late_failure(sender, sender.request, exception)

    def ended(sender: Any = None, **_: Any) -> None:
        bridge = getattr(sender, "outlast_bridge", None)
        if bridge is not None and sender.app is engine.celery_app:
            lights.end()
            bridge.end()

    for signal, receiver in (
        (signals.task_success, succeeded),
        (signals.task_failure, failed),
        (signals.worker_shutdown, ended),
        (signals.worker_process_init, lambda **_: lights.begin() if lights.wanted else None),
        (signals.worker_process_shutdown, lambda **_: lights.end()),
    ):
        signal.connect(receiver, weak=False)
