"""Attaches an app to a Celery app: the base class of its tasks, the step of its workers, and its signals."""

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
from outlast.run.retry import check_policy

if TYPE_CHECKING:
    from outlast.app import App


_STORE_WAIT = 1.0  # seconds to wait for the store when a process starts or ends; Celery allows it four
_MIN_RESEND = 1.0  # seconds


class ProcessBreakerSync:
    """Syncs the breakers of this process with the store, once per process.

    Args:
        engine: The engine.

    Attributes:
        is_worker: Whether this process is a worker of that engine, or was started by one.
    """

    def __init__(self, engine: Engine) -> None:
        self.is_worker = False
        self._engine, self._sync, self._pid = engine, ExitStack(), 0

    def start(self) -> None:
        """Report the breakers of this process to the store, and apply the orders for them."""
        if self._pid == os.getpid():
            return
        self._sync, self._pid = ExitStack(), os.getpid()
        with limit_store_wait(_STORE_WAIT):
            self._sync.enter_context(
                sync_breakers(breaker_store_of(self._engine.app.store), process_name, leased=False)
            )

    def stop(self) -> None:
        """Stop syncing, and remove the process from the store."""
        if self._pid == os.getpid():
            self._pid = 0
            with limit_store_wait(_STORE_WAIT):
                self._sync.close()


class OutlastTask:
    """Base class of the tasks of an attached Celery app: records what they raise in the store.

    Attributes:
        policy: What to retry, how often and when; None for the policy of the engine.
        resource: What the task depends on. While that is in a cooldown, the task waits without using an attempt.
    """

    policy: RetryPolicy | None = None
    resource: str | None = None
    outlast_engine: Engine
    outlast_runner: AttemptRunner
    Request = "outlast.engines.celery.worker_request:OutlastRequest"

    @classmethod
    def on_bound(cls, app: Any) -> None:
        """Check the settings of the task."""
        task: Any = cls
        function, name, policy, resource = task.run, task.name, task.policy, task.resource
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"task {name} is a coroutine function, which Celery does not run; call asyncio.run in a plain one"
            )
        if policy is not None:
            check_policy(policy, f"task {name}: ")
        if resource is not None and not (isinstance(resource, str) and resource):
            raise ConfigError(f"task {name}: resource is {resource!r}; give a name, usually the host")
        parent: Any = super()
        parent.on_bound(app)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function: in a worker as a recorded attempt, elsewhere directly."""
        task: Any = self
        parent: Any = super()
        request = task.request
        if request.called_directly or getattr(
            request, "outlast_is_running", False
        ):  # the second: the task calls itself
            return parent.__call__(*args, **kwargs)
        # a task class of the program may wrap the call; the one of Celery would lose the request
        call = task.run if _is_celery_call(parent.__call__) else parent.__call__
        if request.is_eager or task.name.startswith("celery."):
            return call(*args, **kwargs)
        request.outlast_is_running = True
        try:
            return self.outlast_runner.run(task, call, args, kwargs)
        finally:
            request.outlast_is_running = False

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,  # noqa: FBT001, FBT002  # the signature of Celery
        eta: Any = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """Retry with Celery's own retry; before that, let the row wait for the new message."""
        task: Any = self
        parent: Any = super()
        delay = task.default_retry_delay if countdown is None else countdown
        self.outlast_runner.lend_for_retry(task.request, eta or delay)
        return parent.retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)


def _is_celery_call(call: Any) -> bool:
    return getattr(call, "__func__", None) is CeleryTask.__call__


