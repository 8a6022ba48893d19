"""Task definitions: what `@app.task` makes of a function, and how tasks are enqueued."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from outlast import async_backends, clock
from outlast.decide.backoff import DoublingPause
from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError, TaskFailedError
from outlast.failure import Failure
from outlast.ports.rows import Claimed, Enqueued, NewTask, Status, TaskBatch, storable
from outlast.queue.child_process import check_not_loading, function_ref
from outlast.queue.payload import Codec, decode_result
from outlast.run.call_state import CURRENT_TASK
from outlast.units import format_seconds

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.store import Store


P = ParamSpec("P")
R = TypeVar("R")

ENQUEUE_OPTIONS = frozenset({"connection", "delay", "expires", "priority", "queue", "run_at", "unique_key"})
"""The options of `enqueue`. Parameters of a task must not have these names."""
_PRIORITIES = range(10)
_LONGEST_SECONDS = 100 * 366 * 86400.0


_POLL_PAUSES = (0.01, 1.0)  # seconds before the second look at a task, and at most


class Ticket(Enqueued, Generic[R]):
    """An enqueued task: its id, and whether it is new or a live task with the same unique key."""

    _definition: "TaskDefinition[..., R]"

    @classmethod
    def for_task(cls, enqueued: Enqueued, definition: "TaskDefinition[..., R]") -> "Ticket[R]":
        """Return the ticket of a task of this definition."""
        ticket = cls(*enqueued)
        ticket._definition = definition
        return ticket

    def __reduce__(self) -> tuple[type[Enqueued], tuple[int, bool]]:
        """Pickle the id alone: a definition belongs to its process."""
        return Enqueued, (self.id, self.created)

    def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait until the task has ended, and return its result. A worker must run it; this only polls the store.

        Args:
            timeout: Seconds to wait at most; None for no limit. The task is not stopped at its end.

        Raises:
            TimeoutError: If the task has not ended in time.
            TaskFailedError: If it became a dead letter, which is in ``failure``, or was cancelled.
            ConfigError: If the task keeps no results.
            LookupError: If the task or its result is no longer stored, or the task is not committed yet.
        """
        for pause in self._pauses(timeout):
            if self._has_ended():
                break
            clock.sleep(pause)
        return self._definition.result(self)

    async def result_async(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109  # as in `result`
        """Do the same as `result` without blocking the event loop."""
        for pause in self._pauses(timeout):
            if await async_backends.run_in_thread(self._has_ended):
                break
            await clock.sleep_async(pause)
        return await async_backends.run_in_thread(self._definition.result, self)

    def _pauses(self, timeout: float | timedelta | None) -> Iterator[float]:
        """Yield growing pauses until the time is up."""
        if self._definition.keep_result is None:
            text = f"task {self._definition.name} keeps no results"
            raise ConfigError(f"{text}; write @app.task(keep_result=3600) to keep them for an hour")
        limit, pause = seconds("timeout", timeout), DoublingPause(*_POLL_PAUSES)
        until = math.inf if limit is None else clock.monotonic() + limit
        while True:
            left = until - clock.monotonic()
            yield max(0.0, min(pause.grow(), left))
            if left <= 0:
                about = f"{self._definition.name} {self.id}"
                raise TimeoutError(f"{about} has not ended within {format_seconds(limit or 0.0)}")

    def _has_ended(self) -> bool:
        """Return whether the task is done.

        Raises:
            TaskFailedError: If it has ended without a result.
            LookupError: If it does not exist.
        """
        store, about = self._definition.store, f"{self._definition.name} {self.id}"
        task = store.get(self.id)
        if task is None:
            raise LookupError(f"{about} does not exist; it was removed, or its transaction is not committed yet")
        if task.status is Status.CANCELLED:
            raise TaskFailedError(self.id, f"{about} was cancelled")
        if task.status in {Status.FAILED, Status.DISCARDED}:
            attempts = store.attempts(self.id)
            failure = Failure.from_dict(attempts[-1].failure) if attempts else None
            cause = f": {failure.summary}" if failure else ""
            raise TaskFailedError(self.id, f"{about} is a dead letter{cause}; outlast tasks show {self.id}", failure)
        return task.status is Status.DONE


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
        functools.update_wrapper(self, function)
        self._app, self.function, self.policy = app, function, policy
        self.name, self.queue = _check_text("name", name), _check_text("queue", queue)
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
            raise ConfigError(f"task {self.name} is a generator; a task must be a function that returns")
        taken = ENQUEUE_OPTIONS & inspect.signature(self.function).parameters.keys()
        if taken:
            raise ConfigError(
                f"task {self.name}: the parameter {min(taken)!r} is also an option of enqueue; rename the parameter"
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<task {self.name}>"

    @property
    def store(self) -> "Store":
        """The store of the app."""
        return self._app.store

    def enqueue(self, *args: Any, **arguments: Any) -> Ticket[R]:
        """Add a task: ``scrape.enqueue(url="https://…", delay=60)``.

        In addition to the arguments of the function it takes the options ``delay`` (seconds or timedelta), ``run_at``
        (an aware datetime), ``unique_key`` (one live task per key), ``priority``, ``queue``, ``expires``, and
        ``connection``: your connection to the same database. The task is then part of its transaction, and you commit.

        Returns:
            A ticket: the id of the task, whether it is new (``created=False`` if a task already has the unique key),
            and `Ticket.result`, which waits for its result.

        Raises:
            PayloadError: If the arguments do not match the function or cannot be converted to JSON.
            ConfigError: If an option is not valid.
        """
        check_not_loading()
        options = _pop_options(arguments)
        connection = options.pop("connection", None)
        return Ticket.for_task(self.store.enqueue([self.prepare(args, arguments, options)], connection)[0], self)

    async def enqueue_async(self, *args: Any, **arguments: Any) -> Ticket[R]:
        """Add a task without blocking the event loop. Takes the arguments of `enqueue`."""
        import asyncio  # noqa: PLC0415  # only async programs need it

        return await asyncio.to_thread(self.enqueue, *args, **arguments)

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]], **options: Any) -> list[Ticket[R]]:
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
            raise ConfigError("calls must be mappings of arguments by name, such as [{'url': 'https://…'}, …]")
        tasks: Sequence[NewTask]
        if not options and all(map(ENQUEUE_OPTIONS.isdisjoint, given)):
            tasks = TaskBatch(self._plain_row(""), given, functools.partial(self.codec.encode, ()))
        else:
            tasks = [
                self.prepare((), arguments, {**options, **_pop_options(arguments)}) for arguments in map(dict, given)
            ]
        return [Ticket.for_task(each, self) for each in self.store.enqueue(tasks, connection)] if tasks else []

    def result(self, task: Enqueued | int) -> R:
        """Return the stored result of a task.

        Raises:
            LookupError: If there is no result yet, or it was removed.
        """
        number = task if isinstance(task, int) else task.id
        text = self.store.result(number)
        if text is None:
            raise LookupError(f"task {number} has no stored result")
        value: R = decode_result(text, self.codec.returns)
        return value

    def _plain_row(self, parameters: str) -> NewTask:
        return NewTask(self.name, parameters, self.queue, self.priority, resource=self.resource, expires=self.expires)

    def prepare(self, args: tuple[Any, ...], arguments: Mapping[str, Any], options: Mapping[str, Any]) -> NewTask:
        """Return the row for a call, after checking its options."""
        parameters = self.codec.encode(args, arguments)
        if not options:
            return self._plain_row(parameters)
        unknown = options.keys() - ENQUEUE_OPTIONS
        if unknown:
            raise ConfigError(
                f"{min(unknown)!r} is not an option of enqueue; choose from: {', '.join(sorted(ENQUEUE_OPTIONS))}"
            )
        delay = seconds("delay", options.get("delay"))
        run_at = _run_at_seconds(options.get("run_at"))
        if delay is not None and run_at is not None:
            raise ConfigError("give delay or run_at, not both")
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


