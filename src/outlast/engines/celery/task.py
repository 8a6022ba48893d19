"""The base class that the tasks of an attached Celery app get."""

import inspect
from typing import Any

from celery import Task as CeleryTask  # type: ignore[import-untyped]

from outlast.decide.policy import RetryPolicy
from outlast.engines.celery.course import Course
from outlast.engines.celery.engine import Engine
from outlast.errors import ConfigError

__all__ = ["OutlastTask", "task_class"]


class OutlastTask:
    """Runs a task's function so that what it raises is known to the store.

    Attributes:
        policy: What is tried again, how often and when; None for the engine's.
        resource: What the task depends on; while that cools down, it waits and spends no attempt.
    """

    policy: RetryPolicy | None = None
    resource: str | None = None
    outlast_engine: Engine
    outlast_course: Course
    Request = "outlast.engines.celery.requests:Request"

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
        call = task.run if _is_celerys(parent.__call__) else parent.__call__
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


def _is_celerys(call: Any) -> bool:
    return getattr(call, "__func__", None) is CeleryTask.__call__


def task_class(engine: Engine, base: type) -> type:
    """Return the class of an engine's tasks.

    Args:
        engine: What is attached to what.
        base: What the Celery app has used so far.
    """
    parts = {"abstract": True, "outlast_engine": engine, "outlast_course": Course(engine), "__module__": __name__}
    return type("OutlastTask", (OutlastTask, base), parts)
