"""What is asked of a store by those who clear up: replays in steps, edits, groups, the audit log.

Every method is one transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import DeadLetterFilter

# The rows of dead-letter triage: replays in steps, edits of payloads, the audit log. Times are aware datetimes.


class ReplayState(StrEnum):
    """Where a replay stands.

    It is ``running`` until all that was meant is queued again (``done``), a failure stops it (``stopped``), or somebody
    does (``cancelled``). One that was stopped can be resumed.
    """

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class NewReplay(NamedTuple):
    """A replay to be begun.

    Attributes:
        which: The dead letters that are meant; its ``limit`` and ``before`` hold too.
        canary: Whether one is tried first, then ten, then the rest.
        rate: Tasks per second for the rest; None for as fast as it goes.
        who: Who asks for it.
        reason: Why, for people.
    """

    which: DeadLetterFilter
    canary: bool = True
    rate: float | None = None
    who: str = ""
    reason: str = ""


class Replay(NamedTuple):
    """A replay as it is kept; workers carry it on, whoever began it.

    Attributes:
        total: Dead letters that were meant when it began.
        newest: The largest number among them: what fails again later is not taken a second time.
        cursor: The largest number that was dealt with; it goes from the oldest to the newest.
        stage: 0 for the first one, 1 for the ten, 2 for the rest.
        replayed: Tasks that were queued again.
        conflicts: Those that stayed, because another live task has their unique key.
        conflict_ids: The first hundred of them.
        stopped_by: Why it was stopped, for people; empty otherwise.
        epoch: Of the claim: what carries it on has to show the same number.
    """

    id: int
    which: DeadLetterFilter
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


class Canaries(NamedTuple):
    """How the tasks of a replay fare.

    Attributes:
        live: Canaries that are not over yet.
        done: Canaries that succeeded.
        dead: Number of a task of the replay that did not end well: a dead letter again, cancelled or discarded; None
            for none.
        error: Text of its error.
    """

    live: int
    done: int
    dead: int | None
    error: str


class ReplayStep(NamedTuple):
    """What one step of a replay did.

    Attributes:
        replayed: Tasks queued again.
        conflicts: Dead letters that stayed.
        more: Whether some are left.
    """

    replayed: int
    conflicts: int
    more: bool


class PayloadEdit(NamedTuple):
    """A change of a dead letter's arguments, kept with what was there before.

    Attributes:
        before: The arguments as JSON text, whole.
        after: The same for what they are now.
        patch: The operations as JSON text, whole.
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
    """Something that somebody asked for by hand; written before it is done.

    Attributes:
        who: Who.
        action: What: ``replay``, ``discard``, ``edit``, ``pause``, …
        subject: To what: ``dead_letter:12``, ``group:…``, ``queue:mail``, ``source:3``.
        detail: More, as JSON-ready values; no payload is in it.
        reason: Why, in the words of who asked.
    """

    id: int
    at: datetime
    who: str
    action: str
    subject: str
    detail: dict[str, Any]
    reason: str


class TriageStore(Protocol):
    """Dead letters and groups, as people deal with them."""

    def add_replay(self, new: NewReplay) -> Replay:
        """Begin a replay; those that are meant are counted, and nothing else is done yet."""

    def replay_run(self, number: int) -> Replay | None:
        """Return one."""

    def replay_runs(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return replays, newest first."""

    def claim_replay(self, owner: str, lease: float) -> Replay | None:
        """Take a running replay to carry it on: the one that waits longest of those that nobody holds, or one's own.

        Args:
            owner: Who.
            lease: Seconds until others may take it. Its epoch grows only when it changes hands.
        """

    def replay_step(self, number: int, epoch: int, limit: int, *, stage: int, canary: bool) -> ReplayStep | None:
        """Queue the next dead letters of a replay again, and write how far it is, all or nothing.

        Args:
            number: Of the replay.
            epoch: Of the claim.
            limit: How many at most.
            stage: What is written as its stage.
            canary: Whether these tasks get one attempt alone.

        Returns:
            None if it is not ours any more, or not running.
        """

    def canaries(self, number: int) -> Canaries:
        """Return how the tasks of a replay fare; bounded, whatever their number."""

    def end_replay(self, number: int, state: ReplayState, why: str = "", *, epoch: int | None = None) -> bool:
        """End a running replay; tell whether it was one, and ours if an epoch is given."""

    def resume_replay(self, number: int) -> Replay | None:
        """Have a stopped or cancelled replay go on from its first stage; None if there is none that was."""

    def edit_payload(self, number: int, before: str, after: str, patch: str, who: str, reason: str) -> str:
        """Change the arguments of a dead letter and of its task, and keep what was there.

        Args:
            number: Of the dead letter.
            before: What they are now; if they are not, nothing is done.
            after: What they are to be, checked already.
            patch: The operations, as JSON text.
            who: Who does it.
            reason: Why.

        Returns:
            ``edited``; ``changed`` when somebody else was faster; ``gone`` when there is no such dead letter.
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
        """Change what people say of a group; what is None stays. None if there is no such group.

        Args:
            fingerprint: Which.
            note: For people.
            acknowledged: Whether somebody sees to it. It is open again by itself when it fails after that.
            snooze: Seconds for which it is not told of; 0 ends that.
            who: Who says it.
        """

    def unannounced_groups(self, limit: int = 100, *, quiet: float | None = None) -> list[FailureGroup]:
        """Return open groups of which no alert was ever written, oldest first.

        The key of such an alert is ``group:`` and the fingerprint.

        Args:
            limit: How many at most.
            quiet: Seconds; a group that was not seen for longer and has no dead letters is over, and left out.
        """

    def audit(self, who: str, action: str, subject: str, detail: dict[str, Any] | None = None, reason: str = "") -> int:
        """Write down that somebody asked for something; return its number."""

    def audits(
        self, *, subject: str | None = None, action: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return what was asked for by hand, newest first."""

    def count_rows(self) -> dict[str, int]:
        """Return how many tasks of each status there really are, and ``dead_letters``: counted, not by the books."""

    def ledger(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts by the books and those that `count_rows` gives, both of one moment."""

    def oldest_dead_letter(self) -> float | None:
        """Return for how many seconds the oldest dead letter of an open group waits; None when there is none."""

    def observed(self, rows: Sequence[tuple[str, str, str, str, str, str]]) -> None:
        """Write what would have been done in a program that only observes.

        Args:
            rows: Name of what failed, decision (``retry``, ``defer``, ``fail``, ``abort``, ``skip``, ``disable``),
                category, fingerprint, class name and text of the error; redacted and capped already.
        """
