"""What Outlast writes into traces: names of span events and attributes, and from which event they come. Pure."""

from collections.abc import Callable
from typing import Any

from outlast.failure import Failure
from outlast.record import events

__all__ = ["ATTRIBUTES", "SPAN_EVENTS", "Attributes", "attributes_of", "span_event", "task_attributes"]

Attributes = dict[str, str | int | float | bool]

ATTRIBUTES = {
    "call": "What is called under a retry.",
    "task": "Name of the task.",
    "task_id": "Its number.",
    "attempt": "Number of the attempt, from 1.",
    "attempts": "How many attempts were made.",
    "max_attempts": "Attempts that the policy allows in all.",
    "delay": "Seconds until the next attempt.",
    "elapsed": "Seconds since the first failure.",
    "reason": "Why no further attempt is made.",
    "outcome": "What became of the attempt of a task.",
    "category": "The category of the failure.",
    "origin": "What the program was talking to.",
    "rule": "The rule that decided.",
    "http_status": "The HTTP status, where there was a response.",
    "exception_name": "Class of the error.",
    "failure_message": "Text of the error, redacted and capped.",
}
"""What each attribute says; in a trace all begin with ``outlast.``."""


def _call(name: str, attempt: int, max_attempts: int, failure: Failure, **more: Any) -> dict[str, Any]:
    return {"call": name, "attempt": attempt, "max_attempts": max_attempts, **more, **_of_failure(failure)}


def _task(event: Any, **more: Any) -> dict[str, Any]:
    about = {"task": event.task, "task_id": event.task_id, "attempt": event.attempt}
    return {**about, **more, **_of_failure(event.failure)}


def _attempt_failed(event: events.AttemptFailed) -> dict[str, Any]:
    return _call(event.name, event.attempt, event.max_attempts, event.failure)


def _retrying(event: events.Retrying) -> dict[str, Any]:
    return _call(event.name, event.attempt, event.max_attempts, event.failure, delay=event.delay)


def _gave_up(event: events.GaveUp) -> dict[str, Any]:
    about = {"call": event.name, "attempts": event.attempts, "elapsed": event.elapsed, "reason": event.reason}
    return {**about, **_of_failure(event.failure)}


def _recovered(event: events.Recovered) -> dict[str, Any]:
    return {"call": event.name, "attempts": event.attempts, "elapsed": event.elapsed}


def _task_retrying(event: events.TaskRetrying) -> dict[str, Any]:
    return _task(event, delay=event.delay)


def _task_deferred(event: events.TaskDeferred) -> dict[str, Any]:
    return _task(event, delay=event.delay)


def _task_failed(event: events.TaskFailed) -> dict[str, Any]:
    return _task(event, reason=event.reason)


SPAN_EVENTS: dict[type[events.Event], tuple[str, Callable[[Any], dict[str, Any]]]] = {
    events.AttemptFailed: ("outlast.attempt_failed", _attempt_failed),
    events.Retrying: ("outlast.retrying", _retrying),
    events.GaveUp: ("outlast.gave_up", _gave_up),
    events.Recovered: ("outlast.recovered", _recovered),
    events.TaskRetrying: ("outlast.task_retrying", _task_retrying),
    events.TaskDeferred: ("outlast.task_deferred", _task_deferred),
    events.TaskFailed: ("outlast.task_failed", _task_failed),
}
"""The name of the span event for each kind of event, and what gives its attributes."""


def span_event(event: events.Event) -> tuple[str, Attributes] | None:
    """Return the span event for an event as its name and attributes; None where there is none."""
    known = SPAN_EVENTS.get(type(event))
    return None if known is None else (known[0], attributes_of(known[1](event)))


def task_attributes(event: events.TaskStarted) -> Attributes:
    """Return what the span of a task has from its start."""
    return attributes_of({"task": event.task, "task_id": event.task_id, "attempt": event.attempt})


def attributes_of(values: dict[str, Any]) -> Attributes:
    """Return values as attributes, without those that are not known."""
    return {f"outlast.{key}": value for key, value in values.items() if value is not None}


def _of_failure(failure: Failure) -> dict[str, Any]:
    return {
        "category": failure.category.value,
        "origin": failure.origin.value,
        "rule": failure.rule,
        "http_status": failure.http_status,
        "exception_name": failure.exception_name,
        "failure_message": failure.message,
    }
