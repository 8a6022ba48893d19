"""Methods that both stores share: they run a statement that each database has under the same name."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from outlast.decide.breaker import OPENED_BY_HAND, OPENED_ELSEWHERE
from outlast.decide.limits import LimitState, ResourceLimit
from outlast.decide.source_health import SourceState
from outlast.errors import ConfigError, LeaseLostError
from outlast.http.settings import host_of
from outlast.ports.external_attempts import DEFAULT_REPORTER, AttemptState
from outlast.ports.job_rows import REMAINING, Run, TargetRow, TargetStatus
from outlast.ports.read_rows import (
    MOST_COUNTED,
    MOST_SAMPLED,
    SILENT_AFTER,
    BreakerOpening,
    BreakerOrder,
    BreakerRow,
    FailureGroup,
    FlowPoint,
    Pulse,
)
from outlast.ports.rows import (
    Attempt,
    Cooldown,
    DeadLetter,
    DeadLetterFilter,
    FinishedTask,
    Group,
    PeriodicRow,
    QueueRow,
    RecordedTask,
    Settlement,
    Task,
    TaskFilter,
    WorkerRow,
)
from outlast.ports.source_rows import Alert, AlertResult, Poll, Source, SourceChange, SourceFilter, Sources
from outlast.ports.store import LimitRow
from outlast.ports.triage import MARK_RETENTION, ChartMark, NewReplay, PayloadEdit, Replay, ReplayState
from outlast.stores.counters import MAX_CHANGES, event_totals, parse_pulse, status_counts
from outlast.stores.filters import write_filter
from outlast.stores.row_reader import RowReader
from outlast.stores.rules import LIMIT_SHOWN_FOR, limit_row

_BATCH = 1000  # rows that one transaction changes
_REPORTED_FIELDS = ("resource", "state", "seconds", "reason")
_OLDEST_SCAN = 100  # oldest dead letters that PostgreSQL searches for one of an open group, before all groups
_SPARSE = 10  # the part of a sample that has to be found
R = TypeVar("R")
Values = Mapping[str, Any] | None
_MAX_ID = 1 << 62  # larger than every id


class Statements(ABC):
    """Runs statements by name, each as a transaction of its own.

    Parameters are given by name: lists, times, durations and flags as they are in Python.
    """

    read_row: RowReader

    @abstractmethod
    def fetch(self, name: str, values: Values = None) -> list[Any]:
        """Run a statement that only reads; return its rows."""

    @abstractmethod
    def change(self, name: str, values: Values = None) -> int:
        """Run a statement that writes; return the number of changed rows."""

    def fetch_changed(self, name: str, values: Values = None) -> list[Any]:
        """Run a statement that writes; return its rows."""
        return self.fetch(name, values)

    def notify(self) -> None:  # noqa: B027  # not every database can
        """Wake idle workers of other processes, where the database can do so; those of others poll."""

    def select(self, row_type: type[R], name: str, values: Values = None) -> list[R]:
        """Run a statement that only reads; return its rows as row types."""
        return [self.read_row(row_type, row) for row in self.fetch(name, values)]

    def find(self, row_type: type[R], name: str, values: Values = None) -> R | None:
        """Run a statement that only reads; return its first row, or None."""
        return next(iter(self.select(row_type, name, values)), None)

    def column(self, name: str, values: Values = None) -> list[Any]:
        """Run a statement that only reads; return the first value of each row."""
        return [row[0] for row in self.fetch(name, values)]

    def value(self, name: str, values: Values = None) -> Any:
        """Run a statement that only reads and returns a row; return its first value."""
        return self.column(name, values)[0]


class SharedTasks:
    """A part of `Tasks`."""

    db: Statements

    def reconcile(self, worker_id: str, held: Sequence[int]) -> int:
        """Release tasks that a worker does not hold, although the store assigns them to it."""
        return self.db.change("reconcile", {"worker_id": worker_id, "held": list(held)})

    def next_due(self, queues: Sequence[str]) -> float | None:
        """Return the seconds until a task can be claimed."""
        due = self._first_due(queues)
        return None if due is None else max(0.0, due)

    def oldest_ready(self, queues: Sequence[str]) -> float | None:
        """Return for how many seconds the oldest ready task has waited."""
        due = self._first_due(queues)
        return None if due is None or due > 0 else -due

    def _first_due(self, queues: Sequence[str]) -> float | None:
        due: float | None = self.db.value("next_due", {"queues": list(queues)})
        return due

    def run_now(self, task_ids: Sequence[int]) -> list[int]:
        """Make queued tasks due now."""
        changed = [row[0] for row in self.db.fetch_changed("run_now", {"ids": list(task_ids)})]
        self.db.notify()
        return changed

    def unpark(self, task_types: Sequence[str]) -> int:
        """Queue parked tasks of these task types."""
        count = self._repeat("unpark", {"task_types": list(task_types), "batch": _BATCH})
        if count:
            self.db.notify()
        return count

    def suspects_due(self, queues: Sequence[str]) -> bool:
        """Return whether a suspect is due and a worker may run it now."""
        return bool(self.db.value("suspects_due", {"queues": list(queues)}))

    def counts(self) -> dict[str, int]:
        """Return the number of tasks by status, according to the counters."""
        return status_counts(self.db.fetch("counts"))

    def get(self, task_id: int) -> Task | None:
        """Return a task, or None."""
        return self.db.find(Task, "get_task", {"id": task_id})

    def find(self, filters: TaskFilter) -> list[Task]:
        """Return matching tasks, newest first."""
        return self.db.select(Task, "find_tasks", filters._asdict())

    def attempts(self, task_id: int) -> list[Attempt]:
        """Return the failed attempts of a task."""
        return self.db.select(Attempt, "attempts", {"id": task_id})

    def recorded_tasks(self, before: int | None, limit: int) -> list[RecordedTask]:
        """Return tasks with their failed attempts, newest first."""
        values = {"before": _MAX_ID if before is None else before, "limit": limit}
        found = self.db.select(RecordedTask, "recorded_tasks", values)
        attempts: dict[int, list[Attempt]] = {}
        for each in self.db.select(Attempt, "attempts_of_tasks", {"ids": [task.id for task in found]}):
            attempts.setdefault(each.task_id, []).append(each)
        return [task._replace(attempts=tuple(attempts.get(task.id, ()))) for task in found]

    def result(self, task_id: int) -> str | None:
        """Return the stored result of a task."""
        rows = self.db.fetch("result", {"id": task_id})
        return str(rows[0][0]) if rows else None

    def _prune_leftovers(self) -> int:
        """Delete unused slots and limits, and expired results; return the number of results."""
        self._repeat("prune_slots", {"batch": _BATCH})
        self._repeat("prune_limits", {"seconds": LIMIT_SHOWN_FOR, "batch": _BATCH})
        return self._repeat("prune_results", {"batch": _BATCH})

    def _repeat(self, name: str, values: Mapping[str, Any]) -> int:
        """Run a statement that changes at most one batch until nothing is left; return the number of changed rows."""
        changed = 0
        while True:
            count = self.db.change(name, values)
            changed += count
            if count < values["batch"]:
                return changed


class SharedAttempts(ABC):
    """A part of `EngineTasks`."""

    db: Statements

    def settle_attempt(
        self,
        settlement: Settlement,
        attempt: int,
        *,
        epoch: int | None = None,
        reporter: str | None = None,
        unbegun: bool = False,
    ) -> bool:
        """Claim the task if its attempt is the current one, and settle it."""
        values = {
            "id": settlement.task_id,
            "attempt": attempt,
            "epoch": epoch,
            "reporter": reporter or DEFAULT_REPORTER,
            "unbegun": unbegun,
        }
        return self._claim_and_settle(settlement, values)

    @abstractmethod
    def _claim_and_settle(self, settlement: Settlement, values: dict[str, Any]) -> bool:
        """Claim the task with the statement ``take_attempt`` and settle it, in one transaction."""

    def attempt_state(self, task_id: int) -> AttemptState | None:
        """Return the state of a task."""
        return self.db.find(AttemptState, "attempt_state", {"id": task_id})

    def running(self, worker_id: str) -> list[tuple[int, int]]:
        """Return the tasks that a worker holds."""
        return [(number, epoch) for number, epoch in self.db.fetch("tasks_of_worker", {"worker_id": worker_id})]

    def find_by_key(self, task_type: str, unique_key: str) -> int | None:
        """Return the latest task that has or had a key."""
        rows = self.db.fetch("latest_by_key", {"task_type": task_type, "unique_key": unique_key})
        return int(rows[0][0]) if rows else None


def _waits_for(source: Source, host: str) -> bool:
    is_deferred = source.is_active and source.not_before is not None and source.leased_until is None
    return is_deferred and host_of(source.url) == host


def _due_change(source: Source, host: str, now: datetime) -> SourceChange | None:
    return SourceChange(source._replace(next_poll_at=now, not_before=None)) if _waits_for(source, host) else None


class SharedWorkers:
    """A part of `Workers`."""

    db: Statements

    def heartbeat(self, worker_id: str, lease: float, state: str) -> None:
        """Renew a worker's lease."""
        if self.db.change("heartbeat", {"id": worker_id, "lease": timedelta(seconds=lease), "state": state}) != 1:
            raise LeaseLostError(worker_id)

    def workers(self) -> list[WorkerRow]:
        """Return the registered workers."""
        return self.db.select(WorkerRow, "workers")


