"""From a function and its settings to a task of an app."""

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from outlast.decide.policy import RetryPolicy
from outlast.errors import ConfigError
from outlast.queue.definition import TaskDefinition

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["DEFAULT_QUEUE", "check_settings", "define"]

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_QUEUE = "default"
_SETTINGS = {"name", "policy", "queue", "priority", "timeout", "resource", "expires", "keep_result"}


def check_settings(settings: Mapping[str, Any]) -> None:
    """See that a task is given no setting that it does not have.

    Raises:
        ConfigError: If it is.
    """
    unknown = settings.keys() - _SETTINGS
    if unknown:
        message = f"{min(unknown)!r} is no setting of a task; choose from: {', '.join(sorted(_SETTINGS))}"
        raise ConfigError(message)


def define(app: "App", function: Callable[P, R], settings: Mapping[str, Any]) -> TaskDefinition[P, R]:
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
        message = f"there is a task {definition.name!r} already; give one of them another name=…"
        raise ConfigError(message)
    app.tasks_by_name[definition.name] = definition
    return definition
