"""A dead letter: why it is one, and what is done with it: queued again, changed before that, or removed."""

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any, NamedTuple

from outlast.errors import ConfigError, PayloadError
from outlast.ports.rows import DeadLetter
from outlast.queue.masking import masked_text, masked_value
from outlast.report.editing import Field, FieldError, Fields, fields_of, operations
from outlast.report.lines import REASONS
from outlast.web.lineage import by_hand, lineage_of
from outlast.web.narrowing import line_of
from outlast.web.routing import Action, Asked, Done, FormError, NotThereError, Page, number
from outlast.web.task_view import payload_text, task_view

__all__ = ["ACTIONS", "PAGES"]

_PATH = "/dead-letters"
_EDIT = "edit_dead_letter"


def read_dead_letter(asked: Asked) -> Mapping[str, Any]:
    """Return a dead letter with the history of its task.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    store = asked.app.store
    letter = _letter(asked)
    task = store.get(letter.original_task_id)
    payload, cut = payload_text(letter.parameters)
    last = letter.failure
    return {
        "letter": letter._replace(
            parameters="",
            failure={},
            traceback=masked_text(letter.traceback),
            error_message=masked_text(letter.error_message),
            resource=None if letter.resource is None else masked_text(letter.resource),
            unique_key=None if letter.unique_key is None else masked_text(letter.unique_key),
        ),
        "payload": payload,
        "payload_cut": cut,
        "rule": masked_text(str(last.get("rule") or "")),
        "http_status": last.get("http_status"),
        "location": masked_text(str(last.get("location") or "")),
        "history": None if task is None else task_view(store, task),
        "edits": lineage_of(store, letter.original_task_id),
        "by_hand": by_hand(store, f"dead_letter:{letter.id}", f"task:{letter.original_task_id}"),
        "why": REASONS.get(letter.reason, ""),
        "shell": f"outlast dlq replay {letter.id} --app {quote(asked.reference)}",
    }


def _letter(asked: Asked) -> DeadLetter:
    letter = asked.app.store.dead_letter(number(asked.path["number"]))
    if letter is None:
        message = f"there is no dead letter {asked.path['number']} (any more): it was replayed, discarded or pruned"
        raise NotThereError(message)
    return letter


def replay_one(asked: Asked) -> Done:
    """Queue the task of a dead letter again."""
    letter = _letter(asked)
    why = line_of(asked.form, "why")
    outcome = asked.app.dead_letters.replay(letter.id, who=asked.who, why=why)[0].outcome
    data = {"outcome": outcome, "number": letter.id, "task": letter.original_task_id}
    if outcome == "conflict":
        message = f"dead letter {letter.id} stayed: its unique key is taken by another live task"
        return Done(message, f"{_PATH}/{letter.id}", data, ok=False)
    if outcome == "gone":
        message = f"dead letter {letter.id} is not there any more: somebody else was faster"
        raise NotThereError(message)
    message = f"dead letter {letter.id} was replayed: task {letter.original_task_id} is queued again, with its history"
    return Done(message, f"/tasks/{letter.original_task_id}", data)


def discard_one(asked: Asked) -> Done:
    """Remove a dead letter for good."""
    letter = _letter(asked)
    why = line_of(asked.form, "why")
    outcome = asked.app.dead_letters.discard(letter.id, who=asked.who, why=why)[0].outcome
    if outcome == "gone":
        message = f"dead letter {letter.id} is not there any more: somebody else was faster"
        raise NotThereError(message)
    data = {"outcome": outcome, "number": letter.id, "task": letter.original_task_id}
    return Done(f"dead letter {letter.id} was discarded", _PATH, data)


class FieldView(NamedTuple):
    """A field as the form shows it."""

    name: str
    label: str
    kind: str
    text: str
    masked: bool
    lines: int


def read_edit(asked: Asked) -> Mapping[str, Any]:
    """Return the arguments of a dead letter as a form.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    letter = _letter(asked)
    fields = _fields(letter)
    payload, cut = payload_text(letter.parameters)
    typed = {name: values[0] for name, values in asked.form.items() if values}
    version = _version(asked, letter)
    if typed.get("version", str(version)) != str(version):
        typed = {}  # it was typed for what somebody else has changed since
    return {
        "number": letter.id,
        "task": letter.original_task_id,
        "task_type": letter.task_type,
        "error_type": letter.error_type,
        "error_message": masked_text(letter.error_message),
        "fields": [_view(field, typed) for field in fields.rows],
        "others": fields.others,
        "readable": _value(letter) is not None,
        "known": letter.task_type in asked.app.tasks_by_name,
        "version": version,
        "payload": payload,
        "payload_cut": cut,
    }