class SharedFlowControl:
    """Parts of `Queues`, `Cooldowns`, `Periodic`, `Limits` and `Breakers`."""

    db: Statements

    def pause(self, queue: str) -> None:
        """Pause a queue."""
        self.db.change("pause_queue", {"name": queue})

    def resume(self, queue: str) -> None:
        """Resume a paused queue."""
        self.db.change("delete_queue", {"name": queue})
        self.db.notify()

    def queues(self) -> list[QueueRow]:
        """Return the queues that have tasks or are paused."""
        return self.db.select(QueueRow, "queues")

    def periodic(self) -> list[PeriodicRow]:
        """Return all registered periodic tasks, ordered by name."""
        return self.db.select(PeriodicRow, "list_periodic")

    def set_periodic(self, first_runs: Mapping[str, float]) -> None:
        """Register periodic tasks."""
        self.db.change("set_periodic", {"waits": json.dumps(dict(first_runs))})

    def pause_periodic(self, name: str, *, paused: bool, seconds: float | None = None) -> bool:
        """Pause or resume a periodic task."""
        wait = None if seconds is None else timedelta(seconds=seconds)
        return self.db.change("pause_periodic", {"name": name, "paused": paused, "wait": wait}) == 1

    def due_periodic(self, names: Sequence[str]) -> list[tuple[str, datetime]]:
        """Return the periodic tasks that are due."""
        rows = self.db.fetch("due_periodic", {"names": list(names)})
        return [(name, self.db.read_row.to_datetime(due)) for name, due in rows]

    def limits(self) -> list[LimitRow]:
        """Return the limits that were used within the last day."""
        found = []
        for row in self.db.fetch("limits", {"seconds": LIMIT_SHOWN_FOR}):
            settings, (running, now, *state) = row[: len(ResourceLimit._fields)], row[len(ResourceLimit._fields) :]
            found.append(limit_row(ResourceLimit(*settings), LimitState(*state), running, now))
        return found

    def report_breakers(
        self, process: str, rows: Sequence[tuple[str, str, float | None, str]], *, leased: bool = False
    ) -> None:
        """Save the breaker states of a process. If a resource is given twice, the last one counts."""
        if rows:
            latest = {row[0]: dict(zip(_REPORTED_FIELDS, row, strict=True)) for row in rows}
            values = {"process": process, "rows": json.dumps([*latest.values()]), "leased": leased}
            self.db.change("report_breakers", values)

    def breakers(self) -> list[BreakerRow]:
        """Return the breaker states by resource and process."""
        return self.db.select(BreakerRow, "breakers", {"silent": timedelta(seconds=SILENT_AFTER)})

    def start_cooldown(self, resource: str, seconds: float, reason: str, *, capped: bool = False) -> int:
        """Start a cooldown and defer the tasks of its resource; return the number of capped responses in a row."""
        values = {"resource": resource, "length": timedelta(seconds=seconds), "reason": reason, "capped": int(capped)}
        ((count,),) = self.db.fetch_changed("start_cooldown", values)
        while self.db.change("defer_cooling_tasks") > 0:
            pass
        return int(count)

    def probe(self, resource: str, hold: float) -> bool:
        """Ask for permission to call a resource after a capped cooldown. A free resource changes nothing."""
        values = {"resource": resource, "hold": timedelta(seconds=hold)}
        return not self.db.fetch("blocking_cooldown", values) or self.db.change("start_probe", values) == 1

    def cooldowns(self) -> list[Cooldown]:
        """Return the cooldowns that run now."""
        return self.db.select(Cooldown, "cooldowns")

    def _release_sources(self, host: str) -> None:
        """Make the sources due that were deferred until this host may be called; those being polled do not change."""
        store = cast("Sources", self)
        waiting = [each.id for each in store.sources(SourceFilter(text=host)) if _waits_for(each, host)]
        if waiting:
            store.change_sources(dict.fromkeys(waiting, (None, lambda source, now: _due_change(source, host, now))))

    def forget_breakers(self, process: str) -> None:
        """Delete the breaker states of a process that ends."""
        self.db.change("delete_breakers", {"process": process})

    def breaker_orders(self, after: int) -> list[BreakerOrder]:
        """Return the orders with a larger number."""
        return self.db.select(BreakerOrder, "breaker_orders", {"after": after})

    def opened_breakers(self, process: str, resources: Sequence[str]) -> list[BreakerOpening]:
        """Return which of these resources other processes have opened because of failures."""
        reasons = {"by_hand": OPENED_BY_HAND, "elsewhere": OPENED_ELSEWHERE}
        values = {"process": process, "resources": list(resources), **reasons}
        return self.db.select(BreakerOpening, "opened_breakers", values)


