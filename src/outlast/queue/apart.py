"""Suspects apart: a task that was running when its worker died runs next in a child, and takes down nothing else."""

import math
import sys
from operator import attrgetter
from typing import Any

from outlast.errors import ConfigurationError
from outlast.failure import Category
from outlast.queue.calls import Died, Raised, Returned, Target, TimedOut, target_of
from outlast.queue.child import Children
from outlast.queue.definition import TaskDefinition
from outlast.queue.ends import how_it_ended
from outlast.queue.executing import Bounds
from outlast.queue.logs import log
from outlast.queue.settings import WorkerSettings

__all__ = ["Apart", "NotNowError"]

Definition = TaskDefinition[Any, Any]


class NotNowError(Exception):
    """No child could be had for a suspect; later there may be one."""


class Apart:
    """Where suspects run.

    Args:
        children: The processes.
        settings: How much of everything they may take.
    """

    def __init__(self, children: Children, settings: WorkerSettings) -> None:
        """Begin with nothing known about tasks."""
        self.children = children
        self._settings = settings
        self._told: set[str] = set()

    def place_for(self, definition: Definition) -> Target | None:
        """Return where a child finds a task; None, said once in the log, if it has to run in the worker.

        It takes its time: a child may have to start, and loads the task's module.

        Raises:
            NotNowError: If that says nothing about the task: no process can be started, or it ended, or took too long,
                before it had loaded the module.
        """
        try:
            target = definition.target or _found(definition)
        except ConfigurationError as error:
            self._tell(definition, str(error))
            return None
        try:
            reply = self.children.load(target)
        except OSError as error:
            message = f"no process could be started: {error}"
            raise NotNowError(message) from error
        if isinstance(reply, Returned):
            return target
        if not isinstance(reply, Raised) or reply.verdict.failure.category is Category.SYSTEM:
            raise NotNowError(_why(reply))
        failure = reply.verdict.failure
        self._tell(definition, f"it cannot be loaded there: {failure.exception_name}: {failure.message}")
        return None

    def _tell(self, definition: Definition, why: str) -> None:
        """Say once that a task cannot run apart."""
        if definition.name not in self._told:
            self._told.add(definition.name)
            log.warning(
                "%s was running when a worker died, and cannot run in a process apart: it runs in this one, alone (%s)",
                definition.name, why,
            )  # fmt: skip

    def bounds(self, definition: Definition) -> Bounds:
        """Return what a task may take there."""
        seconds = definition.timeout or self._settings.suspect_timeout or math.inf
        return Bounds(seconds, self._settings.suspect_memory, self._settings.crash_limit)


def _why(reply: Raised | TimedOut | Died) -> str:
    """Return why a process has not loaded a task."""
    match reply:
        case Raised(verdict):
            return f"its process could not load it: {verdict.failure.message}"
        case TimedOut(seconds):
            return f"its process had not loaded it after {seconds:g} s"
        case Died(code):
            return f"its process {how_it_ended(code)} before it had loaded it"


def _found(definition: Definition) -> Target:
    """Return where a task stands.

    Raises:
        ConfigurationError: If it is not to be found there: it was made within a function, or something else has its
            name by now.
    """
    function = definition.function
    if not hasattr(function, "__qualname__"):
        message = f"{definition.name} is no function"
        raise ConfigurationError(message)
    target = target_of(function)
    try:
        there = attrgetter(function.__qualname__)(sys.modules[function.__module__])
    except (AttributeError, KeyError):
        there = None
    if there is not definition and there is not function:
        message = f"{function.__qualname__} in {function.__module__} is something else"
        raise ConfigurationError(message)
    return target
