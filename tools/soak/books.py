"""The books at the end: what was asked for, what the database holds and what tasks have left, to the last task.

All of it is read from the database by plain SQL and from the file of effects; Outlast is not asked.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.soak.load import Load
    from tools.soak.places import Place

_SHOWN = 5
_TASKS = "SELECT id, task_type, status, attempt, deferrals, replays, parameters, suspect FROM task_queue"
_ENDED = {"DONE", "FAILED", "CANCELLED", "DISCARDED"}
_FAIL_FOR_GOOD = {"broken", "poison"}
"""Kinds that may be dead letters at the end; any other only if it took down its process too often, by bad luck."""


class Row(NamedTuple):
    """A task as it stands in the table."""

    id: int
    kind: str
    status: str
    attempt: int
    deferrals: int
    replays: int
    parameters: str
    suspect: int

    @property
    def n(self) -> int:
        """Its number, as the load gave it; 0 for one that nobody has asked for."""
        return int(json.loads(self.parameters).get("n", 0))


class Effect(NamedTuple):
    """A line that a call has left."""

    n: int
    task: int
    epoch: int
    attempt: int
    what: str


def effects_in(file: Path) -> list[Effect]:
    """Read the file."""
    if not file.exists():
        return []
    lines = (line.split(" ") for line in file.read_text("utf-8").splitlines())
    return [Effect(int(n), int(task), int(epoch), int(attempt), what) for n, task, epoch, attempt, what in lines]


class Books:
    """Compares all of it.

    Args:
        place: Whose database.
        load: What was asked for.
        effects: What calls have left.
        crash_limit: Processes that a task may take down.
    """

    def __init__(self, place: Place, load: Load, effects: list[Effect], crash_limit: int) -> None:
        self._place, self._load, self._limit = place, load, crash_limit
        self.tasks = {row[0]: Row(*row) for row in place.rows(_TASKS)}
        self.off: list[str] = []
        self._by_task: dict[int, list[Effect]] = defaultdict(list)
        for effect in effects:
            if effect.task:
                self._by_task[effect.task].append(effect)
        self._attempts: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for task, attempt, outcome in place.rows("SELECT task_id, attempt, outcome FROM task_attempts"):
            self._attempts[task].append((attempt, outcome))
        self._letters = dict(place.rows("SELECT original_task_id, reason FROM dead_letter_queue"))
        self._effects = effects

    def check(self, elapsed: float, period: float) -> list[str]:
        """Return what is off."""
        self._everything_is_in_one_place()
        self._what_ended_has_its_effects()
        self._no_start_is_used_twice()
        self._attempts_and_effects_agree()
        self._dead_letters()
        self._nothing_is_held()
        self._runs_add_up()
        ticks = sum(row.kind == "tick" for row in self.tasks.values())
        if not 1 <= ticks <= elapsed / period + 2:
            self.off.append(f"{ticks} periodic tasks in {elapsed:.0f} s, one every {period:g} s")
        return self.off

    def statuses(self) -> Counter[str]:
        """Count the tasks of each status."""
        return Counter(row.status for row in self.tasks.values())

    def _tell(self, what: str, which: Iterable[Any]) -> None:
        found = list(which)
        if found:
            self.off.append(f"{len(found)} {what}: {', '.join(map(str, found[:_SHOWN]))}")

    def _everything_is_in_one_place(self) -> None:
        places: dict[int, list[int]] = defaultdict(list)
        for row in self.tasks.values():
            if row.kind != "tick":
                places[row.n].append(row.id)
        load = self._load
        self._tell("tasks that were enqueued are lost", [n for n in load.known if n not in places])
        self._tell("are there twice", [(n, ids) for n, ids in places.items() if len(ids) > 1])
        self._tell(
            "have another number than the store had said",
            [n for n, i in load.known.items() if places.get(n, [i]) != [i]],
        )
        self._tell("were never asked for", [n for n in places if n not in load.kinds])
        self._tell("are there beside the task of the same key", [n for n in load.shared if n in places])
        self._tell(
            "are another kind of task", [r.id for r in self.tasks.values() if r.n and load.kinds.get(r.n) != r.kind]
        )
        live = [row for row in self.tasks.values() if row.status not in _ENDED and row.kind != "tick"]
        self._tell("are still live", [(row.id, row.kind, row.status, self.story(row.id)) for row in live])

    def story(self, task: int) -> str:
        """Tell all that is known of a task."""
        told = [f"{each.what}@{each.attempt}/{each.epoch}" for each in self._by_task[task]]
        return f"{self.tasks[task][1:6]} effects {told} attempts {sorted(self._attempts[task])}"

    def _what_ended_has_its_effects(self) -> None:
        for row in self.tasks.values():
            left = [effect.what for effect in self._by_task[row.id]]
            good = sum(what in {"done", "tick"} or what.startswith("key:") for what in left)
            lost = any(outcome == "lost" for _, outcome in self._attempts[row.id])
            if row.status == "DONE" and not good:
                self.off.append(f"task {row.id} is done and has left nothing: {self.story(row.id)}")
            if good > 1 and not lost:
                self.off.append(f"task {row.id} was done {good} times, and no worker was lost: {self.story(row.id)}")
            if row.kind == "never" and (left or row.status != "CANCELLED"):
                self.off.append(f"task {row.id} should have been cancelled: {self.story(row.id)}")
        self._tell(
            "were said to be cancelled and are not",
            [self.story(i) for i in self._load.cancelled if self.tasks[i].status != "CANCELLED"],
        )

    def _no_start_is_used_twice(self) -> None:
        times = Counter((effect.task, effect.epoch, effect.attempt) for effect in self._effects if effect.task)
        self._tell(
            "starts were used for two calls",
            [(start, self.story(start[0])) for start, n in times.items() if n > 1 and start[0] in self.tasks],
        )

    def _attempts_and_effects_agree(self) -> None:
        """A call for each start, but for those that were lost with their worker: of them nobody knows."""
        wrong, unrecorded, unheard = [], [], []
        for row in self.tasks.values():
            left, said = self._by_task[row.id], self._attempts[row.id]
            lost = sum(outcome == "lost" for _, outcome in said)
            own = sum(effect.what == "defer" for effect in left)  # which spends no attempt, though it was called
            if not row.attempt - lost <= len(left) <= row.attempt + own:
                wrong.append(self.story(row.id))
            starts = {attempt for attempt, _ in said}
            unrecorded += [
                self.story(row.id)
                for e in left
                if e.what in {"retry", "fail"} and e.attempt not in starts and row.status != "CANCELLED"
            ]
            called = {effect.attempt for effect in left}
            unheard += [
                self.story(row.id)
                for attempt, outcome in said
                if outcome in {"retry", "fail"} and attempt not in called
            ]
        self._tell("tasks have other effects than attempts", wrong)
        self._tell("failed calls are in no history", unrecorded)
        self._tell("recorded failures were no calls", unheard)

    def _dead_letters(self) -> None:
        failed = {row.id for row in self.tasks.values() if row.status == "FAILED"}
        self._tell("failed tasks have no dead letter", failed - self._letters.keys())
        self._tell("dead letters have no failed task", self._letters.keys() - failed)
        self._tell("failed for good without a history", [task for task in failed if not self._attempts[task]])
        for task, reason in self._letters.items():
            lost = sum(outcome == "lost" for _, outcome in self._attempts[task])
            unlucky = reason == "crash" and lost >= self._limit
            if task in self.tasks and self.tasks[task].kind not in _FAIL_FOR_GOOD and not unlucky:
                self.off.append(f"task {task} should not be dead ({reason}): {self.story(task)}")

    def _nothing_is_held(self) -> None:
        for what, statement in {
            "workers are still there": "SELECT name, state FROM workers",
            "sources are still leased": "SELECT id FROM sources WHERE lease_owner IS NOT NULL AND outcome IS NULL",
            "replays still run": "SELECT id, state FROM replays WHERE state = 'running'",
            "sources were never polled": "SELECT id FROM sources WHERE id NOT IN (SELECT source_id FROM source_polls)",
        }.items():
            self._tell(what, self._place.rows(statement))
        if self._place.name == "sqlite":
            self._tell(
                "pages are broken", [row for row in self._place.rows("PRAGMA integrity_check") if row != ("ok",)]
            )

    def _runs_add_up(self) -> None:
        runs = self._place.rows(
            "SELECT id, total, summary FROM job_runs WHERE ended_at IS NOT NULL AND summary IS NOT NULL"
        )
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for run, status, number in self._place.rows(
            "SELECT run_id, status, count(*) FROM job_targets GROUP BY run_id, status"
        ):
            counted[run][status] = number
        for run, total, text in runs:
            summary = text if isinstance(text, dict) else json.loads(text)
            figures = [summary[f"{each}_targets"] for each in ("success", "failed", "deferred", "skipped")]
            if sum(figures) + summary["not_attempted"] != summary["total_targets"]:
                self.off.append(f"run {run} does not add up: {summary}")
            there = [counted[run][each] for each in ("success", "failed", "deferred", "skipped")]
            if there[:3] != figures[:3] or total != summary["total_targets"]:
                self.off.append(f"run {run} says {figures} of {total}, its targets are {there}")
