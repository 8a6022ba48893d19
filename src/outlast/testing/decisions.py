"""What Outlast decided while a block ran: what was tried again, how long it waited, what was given up and why.

>>> with record_decisions() as decisions:
...     collect()
>>> decisions.retries("fetch")
2
>>> print(decisions)
fetch: attempt 1 failed, again in 3 s (rate_limit: HTTPError: HTTP Error 429: Too Many Requests)
…
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outlast.failure import Category, Failure
from outlast.record import events
from outlast.record.bus import subscribe
from outlast.record.log_text import first_line, format_seconds

_RETRIES = (events.Retrying, events.TaskRetrying)
_DEFERRALS = (events.TaskDeferred,)
_GIVE_UPS = (events.GaveUp, events.TaskFailed)
_FAILURES = (*_RETRIES, *_DEFERRALS, *_GIVE_UPS)
_REPR_SHOWN = 3  # decisions in a repr, which an assertion's message cuts off soon


class Decisions:
    """The decisions so far. Counts take the name of a function or task, and a category; without them they count all.

    A name is the last part of a function's: ``fetch`` is also ``Client.fetch``. Printed, it is the list of what
    happened.

    Attributes:
        events: All that was told, as `outlast.events` describes it.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.events: list[events.Event] = []
        self._adding = threading.Lock()

    def __repr__(self) -> str:
        """Show how many there are, and the last ones."""
        lines = self._lines()
        shown = "; ".join(lines[-_REPR_SHOWN:])
        return f"Decisions({len(lines)}{': ' if lines else ''}{'… ' if len(lines) > _REPR_SHOWN else ''}{shown})"

    def __str__(self) -> str:
        """List them, one a line."""
        return "\n".join(self._lines()) or "nothing was decided: no attempt failed"

    def retries(self, name: str | None = None, *, category: Category | str | None = None) -> int:
        """Return how often something was tried again, a call in this process or a task."""
        return len(self._of(_RETRIES, name, category))

    def deferrals(self, name: str | None = None, *, category: Category | str | None = None) -> int:
        """Return how often a task was put off without spending an attempt."""
        return len(self._of(_DEFERRALS, name, category))

    def gave_up(
        self, name: str | None = None, *, category: Category | str | None = None, reason: str | None = None
    ) -> int:
        """Return how often no further attempt was made: the error was raised, or the task is a dead letter.

        Args:
            name: Of what.
            category: Of the last failure.
            reason: Why, such as ``exhausted``, ``permanent`` or ``deadline``.
        """
        return sum(reason in {None, event.reason} for event in self._of(_GIVE_UPS, name, category))

    def recoveries(self, name: str | None = None) -> int:
        """Return how often something succeeded after attempts that had failed."""
        return sum(_is_recovery(event) and _is_named(event, name) for event in self.events)

    def waits(self, name: str | None = None, *, category: Category | str | None = None) -> list[float]:
        """Return the waits between attempts, in seconds and in order; a task's too, put off or tried again."""
        return [event.delay for event in self._of((*_RETRIES, *_DEFERRALS), name, category)]

    def failures(self, name: str | None = None, *, category: Category | str | None = None) -> list[Failure]:
        """Return what went wrong, in order: the failure of every attempt."""
        return [event.failure for event in self._of(_FAILURES, name, category)]

    def hear(self, event: events.Event) -> None:
        """Take in an event; what the bus calls."""
        with self._adding:  # tasks run in several threads
            self.events.append(event)

    def _of(self, kinds: tuple[type, ...], name: str | None, category: Category | str | None) -> list[Any]:
        wanted = None if category is None else Category.parse(category)
        found: list[Any] = [event for event in self.events if isinstance(event, kinds) and _is_named(event, name)]
        return [event for event in found if wanted is None or event.failure.category is wanted]

    def _lines(self) -> list[str]:
        return [line for event in self.events if (line := _event_text(event))]


@contextmanager
def record_decisions() -> Iterator[Decisions]:
    """Write down what is decided in this process while the block runs."""
    decisions = Decisions()
    end = subscribe(decisions.hear)
    try:
        yield decisions
    finally:
        end()


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
    """Say in one line what happened; nothing of what another event says better."""
    who = _event_name(event).rpartition("<locals>.")[2]
    match event:
        case events.Retrying() | events.TaskRetrying():
            what = f"attempt {event.attempt} failed, again in {format_seconds(event.delay)}"
        case events.TaskDeferred():
            what = f"put off for {format_seconds(event.delay)}"
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