class SharedDeadLetters(ABC):
    """A part of `DeadLetters`."""

    db: Statements

    @abstractmethod
    def _fetch_matching(self, name: str, filters: DeadLetterFilter) -> list[Any]:
        """Run a statement for the dead letters that match a filter; return its rows."""

    def dead_letters(self, filters: DeadLetterFilter) -> list[DeadLetter]:
        """Return matching dead letters, newest first."""
        return [self.db.read_row(DeadLetter, row) for row in self._fetch_matching("dead_letters", filters)]

    def count_dead_letters(self, filters: DeadLetterFilter) -> int:
        """Return the number of matching dead letters."""
        return sum(count for (count,) in self._fetch_matching("count_dead_letters", filters))

    def dead_letter(self, number: int) -> DeadLetter | None:
        """Return a dead letter, or None."""
        return self.db.find(DeadLetter, "dead_letter", {"id": number})

    def groups(self, filters: DeadLetterFilter) -> list[Group]:
        """Return dead letters grouped by cause; the sample is the newest one."""
        return [self.db.read_row(Group, row) for row in self._fetch_matching("group_dead_letters", filters)]

    @abstractmethod
    def _count_matches(self, filters: DeadLetterFilter) -> tuple[int, int, int]:
        """Return how many dead letters match, the largest id, and an id below the smallest. Blocks no writer."""

    def add_replay(self, new: NewReplay) -> Replay:
        """Start a replay, from the oldest matching dead letter to the newest."""
        total, newest, cursor = self._count_matches(new.filters)
        found = {"total": total, "newest": newest, "cursor": cursor}
        values = new._asdict() | found | {"filters": write_filter(new.filters, new.max_failures)}
        (row,) = self.db.fetch_changed("add_replay", values)
        return self.db.read_row(Replay, row)

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""
        return self.db.select(Replay, "list_replays", {"running": running, "limit": limit})

    def replay_run(self, number: int) -> Replay | None:
        """Return a replay, or None."""
        return self.db.find(Replay, "get_replay", {"id": number})

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Claim a running replay without a lease, or your own."""
        rows = self.db.fetch_changed("claim_replay", {"owner": owner, "lease": timedelta(seconds=lease)})
        return self.db.read_row(Replay, rows[0]) if rows else None

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay, after a step that is in progress."""
        return self.db.change("end_replay", {"id": number, "state": str(state), "why": why, "epoch": epoch}) == 1

    def mark_group(
        self,
        fingerprint: str,
        *,
        note: str | None = None,
        acknowledged: bool | None = None,
        snooze: float | None = None,
        who: str = "",
    ) -> FailureGroup | None:
        """Change note, acknowledgement or snooze of a failure group; read it afterwards."""
        span = None if snooze is None else timedelta(seconds=snooze)
        marks = {"fingerprint": fingerprint, "note": note, "acknowledged": acknowledged, "snooze": span, "who": who}
        self.db.change("mark_group", marks)
        return self.db.find(FailureGroup, "failure_group", {"fingerprint": fingerprint})

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Record a manual action."""
        values = {"who": who, "action": action, "subject": subject, "reason": reason}
        ((number,),) = self.db.fetch_changed("add_audit_entry", values | {"detail": json.dumps(detail or {})})
        return int(number)

    def add_chart_mark(self, kind: str, text: str, who: str) -> int:
        """Mark an event on the charts, after the old marks are deleted in a transaction of their own."""
        self.db.change("prune_chart_marks", {"age": timedelta(seconds=MARK_RETENTION)})
        ((number,),) = self.db.fetch_changed("add_chart_mark", {"kind": kind, "text": text, "who": who})
        return int(number)

    def chart_marks(self, *, window: float, limit: int = 100) -> list[ChartMark]:
        """Return the newest marks."""
        return self.db.select(ChartMark, "list_chart_marks", {"window": timedelta(seconds=window), "limit": limit})

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group has waited."""
        seconds: float | None = self.db.value("oldest_dead_letter", {"look": _OLDEST_SCAN})
        return seconds

    def edits(self, task_id: int) -> list[PayloadEdit]:
        """Return the edits of a task."""
        return self.db.select(PayloadEdit, "payload_edits", {"task_id": task_id})


