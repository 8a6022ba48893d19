"""Replays in steps, in SQLite."""

import json
import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.triage_rows import Canaries, NewReplay, Replay, ReplayState, ReplayStep
from outlast.sql_files import load_statements
from outlast.stores.books import counts_of, take, totals_of
from outlast.stores.sqlite.connection import Database
from outlast.stores.sqlite.dead_letters import queue_again, remove_letters
from outlast.stores.sqlite.letter_walks import BEYOND, Walk, by_filter, letter_walk, walk_values
from outlast.stores.sqlite.times import milliseconds, moment, now_ms
from outlast.stores.triaging import MOST_CONFLICTS, read_filter, write_filter

__all__ = ["SqliteReplays"]

SQL = load_statements(__package__)
_BATCH = 5000  # dead letters that are counted before others may read
_LOOK = 5000  # dead letters that one step looks at


class SqliteReplays:
    """The part of the duty `Triage` that has to do with replays."""

    db: Database

    def add_replay(self, new: NewReplay) -> Replay:
        """Begin a replay. Those that are meant are counted first, while others write."""
        total, newest, cursor = self._extent(new.which)
        values = new._asdict() | {"which": write_filter(new.which), "canary": int(new.canary), "now": now_ms()}
        values |= {"total": total, "newest": newest, "cursor": cursor}
        return _replay(self.db.write(lambda connection: connection.execute(SQL["add_replay"], values).fetchone()))

    def _extent(self, which: DeadLetterFilter) -> tuple[int, int, int]:
        """Return how many are meant, the largest number of them, and a number below the smallest."""
        if which == DeadLetterFilter():
            return self.db.read(_all_letters)
        if which.limit is not None:
            return self.db.read(lambda connection: _newest_letters(connection, which))
        total, newest, cursor, after = 0, 0, 0, 0
        while True:
            found = self.db.read(lambda connection: _count(connection, which, after))  # noqa: B023  # called at once
            looked, fitting, first, last, end = found
            if fitting:
                total, newest, cursor = total + fitting, last, cursor if total else first - 1
            if looked < _BATCH:
                return total, newest, cursor
            after = end

    def replay_run(self, number: int) -> Replay | None:
        """Return one."""
        row = self.db.read(lambda connection: connection.execute(SQL["get_replay"], {"id": number}).fetchone())
        return None if row is None else _replay(row)

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""
        sql = SQL["list_running_replays" if running else "list_replays"]
        return [_replay(row) for row in self.db.read(lambda connection: connection.execute(sql, (limit,)).fetchall())]

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Take a running replay; where there is none, nobody has to wait for the file."""
        if self.db.read(lambda connection: _claimable(connection, owner)) is None:
            return None

        def work(connection: sqlite3.Connection) -> Replay | None:
            number = _claimable(connection, owner)
            if number is None:
                return None
            values = {"id": number, "owner": owner, "until": now_ms() + milliseconds(lease)}
            return _replay(connection.execute(SQL["claim_replay"], values).fetchone())

        return self.db.write(work)

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters of a replay again."""

        def work(connection: sqlite3.Connection) -> ReplayStep | None:
            row = connection.execute(SQL["get_replay"], {"id": number}).fetchone()
            replay = None if row is None else _replay(row)
            if replay is None or replay.epoch != epoch or replay.state is not ReplayState.RUNNING:
                return None
            numbers, cursor = _next(connection, replay, limit)
            return _step(connection, replay, numbers, {"cursor": cursor, "stage": stage}, canary=canary)

        return self.db.write(work)

    def canaries(self, number: int) -> Canaries:
        """Return how the tasks of a replay fare."""
        values = {"id": number}
        live, done, dead, ended = self.db.read(
            lambda connection: connection.execute(SQL["canaries"], values).fetchone()
        )
        task_id, error = json.loads(dead or ended or '[null, ""]')
        return Canaries(live, done, task_id, error)

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay."""
        values = {"id": number, "state": str(state), "why": why, "epoch": epoch, "now": now_ms()}
        return self.db.write(lambda connection: connection.execute(SQL["end_replay"], values).rowcount) == 1

    def resume_replay(self, number: int) -> Replay | None:
        """Have a replay go on from its first stage."""
        values = {"id": number, "now": now_ms()}

        def work(connection: sqlite3.Connection) -> Replay | None:
            row = connection.execute(SQL["resume_replay"], values).fetchone()
            if row is None:
                return None
            connection.execute(SQL["clear_finished_canaries"], values)
            return _replay(row)

        return self.db.write(work)


def _claimable(connection: sqlite3.Connection, owner: str) -> int | None:
    row = connection.execute(SQL["claimable_replay"], {"owner": owner, "now": now_ms()}).fetchone()
    return None if row is None else row[0]


def _all_letters(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Count all of them by the books."""
    newest = connection.execute(SQL["newest_dead_letter_id"]).fetchone()[0]
    (_, running), (_, parked), *totals = connection.execute(SQL["counts"]).fetchall()
    return counts_of(totals_of(totals), running, parked)["dead_letters"], newest or 0, 0


