"""Task definitions: what `@app.task` makes of a function, and how tasks are enqueued."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from outlast import clock
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.ports.rows import Claimed, Enqueued, NewTask, TaskBatch
from outlast.queue.child_process import check_not_loading, function_ref
from outlast.queue.payload import Codec, decode_result
from outlast.run.call_state import CURRENT_TASK

if TYPE_CHECKING:
    from outlast.app import App


P = ParamSpec("P")
R = TypeVar("R")

ENQUEUE_OPTIONS = frozenset({"connection", "delay", "expires", "priority", "queue", "run_at", "unique_key"})
"""What `enqueue` understands beside the task's own parameters, which therefore must not be called so."""
_PRIORITIES = range(10)
_LONGEST_SECONDS = 100 * 366 * 86400.0


class TaskDefinition(Generic[P, R]):
    """A function that can be enqueued. If you call it, it runs at once, as without the decorator.

    Attributes:
        name: The name under which tasks are stored.
        function: The function.
        policy: The retry policy.
        queue: The default queue.
        priority: From 0 (first) to 9 (last).
        timeout: Seconds for one attempt. Async functions are then cancelled; others run in a child process, which is
            killed.
        resource: The resource that the task depends on. During its cooldown the task waits and uses no attempt.
        expires: Seconds after enqueueing until the task expires if it has not started.
        keep_result: Seconds to keep the result; None to discard it.
        is_async: Whether it is a coroutine function.
    """

    def __init__(  # noqa: PLR0913  # its settings
        self,
        app: "App",
        function: Callable[P, R],
        *,
        name: str,
        policy: RetryPolicy,
        queue: str,
        priority: int,
        timeout: float | None,
        resource: str | None,
        expires: float | None,
        keep_result: float | None,
        payload_limit: int,
    ) -> None:
        """Check and keep the settings."""
        functools.update_wrapper(self, function)
        self._app = app
        self.function = function
        self.name = _check_text("name", name)
        self.policy = policy
        self.queue = _check_text("queue", queue)
        self.priority = _check_priority(priority)
        self.timeout = seconds("timeout", timeout, least=0.001)
        self.resource = None if resource is None else _check_text("resource", resource)
        self.expires = seconds("expires", expires)
        self.keep_result = seconds("keep_result", keep_result)
        self.is_async = inspect.iscoroutinefunction(function)
        self.codec = Codec(function, limit=payload_limit, name=name)
        self._check_function()
        self.target = function_ref(function) if self.timeout is not None and not self.is_async else None

    def _check_function(self) -> None:
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            message = f"task {self.name} is a generator; a task must be a function that returns"
            raise ConfigError(message)
        taken = ENQUEUE_OPTIONS & inspect.signature(self.function).parameters.keys()
        if taken:
            message = (
                f"task {self.name}: the parameter {min(taken)!r} is also an option of enqueue; rename the parameter"
            )
            raise ConfigError(message)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<task {self.name}>"

    def enqueue(self, *args: Any, **arguments: Any) -> Enqueued:
        """Add a task: ``scrape.enqueue(url="https://…", delay=60)``.

        In addition to the arguments of the function it takes the options ``delay`` (seconds or timedelta), ``run_at``
        (an aware datetime), ``unique_key`` (one live task per key), ``priority``, ``queue``, ``expires``, and
        ``connection``: your connection to the same database. The task is then part of its transaction, and you commit.

        Returns:
            The id of the task, and whether it is new: ``created=False`` if a task already has the unique key.

        Raises:
            PayloadError: If the arguments do not match the function or cannot be converted to JSON.
            ConfigError: If an option is not valid.
        """
        check_not_loading()
        if ENQUEUE_OPTIONS.isdisjoint(arguments):
            return self._app.store.enqueue([self._row(self.codec.encode(args, arguments))])[0]
        options = _pop_options(arguments)
        connection = options.pop("connection", None)
        return self._app.store.enqueue([self.prepare(args, arguments, options)], connection)[0]

    async def enqueue_async(self, *args: Any, **arguments: Any) -> Enqueued:
        """Add a task without blocking the event loop. Takes the arguments of `enqueue`."""
        import asyncio  # noqa: PLC0415  # only async programs need it

        return await asyncio.to_thread(self.enqueue, *args, **arguments)

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]], **options: Any) -> list[Enqueued]:
        """Add many tasks in one transaction: all or none.

        Args:
            calls: The arguments of each task, by name; may include ``unique_key``, ``delay`` and the other options of
                `enqueue`.
            options: Options for all tasks.
        """
        check_not_loading()
        connection = options.pop("connection", None)
        given = list(calls)
        if not all(isinstance(call, Mapping) for call in given):
            message = "calls must be mappings of arguments by name, such as [{'url': 'https://…'}, …]"
            raise ConfigError(message)
        tasks: Sequence[NewTask]
        if not options and all(map(ENQUEUE_OPTIONS.isdisjoint, given)):
            alike = NewTask(self.name, "", self.queue, self.priority, resource=self.resource, expires=self.expires)
            tasks = TaskBatch(alike, given, functools.partial(self.codec.encode, ()))
        else:
            tasks = [self._prepared(dict(call), options) for call in given]
        return self._app.store.enqueue(tasks, connection) if tasks else []

    def _prepared(self, arguments: dict[str, Any], options: Mapping[str, Any]) -> NewTask:
        return self.prepare((), arguments, {**options, **_pop_options(arguments)})

    def result(self, task: Enqueued | int) -> R:
        """Return the stored result of a task.

        Raises:
            LookupError: If there is no result yet, or it was removed.
        """
        number = task if isinstance(task, int) else task.id
        text = self._app.store.result(number)
        if text is None:
            message = f"task {number} has no stored result"
            raise LookupError(message)
        value: R = decode_result(text, self.codec.returns)
        return value

    def _row(self, parameters: str) -> NewTask:
        """Return the row of a call without options."""
        return NewTask(self.name, parameters, self.queue, self.priority, 0.0, None, None, self.resource, self.expires)

    def prepare(self, args: tuple[Any, ...], arguments: Mapping[str, Any], options: Mapping[str, Any]) -> NewTask:
        """Return the row for a call, after checking its options."""
        parameters = self.codec.encode(args, arguments)
        if not options:
            return self._row(parameters)
        unknown = options.keys() - ENQUEUE_OPTIONS
        if unknown:
            message = f"{min(unknown)!r} is not an option of enqueue; choose from: {', '.join(sorted(ENQUEUE_OPTIONS))}"
            raise ConfigError(message)
        delay = seconds("delay", options.get("delay"))
        run_at = _run_at_seconds(options.get("run_at"))
        if delay is not None and run_at is not None:
            message = "give delay or run_at, not both"
            raise ConfigError(message)
        key = options.get("unique_key")
        return NewTask(
            self.name,
            parameters,
            _check_text("queue", options.get("queue", self.queue)),
            _check_priority(options.get("priority", self.priority)),
            delay or 0.0,
            run_at,
            None if key is None else _check_text("unique_key", key),
            self.resource,
            seconds("expires", options.get("expires", self.expires)),
        )


