"""What changes from moment to moment, and groups of failures, in PostgreSQL."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from outlast.ports.read_rows import MOST_COUNTED, FailureFilter, FailureGroup, FlowEvent, FlowPoint, Page, Pulse
from outlast.ports.reads import MOST_LOOKED_AT, SILENT_AFTER
from outlast.ports.rows import Attempt
from outlast.stores.books import CHANGES, parse_place, place, pulse_of, totals_of
from outlast.stores.postgres.connection import Database
from outlast.stores.postgres.tasks import attempt_of
from outlast.stores.postgres.times import in_utc
from outlast.stores.postgres.walking import bounded, has_nul, page_of, searched

__all__ = ["PostgresReads", "group_of"]

_MOST = 2**63 - 1
_LATEST = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


class PostgresReads:
    """The duty `Reads`, but for the lists of tasks and dead letters. Filters are planned each time."""

    db: Database

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return all that changes from moment to moment."""
        values = {"window": float(window), "step": float(step), "most": MOST_COUNTED, "changes": CHANGES}
        return pulse_of(self.db.fetch("status_snapshot", values | {"silent": SILENT_AFTER})[0][0])

    def books(self) -> dict[str, int]:
        """Return how often each event happened."""
        return totals_of((event, count) for event, count in self.db.fetch("event_totals"))

    def failures(self, which: FailureFilter, *, look: int = MOST_LOOKED_AT) -> Page[FailureGroup]:
        """Return groups of failures."""
        name, value = "list_failure_groups_by_last_seen", _LATEST
        if which.largest:
            name, value = "list_failure_groups_by_size", _MOST
        elif which.category is not None:
            name = "list_failure_groups_by_category"
        elif which.task_type is not None:
            name = "list_failure_groups_by_task_type"
        after, fingerprint = parse_place(which.after) or (value, "")
        values = searched(which._asdict()) | {"value": max(min(after, value), 0), "fingerprint": fingerprint}
        if has_nul(values):
            return Page([], None, 0)
        rows = self.db.fetch(name, values | bounded(which.limit, look), prepare=False)
        by = 1 if which.largest else 0  # of the two values that a group stands by
        return page_of(rows, which.limit, look, lambda row: place(row[by], row[2]), lambda row: group_of(row[2:]))

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return one."""
        rows = self.db.fetch("failure_group", {"fingerprint": fingerprint})
        return group_of(rows[0]) if rows else None

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of some groups failed, step by step."""
        flow: dict[str, list[FlowPoint]] = {each: [] for each in fingerprints}
        values = {"fingerprints": list(flow), "window": float(window), "step": float(step)}
        for fingerprint, at, event, category, count in self.db.fetch("failure_flow", values):
            flow[fingerprint].append(FlowPoint(at.astimezone(UTC), FlowEvent(event), category, count))
        return flow

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group."""
        rows = self.db.fetch("failure_samples", {"fingerprint": fingerprint, "limit": limit})
        return [attempt_of(row) for row in rows]

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource."""
        count: int = self.db.fetch("count_waiting_for_resource", {"resource": resource, "most": MOST_COUNTED})[0][0]
        return count


def group_of(row: Sequence[Any]) -> FailureGroup:
    """Return a group from its row."""
    return FailureGroup._make(in_utc(row))