def _newest_letters(connection: sqlite3.Connection, which: DeadLetterFilter) -> tuple[int, int, int]:
    """Count the newest ones, as many as the filter wants."""
    numbers, _, _ = take(letter_walk(connection, which).rows(connection), which.limit or 0, BEYOND)
    return (len(numbers), numbers[0], numbers[-1] - 1) if numbers else (0, 0, 0)


def _count(connection: sqlite3.Connection, which: DeadLetterFilter, after: int) -> tuple[int, int, int, int, int]:
    sql, values = SQL[f"count_matching{by_filter(which)}"], walk_values(connection, which, after)
    found: tuple[int, int, int, int, int] = connection.execute(sql, values | {"batch": _BATCH}).fetchone()
    return found


def _step(
    connection: sqlite3.Connection, replay: Replay, numbers: list[int], reached: dict[str, int], *, canary: bool
) -> ReplayStep:
    """Queue some again, and write how far it is."""
    now = now_ms()
    outcomes = [(each, queue_again(connection, each, now, replay.id, canary=canary)) for each in numbers]
    replayed = [each for each, outcome in outcomes if outcome == "replayed"]
    stayed = [each for each, outcome in outcomes if outcome == "conflict"]
    remove_letters(connection, replayed, FlowEvent.REPLAYED)
    values = reached | {"id": replay.id, "now": now, "replayed": len(replayed), "conflicts": len(stayed)}
    kept = json.dumps([*replay.conflict_ids, *stayed][:MOST_CONFLICTS])
    connection.execute(SQL["save_replay_progress"], values | {"conflict_ids": kept})
    return ReplayStep(len(replayed), len(stayed), more=reached["cursor"] < replay.newest)


def _next(connection: sqlite3.Connection, replay: Replay, limit: int) -> tuple[list[int], int]:
    """Return the next ones that are meant, and how far the look went."""
    if limit < 1:
        return [], replay.cursor
    (bound,) = connection.execute(SQL["replay_bound"], (replay.id,)).fetchone()
    which = replay.which._replace(before=bound + 1)
    own = {"replay_id": replay.id, "after": max(replay.cursor, bound), "newest": replay.newest}
    walk = chain(
        letter_walk(connection, which, after=replay.cursor).rows(connection),
        Walk(SQL["failed_in_replay"], own).rows(connection),
    )
    numbers, last, _ = take(walk, limit, _LOOK)
    return numbers, replay.newest if last is None else last


def _replay(row: Sequence[Any]) -> Replay:
    values = dict(zip(Replay._fields, row, strict=True))
    values.update(which=read_filter(values["which"]), canary=bool(values["canary"]), state=ReplayState(values["state"]))
    values.update(conflict_ids=tuple(json.loads(values["conflict_ids"])))
    values.update({name: moment(values[name]) for name in ("created_at", "updated_at", "ended_at")})
    return Replay(**values)
