"""Records the decisions of Outlast: what was retried, how long it waited, what was given up and why.

>>> with record_decisions() as decisions:
...     collect()
>>> decisions.retries("fetch")
2
>>> print(decisions)
fetch: attempt 1 failed, retrying in 3 s (rate_limit: HTTPError: HTTP Error 429: Too Many Requests)
…
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outlast.failure import Category, Failure, first_line
from outlast.record import events
from outlast.record.bus import subscribe
from outlast.units import format_seconds

_RETRIES = (events.Retrying, events.TaskRetrying)
_DEFERRALS = (events.TaskDeferred,)
_GIVE_UPS = (events.GaveUp, events.TaskFailed)
_FAILURES = (*_RETRIES, *_DEFERRALS, *_GIVE_UPS)
_REPR_SHOWN = 3  # decisions in a repr, because assertion messages are cut


class Decisions:
    """The decisions so far. Methods take the name of a function or task, and a category; by default they count all.

    A name matches the end of a function's name: ``fetch`` also matches ``Client.fetch``. ``print(decisions)`` lists
    what happened.

    Attributes:
        events: All published events; see `outlast.events`.
    """

    def __init__(self) -> None:
        self.events: list[events.Event] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Return the number of decisions, and the last ones."""
        lines = self._lines()
        shown = "; ".join(lines[-_REPR_SHOWN:])
        return f"Decisions({len(lines)}{': ' if lines else ''}{'… ' if len(lines) > _REPR_SHOWN else ''}{shown})"

    def __str__(self) -> str:
        """Return the decisions, one per line."""
        return "\n".join(self._lines()) or "no decisions: no attempt failed"

    def retries(self, name: str | None = None, *, category: Category | str | None = None) -> int:
        """Return the number of retries, of calls in this process and of tasks."""
        return len(self._select(_RETRIES, name, category))

    def deferrals(self, name: str | None = None, *, category: Category | str | None = None) -> int:
        """Return how often a task was deferred without using an attempt."""
        return len(self._select(_DEFERRALS, name, category))

    def gave_up(
        self, name: str | None = None, *, category: Category | str | None = None, reason: str | None = None
    ) -> int:
        """Return how often Outlast gave up: the error was raised, or the task became a dead letter.

        Args:
            name: Name of the function or task.
            category: Category of the last failure.
            reason: Why it gave up, such as ``exhausted``, ``permanent`` or ``deadline``.
        """
        return sum(reason in {None, event.reason} for event in self._select(_GIVE_UPS, name, category))

    def recoveries(self, name: str | None = None) -> int:
        """Return how often a call or task succeeded after failed attempts."""
        return sum(_is_recovery(event) and _is_named(event, name) for event in self.events)

    def waits(self, name: str | None = None, *, category: Category | str | None = None) -> list[float]:
        """Return the waits between attempts in seconds, in order; for tasks, of retries and deferrals."""
        return [event.delay for event in self._select((*_RETRIES, *_DEFERRALS), name, category)]

    def failures(self, name: str | None = None, *, category: Category | str | None = None) -> list[Failure]:
        """Return the failure of every failed attempt, in order."""
        return [event.failure for event in self._select(_FAILURES, name, category)]

    def hear(self, event: events.Event) -> None:
        """Record an event; the event bus calls this."""
        with self._lock:  # tasks run in several threads
            self.events.append(event)

    def _select(self, kinds: tuple[type, ...], name: str | None, category: Category | str | None) -> list[Any]:
        wanted = None if category is None else Category.parse(category)
        found: list[Any] = [event for event in self.events if isinstance(event, kinds) and _is_named(event, name)]
        return [event for event in found if wanted is None or event.failure.category is wanted]

    def _lines(self) -> list[str]:
        return [line for event in self.events if (line := _event_text(event))]


@contextmanager
def record_decisions() -> Iterator[Decisions]:
    """Record the decisions in this process while the block runs."""
    decisions = Decisions()
    unsubscribe = subscribe(decisions.hear)
    try:
        yield decisions
    finally:
        unsubscribe()


def _event_name(event: Any) -> str:
    return str(getattr(event, "name", None) or getattr(event, "task", ""))


def _is_named(event: events.Event, name: str | None) -> bool:
    own = _event_name(event)
    return name is None or own == name or own.endswith(f".{name}")


def _is_recovery(event: events.Event) -> bool:
    if isinstance(event, events.TaskEnded):
        return event.outcome == "done" and event.attempt > 1
    return isinstance(event, events.Recovered)


def _event_text(event: events.Event) -> str:
    """Return one line about an event; empty if another event says the same."""
    who = _event_name(event).rpartition("<locals>.")[2]
    match event:
        case events.Retrying() | events.TaskRetrying():
            what = f"attempt {event.attempt} failed, retrying in {format_seconds(event.delay)}"
        case events.TaskDeferred():
            what = f"deferred for {format_seconds(event.delay)}"
        case events.GaveUp():
            what = f"given up after {event.attempts} attempts ({event.reason})"
        case events.TaskFailed():
            what = f"dead letter after attempt {event.attempt} ({event.reason})"
        case events.Recovered():
            return f"{who}: succeeded at attempt {event.attempts}"
        case events.TaskEnded(outcome="done", attempt=attempt) if attempt > 1:
            return f"{who}: succeeded at attempt {attempt}"
        case events.Observed():
            what = f"would {event.decision}"
        case events.AttemptFailed() | events.TaskStarted() | events.TaskEnded():
            return ""
        case _:
            return str(event)
    return f"{who}: {what} ({event.failure.category}: {first_line(event.failure.message)})"
