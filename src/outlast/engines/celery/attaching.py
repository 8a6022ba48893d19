"""Makes a Celery app one whose failures the store knows of."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery import Celery, bootsteps, signals  # type: ignore[import-untyped]
from celery.concurrency import prefork  # type: ignore[import-untyped]
from kombu.utils.imports import symbol_by_name

from outlast.decide.policy import RetryPolicy
from outlast.engines.celery.bridge import Bridge
from outlast.engines.celery.engine import Engine
from outlast.engines.celery.lights import Lights
from outlast.engines.celery.task import OutlastTask, task_class
from outlast.errors import ConfigError
from outlast.queue.definition import required_seconds

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["attach"]

_SHORTEST_RESEND = 1.0  # seconds


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
        resend_after=required_seconds("resend_after", resend_after, _SHORTEST_RESEND),
    )
    _check_queue(engine)
    lights = Lights(engine)
    celery_app.task_cls = task_class(engine, base)
    celery_app.steps["worker"].add(_step(engine, lights))
    _listen(engine, lights)
    app.engines["Celery"] = "celery -A MODULE:CELERY_APP worker"
    return engine


def _check_queue(engine: Engine) -> None:
    """See that no task of ours waits where Celery's do: a worker of ours would take both."""
    ours = sorted(each.name for each in engine.app.tasks_by_name.values() if each.queue == engine.queue)
    if ours:
        message = f"task {ours[0]} waits in queue {engine.queue!r} too; give attach another queue="
        raise ConfigError(message)


def _step(engine: Engine, lights: Lights) -> type:
    """Return the part of a Celery worker that sends due rows; it begins after the pool, and before any message."""

    class Step(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
        requires = frozenset({"celery.worker.components:Pool"})

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            _check_queue(engine)
            engine.begin_worker()  # before the pool forks
            lights.wanted = True
            self._bridge = Bridge(engine, engine.worker_id, concurrency=parent.concurrency, name=parent.hostname)
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


def _listen(engine: Engine, lights: Lights) -> None:
    def is_ours(task: Any) -> bool:
        return getattr(task, "outlast_engine", None) is engine

    def succeeded(sender: Any = None, **_: Any) -> None:
        if is_ours(sender):
            sender.outlast_course.succeeded(sender.request)

    def failed(sender: Any = None, exception: Any = None, **_: Any) -> None:
        if is_ours(sender):
            sender.outlast_course.failed_late(sender, sender.request, exception)

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