def attach(
    celery_app: Any,
    app: "App",
    *,
    policy: RetryPolicy | None = None,
    queue: str = "celery",
    resend_after: float | timedelta = timedelta(hours=1),
) -> Engine:
    """Let an Outlast app handle the failures of a Celery app, and return the engine.

    Call it once, before tasks are used. Each task may have its own ``policy=`` and ``resource=``:
    ``@celery_app.task(policy=outlast.preset("etl"), resource="api.example.com")``.

    Args:
        celery_app: The Celery app.
        app: The Outlast app that records the failures. Other processes may use it too.
        policy: Policy for tasks without their own; by default that of the app.
        queue: Queue of the rows of Celery tasks. No Outlast worker may process it.
        resend_after: Seconds after which a message that no worker has taken counts as lost, and is sent again.

    Raises:
        ConfigError: If a setting is not valid, or the Celery app has already created its tasks.
    """
    if not isinstance(celery_app, Celery):
        raise ConfigError(f"{celery_app!r} is not a Celery app; give celery.Celery(…)")
    base = symbol_by_name(celery_app.task_cls)  # type: ignore[no-untyped-call]  # kombu has few types
    if issubclass(base, OutlastTask):
        raise ConfigError(f"{celery_app.main} is already attached; call attach once")
    if celery_app.finalized or "Task" in vars(celery_app):
        raise ConfigError(f"{celery_app.main} has already created its tasks; call attach right after Celery(…)")
    if policy is not None:
        check_policy(policy)
    engine = Engine(
        celery_app,
        app,
        policy=policy,
        queue=queue,
        resend_after=required_seconds("resend_after", resend_after, _MIN_RESEND),
    )
    _check_queue(engine)
    breakers = ProcessBreakerSync(engine)
    runner = AttemptRunner(engine)
    attributes = {"abstract": True, "outlast_engine": engine, "outlast_runner": runner, "__module__": __name__}
    celery_app.task_cls = type("OutlastTask", (OutlastTask, base), attributes)
    celery_app.steps["worker"].add(_worker_step(engine, breakers))
    _connect_signals(engine, breakers)
    app.engines["Celery"] = "celery -A MODULE:CELERY_APP worker"
    return engine


def _check_queue(engine: Engine) -> None:
    """Check that no Outlast task uses the queue of the Celery tasks: an Outlast worker would take both."""
    names = sorted(each.name for each in engine.app.tasks_by_name.values() if each.queue == engine.queue)
    if names:
        raise ConfigError(f"task {names[0]} also uses the queue {engine.queue!r}; give attach another queue=…")


def _worker_step(engine: Engine, breakers: ProcessBreakerSync) -> type:
    """Return the worker step that sends due rows; it starts after the pool and before any message."""

    class Step(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
        requires = frozenset({"celery.worker.components:Pool"})

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            _check_queue(engine)
            engine.begin_worker()  # before the pool forks
            breakers.is_worker = True
            self._forwarder = Forwarder(engine, engine.worker_id, concurrency=parent.concurrency, name=parent.hostname)
            parent.outlast_forwarder = self._forwarder

        def start(self, parent: Any) -> None:
            self._forwarder.start()
            engine.background_thread.open()
            if not issubclass(parent.pool_cls, prefork.TaskPool):  # the processes of a prefork pool sync their own
                breakers.start()

        def stop(self, parent: Any) -> None:
            self._forwarder.stop_sending()
            engine.background_thread.close()
            self.terminate(parent)

        def terminate(self, parent: Any) -> None:  # noqa: ARG002  # the signature of Celery
            breakers.stop()
            breakers.is_worker = False

    return Step


def _connect_signals(engine: Engine, breakers: ProcessBreakerSync) -> None:
    def is_ours(task: Any) -> bool:
        return getattr(task, "outlast_engine", None) is engine

    def succeeded(sender: Any = None, **_: Any) -> None:
        if is_ours(sender):
            sender.outlast_runner.succeeded(sender.request)

    def failed(sender: Any = None, exception: Any = None, **_: Any) -> None:
        if is_ours(sender):
            sender.outlast_runner.record_late_failure(sender, sender.request, exception)

    def shut_down(sender: Any = None, **_: Any) -> None:
        forwarder = getattr(sender, "outlast_forwarder", None)
        if forwarder is not None and sender.app is engine.celery_app:
            breakers.stop()
            forwarder.end()

    for signal, receiver in (
        (signals.task_success, succeeded),
        (signals.task_failure, failed),
        (signals.worker_shutdown, shut_down),
        (signals.worker_process_init, lambda **_: breakers.start() if breakers.is_worker else None),
        (signals.worker_process_shutdown, lambda **_: breakers.stop()),
    ):
        signal.connect(receiver, weak=False)
