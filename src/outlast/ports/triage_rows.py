"""The rows of dead-letter triage: replays in steps, edits of payloads, the audit log. Times are aware datetimes."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from outlast.ports.rows import DeadLetterFilter

__all__ = ["AuditEntry", "Canaries", "NewReplay", "PayloadEdit", "Replay", "ReplayState", "ReplayStep"]


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
