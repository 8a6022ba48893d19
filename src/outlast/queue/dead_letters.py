"""``app.dead_letters``: list, replay, edit and discard dead letters, and triage their groups."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from outlast.decide.limits import per_second
from outlast.errors import ConfigError, PayloadError
from outlast.failure import Category
from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import Attempt, DeadLetter, DeadLetterFilter, Group, Reason
from outlast.ports.store import Store
from outlast.ports.triage import NewReplay, PayloadEdit, Replay, ReplayState
from outlast.queue.audit import os_user, write_audit
from outlast.queue.masking import masked_parameters, masked_row, masked_text
from outlast.queue.payload import ENCODER
from outlast.queue.payload_patch import apply_patch, masked_values
from outlast.queue.task_reader import enum_member
from outlast.redact import MASK

if TYPE_CHECKING:
    from outlast.queue.definition import TaskDefinition

FILTER_FIELDS = {"task": "task_type", "group": "fingerprint"}
"""Filters that have another name than the field of a row that they compare."""
_PAGE = 200
_LONGEST_NOTE = 2000  # characters
_MAX_FAILURES = 1_000_000
_LONGEST_SNOOZE = 366 * 86400.0


class DryRun(NamedTuple):
    """The dead letters that a replay or a discard would affect.

    Attributes:
        total: Number of dead letters.
        groups: Number by fingerprint, the largest group first.
        tasks: Number by task type, the largest first.
        categories: Number by category, the largest first.
    """

    total: int
    groups: dict[str, int]
    tasks: dict[str, int]
    categories: dict[str, int]


class DeadLetterHistory(NamedTuple):
    """A dead letter and its failed attempts.

    Attributes:
        dead_letter: The dead letter.
        attempts: All failed attempts, oldest first, including those before an earlier replay.
    """

    dead_letter: DeadLetter
    attempts: list[Attempt]


class Handled(NamedTuple):
    """The result of a replay or a discard for one dead letter.

    Attributes:
        id: The id of the dead letter.
        outcome: ``replayed``, ``discarded``, ``conflict`` (another live task has its unique key) or ``gone``.
    """

    id: int
    outcome: str


class DeadLetterBox:
    """The dead letters of an app, as ``app.dead_letters``.

    In all methods, ``which`` is a set of filters: ``task``, ``queue``, ``category``, ``reason``, ``group`` (a
    fingerprint), ``since`` and ``until`` (aware datetimes), ``text`` and ``ids``. ``who`` is the person who acts, by
    default the user of this process, and ``why`` is their reason. Every change is recorded in the audit log before it
    is made.

    Args:
        store: The store with the dead letters.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def count(self, **which: Any) -> int:
        """Return the number of dead letters that match."""
        return self._store.count_dead_letters(dead_letter_filter(which))

    def show(self, number: int) -> DeadLetterHistory:
        """Return a dead letter with its failed attempts.

        Raises:
            LookupError: If it does not exist.
        """
        letter = self._letter(number)
        return DeadLetterHistory(letter, self._store.attempts(letter.original_task_id))

    def groups(self, limit: int | None = 50, **which: Any) -> "Sequence[Group]":
        """Return the dead letters that match, grouped by cause, the largest group first."""
        return self._store.groups(dead_letter_filter(which, limit=limit))

    def replay(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> "Sequence[Handled]":
        """Queue one dead letter again, or all that match. Each is replayed in its own transaction.

        Args:
            number: The id of one dead letter. Without it, ``which`` selects the dead letters.
            who: The person who acts.
            why: Their reason.
            which: At least one filter, or ``all=True``. ``limit`` is the maximum number, newest first.
        """
        return [*self.replaying(number, who=who, why=why, **which)]

    def replaying(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> Iterator[Handled]:
        """Replay dead letters one by one while you iterate, for example to show progress. Arguments as for `replay`."""
        for each in self._numbers("replay_dead_letter", number, which, who, why):
            yield Handled(each, self._store.replay(each))

    def discard(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> "Sequence[Handled]":
        """Delete one dead letter, or all that match, permanently. Arguments as for `replay`."""
        return [*self.discarding(number, who=who, why=why, **which)]

    def discarding(
        self, number: int | None = None, *, who: str | None = None, why: str = "", **which: Any
    ) -> Iterator[Handled]:
        """Discard dead letters one by one while you iterate. Arguments as for `replay`."""
        for each in self._numbers("discard_dead_letter", number, which, who, why):
            yield Handled(each, self._store.discard(each))

    def _numbers(
        self, action: str, number: int | None, which: dict[str, Any], who: str | None, why: str
    ) -> Iterator[int]:
        """Record the action in the audit log, then yield the ids of the matching dead letters, newest first."""
        if number is not None:
            write_audit(self._store, action, f"dead_letter:{number}", who=who, why=why)
            yield number
            return
        wanted, limit = _pop_filter(which)
        write_audit(
            self._store, f"{action}s", audit_subject(wanted), wanted._asdict() | {"limit": limit}, who=who, why=why
        )
        for letter in iter_dead_letters(self._store, wanted, limit):
            yield letter.id

    def dry_run(self, number: int | None = None, **which: Any) -> DryRun:
        """Return how many dead letters a replay or a discard would affect. Takes the arguments of `replay`."""
        if number is not None:
            which = {"ids": (number,)}
        wanted, limit = _pop_filter(which)
        if limit is not None:
            return _count_by_paging(self._store, wanted, limit)
        groups = {each.fingerprint: each.size for each in self._store.groups(wanted)}
        known, count = self._store.dead_letter_counts(), self._store.count_dead_letters
        names = {task for task, _ in known if wanted.task_type in {None, task}}
        tasks = {name: count(wanted._replace(task_type=name)) for name in names}
        names = {kind for _, kind in known if wanted.category in {None, kind}}
        kinds = {name: count(wanted._replace(category=name)) for name in names}
        return DryRun(count(wanted), *map(_largest_first, (groups, tasks, kinds)))

    def replay_later(
        self,
        *,
        canary: bool = True,
        rate: str | float | None = None,
        max_failures: int | None = None,
        who: str | None = None,
        why: str = "",
        **which: Any,
    ) -> Replay:
        """Start a replay that the workers continue, even if this process ends.

        Args:
            canary: Whether to replay one task first, then ten, then the rest. A canary gets one attempt.
            rate: Rate limit for the rest: ``"10/s"``, ``"30/min"``, ``"1000/d"``, or tasks per second; None for none.
            max_failures: Tasks that may fail again, apart from canaries: one more stops the replay. By default 0 with
                a canary; without one, no number of failures stops it. A failed canary always stops it.
            who: The person who acts.
            why: Their reason.
            which: The filters of `replay`.

        Raises:
            ConfigError: If the rate, `max_failures` or a filter is not valid.
        """
        if max_failures is not None and (type(max_failures) is not int or not 0 <= max_failures <= _MAX_FAILURES):
            raise ConfigError(f"max_failures is {max_failures!r}; give a whole number, 0 to {_MAX_FAILURES:,}, or None")
        if max_failures is not None and not canary and rate is None:
            raise ConfigError("max_failures needs canary=True or a rate: without them all tasks are queued at once")
        wanted, limit = _pop_filter(which)
        wanted = wanted._replace(limit=limit)
        speed = None if rate is None else per_second("rate", rate)
        detail = wanted._asdict() | {"canary": canary, "rate": speed, "max_failures": max_failures}
        write_audit(self._store, "start_replay", audit_subject(wanted), detail, who=who, why=why)
        return self._store.add_replay(NewReplay(wanted, canary, speed, who or os_user(), why, max_failures))

    def replays(self, *, running: bool = False, limit: int = 20) -> list[Replay]:
        """Return the replays started by `replay_later`, newest first."""
        return self._store.replay_runs(running=running, limit=limit)

    def replay_run(self, number: int) -> Replay:
        """Return a replay by its number.

        Raises:
            LookupError: If it does not exist.
        """
        found = self._store.replay_run(number)
        if found is None:
            raise LookupError(f"replay {number} does not exist")
        return found

    def stop_replay(self, number: int, *, who: str | None = None, why: str = "") -> bool:
        """Stop a replay. Returns whether it was running. Tasks that it has queued still run."""
        self.replay_run(number)
        write_audit(self._store, "stop_replay", f"replay:{number}", who=who, why=why)
        return self._store.end_replay(number, ReplayState.CANCELLED, why or f"stopped by {who or os_user()}")

    def resume_replay(self, number: int, *, who: str | None = None, why: str = "") -> Replay:
        """Resume a stopped replay from its first stage: one task, then ten, then the rest.

        Tasks that it had replayed and that failed again are replayed last.

        Raises:
            LookupError: If the replay does not exist.
            ConfigError: If it is running or done.
        """
        there = self.replay_run(number)
        write_audit(self._store, "resume_replay", f"replay:{number}", who=who, why=why)
        found = self._store.resume_replay(number)
        if found is None:
            raise ConfigError(f"replay {number} is {there.state}; only a stopped replay can be resumed")
        return found

    def edit(
        self,
        number: int,
        patch: object,
        *,
        definition: "TaskDefinition[Any, Any] | None",
        who: str | None = None,
        why: str = "",
    ) -> PayloadEdit:
        """Edit the arguments of a dead letter. The previous arguments are kept, with who changed them and why.

        Args:
            number: The number of the dead letter.
            patch: JSON Patch operations: add, replace, remove. Masked values can only be replaced.
            definition: The task, whose types the arguments must match.
            who: The person who acts.
            why: Their reason.

        Raises:
            LookupError: If the dead letter does not exist, or was changed at the same time.
            ConfigError: If this app does not have the task.
            PayloadError: If the patch is not valid, or the result does not match the parameters of the task.
        """
        letter = self._letter(number)
        if definition is None or definition.name != letter.task_type:
            raise ConfigError(f"this app has no task {letter.task_type!r}, so its arguments cannot be checked")
        after = apply_patch(letter.parameters, patch)
        _check_arguments(definition, after)
        author, operations = who or os_user(), [f"{each['op']} {each['path']}" for each in cast(Any, patch)]
        detail = {"task": letter.original_task_id, "operations": operations}  # without values
        write_audit(self._store, "edit_dead_letter", f"dead_letter:{number}", detail, who=author, why=why)
        became = self._store.edit_payload(number, letter.parameters, after, ENCODER.encode(patch), author, why)
        if became != "edited":
            raise LookupError(f"dead letter {number} {_EDIT_REFUSALS[became]}")
        return self._store.edits(letter.original_task_id)[-1]

    def edits(self, task_id: int) -> list[PayloadEdit]:
        """Return the edits of a task, oldest first. They are not masked; mask them before you show them."""
        return self._store.edits(task_id)

    def acknowledge(self, fingerprint: str, *, who: str | None = None) -> FailureGroup:
        """Acknowledge a group: stop alerting about it. A new failure reopens it.

        Raises:
            LookupError: If the group does not exist.
        """
        return self._marked(fingerprint, "acknowledge_group", who, acknowledged=True)

    def snooze(self, fingerprint: str, seconds: float, *, who: str | None = None) -> FailureGroup:
        """Snooze a group: no alerts for this many seconds. 0 ends the snooze, as `reopen` does.

        Raises:
            LookupError: If the group does not exist.
            ConfigError: If it is not a valid duration.
        """
        if not 0 <= seconds <= _LONGEST_SNOOZE:
            raise ConfigError(f"a snooze of {seconds!r} seconds is not valid; give 0 to end it, or up to a year")
        if not seconds:
            return self.reopen(fingerprint, who=who)
        return self._marked(fingerprint, "snooze_group", who, snooze=float(seconds))

    def reopen(self, fingerprint: str, *, who: str | None = None) -> FailureGroup:
        """Reopen a group that was acknowledged or snoozed: alert about it again.

        Raises:
            LookupError: If the group does not exist.
        """
        return self._marked(fingerprint, "reopen_group", who, acknowledged=False, snooze=0.0)

    def note(self, fingerprint: str, text: str, *, who: str | None = None) -> FailureGroup:
        """Set the note of a group; an empty text removes it.

        Raises:
            LookupError: If the group does not exist.
            ConfigError: If the note is too long.
        """
        if len(text) > _LONGEST_NOTE:
            raise ConfigError(f"the note has {len(text)} characters; the limit is {_LONGEST_NOTE}")
        return self._marked(fingerprint, "note_group", who, note=text)

    def _letter(self, number: int) -> DeadLetter:
        letter = self._store.dead_letter(number)
        if letter is None:
            raise LookupError(f"dead letter {number} does not exist")
        return letter

    def _marked(self, fingerprint: str, action: str, who: str | None, **marks: Any) -> FailureGroup:
        if self._store.failure(fingerprint) is None:
            raise LookupError(f"group {fingerprint} does not exist")
        author = who or os_user()
        write_audit(self._store, action, f"group:{fingerprint}", marks, who=author)
        group = self._store.mark_group(fingerprint, who=author, **marks)
        if group is None:
            raise LookupError(f"group {fingerprint} no longer exists")
        return group

    def list(self, limit: int | None = 50, **which: Any) -> list[DeadLetter]:
        """Return the dead letters that match, newest first."""
        return self._store.dead_letters(dead_letter_filter(which, limit=limit))


_EDIT_REFUSALS = {
    "changed": "was changed at the same time; look at it again",
    "gone": "no longer exists: it was replayed or discarded",
}


def masked_edit(edit: PayloadEdit) -> PayloadEdit:
    """Return an edit for people: arguments with masked secrets, and the patch without values."""
    bare = [{"op": each["op"], "path": masked_text(each["path"])} for each in json.loads(edit.patch)]
    patch = ENCODER.encode(bare)  # a value may be a secret of neither text
    return edit._replace(before=masked_parameters(edit.before), after=masked_parameters(edit.after), patch=patch)


def masked_replay(replay: Replay) -> Replay:
    """Return a replay without the secrets in its texts and in its filter."""
    return masked_row(replay)._replace(filters=masked_row(replay.filters))


def _pop_filter(which: dict[str, Any]) -> tuple[DeadLetterFilter, int | None]:
    """Return a filter and its limit.

    Raises:
        ValueError: If there is neither a filter nor ``all=True``.
    """
    limit: int | None = which.pop("limit", None)
    if not which.pop("all", False) and all(value is None for value in which.values()):
        raise ValueError("give a filter for the dead letters, or all=True")
    return dead_letter_filter(which), limit


def dead_letter_filter(which: dict[str, Any], **more: Any) -> DeadLetterFilter:
    """Return a filter, after checking its category and reason.

    Raises:
        ConfigError: If one does not exist.
    """
    for name, kind in (("category", Category), ("reason", Reason)):
        if which.get(name) is not None:
            which = which | {name: enum_member(kind, which[name])}
    return DeadLetterFilter(**{FILTER_FIELDS.get(name, name): value for name, value in which.items()}, **more)


def iter_dead_letters(store: Store, wanted: DeadLetterFilter, limit: int | None) -> Iterator[DeadLetter]:
    """Yield the dead letters that match, newest first, a page at a time.

    New failures are not included, so that a task that fails again is not yielded twice.
    """
    before: int | None = wanted.before
    while limit is None or limit > 0:
        most = _PAGE if limit is None else min(_PAGE, limit)
        page = store.dead_letters(wanted._replace(limit=most, before=before))
        yield from page
        if len(page) < most:
            return
        before = page[-1].id
        limit = None if limit is None else limit - len(page)


def audit_subject(wanted: DeadLetterFilter) -> str:
    """Return the subject of an audit entry: one dead letter, one group, or several."""
    if wanted.ids is not None and len(wanted.ids) == 1:
        return f"dead_letter:{wanted.ids[0]}"
    return f"group:{wanted.fingerprint}" if wanted.fingerprint else "dead_letters"


def _count_by_paging(store: Store, wanted: DeadLetterFilter, limit: int) -> DryRun:
    counts = groups, tasks, kinds = Counter[str](), Counter[str](), Counter[str]()
    for letter in iter_dead_letters(store, wanted, limit):
        groups[letter.fingerprint] += 1
        tasks[letter.task_type] += 1
        kinds[letter.error_category] += 1
    return DryRun(groups.total(), *map(_largest_first, counts))


def _largest_first(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(((name, n) for name, n in counts.items() if n), key=lambda each: (-each[1], each[0])))


def _check_arguments(definition: "TaskDefinition[Any, Any]", text: str) -> None:
    """Check that a task accepts these arguments. Masked values do not appear in the message."""
    try:
        args, kwargs = definition.codec.decode(text)
        definition.codec.encode(args, kwargs)
        size = len(text.encode())
    except (PayloadError, UnicodeEncodeError) as error:
        message = str(error)
        for leaf in sorted(map(str, masked_values(text)), key=len, reverse=True):
            message = message.replace(leaf, MASK)
        raise PayloadError(message) from None
    if size > definition.codec.limit:
        raise PayloadError(
            f"task {definition.name}: the arguments have {size} bytes of JSON; the limit is {definition.codec.limit}"
        )
