"""What the operations do. A row that does not exist raises `LookupError`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.errors import ConfigError
from outlast.http.settings import host_of
from outlast.operations import FILTERS, InvalidValueError, Values, filter_arguments
from outlast.ports.read_rows import FailureGroup
from outlast.ports.rows import DeadLetter
from outlast.ports.source_rows import Source, SourceChange
from outlast.queue.audit import os_user
from outlast.queue.dead_letters import Handled
from outlast.queue.masking import masked_text
from outlast.report.dead_letters import handled_text
from outlast.report.text_format import counted
from outlast.sources import outcomes
from outlast.units import span

if TYPE_CHECKING:
    from outlast.app import App


class OperationResult(NamedTuple):
    """The result of an operation.

    Attributes:
        message: One line, without secrets.
        data: Names and values that programs read.
        ok: Whether everything that was asked for was done.
        page: Path of the page that shows the result, if that is not the operation's own.
        next: Words of a command that may follow.
    """

    message: str
    data: Mapping[str, Any]
    ok: bool = True
    page: str = ""
    next: tuple[object, ...] = ()


def find_dead_letter(app: "App", number: int) -> DeadLetter:
    """Return a dead letter, or raise a `LookupError` that says why it may be gone."""
    found = app.store.dead_letter(number)
    if found is None:
        raise LookupError(f"dead letter {number} does not exist: it may have been replayed, discarded or pruned")
    return found


def handle_dead_letter(word: str, app: "App", values: Values, who: str | None) -> OperationResult:
    """Replay or discard a dead letter; the word is the outcome that is asked for, ``replayed`` or ``discarded``."""
    dead_letter = find_dead_letter(app, values["dead_letter_id"])
    number, task_id = dead_letter.id, dead_letter.original_task_id
    outcome = _handler(word, app)(number, who=who, why=values["why"] or "")[0].outcome
    data = {"dead_letter_id": number, "task_id": task_id, "outcome": outcome}
    if outcome == "gone":
        raise LookupError(f"dead letter {number} does not exist any more: someone else has just handled it")
    if outcome == "conflict":
        message = f"dead letter {number} stayed: its unique key is taken by another live task"
        return OperationResult(message, data, ok=False, page="/dead-letters/{dead_letter_id}")
    if word == "replayed":
        message = f"dead letter {number} was replayed: task {task_id} is queued again, with its history"
        return OperationResult(message, data, page="/tasks/{task_id}")
    return OperationResult(f"dead letter {number} was discarded", data)


def handle_dead_letters(word: str, app: "App", values: Values, who: str | None) -> OperationResult:
    """Replay or discard dead letters, each in its own transaction."""
    handled = [each for number in values["dead_letter_id"] for each in _handler(word, app)(number, who=who)]
    ids: dict[str, list[int]] = {word: [], "conflict": [], "gone": []}
    for each in handled:
        ids[each.outcome].append(each.id)
    return OperationResult(handled_text(word, ids), ids, ok=len(ids[word]) == len(handled))


def _handler(word: str, app: "App") -> Callable[..., Sequence[Handled]]:
    return app.dead_letters.replay if word == "replayed" else app.dead_letters.discard


def arguments_version(app: "App", dead_letter: DeadLetter) -> int:
    """Return how often the arguments were edited. A form is only valid for the version it was made from."""
    return len(app.store.edits(dead_letter.original_task_id))


def edit_dead_letter(app: "App", values: Values, who: str | None) -> OperationResult:
    dead_letter = find_dead_letter(app, values["dead_letter_id"])
    if values["version"] not in {None, arguments_version(app, dead_letter)}:
        raise InvalidValueError(
            "someone else has changed the arguments since you opened this form; it shows the current ones"
        )
    if not values["why"]:
        raise InvalidValueError("give a reason; it is kept with the edit")
    if not values["patch"]:
        raise InvalidValueError("nothing was changed")
    definition = app.tasks_by_name.get(dead_letter.task_type)
    number, task_id, patch = dead_letter.id, dead_letter.original_task_id, values["patch"]
    app.dead_letters.edit(number, patch, definition=definition, who=who, why=values["why"])
    data = {"dead_letter_id": number, "task_id": task_id, "outcome": "edited", "operations": len(patch)}
    if values["replay"]:
        done = handle_dead_letter("replayed", app, values, who)
        return done._replace(message=f"the arguments were changed; {done.message}", data={**data, **done.data})
    message = f"the arguments of dead letter {number} were changed; replay it to use them"
    return OperationResult(message, data, next=("dlq", "replay", number))


def start_replay(app: "App", values: Values, who: str | None) -> OperationResult:
    wanted = filter_arguments(values)
    if not wanted and not values["all"]:
        names = ", ".join(each.name for each in FILTERS)
        raise InvalidValueError(f"send a filter for the dead letters, one of: {names}; or send all=1")
    if wanted and values["all"]:
        raise InvalidValueError("send either all=1 or a filter, not both")
    if values["before"]:
        wanted["before"] = values["before"]
    options = {name: values[name] for name in ("canary", "rate", "max_failures")}
    replay = app.dead_letters.replay_later(
        **options, who=who, why=values["why"] or "", **(wanted or {"all": True}), limit=values["limit"]
    )
    message = f"replay {replay.id} has started: {counted(replay.total, 'dead letter')}"
    return OperationResult(message, {"replay_id": replay.id, "total": replay.total})


def stop_replay(app: "App", values: Values, who: str | None) -> OperationResult:
    number = values["replay_id"]
    stopped = app.dead_letters.stop_replay(number, who=who, why=values["why"] or "")
    result = "was stopped; tasks that it has queued still run" if stopped else "had already ended"
    data = {"replay_id": number, "stopped": stopped}
    again = ("dlq", "replays", "resume", number) if stopped else ()
    return OperationResult(f"replay {number} {result}", data, ok=stopped, next=again)


def resume_replay(app: "App", values: Values, who: str | None) -> OperationResult:
    number = values["replay_id"]
    try:
        replay = app.dead_letters.resume_replay(number, who=who, why=values["why"] or "")
    except ConfigError as error:
        if error.__cause__ is not None:  # the store cannot be opened
            raise
        return OperationResult(str(error), {"replay_id": number, "resumed": False}, ok=False)
    first = ", starting with one dead letter again" if replay.canary else ""
    return OperationResult(f"replay {number} is resumed{first}", {"replay_id": number, "resumed": True})


def _group_result(app: "App", group: FailureGroup, message: str) -> OperationResult:
    standing = group.standing(app.store.now())
    data = {"fingerprint": group.fingerprint, "standing": standing}
    return OperationResult(f"group {group.fingerprint} {message}", data)


def acknowledge_group(app: "App", values: Values, who: str | None) -> OperationResult:
    group = app.dead_letters.acknowledge(values["fingerprint"], who=who)
    return _group_result(app, group, f"was acknowledged by {group.acknowledged_by}; it reopens when it fails again")


def snooze_group(app: "App", values: Values, who: str | None) -> OperationResult:
    group = app.dead_letters.snooze(values["fingerprint"], values["for"], who=who)
    return _group_result(app, group, f"was snoozed for {span(values['for'])}" if values["for"] else "was reopened")


def reopen_group(app: "App", values: Values, who: str | None) -> OperationResult:
    return _group_result(app, app.dead_letters.reopen(values["fingerprint"], who=who), "was reopened")


def note_group(app: "App", values: Values, who: str | None) -> OperationResult:
    text = values["note"] or ""
    group = app.dead_letters.note(values["fingerprint"], text, who=who)
    return _group_result(app, group, "has a new note" if text else "has no note any more")


_TASK_CHANGES = {"cancel": ("cancelled", "cancelled"), "run_now": ("due now", "made due now")}


def change_task(word: str, app: "App", values: Values, _who: str | None) -> OperationResult:
    """Cancel a task or make it due now; the word is ``cancel`` or ``run_now``."""
    number, (done, to_do) = values["task_id"], _TASK_CHANGES[word]
    is_changed = bool(getattr(app.tasks, word)(number))
    task = app.store.get(number)
    if task is None:
        raise LookupError(f"task {number} does not exist: finished tasks are pruned after a while")
    data = {"task_id": number, "status": str(task.status), "changed": is_changed}
    if is_changed:
        return OperationResult(f"task {number} {'was' if word == 'cancel' else 'is'} {done}", data)
    message = f"task {number} is {task.status.lower()} and was not changed: only a waiting task can be {to_do}"
    if task.status == "FAILED":
        return OperationResult(f"{message}; replay its dead letter", data, ok=False, next=("dlq", "list"))
    return OperationResult(message, data, ok=False)


def change_tasks(word: str, app: "App", values: Values, _who: str | None) -> OperationResult:
    """Do the same as `change_task` with several tasks."""
    numbers, (done, _) = values["task_id"], _TASK_CHANGES[word]
    changed = list(getattr(app.tasks, word)(*numbers))
    others = sorted(set(numbers) - set(changed))
    more = f"; {counted(len(others), 'other')} did not wait" if others else ""
    return OperationResult(
        f"{counted(len(changed), 'task')} {done}{more}", {"changed": changed, "unchanged": others}, ok=not others
    )


def change_periodic(word: str, app: "App", values: Values, _who: str | None) -> OperationResult:
    """Pause or resume a periodic task; the word is ``pause`` or ``resume``."""
    name, paused = values["periodic"], word == "pause"
    if not getattr(app.schedule, word)(app.store, name):
        raise LookupError(f"periodic task {name} does not exist; a worker registers it when it starts")
    text = "is paused for all workers: runs that were enqueued before continue" if paused else "is resumed"
    return OperationResult(f"periodic task {name} {text}", {"periodic": name, "paused": paused})


def run_periodic_now(app: "App", values: Values, _who: str | None) -> OperationResult:
    name = values["periodic"]
    if name not in (known := app.schedule.names()):
        hint = f"it has: {', '.join(known)}" if known else "name the app that defines it with --app MODULE:APP"
        raise LookupError(f"this program has no periodic task {name}; {hint}")
    enqueued = app.schedule.run_now(app.store, name)
    data: dict[str, Any] = {"periodic": name, "task_id": enqueued and enqueued.id, "created": False}
    if enqueued is None:
        message = f"no run of {name} was enqueued: no worker has registered it, or one has just enqueued a run"
        return OperationResult(message, data, ok=False)
    if not enqueued.created:
        message = f"no run of {name} was enqueued: the run before it, task {enqueued.id}, has not ended"
        return OperationResult(message, data, ok=False)
    return OperationResult(f"a run of {name} was enqueued as task {enqueued.id}", {**data, "created": True})


def mark_deploy(app: "App", values: Values, who: str | None) -> OperationResult:
    version = values["version"]
    number = app.store.add_chart_mark("deploy", version, who or os_user())
    return OperationResult(f"deploy {version} is marked on the charts", {"mark_id": number, "version": version})


def pause_queue(app: "App", values: Values, _who: str | None) -> OperationResult:
    queue = values["queue"]
    known = {
        *(row.name for row in app.tasks.queues()),
        *(name for worker in app.tasks.workers() for name in worker.queues),
        *(task.queue for task in app.tasks_by_name.values()),
    }
    if queue not in known and not values["new"]:
        raise LookupError(
            f"queue {queue} has no tasks and no worker; check the name, or give new (--new) to pause it in advance"
        )
    app.tasks.pause(queue)
    more = "running tasks continue" if queue in known else "it has no tasks yet"
    return OperationResult(f"queue {queue} is paused: {more}", {"queue": queue, "paused": True})


def resume_queue(app: "App", values: Values, _who: str | None) -> OperationResult:
    queue = values["queue"]
    paused = {row.name: row.paused for row in app.tasks.queues()}
    if queue not in paused:
        raise LookupError(f"queue {queue} is not paused and has no tasks; check the name")
    app.tasks.resume(queue)
    message = f"queue {queue} is resumed" if paused[queue] else f"queue {queue} was not paused"
    return OperationResult(message, {"queue": queue, "paused": False})


def _source_result(
    app: "App", source_id: int, message: str, *, ok: bool = True, following: tuple[object, ...] = ()
) -> OperationResult:
    data = {"source_id": source_id, "state": str(app.sources.get(source_id).state)}
    return OperationResult(f"source {source_id} {message}", data, ok, next=following)


def enable_source(app: "App", values: Values, _who: str | None) -> OperationResult:
    transition = app.sources.enable(values["source_id"])
    was = f", was {transition.before}" if transition is not None else ""
    return _source_result(app, values["source_id"], f"is enabled{was}: its failures are cleared and it is due now")


def disable_source(app: "App", values: Values, _who: str | None) -> OperationResult:
    source_id = values["source_id"]
    was = app.sources.get(source_id).state
    app.sources.disable(source_id, values["why"] or "")
    message = f"is disabled, was {was}; it is not polled until it is enabled"
    return _source_result(app, source_id, message, following=("sources", "enable", source_id))


def probe_source(app: "App", values: Values, _who: str | None) -> OperationResult:
    source_id = values["source_id"]
    if app.sources.probe(source_id):
        return _source_result(app, source_id, "is polled in the next cycle; this needs a running monitor")
    message = "was disabled by hand and is not polled until it is enabled"
    return _source_result(app, source_id, message, ok=False, following=("sources", "enable", source_id))


def remove_source(app: "App", values: Values, _who: str | None) -> OperationResult:
    app.sources.remove(values["source_id"])
    return OperationResult(f"source {values['source_id']} was removed", {"source_id": values["source_id"]})


def start_cooldown(app: "App", values: Values, _who: str | None) -> OperationResult:
    minutes, reason = values["minutes"], values["why"] or "by hand"
    app.store.start_cooldown(values["resource"], minutes * 60.0, reason)
    name, seconds = masked_text(values["resource"]), minutes * 60.0
    message = f"{name} is in cooldown for at least {_minutes_text(minutes)}: {masked_text(reason)}"
    return OperationResult(message, {"resource": name, "seconds": seconds})


_ALL_SOURCES = 2**31 - 1
_SOURCES_PER_CHANGE = 1_000  # sources changed in one transaction


def end_cooldown(app: "App", values: Values, _who: str | None) -> OperationResult:
    resource, store = values["resource"], app.store
    name = masked_text(resource)
    if resource not in {each.resource for each in store.cooldowns()}:
        return OperationResult(f"{name} is not in cooldown", {"resource": name, "ended": False, "sources": 0}, ok=False)
    waiting = [number for number, url in store.waiting_sources(_ALL_SOURCES) if host_of(url) == resource]
    # Sources come first: if this fails, the cooldown is still there and the operation can be repeated.
    for begin in range(0, len(waiting), _SOURCES_PER_CHANGE):
        store.change_sources(dict.fromkeys(waiting[begin : begin + _SOURCES_PER_CHANGE], (None, _make_due)))
    app.tasks.end_cooldown(resource)
    more = f", and so are {len(waiting)} sources" if waiting else ""
    message = f"the cooldown of {name} has ended: tasks that waited for it are due now{more}"
    return OperationResult(message, {"resource": name, "ended": True, "sources": len(waiting)})


def _make_due(source: Source, now: datetime) -> SourceChange | None:
    return outcomes.probe_change(source, now) if source.outcome == "deferred" else None


def order_breaker(state: str, app: "App", values: Values, _who: str | None) -> OperationResult:
    """Open or close a breaker in all processes; the state is ``open`` or ``closed``."""
    resource, minutes = values["resource"], values.get("minutes")
    rows = [row for row in app.store.breakers() if row.resource == resource]
    order = app.store.order_breaker(resource, state, minutes * 60.0 if minutes else None)
    name, known = masked_text(resource), any(row.process for row in rows)
    how_long = f"for {_minutes_text(minutes)}" if minutes else "until it is closed by hand"
    data, soon = {"resource": name, "order": order.number, "known": known}, "this takes up to two seconds"
    if state == "open" and known:
        message = f"the breaker of {name} is open in all processes {how_long}; {soon}"
    elif state == "open":
        message = (
            f"no process has a breaker named {name} yet, so its tasks continue. The order is kept {how_long}, for a "
            "process that has one. To stop the tasks now, start a cooldown"
        )
    elif known:
        message = f"the breaker of {name} is closed in all processes; {soon}"
    else:
        message = f"no process has a breaker named {name}; if there was an order to open it, it is withdrawn"
        return OperationResult(message, data, ok=any(row.order == "open" for row in rows))
    return OperationResult(message, data)


def _minutes_text(minutes: float) -> str:
    return f"{minutes:g} minutes" if minutes != 1 else "1 minute"
