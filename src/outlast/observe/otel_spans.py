"""Spans of OpenTelemetry: one for each attempt of a task, and events on whatever span is current."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from outlast.observe.span_names import attributes_of, span_event, task_attributes
from outlast.record import events

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

__all__ = ["Spans"]

_ERRORS = frozenset({"retry", "fail", "crash"})
_open: "ContextVar[tuple[int, Span, Any] | None]" = ContextVar("outlast.span", default=None)


class Spans:
    """Handlers for the bus, which calls them in the thread or coroutine in which things happen.

    Args:
        tracer: Makes the spans.
    """

    def __init__(self, tracer: "Tracer") -> None:
        """Keep the tracer."""
        self._tracer = tracer

    def start(self, event: events.TaskStarted) -> None:
        """Begin the span of a task and make it the current one, so that what the task does stands below it."""
        from opentelemetry import context, trace  # noqa: PLC0415  # an extra

        span = self._tracer.start_span(
            f"task {event.task}", kind=trace.SpanKind.CONSUMER, attributes=task_attributes(event)
        )
        _open.set((event.task_id, span, context.attach(trace.set_span_in_context(span))))

    def end(self, event: events.TaskEnded) -> None:
        """End the span of a task."""
        from opentelemetry import context, trace  # noqa: PLC0415  # an extra

        mine = _open.get()
        if mine is None or mine[0] != event.task_id:  # it began before anybody listened
            return
        _open.set(None)
        _, span, token = mine
        span.set_attributes(attributes_of({"outcome": event.outcome}))
        if event.outcome in _ERRORS:
            span.set_status(trace.StatusCode.ERROR)
        context.detach(token)
        span.end()

    def add_event(self, event: events.Event) -> None:
        """Add what happened to the current span, where it is recorded."""
        from opentelemetry import trace  # noqa: PLC0415  # an extra

        span = trace.get_current_span()
        if not span.is_recording():
            return
        found = span_event(event)
        if found is not None:
            span.add_event(*found)
