"""Task definitions: what `@app.task` makes of a function, and how tasks are enqueued."""

import copy
import functools
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack

from outlast import async_backends, clock
from outlast.decide.backoff import DoublingPause
from outlast.decide.policy import RetryPolicy
from outlast.decide.settings import TaskPolicySettings
from outlast.errors import ConfigError, PayloadError, TaskFailedError
from outlast.failure import Failure
from outlast.ports.rows import Claimed, Enqueued, NewTask, Status, TaskBatch, storable
from outlast.queue.child_process import FunctionRef, check_not_loading, function_ref
from outlast.queue.masking import check_shown_name
from outlast.queue.payload import Codec, decode_result
from outlast.run.call_state import CURRENT_TASK
from outlast.run.retry import pick_policy
from outlast.units import format_seconds

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.decide.backoff import Jitter
    from outlast.ports.store import Store


P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_QUEUE = "default"


class EnqueueOptions(TypedDict, total=False):
    """The options of `TaskDefinition.enqueue`. Parameters of a task must not have these names."""

    connection: Any
    delay: float | timedelta | None
    run_at: datetime | None
    unique_key: str | None
    priority: int
    queue: str
    expires: float | timedelta | None


class CallSettings(TypedDict, total=False):
    """The settings of a task that one call can change. They are stored with its row."""

    max_attempts: int
    timeout: float | timedelta | None
    base_delay: float | timedelta
    max_delay: float | timedelta
    backoff: str
    jitter: "Jitter"


class CallOptions(EnqueueOptions, CallSettings, total=False):
    """The options of `TaskDefinition.options`."""

    resource: str


class TaskSettings(TaskPolicySettings, total=False):
    """The settings of a task, as ``@app.task`` takes them."""

    name: str | None
    policy: RetryPolicy | None
    queue: str
    priority: int
    timeout: float | timedelta | None
    resource: str | Callable[..., str | None] | None
    expires: float | timedelta | None
    keep_result: float | timedelta | None


ENQUEUE_OPTIONS = EnqueueOptions.__annotations__.keys()
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
        resource: The resource that the task depends on. During its cooldown the task waits and uses no attempt. None
            if a function computes it for each call.
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
        queue: str = DEFAULT_QUEUE,
        priority: int = 5,
        timeout: float | timedelta | None = None,
        resource: str | Callable[..., str | None] | None = None,
        expires: float | timedelta | None = None,
        keep_result: float | timedelta | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._app, self.function, self.policy = app, function, policy
        self.name, self.queue = _check_text("name", name), _check_text("queue", queue)
        self.priority = _check_priority(priority)
        self.timeout = seconds("timeout", timeout, least=0.001)
        self.resource = None if resource is None or callable(resource) else _check_text("resource", resource)
        self.computed_resource = ComputedResource(resource, function, name) if callable(resource) else None
        self.expires = seconds("expires", expires)
        self.keep_result = seconds("keep_result", keep_result)
        self.is_async = inspect.iscoroutinefunction(function)
        self.codec = Codec(function, limit=app.payload_limit, name=name)
        self._check_function()
        self.target = self._child_target()

    def _child_target(self) -> FunctionRef | None:
        """Return where a child process finds the function; None if it needs none."""
        return function_ref(self.function) if self.timeout is not None and not self.is_async else None

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
        return self.options(**_pop_options(arguments)).enqueue(*args, **arguments)

    async def enqueue_async(self, *args: Any, **arguments: Any) -> Ticket[R]:
        """Add a task without blocking the event loop. Takes the arguments of `enqueue`."""
        return await async_backends.run_in_thread(functools.partial(self.enqueue, *args, **arguments))

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]], **options: Any) -> list[Ticket[R]]:
        """Add many tasks in one transaction: all or none.

        Args:
            calls: The arguments of each task, by name; may include ``unique_key``, ``delay`` and the other options of
                `enqueue`.
            options: Options for all tasks, as for `options`.
        """
        return self.options(**options).enqueue_many(calls)

    def options(self, **options: Unpack["CallOptions"]) -> "TaskOptions[P, R]":
        """Return the task with options for single calls: ``scrape.options(max_attempts=8).enqueue(url)``.

        Args:
            options: ``resource``; ``max_attempts``, ``timeout``, ``base_delay``, ``max_delay``, ``backoff`` and
                ``jitter``, which are stored with the task and also apply to its retries and replays; and the options
                of `enqueue`.

        Raises:
            ConfigError: If an option does not exist or is not valid.
            ConfigurationError: If a timeout is given and a child process cannot import the function.
        """
        if not options:
            return self._plain_options
        given: dict[str, Any] = dict(options)
        _check_names(given, CallOptions, "an option of a call")
        row, computed = with_options(self._plain_options.row, given), self.computed_resource
        settings = {name: given[name] for name in CallSettings.__annotations__ if name in given}
        if settings:
            row = row._replace(options=self._encode_settings(settings))
        if "resource" in given:
            row, computed = row._replace(resource=_check_text("resource", given["resource"])), None
        return TaskOptions(self, row, computed, given.get("connection"))

    @functools.cached_property
    def _plain_options(self) -> "TaskOptions[P, R]":
        row = NewTask(self.name, "", self.queue, self.priority, resource=self.resource, expires=self.expires)
        return TaskOptions(self, row, self.computed_resource)

    def _encode_settings(self, settings: dict[str, Any]) -> str:
        """Return the settings of a call as JSON text, after checking them."""
        changed = self.with_settings(settings)
        values = {name: changed.timeout if name == "timeout" else getattr(changed.policy, name) for name in settings}
        if callable(changed.policy.backoff) and "backoff" in settings:
            raise ConfigError("backoff is a function, which cannot be stored with a task; give it in @app.task(…)")
        return json.dumps(values, separators=(",", ":"))

    def with_settings(self, settings: Mapping[str, Any]) -> "TaskDefinition[P, R]":
        """Return a copy with other settings for one call; `CallSettings` has their names.

        Raises:
            ConfigError: If one does not exist or is not valid.
        """
        changed, rest = copy.copy(self), dict(settings)
        _check_names(rest, CallSettings, "a setting of a call")
        if "timeout" in rest:
            changed.timeout = seconds("timeout", rest.pop("timeout"), least=0.001)
            changed.target = changed._child_target()  # noqa: SLF001  # of this class
        changed.policy = pick_policy(None, rest, self.policy)
        return changed

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

    def prepare(self, args: tuple[Any, ...], arguments: Mapping[str, Any], options: Mapping[str, Any]) -> NewTask:
        """Return the row for a call, after checking its options."""
        return self.options(**options).prepare(args, arguments)


