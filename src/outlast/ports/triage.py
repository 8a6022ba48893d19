"""The protocol for dead-letter triage: replays, payload edits, failure groups and the audit log.

Each method is one transaction. Times are aware datetimes.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import DeadLetterFilter


class ReplayState(StrEnum):
    """State of a replay.

    A replay is ``running`` until all matching dead letters are queued again (``done``), a failure stops it
    (``stopped``) or somebody cancels it (``cancelled``). A stopped or cancelled replay can be resumed.
    """

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class NewReplay(NamedTuple):
    """A replay to start.

    Attributes:
        filters: Filter for the dead letters. Its ``limit`` and ``before`` apply too.
        canary: Whether one task is tried first, then ten, then the rest.
        rate: Tasks per second for the rest; None for no limit.
        who: Who asked for it.
        reason: Shown to people.
        max_failures: Replayed tasks that may fail again after the canaries, before the replay stops; None for the
            default: none with a canary, any number without one.
    """

    filters: DeadLetterFilter
    canary: bool = True
    rate: float | None = None
    who: str = ""
    reason: str = ""
    max_failures: int | None = None


class Replay(NamedTuple):
    """A stored replay. Any worker can continue it.

    Attributes:
        total: Dead letters that matched when it started.
        newest: Largest id among them. Tasks that fail again get larger ids and are not replayed twice.
        cursor: Largest id that was processed. A replay goes from the oldest to the newest.
        stage: 0 for the first task, 1 for the ten, 2 for the rest.
        replayed: Tasks that were queued again.
        conflicts: Dead letters that stayed because another live task has their unique key.
        conflict_ids: The first hundred of them.
        stopped_by: Why it was stopped; empty otherwise.
        epoch: Epoch of the claim. A step must show the same number.
        max_failures: As in `NewReplay`.
    """

    id: int
    filters: DeadLetterFilter
    canary: bool
    rate: float | None
    state: ReplayState
    stage: int
    total: int
    newest: int
    cursor: int
    replayed: int
    conflicts: int
    conflict_ids: tuple[int, ...]
    stopped_by: str
    who: str
    reason: str
    epoch: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    max_failures: int | None = None

    @property
    def allowed_failures(self) -> int | None:
        """Tasks that may fail again after the canaries; None for any number."""
        return 0 if self.max_failures is None and self.canary else self.max_failures


class Canaries(NamedTuple):
    """Outcome of the canaries of a replay so far.

    Attributes:
        live: Canaries that have not ended.
        done: Canaries that succeeded.
        dead: Id of a task of the replay that failed again, was cancelled or was discarded; None if there is none.
        error: Its error message.
        failed: Tasks of the replay that failed again, counted up to the number that was asked for.
    """

    live: int
    done: int
    dead: int | None
    error: str
    failed: int = 0


class ReplayStep(NamedTuple):
    """Result of one step of a replay.

    Attributes:
        replayed: Tasks that were queued again.
        conflicts: Dead letters that stayed.
        more: Whether dead letters are left.
    """

    replayed: int
    conflicts: int
    more: bool


class PayloadEdit(NamedTuple):
    """A change of a dead letter's arguments.

    Attributes:
        before: Complete arguments before the change, as JSON text.
        after: Complete arguments after the change, as JSON text.
        patch: The operations as JSON text.
    """

    id: int
    task_id: int
    before: str
    after: str
    patch: str
    who: str
    reason: str
    at: datetime


class AuditEntry(NamedTuple):
    """A manual action, recorded before it is carried out.

    Attributes:
        who: Who asked for it.
        action: ``replay``, ``discard``, ``edit``, ``pause``, …
        subject: What it applies to: ``dead_letter:12``, ``group:…``, ``queue:mail``, ``source:3``.
        detail: More facts as JSON values, without payloads.
        reason: The reason that was given.
    """

    id: int
    at: datetime
    who: str
    action: str
    subject: str
    detail: dict[str, Any]
    reason: str


MARK_RETENTION = 90 * 86400.0
"""Seconds for which marks of the charts are kept."""


class ChartMark(NamedTuple):
    """An event that somebody marked on the charts.

    Attributes:
        kind: ``deploy``.
        text: What happened, such as a version.
    """

    id: int
    at: datetime
    kind: str
    text: str
    who: str


class TriageStore(Protocol):
    """Triage of dead letters and failure groups."""

    def add_replay(self, new: NewReplay) -> Replay:
        """Start a replay. This counts the matching dead letters and changes nothing else."""

    def replay_run(self, number: int) -> Replay | None:
        """Return a replay, or None."""

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Claim a running replay: your own, or the one of those without a lease that has waited longest.

        Args:
            owner: Name of the claimant.
            lease: Seconds until others may claim it. The epoch grows only when the owner changes.
        """

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters of a replay again and save its progress, all or nothing.

        Args:
            number: Id of the replay.
            epoch: Epoch of the claim.
            limit: Maximum number of dead letters.
            stage: The stage to save.
            canary: Whether these tasks get a single attempt.

        Returns:
            None if the claim was lost or the replay is not running.
        """

    def canaries(self, number: int, most: int = 1) -> Canaries:
        """Return the outcome of the canaries of a replay, and its failures, counted up to `most`.

        The cost does not grow with the size of the replay.
        """

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay; return whether it was running and, if given, the epoch was the latest."""

    def resume_replay(self, number: int) -> Replay | None:
        """Resume a stopped or cancelled replay from its first stage; return None if it is in another state."""

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task, and keep the old ones.

        Args:
            number: Id of the dead letter.
            before: The current arguments. If they differ, nothing is changed.
            after: The new arguments, already validated.
            patch: The operations, as JSON text.
            who: Who changes them.
            reason: Why.

        Returns:
            ``edited``; ``changed`` if they have changed since they were read; ``gone`` if the dead letter does not
            exist.
        """

    def edits(self, task_id: int) -> list[PayloadEdit]:
        """Return the edits of a task, oldest first."""

    def mark_group(
        self,
        fingerprint: str,
        *,
        note: str | None = None,
        acknowledged: bool | None = None,
        snooze: float | None = None,
        who: str = "",
    ) -> FailureGroup | None:
        """Change note, acknowledgement or snooze of a failure group; None leaves a value as it is.

        Args:
            fingerprint: The group.
            note: A note for people.
            acknowledged: True stops alerts about it. A new failure reopens the group.
            snooze: Seconds without alerts; 0 ends the snooze.
            who: Who changes it.

        Returns:
            The group; None if it does not exist.
        """

    def unannounced_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return open groups that never had an alert, oldest first.

        The key of such an alert is ``group:`` and the fingerprint.

        Args:
            limit: Maximum number of groups.
            quiet: Seconds. Groups without dead letters whose last failure is older are skipped.
        """

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Record a manual action; return its id."""

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return recorded manual actions, newest first."""

    def add_chart_mark(self, kind: str, text: str, who: str) -> int:
        """Mark an event on the charts; return its id. Marks older than `MARK_RETENTION` are deleted."""

    def chart_marks(self, *, window: float, limit: int = 100) -> list[ChartMark]:
        """Return the marks of the last `window` seconds, newest first."""

    def counter_check(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the tasks by status, and ``dead_letters``, by the counters and by the rows, both of one moment."""

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group has waited; None if there is none."""

    def record_observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Record decisions of a program in observe mode.

        Args:
            rows: Name of the call, decision (``retry``, ``defer``, ``fail``, ``abort``, ``skip``, ``disable``),
                category, fingerprint, class name and message of the error; already redacted and truncated.
        """