def _view(field: Field, typed: Mapping[str, str]) -> FieldView:
    """Return a field with what was typed into it, if anything was."""
    view = FieldView(field.name, field.label, field.kind, field.text, field.masked, field.lines)
    return view._replace(text=typed.get(field.name, field.text))


def _value(letter: DeadLetter) -> Any:
    """Return the arguments; None for what cannot be read."""
    try:
        value = json.loads(letter.parameters)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _fields(letter: DeadLetter) -> Fields:
    value = _value(letter)
    return Fields((), others=False) if value is None else fields_of(value, masked_value(letter.parameters))


def _version(asked: Asked, letter: DeadLetter) -> int:
    """Return how often the arguments were changed: what was typed is meant for these and no others."""
    return len(asked.app.store.edits(letter.original_task_id))


def edit(asked: Asked) -> Done:
    """Change the arguments of a dead letter, and replay it at once if that is wished.

    Raises:
        FormError: If what was typed cannot be used.
        NotThereError: If there is no such dead letter (any more).
    """
    letter = _letter(asked)
    app, why = asked.app, line_of(asked.form, "why")
    version = "".join(asked.form.get("version", [])[:1])
    if version and version != str(_version(asked, letter)):
        message = "somebody else has changed the arguments meanwhile; below they are as they are now"
        raise FormError(message, _EDIT)
    if not why:
        message = "say why, for those who look at it later"
        raise FormError(message, _EDIT)
    patch = _patch(asked, letter)
    definition = app.tasks_by_name.get(letter.task_type)
    try:
        app.dead_letters.edit(letter.id, patch, definition=definition, who=asked.who, why=why)
    except (PayloadError, ConfigError) as error:
        raise FormError(masked_text(str(error)), _EDIT) from None
    except LookupError as error:
        raise NotThereError(str(error.args[0])) from None
    data = {"outcome": "edited", "number": letter.id, "task": letter.original_task_id, "operations": len(patch)}
    if "replay" in asked.form:
        done = replay_one(asked)
        message = f"the arguments were changed; {done.message}"
        return done._replace(message=message, data={**data, "outcome": done.data["outcome"]})
    message = f"the arguments of dead letter {letter.id} were changed; replay it to have them used"
    return Done(message, f"{_PATH}/{letter.id}", data)


def _patch(asked: Asked, letter: DeadLetter) -> list[Any]:
    """Return what was typed into the fields, and behind it what stands in the box for a patch."""
    typed = {name: values[0] for name, values in asked.form.items() if values}
    try:
        patch: list[Any] = list(operations(_fields(letter), typed))
        if text := typed.get("patch", "").strip():
            more = json.loads(text)
            patch += more if isinstance(more, list) else [more]
    except FieldError as error:
        raise FormError(masked_text(str(error)), _EDIT) from None
    except (ValueError, RecursionError):
        message = 'the patch is no JSON; write a list such as [{"op": "replace", "path": "/url", "value": "…"}]'
        raise FormError(message, _EDIT) from None
    if not patch:
        message = "nothing was changed"
        raise FormError(message, _EDIT)
    return patch


PAGES = (
    Page("dead_letter", f"{_PATH}/{{number}}", "dead_letter.html", read_dead_letter),
    Page(_EDIT, f"{_PATH}/{{number}}/edit", "edit.html", read_edit),
)
ACTIONS = (
    Action("replay_dead_letter", f"{_PATH}/{{number}}/replay", replay_one),
    Action("discard_dead_letter", f"{_PATH}/{{number}}/discard", discard_one),
    Action("save_dead_letter", f"{_PATH}/{{number}}/edit", edit),
)