@dataclass(frozen=True)
class TaskOptions(Generic[P, R]):
    """A task with the options of single calls; `TaskDefinition.options` returns it.

    Attributes:
        task: The task.
        row: The row of a call, without its arguments.
        computed_resource: Computes the resource of a call; None if the row has it.
        connection: Your connection to the same database, whose transaction the calls are part of.
    """

    task: TaskDefinition[P, R]
    row: NewTask
    computed_resource: "ComputedResource | None" = None
    connection: Any = None

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Ticket[R]:
        """Add a task with these arguments of the function, as `TaskDefinition.enqueue` does."""
        check_not_loading()
        return self._add([self.prepare(args, kwargs)])[0]

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Ticket[R]:
        """Add a task without blocking the event loop."""
        return await async_backends.run_in_thread(functools.partial(self.enqueue, *args, **kwargs))

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Ticket[R]]:
        """Add many tasks in one transaction, as `TaskDefinition.enqueue_many` does."""
        check_not_loading()
        given, tasks = list(calls), list[NewTask]()
        if not all(isinstance(call, Mapping) for call in given):
            raise ConfigError("calls must be mappings of arguments by name, such as [{'url': 'https://…'}, …]")
        if all(map(ENQUEUE_OPTIONS.isdisjoint, given)):
            encode, computed = functools.partial(self.task.codec.encode, ()), self.computed_resource
            resource_of = None if computed is None else functools.partial(computed, ())
            return self._add(TaskBatch(self.row, given, encode, resource_of)) if given else []
        for arguments in map(dict, given):
            row = with_options(self.row, _pop_options(arguments))
            tasks.append(self.prepare((), arguments, row))
        return self._add(tasks)

    def _add(self, tasks: Sequence[NewTask]) -> list[Ticket[R]]:
        return [Ticket.for_task(each, self.task) for each in self.task.store.enqueue(tasks, self.connection)]

    def prepare(self, args: tuple[Any, ...], arguments: Mapping[str, Any], row: NewTask | None = None) -> NewTask:
        """Return the row of a call."""
        try:
            made = (row or self.row)._replace(parameters=self.task.codec.encode(args, arguments))
        except PayloadError:
            for name in CallSettings.__annotations__:
                if name in arguments and name not in inspect.signature(self.task.function).parameters:
                    call = f"{self.task.name}.options({name}=…).enqueue(…)"
                    raise PayloadError(f"{name} is a setting, not an argument of the task; write {call}") from None
            raise
        computed = self.computed_resource
        return made if computed is None else made._replace(resource=computed(args, arguments))


