"""Suspects: a task that was running when its worker died runs next in a child process, where a crash does no harm."""

import math
import sys
from operator import attrgetter

from outlast.errors import ConfigurationError
from outlast.failure import Category
from outlast.queue.child_process import (
    ChildPool,
    Died,
    FunctionRef,
    Raised,
    Returned,
    TimedOut,
    describe_exit,
    function_ref,
)
from outlast.queue.definition import Definition
from outlast.queue.execution import ChildLimits
from outlast.queue.logs import log
from outlast.queue.settings import WorkerSettings


class NoChildError(Exception):
    """No child process could be started for a suspect; a later try may succeed."""


class SuspectIsolation:
    """Finds the function that a child process loads for a suspect, and its limits of time and memory.

    Args:
        children: The child processes.
        settings: The limits.
    """

    def __init__(self, children: ChildPool, settings: WorkerSettings) -> None:
        self.children = children
        self._settings = settings
        self._warned: set[str] = set()

    def child_target(self, definition: Definition) -> FunctionRef | None:
        """Return where a child finds a task. Returns None, with one warning, if the task must run in the worker.

        This may take seconds: a child may have to start, and it imports the task's module.

        Raises:
            NoChildError: If no process could be started, or it ended or timed out before it had loaded the module.
        """
        try:
            target = definition.target or _find_function(definition)
        except ConfigurationError as error:
            self._warn_once(definition, str(error))
            return None
        try:
            reply = self.children.load(target)
        except OSError as error:
            raise NoChildError(f"no process could be started: {error}") from error
        if isinstance(reply, Returned):
            return target
        if not isinstance(reply, Raised) or reply.task_failure.failure.category is Category.SYSTEM:
            raise NoChildError(_load_failure_reason(reply))
        failure = reply.task_failure.failure
        self._warn_once(definition, f"the child process cannot load it: {failure.exception_name}: {failure.message}")
        return None

    def _warn_once(self, definition: Definition, why: str) -> None:
        """Warn once that a task cannot run in a child process."""
        if definition.name not in self._warned:
            self._warned.add(definition.name)
            log.warning(
                "%s was running when a worker died, but cannot run in a child process: it runs alone in this one (%s)",
                definition.name, why,
            )  # fmt: skip

    def limits(self, definition: Definition) -> ChildLimits:
        """Return the limits of a task in a child process."""
        seconds = definition.timeout or self._settings.suspect_timeout or math.inf
        return ChildLimits(seconds, self._settings.suspect_memory, self._settings.crash_limit)


def _load_failure_reason(reply: Raised | TimedOut | Died) -> str:
    """Return why a child process has not loaded a task."""
    match reply:
        case Raised(task_failure):
            return f"the child process could not load it: {task_failure.failure.message}"
        case TimedOut(seconds):
            return f"the child process did not load it within {seconds:g} s"
        case Died(code):
            return f"the child process {describe_exit(code)} before it loaded the task"


def _find_function(definition: Definition) -> FunctionRef:
    """Return where a child finds the function of a task.

    Raises:
        ConfigurationError: If a child cannot find it: it is defined inside a function, or its name is another object.
    """
    function = definition.function
    if not hasattr(function, "__qualname__"):
        raise ConfigurationError(f"{definition.name} is not a function")
    target = function_ref(function)
    try:
        found = attrgetter(function.__qualname__)(sys.modules[function.__module__])
    except (AttributeError, KeyError):
        found = None
    if getattr(found, "function", found) is not function:  # the task, or what it decorates
        raise ConfigurationError(f"{function.__module__}.{function.__qualname__} is another object")
    return target


_SUSPECT_WAIT = 10.0  # seconds that a worker waits for its tasks to end, so that a suspect can run alone
_SUSPECT_REST = 30.0  # seconds until it waits again
_MIN_REST = 1.0  # seconds for other tasks after a suspect, however short it was


class SuspectTurns:
    """Takes turns between suspects, which run alone, and all other tasks.

    Attributes:
        task: Id of the suspect that runs; None if none does.
    """

    def __init__(self) -> None:
        self.task: int | None = None
        self._since: float | None = None
        self._wait = _SUSPECT_WAIT
        self._rests_until = 0.0

    def waits(self, now: float, *, due: bool) -> bool:
        """Return whether to claim nothing until all tasks have ended, so that a suspect can run alone.

        Args:
            now: The time.
            due: Whether a suspect is due.
        """
        if not due or now < self._rests_until:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since <= self._wait:
            return True
        self._since, self._rests_until = None, now + _SUSPECT_REST
        self._wait *= 2  # the running tasks take longer than that
        return False

    def ended(self, now: float) -> None:
        """End the turn of a suspect, or of none. Other tasks then have at least as much time as the turn took."""
        taken = 0.0 if self._since is None else now - self._since
        self.end_rest()
        self.task, self._rests_until = None, now + max(_MIN_REST, taken)

    def end_rest(self) -> None:
        """Let the next suspect run at once, because no other task waits."""
        self._since, self._wait, self._rests_until = None, _SUSPECT_WAIT, 0.0