def _pop_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the options of `enqueue` out of the arguments of a task."""
    if ENQUEUE_OPTIONS.isdisjoint(arguments):
        return {}
    return {name: arguments.pop(name) for name in ENQUEUE_OPTIONS & arguments.keys()}


def seconds(name: str, value: object, *, least: float = 0.0) -> float | None:
    """Return a span of time in seconds.

    Raises:
        ConfigError: If it is none.
    """
    if value is None:
        return None
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, int | float) and not isinstance(number, bool) and least <= number <= _LONGEST_SECONDS:
        return float(number)
    message = f"{name} is {value!r}; give seconds, {least:g} or more, or a timedelta"
    raise ConfigError(message)


def required_seconds(name: str, value: object, least: float) -> float:
    """Return a span of time that has to be given.

    Raises:
        ConfigError: If it is none.
    """
    checked = seconds(name, value, least=least)
    if checked is None:
        message = f"{name} is None; give seconds, {least:g} or more"
        raise ConfigError(message)
    return checked


def _run_at_seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        at = value.timestamp()
        if 0 <= at <= clock.now() + _LONGEST_SECONDS:
            return at
        message = f"run_at is {value!r}; give a time after 1970 and at most a hundred years from now"
        raise ConfigError(message)
    message = f"run_at is {value!r}; give an aware datetime, such as datetime.now(UTC) + timedelta(hours=1)"
    raise ConfigError(message)


def _check_priority(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in _PRIORITIES:
        return value
    message = f"priority is {value!r}; give a whole number from 0 (first) to 9 (last)"
    raise ConfigError(message)


_LONGEST_NAME = 200


def _check_text(name: str, value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and "\x00" not in value:
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    message = f"{name} is {value!r:.100}; give text of 1 to {_LONGEST_NAME} characters"
    raise ConfigError(message)


DEFAULT_QUEUE = "default"
_TASK_SETTINGS = {"name", "policy", "queue", "priority", "timeout", "resource", "expires", "keep_result"}


def check_task_settings(settings: Mapping[str, Any]) -> None:
    """See that a task is given no setting that it does not have.

    Raises:
        ConfigError: If it is.
    """
    unknown = settings.keys() - _TASK_SETTINGS
    if unknown:
        message = f"{min(unknown)!r} is not a setting of a task; choose from: {', '.join(sorted(_TASK_SETTINGS))}"
        raise ConfigError(message)


def define_task(app: "App", function: Callable[P, R], settings: Mapping[str, Any]) -> TaskDefinition[P, R]:
    """Make a function a task of an app.

    Raises:
        ConfigError: If it cannot be one, or another task has its name.
    """
    thing: object = function
    if not callable(thing) or isinstance(thing, type | TaskDefinition):
        message = f"{function!r} cannot be a task; decorate a function or a coroutine function"
        raise ConfigError(message)
    policy = settings.get("policy") or app.policy
    if not isinstance(policy, RetryPolicy):
        message = f"policy is {policy!r}; give a RetryPolicy, or a preset such as outlast.preset('etl')"
        raise ConfigError(message)
    definition = TaskDefinition(
        app,
        function,
        name=settings.get("name") or function.__name__,
        policy=policy,
        queue=settings.get("queue", DEFAULT_QUEUE),
        priority=settings.get("priority", 5),
        timeout=settings.get("timeout", policy.attempt_timeout if iscoroutinefunction(function) else None),
        resource=settings.get("resource", policy.resource),
        expires=settings.get("expires"),
        keep_result=settings.get("keep_result"),
        payload_limit=app.payload_limit,
    )
    if definition.name in app.tasks_by_name:
        message = f"a task named {definition.name!r} already exists; give one of them another name=…"
        raise ConfigError(message)
    app.tasks_by_name[definition.name] = definition
    return definition


def current_task() -> Claimed | None:
    """Return the task that runs in this thread or coroutine; None outside of a task.

    Its ``id`` is the same for every attempt, so it can serve as an idempotency key.
    """
    task: Claimed | None = CURRENT_TASK.get()
    return task