class ComputedResource:
    """Computes the resource of a call from the arguments of the task that have the names of the function's parameters.

    Args:
        compute: Returns the name of the resource; None for no resource.
        function: The function of the task.
        name: Name of the task.

    Raises:
        ConfigError: If the function has a parameter that the task does not have.
    """

    def __init__(self, compute: Callable[..., object], function: Callable[..., object], name: str) -> None:
        self._compute, self._task_name, self._signature = compute, name, inspect.signature(function)
        try:
            parameters = inspect.signature(compute).parameters.values()
        except (TypeError, ValueError) as error:
            raise ConfigError(f"task {name}: the parameters of the resource function are unknown") from error
        known, by_name = self._signature.parameters, inspect.Parameter.POSITIONAL_OR_KEYWORD
        wrong = [each for each in parameters if each.name not in known or each.kind < by_name]
        if wrong:
            raise ConfigError(
                f"task {name}: the resource function has the parameter {str(wrong[0])!r}; its parameters must have the "
                f"names of parameters of the task: {', '.join(known) or 'none'}"
            )
        self._names = frozenset(each.name for each in parameters)

    def __call__(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> str | None:
        """Return the resource of a call.

        Raises:
            PayloadError: If the function fails.
            ConfigError: If what it returns is not the name of a resource.
        """
        if args or not self._names <= arguments.keys():
            try:
                bound = self._signature.bind(*args, **arguments)
            except TypeError as error:
                raise PayloadError(f"the arguments do not match task {self._task_name}: {error}") from error
            bound.apply_defaults()
            arguments = bound.arguments
        try:
            name = self._compute(**{each: arguments[each] for each in self._names})
        except Exception as error:  # of the program; its text may contain the arguments
            raise PayloadError(
                f"task {self._task_name}: the resource function failed with {type(error).__name__}; nothing is enqueued"
            ) from error
        return None if name is None else _check_text("resource", name)


Definition = TaskDefinition[Any, Any]
"""A task of any signature."""


def _pop_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of `enqueue` from the arguments of a task, and return them."""
    return {name: arguments.pop(name) for name in ENQUEUE_OPTIONS & arguments.keys()}


def with_options(row: NewTask, options: Mapping[str, Any]) -> NewTask:
    """Return a row with options of `enqueue`, after checking them.

    Raises:
        ConfigError: If one is not valid.
    """
    checked: dict[str, Any] = {}
    for name, value in options.items():
        match name:
            case "queue":
                checked[name] = _check_text(name, value)
            case "priority":
                checked[name] = _check_priority(value)
            case "unique_key":
                checked[name] = None if value is None else _check_text(name, value)
            case "run_at":
                checked[name] = _run_at_seconds(value)
            case "expires":
                checked[name] = seconds(name, value)
            case "delay":
                checked[name] = seconds(name, value) or 0.0
    if checked.get("run_at", row.run_at) is not None and (options.get("delay") is not None or row.delay):
        raise ConfigError("give delay or run_at, not both")
    return row._replace(**checked) if checked else row


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
        return check_shown_name(name, value) if name in {"name", "queue"} else value
    raise ConfigError(f"{name} is {value!r:.100}; give text of 1 to {_LONGEST_NAME} characters")


def _check_names(given: Mapping[str, Any], options: type, kind: str) -> None:
    known = options.__annotations__
    unknown = given.keys() - known.keys()
    if unknown:
        raise ConfigError(f"{min(unknown)!r} is not {kind}; choose from: {', '.join(sorted(known))}")


def check_task_settings(settings: Mapping[str, Any]) -> None:
    """Check that all settings exist.

    Raises:
        ConfigError: If one does not.
    """
    _check_names(settings, TaskSettings, "a setting of a task")


def define_task(app: "App", function: Callable[P, R], settings: Mapping[str, Any]) -> TaskDefinition[P, R]:
    """Make a function a task of an app.

    Raises:
        ConfigError: If it cannot be a task, or another task has its name.
    """
    given: object = function
    if not callable(given) or isinstance(given, type | TaskDefinition):
        raise ConfigError(f"{function!r} cannot be a task; decorate a function or a coroutine function")
    own = dict(settings)
    changes = {name: own.pop(name) for name in TaskPolicySettings.__annotations__.keys() & own.keys()}
    policy = own["policy"] = pick_policy(own.get("policy"), changes, app.policy)
    own["name"] = own.get("name") or function.__name__
    own.setdefault("resource", policy.resource)
    if inspect.iscoroutinefunction(function):
        own.setdefault("timeout", policy.attempt_timeout)
    definition = TaskDefinition(app, function, **own)
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