def source_columns(source: Source) -> dict[str, Any]:
    """Return the columns of a source by name; its health has columns of its own."""
    columns = source._asdict() | source.health._asdict()
    del columns["health"]
    return columns


class SharedSources:
    """A part of `Sources`."""

    db: Statements

    def source(self, source_id: int) -> Source | None:
        """Return a source, or None."""
        return self.db.find(Source, "get_source", {"id": source_id})

    def sources(self, filters: SourceFilter) -> list[Source]:
        """Return matching sources, ordered by id."""
        return self.db.select(Source, "list_sources", filters._asdict())

    def source_counts(self, profile: str | None = None) -> dict[SourceState, int]:
        """Return the number of sources by state."""
        rows = self.db.fetch("count_sources", {"profile": profile})
        return dict.fromkeys(SourceState, 0) | {SourceState(state): count for state, count in rows}

    def polls(self, source_id: int, limit: int) -> list[Poll]:
        """Return a source's history, newest first."""
        return self.db.select(Poll, "list_polls", {"id": source_id, "limit": limit})

    def recent_polls(self, source_ids: Sequence[int], limit: int) -> dict[int, list[Poll]]:
        """Return the last history entries of each of these sources, newest first."""
        found: dict[int, list[Poll]] = {number: [] for number in source_ids}
        for poll in self.db.select(Poll, "recent_polls", {"ids": list(found), "limit": limit}):
            found[poll.source_id].append(poll)
        return found

    def waiting_sources(self, limit: int) -> list[tuple[int, str]]:
        """Return sources that are deferred because their host cools down."""
        return [(number, url) for number, url in self.db.fetch("deferred_sources", {"limit": limit})]

    def claim_sources(self, cycle_id: int, owner: str, limit: int, lease: float) -> list[Source]:
        """Claim sources of a cycle that have no outcome, ordered by id."""
        values = {"cycle": cycle_id, "owner": owner, "limit": limit, "lease": timedelta(seconds=lease)}
        return [self.db.read_row(Source, row) for row in sorted(self.db.fetch_changed("claim_sources", values))]

    def renew_sources(self, owner: str, lease: float) -> int:
        """Renew the leases of a monitor's sources without an outcome."""
        return self.db.change("renew_source_leases", {"owner": owner, "lease": timedelta(seconds=lease)})

    def release_sources(self, owner: str) -> int:
        """Release a monitor's sources without an outcome."""
        return self.db.change("release_source_leases", {"owner": owner})


