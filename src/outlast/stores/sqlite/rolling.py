"""Adding up the books of a SQLite file. What is moved is deleted and added in one transaction."""

import sqlite3
from typing import NamedTuple

from outlast.sql_files import load_statements
from outlast.stores.sqlite.booking import count_tasks
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.times import now_ms

__all__ = ["SqliteRolling"]

SQL = load_statements(__package__)
_BATCH = 1000
_TASKS = 10_000  # that are counted in one transaction
_SECOND, _HOUR, _DAY = 1000, 3_600_000, 86_400_000
_BREAKERS = _DAY  # a process that is no worker and has told nothing for so long is taken for gone


class _Step(NamedTuple):
    """A span, how old what is in it may become, and the span it goes into; None where it goes for good."""

    table: str
    span: int
    age: int
    into: int | None


_STEPS = (
    _Step("task_flow", 0, 10 * _SECOND, 10),
    _Step("task_flow", 10, 2 * _HOUR + 20 * 60 * _SECOND, 600),  # two hours are asked for in steps of ten seconds
    _Step("task_flow", 600, 8 * _DAY, 86400),
    _Step("task_flow", 86400, 90 * _DAY, None),  # what was ever has it from the beginning
    _Step("failure_flow", 10, 2 * _HOUR + 20 * 60 * _SECOND, 600),
    _Step("failure_flow", 600, 8 * _DAY, None),
)


class SqliteRolling:
    """The part of `Reads` that writes."""

    db: Database

    def roll_up(self) -> int:
        """Add up what is over; where nothing is, nobody has to wait for the file."""
        now = now_ms()
        while self.db.read(_new_tasks) is not None:
            self.db.write(_count_tasks)
        moved = sum(self._roll(step, now) for step in _STEPS)
        values = {"before": now - _BREAKERS}
        if self.db.read(lambda connection: connection.execute(SQL["has_stale_breakers"], values).fetchone()[0]):
            self.db.write(lambda connection: connection.execute(SQL["prune_breakers"], values))
        return moved

    def _roll(self, step: _Step, now: int) -> int:
        length = (step.into or step.span) * _SECOND
        before = (now - step.age) // length * length if step.span else now - step.age + 1
        moved = 0
        while self.db.read(lambda connection: _bound(connection, step, before)) is not None:
            moved += self.db.write(lambda connection: _move(connection, step, before))
        return moved


def _new_tasks(connection: sqlite3.Connection) -> int | None:
    last: int | None = connection.execute(SQL["uncounted_tasks"], {"batch": _TASKS}).fetchone()[0]
    return last


def _count_tasks(connection: sqlite3.Connection) -> None:
    last = _new_tasks(connection)
    if last is not None:
        count_tasks(connection, last)


def _bound(connection: sqlite3.Connection, step: _Step, before: int) -> int | None:
    sql = SQL["rollup_bound" if step.table == "task_flow" else "rollup_failure_bound"]
    bound: int | None = connection.execute(sql, {"span": step.span, "before": before, "batch": _BATCH}).fetchone()[0]
    return bound


def _move(connection: sqlite3.Connection, step: _Step, before: int) -> int:
    """Move a batch; return how many rows went. Another process may have done it meanwhile."""
    values = {"span": step.span, "into": step.into, "bound": _bound(connection, step, before)}
    if values["bound"] is None:
        return 0
    if step.span == 0:
        for name in ("rollup_totals", "rollup_groups", "rollup_failures"):
            connection.execute(SQL[name], {"bound": values["bound"]})
    if step.into is not None:
        connection.execute(SQL["rollup_flow" if step.table == "task_flow" else "rollup_failure_flow"], values)
    sql = SQL["delete_flow" if step.table == "task_flow" else "delete_failure_flow"]
    return connection.execute(sql, values).rowcount