Definition = TaskDefinition[Any, Any]
"""A task of any signature."""


def _pop_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of `enqueue` from the arguments of a task, and return them."""
    return {name: arguments.pop(name) for name in ENQUEUE_OPTIONS & arguments.keys()}


def seconds(name: str, value: object, *, least: float = 0.0) -> float | None:
    """Return a duration in seconds; None for None.

    Raises:
        ConfigError: If it is not a valid duration.
    """
    if value is None:
        return None
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, int | float) and not isinstance(number, bool) and least <= number <= _LONGEST_SECONDS:
        return float(number)
    raise ConfigError(f"{name} is {value!r}; give seconds, {least:g} or more, or a timedelta")


def required_seconds(name: str, value: object, least: float) -> float:
    """Return a duration in seconds.

    Raises:
        ConfigError: If it is None or not a valid duration.
    """
    checked = seconds(name, value, least=least)
    if checked is None:
        raise ConfigError(f"{name} is None; give seconds, {least:g} or more")
    return checked


def _run_at_seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        at = value.timestamp()
        if 0 <= at <= clock.now() + _LONGEST_SECONDS:
            return at
        raise ConfigError(f"run_at is {value!r}; give a time after 1970 and at most a hundred years from now")
    raise ConfigError(f"run_at is {value!r}; give an aware datetime, such as datetime.now(UTC) + timedelta(hours=1)")


def _check_priority(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in _PRIORITIES:
        return value
    raise ConfigError(f"priority is {value!r}; give a whole number from 0 (first) to 9 (last)")


_LONGEST_NAME = 200


def _check_text(name: str, value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and storable(value) == value:
        return value
    raise ConfigError(f"{name} is {value!r:.100}; give text of 1 to {_LONGEST_NAME} characters")


def check_policy(policy: object, about: str = "") -> None:
    """Check that a policy is a `RetryPolicy`.

    Raises:
        ConfigError: If it is not; the message starts with `about`.
    """
    if not isinstance(policy, RetryPolicy):
        raise ConfigError(f"{about}policy is {policy!r}; give a RetryPolicy, or a preset such as outlast.preset('etl')")


DEFAULT_QUEUE = "default"
_TASK_SETTINGS = {"name", "policy", "queue", "priority", "timeout", "resource", "expires", "keep_result"}


def check_task_settings(settings: Mapping[str, Any]) -> None:
    """Check that all settings exist.

    Raises:
        ConfigError: If one does not.
    """
    unknown = settings.keys() - _TASK_SETTINGS
    if unknown:
        raise ConfigError(
            f"{min(unknown)!r} is not a setting of a task; choose from: {', '.join(sorted(_TASK_SETTINGS))}"
        )


def define_task(app: "App", function: Callable[P, R], settings: Mapping[str, Any]) -> TaskDefinition[P, R]:
    """Make a function a task of an app.

    Raises:
        ConfigError: If it cannot be a task, or another task has its name.
    """
    given: object = function
    if not callable(given) or isinstance(given, type | TaskDefinition):
        raise ConfigError(f"{function!r} cannot be a task; decorate a function or a coroutine function")
    policy = settings.get("policy") or app.policy
    check_policy(policy)
    defaults = {
        "queue": DEFAULT_QUEUE,
        "priority": 5,
        "timeout": policy.attempt_timeout if inspect.iscoroutinefunction(function) else None,
        "resource": policy.resource,
        "expires": None,
        "keep_result": None,
        "payload_limit": app.payload_limit,
    }
    own = {"name": settings.get("name") or function.__name__, "policy": policy}
    definition = TaskDefinition(app, function, **defaults | dict(settings) | own)
    if definition.name in app.tasks_by_name:
        raise ConfigError(f"a task named {definition.name!r} already exists; give one of them another name=…")
    app.tasks_by_name[definition.name] = definition
    return definition


def current_task() -> Claimed | None:
    """Return the task that runs in this thread or coroutine; None outside of a task.

    Its ``id`` is the same for every attempt, so it can serve as an idempotency key.
    """
    task: Claimed | None = CURRENT_TASK.get()
    return task