class SharedAlerts:
    """A part of `Alerts`."""

    db: Statements

    def last_alerts(self, keys: Sequence[str]) -> dict[str, Alert]:
        """Return the last alert of each key."""
        return {alert.key: alert for alert in self.db.select(Alert, "last_alerts", {"keys": list(keys)})}

    def claim_alerts(self, limit: int, lease: float) -> list[Alert]:
        """Claim alerts that are due and have no lease, oldest first."""
        rows = self.db.fetch_changed("claim_alerts", {"limit": limit, "lease": timedelta(seconds=lease)})
        return sorted(self.db.read_row(Alert, row) for row in rows)

    def settle_alerts(self, results: Sequence[AlertResult]) -> int:
        """Save results of deliveries."""
        return self.db.change("settle_alerts", {"results": json.dumps([each._asdict() for each in results])})

    def prune_alerts(self, older_than: float) -> int:
        """Delete alerts that were delivered long ago."""
        return self.db.change("prune_alerts", {"age": timedelta(seconds=older_than)})

    def make_alerts_due(self) -> int:
        """Make all waiting alerts due now."""
        return self.db.change("make_alerts_due")


class SharedJobs:
    """A part of `Jobs`."""

    db: Statements

    def add_run(self, run_id: str, job: str, entity: str | None, env: str, parent: str | None) -> Run:
        """Start a run."""
        values = {"id": run_id, "job": job, "entity": entity, "env": env, "parent": parent}
        for row in self.db.fetch_changed("add_run", values):
            return self.db.read_row(Run, row)
        raise ConfigError(f"run {run_id} already exists; choose another run id")

    def reopen_run(self, run_id: str) -> Run | None:
        """Continue a run."""
        rows = self.db.fetch_changed("reopen_run", {"id": run_id})
        return self.db.read_row(Run, rows[0]) if rows else None

    def run(self, run_id: str) -> Run | None:
        """Return a run, or None."""
        return self.db.find(Run, "get_run", {"id": run_id})

    def done_targets(self, run_id: str, source_ids: Sequence[str]) -> set[str]:
        """Return which of these targets are finished."""
        return {row[0] for row in self.db.fetch("done_targets", {"run_id": run_id, "ids": list(source_ids)})}

    def targets(
        self,
        run_id: str,
        *,
        statuses: Sequence[TargetStatus] = (),
        after: str | None = None,
        limit: int | None = None,
    ) -> list[TargetRow]:
        """Return targets of a run, ordered by id."""
        wanted = [str(each) for each in statuses or TargetStatus]
        name = "list_unfinished_targets" if REMAINING.issuperset(wanted) else "list_targets"
        values = {"run_id": run_id, "statuses": wanted, "after": after, "limit": _MAX_ID if limit is None else limit}
        return self.db.select(TargetRow, name, values)

    def target_counts(self, run_id: str) -> dict[TargetStatus, int]:
        """Return the number of targets by status."""
        rows = self.db.fetch("count_targets", {"run_id": run_id})
        return dict.fromkeys(TargetStatus, 0) | {TargetStatus(status): count for status, count in rows}

    def failure_groups(self, run_id: str, limit: int = 5) -> list[tuple[str, int, TargetRow]]:
        """Return the largest groups of failures of a run."""
        rows = self.db.fetch("group_failed_targets", {"run_id": run_id, "limit": limit})
        return [(cause, size, self.db.read_row(TargetRow, row)) for cause, size, *row in rows]

    def compare_runs(self, before: str, after: str) -> dict[str, int]:
        """Compare two runs."""
        ((fixed, broken, still),) = self.db.fetch("compare_runs", {"before": before, "after": after})
        return {"fixed": fixed, "broken": broken, "still": still}


