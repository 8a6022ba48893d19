"""What changes from moment to moment, and groups of failures, in SQLite."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from outlast.ports.read_rows import MOST_COUNTED, FailureFilter, FailureGroup, FlowEvent, FlowPoint, Page, Pulse
from outlast.ports.reads import MOST_LOOKED_AT, SILENT_AFTER
from outlast.ports.rows import Attempt
from outlast.sql_files import load_statements
from outlast.stores.books import CHANGES, begin_of, parse_place, place, pulse_of, take, totals_of
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.tasks import attempt_of
from outlast.stores.sqlite.times import milliseconds, moment, now_ms
from outlast.stores.triaging import group_fits

__all__ = ["SqliteReads", "failure_group"]

SQL = load_statements(__package__)
_BEYOND = (1 << 62, "")  # of every order
_TIMES = ("first_seen", "last_seen", "acknowledged_at", "snoozed_until")


class SqliteReads:
    """The duty `Reads`, but for the lists of tasks and dead letters."""

    db: Database

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return all that changes from moment to moment."""
        values = {"most": MOST_COUNTED, "changes": CHANGES, **_steps(window, step)}
        values["heard"] = values["now"] - milliseconds(SILENT_AFTER)
        return pulse_of(
            self.db.read(lambda connection: connection.execute(SQL["status_snapshot"], values).fetchone()[0])
        )

    def books(self) -> dict[str, int]:
        """Return how often each event happened."""
        return totals_of(self.db.read(lambda connection: connection.execute(SQL["event_totals"]).fetchall()))

    def failures(self, which: FailureFilter, *, look: int = MOST_LOOKED_AT) -> Page[FailureGroup]:
        """Return groups of failures."""
        of = next((f"of_{name}_" for name in ("category", "task_type") if getattr(which, name) is not None), "")
        sql = SQL[f"list_failure_groups_{of}by_{'size' if which.largest else 'last_seen'}"]
        value, fingerprint = parse_place(which.after) or _BEYOND
        values = {"category": which.category, "task_type": which.task_type, "value": value, "fingerprint": fingerprint}
        now = cast(datetime, moment(now_ms()))

        def work(connection: sqlite3.Connection) -> Page[FailureGroup]:
            rows = ((row[0], failure_group(row[1:])) for row in connection.execute(sql, values))
            taken, last, looked = take(((row, group_fits(row[1], which, now)) for row in rows), which.limit, look)
            more = None if last is None else place(last[0], last[1].fingerprint)
            return Page([group for _, group in taken], more, looked)

        return self.db.read(work)

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return one."""
        values = {"fingerprint": fingerprint}
        row = self.db.read(lambda connection: connection.execute(SQL["failure_group"], values).fetchone())
        return None if row is None else failure_group(row)

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of some groups failed, step by step."""
        values = {"fingerprints": json.dumps(list(dict.fromkeys(fingerprints))), **_steps(window, step)}
        rows = self.db.read(lambda connection: connection.execute(SQL["failure_flow"], values).fetchall())
        flow: dict[str, list[FlowPoint]] = {each: [] for each in fingerprints}
        for fingerprint, at, event, category, count in rows:
            flow[fingerprint].append(FlowPoint(cast(datetime, moment(at)), FlowEvent(event), category, count))
        return flow

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group."""
        values = {"fingerprint": fingerprint, "limit": limit}
        rows = self.db.read(lambda connection: connection.execute(SQL["failure_samples"], values).fetchall())
        return [attempt_of(row) for row in rows]

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource."""
        values = {"resource": resource, "most": MOST_COUNTED}
        count: int = self.db.read(
            lambda connection: connection.execute(SQL["count_waiting_for_resource"], values).fetchone()[0]
        )
        return count


def _steps(window: float, step: float) -> dict[str, int]:
    now = now_ms()
    return {"now": now, "step": round(step * 1000), "begin": round(begin_of(now / 1000, window, step) * 1000)}


def failure_group(row: Sequence[Any]) -> FailureGroup:
    """Return a row as people see it."""
    values = dict(zip(FailureGroup._fields, row, strict=True))
    values.update({name: moment(values[name]) for name in _TIMES})
    return FailureGroup(**values)
