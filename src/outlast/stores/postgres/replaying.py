"""Replays in PostgreSQL: whoever carries one on holds its row for the step, and shows the epoch of its claim."""

from collections.abc import Sequence
from typing import Any

from outlast.ports.reads import MOST_LOOKED_AT
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.triage_rows import Canaries, NewReplay, Replay, ReplayState, ReplayStep
from outlast.stores.postgres.connection import Connection, Database
from outlast.stores.postgres.driver import psycopg
from outlast.stores.postgres.times import in_utc
from outlast.stores.postgres.walking import by_filter, has_nul, meant
from outlast.stores.triaging import MOST_CONFLICTS, read_filter, write_filter

__all__ = ["PostgresReplays"]

_COUNTED = 10 * MOST_LOOKED_AT
"""Dead letters that one statement looks at to count those that are meant."""
_BEYOND = 2**63 - 1


class PostgresReplays:
    """The part of `Triage` that queues dead letters again."""

    db: Database

    def add_replay(self, new: NewReplay) -> Replay:
        """Begin a replay; it goes on from below the oldest one that is meant up to the newest."""
        with self.db.connection() as connection, connection.transaction():
            total, oldest, newest = self._meant(connection, new.which)
            values = new._asdict() | {"which": write_filter(new.which), "total": total, "newest": newest}
            values |= {"cursor": max(oldest - 1, 0)}
            return _replay(connection.execute(self.db.sql["add_replay"], values).fetchall()[0])

    def _meant(self, connection: Connection, which: DeadLetterFilter) -> tuple[int, int, int]:
        """Return how many are meant, and the least and the largest number of them; along an index, part by part."""
        total = oldest = newest = 0
        values = meant(which)
        if has_nul(values):
            return total, oldest, newest
        sql = self.db.sql[f"count_matching{by_filter(which)}"]
        before = _BEYOND if which.before is None else which.before
        left = _BEYOND if which.limit is None else which.limit
        while left > 0:
            bounds = {"before": before, "limit": left, "look": _COUNTED}
            row = connection.execute(sql, values | bounds, prepare=False).fetchall()[0]
            count, least, largest, looked, before = row
            if count:
                total, oldest, newest, left = total + count, least, max(newest, largest), left - count
            if looked < _COUNTED:
                break
        return total, oldest, newest

    def replay_run(self, number: int) -> Replay | None:
        """Return one."""
        rows = self.db.fetch("get_replay", {"id": number})
        return _replay(rows[0]) if rows else None

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first; planned each time, for what is not asked makes another query of it."""
        rows = self.db.fetch("list_replays", {"running": running, "limit": limit}, prepare=False)
        return [_replay(row) for row in rows]

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Take one that nobody holds, or one's own."""
        rows = self.db.fetch("claim_replay", {"owner": owner, "lease": float(lease)})
        return _replay(rows[0]) if rows else None

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next ones again; the replay is locked first, then its dead letters, then their tasks."""
        sql = self.db.sql
        with self.db.connection() as connection, connection.transaction():
            rows = connection.execute(sql["lock_replay"], {"id": number, "epoch": epoch}).fetchall()
            if not rows:
                return None
            replay, bound = _replay(rows[0][:-1]), rows[0][-1]
            ids, cursor = self._next(connection, replay, bound, limit)
            if cursor >= bound:
                again, cursor = self._again(connection, replay, cursor, limit - len(ids))
                ids += again
            replayed, conflicts = self._queue(connection, ids, {"replay_id": number, "canary": canary})
            values = {"id": number, "cursor": cursor, "stage": stage, "replayed": replayed}
            connection.execute(
                sql["save_replay_progress"],
                values | {"conflicts": len(conflicts), "conflict_ids": conflicts, "most": MOST_CONFLICTS},
            )
        return ReplayStep(replayed, len(conflicts), more=cursor < replay.newest)

    def _next(self, connection: Connection, replay: Replay, bound: int, limit: int) -> tuple[list[int], int]:
        """Return the dead letters of a step, and how far the replay is with them: those of its beginning."""
        if replay.cursor >= bound or limit <= 0:
            return [], replay.cursor
        bounds = {"cursor": replay.cursor, "newest": bound, "limit": limit, "look": max(MOST_LOOKED_AT, limit)}
        sql = self.db.sql[f"next_matching{by_filter(replay.which)}"]
        ids: list[int]
        ids, beyond = connection.execute(sql, meant(replay.which) | bounds, prepare=False).fetchall()[0]
        if len(ids) >= limit:
            return ids, max(ids)
        return ids, bound if beyond is None else beyond

    def _again(self, connection: Connection, replay: Replay, cursor: int, limit: int) -> tuple[list[int], int]:
        """Return the same for those that failed before it was resumed; they come last."""
        if cursor >= replay.newest or limit <= 0:
            return [], cursor
        values = {"id": replay.id, "cursor": cursor, "newest": replay.newest, "limit": limit}
        ids = [row[0] for row in connection.execute(self.db.sql["failed_in_replay"], values).fetchall()]
        return ids, replay.newest if len(ids) < limit else max(ids)

    def _queue(self, connection: Connection, ids: list[int], values: dict[str, Any]) -> tuple[int, list[int]]:
        """Queue some again; return how many, and those that stay because a live task has their key.

        A key may be taken by somebody whose transaction ends only now. Then all is tried again one by one, each with
        its own way back.
        """
        if not ids:
            return 0, []
        try:
            with connection.transaction():
                return self._queue_all(connection, ids, values)
        except psycopg.errors.UniqueViolation:
            if len(ids) == 1:
                return 0, ids
        parts = [self._queue(connection, [number], values) for number in ids]
        return sum(part[0] for part in parts), [number for part in parts for number in part[1]]

    def _queue_all(self, connection: Connection, ids: list[int], values: dict[str, Any]) -> tuple[int, list[int]]:
        row = connection.execute(self.db.sql["replay_dead_letters"], values | {"ids": ids}, prepare=False).fetchall()[0]
        return row[0], row[1]

    def canaries(self, number: int) -> Canaries:
        """Return how the tasks of a replay fare."""
        live, done, dead, error = self.db.fetch("canaries", {"id": number})[0]
        return Canaries(live, done, dead, error or "")

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay; a step that is under way is waited for."""
        return self.db.change("end_replay", {"id": number, "state": str(state), "why": why, "epoch": epoch}) == 1

    def resume_replay(self, number: int) -> Replay | None:
        """Have one go on."""
        rows = self.db.fetch("resume_replay", {"id": number})
        return _replay(rows[0]) if rows else None


def _replay(row: Sequence[Any]) -> Replay:
    replay = Replay._make(in_utc(row))
    return replay._replace(
        which=read_filter(str(replay.which)), state=ReplayState(replay.state), conflict_ids=tuple(replay.conflict_ids)
    )
