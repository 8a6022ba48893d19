"""What is asked of a store by those who look: pages, commands and health checks. Each answers in bounded time.

What a list or a count costs does not grow with finished tasks and dead letters: the books are kept as deltas, added in
the transaction of what they tell of and rolled up later, and a list looks at no more rows than it is told.
"""

from collections.abc import Sequence
from typing import Protocol

from outlast.ports.read_rows import (
    BreakerOpening,
    BreakerOrder,
    BreakerRow,
    DeadLetterLine,
    FailureFilter,
    FailureGroup,
    FlowPoint,
    Page,
    Pulse,
    TaskLine,
)
from outlast.ports.rows import Attempt, DeadLetterFilter, TaskFilter

__all__ = ["MOST_LOOKED_AT", "SILENT_AFTER", "Breakers", "Reads"]

MOST_LOOKED_AT = 3000
"""Rows that are looked at for one page."""
SILENT_AFTER = 60.0
"""Seconds after which a process that has no lease and tells nothing is taken for gone."""


class Reads(Protocol):
    """Read models."""

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return all that changes from moment to moment, by one statement.

        Args:
            window: Seconds back from now that the flow covers.
            step: Seconds that one of its points covers; a multiple of 10.
        """

    def roll_up(self) -> int:
        """Add up the deltas of the books where nobody looks at them one by one any more; return how many went.

        Safe to run from many processes at once: one of them does it, the others return 0. In batches.
        """

    def recount(self) -> dict[str, int]:
        """Put the books right by what is really there; in one transaction, beside which nothing is counted twice.

        They go wrong when somebody deletes or changes tasks by SQL, or a program of an older version works on newer
        tables. What happened is never taken back: what the books lack is added, and what they have too much of is
        counted as pruned, discarded or cancelled. The flow stays as it was. A task that failed and has no dead letter
        gets one anew, from itself and its last attempt: nothing is given up.

        Returns:
            By how much each number of `counts` was wrong, and as ``rebuilt`` how many dead letters were written anew;
            nothing where all was right.
        """

    def books(self) -> dict[str, int]:
        """Return how often each `FlowEvent` happened, ever, by the books; all named."""

    def failures(self, which: FailureFilter, *, look: int = MOST_LOOKED_AT) -> Page[FailureGroup]:
        """Return groups of failures. Their order is that of the last roll-up; their counts are exact."""

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return one."""

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of some groups failed, step by step, the oldest first; all of them named."""

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group, newest first."""

    def dead_letter_lines(self, which: DeadLetterFilter, *, look: int = MOST_LOOKED_AT) -> Page[DeadLetterLine]:
        """Return dead letters, newest first; the next page is asked for by ``before``, which is `Page.next`."""

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return how many dead letters there are by the books of each task and category; none that are not."""

    def task_lines(self, which: TaskFilter, *, look: int = MOST_LOOKED_AT) -> Page[TaskLine]:
        """Return tasks, newest first; the next page is asked for by ``before``, which is `Page.next`."""

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource, counted up to `MOST_COUNTED`."""


class Breakers(Protocol):
    """Breakers, as the processes that have them tell of them, and as people order them."""

    def tell_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Write how the breakers of a process stand.

        Args:
            process: Whose.
            rows: Resource, state, seconds until it is tried again (None for not known) and reason; those that changed.
            leased: Whether it is a worker. Of one that is not known any more nothing is written. Any other process
                tells all of it again within `SILENT_AFTER` seconds, as its sign of life.
        """

    def forget_breakers(self, process: str) -> None:
        """Forget a process that ends."""

    def breakers(self) -> list[BreakerRow]:
        """Return them by resource and process; those of processes that are gone are left out.

        Gone are workers that are not known any more, and others that have been silent for `SILENT_AFTER` seconds.

        A resource that was ordered open or closed by hand and that no process has told of is there too, with an empty
        process and the state that was ordered.
        """

    def order_breaker(self, resource: str, state: str, seconds: float | None = None) -> BreakerOrder:
        """Have the breakers of a resource opened or closed in all processes; an order before it is replaced."""

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders whose number is larger, in their order; an open one that is over is left out."""

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of some resources other processes leave alone by their own judgement; of each the longest.

        Not what they only took over from others, nor what was opened by hand, for orders tell of that. Nor what was
        told before somebody ordered it closed.

        Args:
            process: Who asks.
            resources: Which it has.
        """