class SharedReads:
    """A part of `Reads`."""

    db: Statements

    def event_totals(self) -> dict[str, int]:
        """Return the all-time total of each event."""
        return event_totals(self.db.fetch("event_totals"))

    def failure(self, fingerprint: str) -> FailureGroup | None:
        """Return a failure group, or None."""
        return self.db.find(FailureGroup, "failure_group", {"fingerprint": fingerprint})

    def fingerprints(self, prefix: str, limit: int) -> list[str]:
        """Return the fingerprints that begin with a prefix."""
        return self.db.column("list_fingerprints", {"prefix": prefix, "limit": limit})

    def pulse(self, *, window: float = 3600.0, step: float = 60.0) -> Pulse:
        """Return everything that changes from moment to moment."""
        values = {"window": float(window), "step": float(step), "silent": SILENT_AFTER}
        return parse_pulse(self.db.value("status_snapshot", values | {"most": MOST_COUNTED, "changes": MAX_CHANGES}))

    def failure_flow(self, fingerprints: Sequence[str], *, window: float, step: float) -> dict[str, list[FlowPoint]]:
        """Return how often each of these groups failed, by time step."""
        flow: dict[str, list[FlowPoint]] = {each: [] for each in fingerprints}
        values = {"window": float(window), "step": float(step), "fingerprints": list(flow)}
        for fingerprint, *point in self.db.fetch("failure_flow", values):
            flow[fingerprint].append(self.db.read_row(FlowPoint, point))
        return flow

    def failure_samples(self, fingerprint: str, limit: int = 5) -> list[Attempt]:
        """Return the last failed attempts of a group."""
        return self.db.select(Attempt, "failure_samples", {"fingerprint": fingerprint, "limit": limit})

    def failure_tasks(self, fingerprint: str, limit: int = 1000) -> dict[str, int]:
        """Return the number of failed attempts by task, among the last ones of a group."""
        return self.tasks_by_group([fingerprint], limit)[fingerprint]

    def tasks_by_group(self, fingerprints: Sequence[str], limit: int = 100) -> dict[str, dict[str, int]]:
        """Return the number of failed attempts by task, among the last ones of each of these groups."""
        found: dict[str, dict[str, int]] = {each: {} for each in fingerprints}
        for fingerprint, task_type, size in self.db.fetch(
            "failure_tasks", {"fingerprints": list(found), "limit": limit}
        ):
            found[fingerprint][task_type] = size
        return found

    def finished_sample(self, *, window: float, most: int = MOST_SAMPLED) -> list[FinishedTask]:
        """Return tasks of a window that have ended.

        Ids with large gaps leave too few tasks in a spread sample; then the newest tasks are the sample.
        """
        values = {"window": timedelta(seconds=window), "most": most}
        rows = self.db.fetch("sample_finished", values)
        if rows and rows[0][1] > 1 and len(rows) * _SPARSE < most:
            rows = self.db.fetch("newest_finished", values)
        return [self.db.read_row(FinishedTask, row[2:]) for row in rows]

    def waiting_for(self, resource: str) -> int:
        """Return how many queued tasks depend on a resource."""
        return int(self.db.value("count_waiting_for_resource", {"resource": resource, "most": MOST_COUNTED}))

    def dead_letter_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of dead letters by task and category, according to the counters."""
        rows = self.db.fetch("count_dead_letters_by_type")
        return {(task_type, category): count for task_type, category, count in rows}
