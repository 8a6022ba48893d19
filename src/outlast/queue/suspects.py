"""Suspects: a task that was running when its worker died runs next in a child process, where it can do no harm."""

import math
import sys
from operator import attrgetter
from typing import Any

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
from outlast.queue.definition import TaskDefinition
from outlast.queue.execution import ChildLimits
from outlast.queue.logs import log
from outlast.queue.settings import WorkerSettings

Definition = TaskDefinition[Any, Any]


class NoChildError(Exception):
    """No child could be had for a suspect; later there may be one."""


class SuspectIsolation:
    """Says how a suspect runs: which function a child process loads, and the limits of time and memory for it.

    Args:
        children: The processes.
        settings: How much of everything they may take.
    """

    def __init__(self, children: ChildPool, settings: WorkerSettings) -> None:
        """Begin with nothing known about tasks."""
        self.children = children
        self._settings = settings
        self._told: set[str] = set()

    def child_target(self, definition: Definition) -> FunctionRef | None:
        """Return where a child finds a task; None, said once in the log, if it has to run in the worker.

        It takes its time: a child may have to start, and loads the task's module.

        Raises:
            NoChildError: If that says nothing about the task: no process can be started, or it ended, or took too long,
                before it had loaded the module.
        """
        try:
            target = definition.target or _find_function(definition)
        except ConfigurationError as error:
            self._tell(definition, str(error))
            return None
        try:
            reply = self.children.load(target)
        except OSError as error:
            message = f"no process could be started: {error}"
            raise NoChildError(message) from error
        if isinstance(reply, Returned):
            return target
        if not isinstance(reply, Raised) or reply.verdict.failure.category is Category.SYSTEM:
            raise NoChildError(_load_failure_reason(reply))
        failure = reply.verdict.failure
        self._tell(definition, f"the child process cannot load it: {failure.exception_name}: {failure.message}")
        return None

    def _tell(self, definition: Definition, why: str) -> None:
        """Say once that a task cannot run apart."""
        if definition.name not in self._told:
            self._told.add(definition.name)
            log.warning(
                "%s was running when a worker died, but cannot run in a child process: it runs alone in this one (%s)",
                definition.name, why,
            )  # fmt: skip

    def bounds(self, definition: Definition) -> ChildLimits:
        """Return what a task may take there."""
        seconds = definition.timeout or self._settings.suspect_timeout or math.inf
        return ChildLimits(seconds, self._settings.suspect_memory, self._settings.crash_limit)


def _load_failure_reason(reply: Raised | TimedOut | Died) -> str:
    """Return why a process has not loaded a task."""
    match reply:
        case Raised(verdict):
            return f"the child process could not load it: {verdict.failure.message}"
        case TimedOut(seconds):
            return f"the child process did not load it within {seconds:g} s"
        case Died(code):
            return f"the child process {describe_exit(code)} before it loaded the task"


def _find_function(definition: Definition) -> FunctionRef:
    """Return where a task stands.

    Raises:
        ConfigurationError: If it is not to be found there: it was made within a function, or something else has its
            name by now.
    """
    function = definition.function
    if not hasattr(function, "__qualname__"):
        message = f"{definition.name} is not a function"
        raise ConfigurationError(message)
    target = function_ref(function)
    try:
        there = attrgetter(function.__qualname__)(sys.modules[function.__module__])
    except (AttributeError, KeyError):
        there = None
    if there is not definition and there is not function:
        message = f"{function.__module__}.{function.__qualname__} is another object"
        raise ConfigurationError(message)
    return target


_SUSPECT_WAIT = 10.0  # seconds for which a worker lets its tasks end so that a suspect can run alone
_SUSPECT_REST = 30.0  # seconds until it tries that again
_MIN_REST = 1.0  # seconds that the others have after a suspect, however short it was


class SuspectTurns:
    """The turns of suspects and of all other tasks.

    Attributes:
        task: The suspect that runs.
    """

    def __init__(self) -> None:
        """Begin with nobody's turn."""
        self.task: int | None = None
        self._since: float | None = None
        self._wait = _SUSPECT_WAIT
        self._rests_until = 0.0

    def waits(self, now: float, *, due: bool) -> bool:
        """Tell whether to let tasks end so that a suspect can run alone.

        Args:
            now: The time.
            due: Whether there is one.
        """
        if not due or now < self._rests_until:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since <= self._wait:
            return True
        self._since, self._rests_until = None, now + _SUSPECT_REST
        self._wait *= 2  # their tasks take longer than we waited
        return False

    def ended(self, now: float) -> None:
        """Take in that a suspect has ended, or that there was none to be had: others have as long as that took."""
        taken = 0.0 if self._since is None else now - self._since
        self.end_rest()
        self.task, self._rests_until = None, now + max(_MIN_REST, taken)

    def end_rest(self) -> None:
        """Take in that nobody else waits: no reason to let suspects wait."""
        self._since, self._wait, self._rests_until = None, _SUSPECT_WAIT, 0.0
