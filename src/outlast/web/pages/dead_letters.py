"""Dead letters: which there are, why, and what is done with them."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from shlex import quote
from typing import Any, NamedTuple
from urllib.parse import urlencode

from outlast.errors import ConfigError, PayloadError
from outlast.ports.read_rows import MAX_ROWS_SCANNED, DeadLetterLine
from outlast.ports.rows import DeadLetter, DeadLetterFilter
from outlast.queue.dead_letters import Handled
from outlast.queue.masking import masked_text, masked_value
from outlast.report.dead_letters import (
    REASON_TEXTS,
    ArgumentField,
    ArgumentFields,
    FieldError,
    argument_fields,
    dlq_command,
    facets,
    filter_params,
    filter_text,
    handled_text,
    patch_operations,
)
from outlast.web.filters import DEAD_LETTER_PARAMS, dead_letter_filter, form_text, return_path, selected_rows
from outlast.web.routing import (
    ActionResult,
    ActionRoute,
    FormError,
    NotFoundError,
    PageRequest,
    PageRoute,
    parse_row_number,
)
from outlast.web.task_view import audit_views, edit_views, masked_line, payload_text, task_view

_PATH = "/dead-letters"
_ROWS = 40
_MAX_CONFLICTS = 50  # numbers that an address has room for


def read_dead_letters(asked: PageRequest) -> Mapping[str, Any]:
    """Return a page of dead letters, newest first, and what they could be narrowed to."""
    store, query = asked.app.store, asked.query
    which = dead_letter_filter(query, store.now(), _ROWS)
    found = store.dead_letter_lines(which)
    tasks, categories, whole = facets(store.dead_letter_counts(), task=which.task_type, category=which.category)
    given = filter_params(which)
    counted = not given.keys() - {"task", "category"}  # the books know of no more
    if not counted:
        tasks, categories = ([each._replace(size=None) for each in some] for some in (tasks, categories))
    return {
        "rows": [_mask_line(row) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": given,
        "first_page": which.before is None,
        "tasks": tasks,
        "categories": categories,
        "whole": whole if counted else None,
        "counted": counted,
        "stayed": _conflicting_rows(query),
        "_what": filter_text(given),
        "_look": MAX_ROWS_SCANNED,
        "_reasons": REASON_TEXTS,
        "_back": urlencode(given),
        "_commands": [dlq_command(verb, _command_filters(which), asked.reference) for verb in ("replay", "discard")],
    }


def _command_filters(which: DeadLetterFilter) -> dict[str, str]:
    """Return what narrows, as it is typed into a shell."""
    times = {"since": which.since, "until": which.until}
    return filter_params(which) | {name: at.isoformat() for name, at in times.items() if at is not None}


def _mask_line(row: DeadLetterLine) -> DeadLetterLine:
    return row._replace(error_message=masked_line(row.error_message))


def _conflicting_rows(query: Mapping[str, str]) -> list[int]:
    """Return the dead letters that the action before this page could not replay."""
    texts = query.get("stayed", "").split(",")[:_MAX_CONFLICTS]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20]  # noqa: PLR2004  # digits


def replay_selected(asked: PageRequest) -> ActionResult:
    """Queue the tasks of the chosen dead letters again, each in a transaction of its own."""
    box = asked.app.dead_letters
    return _handle_selected(asked, "replayed", partial(box.replay, who=asked.who, why=form_text(asked.form, "why")))


def discard_selected(asked: PageRequest) -> ActionResult:
    """Remove the chosen dead letters for good."""
    box = asked.app.dead_letters
    return _handle_selected(asked, "discarded", partial(box.discard, who=asked.who, why=form_text(asked.form, "why")))


def _handle_selected(asked: PageRequest, word: str, act: Callable[[int], Iterable[Handled]]) -> ActionResult:
    numbers = selected_rows(asked.form, "dead letter")
    handled = [each for chosen in numbers for each in act(chosen)]
    outcomes: dict[str, list[int]] = {word: [], "conflict": [], "gone": []}
    for each in handled:
        outcomes[each.outcome].append(each.id)
    stayed = ",".join(str(each) for each in outcomes["conflict"][:_MAX_CONFLICTS])
    to = return_path(asked.form, _PATH, DEAD_LETTER_PARAMS, {"stayed": stayed} if stayed else {})
    return ActionResult(handled_text(word, handled), to, outcomes, ok=len(outcomes[word]) == len(numbers))


PAGES = (PageRoute("dead_letters", _PATH, "dead_letters.html", read_dead_letters),)
ACTIONS = (
    ActionRoute("replay_dead_letters", f"{_PATH}/replay", replay_selected),
    ActionRoute("discard_dead_letters", f"{_PATH}/discard", discard_selected),
)


# A dead letter: why it is one, and what is done with it: queued again, changed before that, or removed.

_DETAIL_PATH = "/dead-letters"
_EDIT_PAGE = "edit_dead_letter"


def read_dead_letter(asked: PageRequest) -> Mapping[str, Any]:
    """Return a dead letter with the history of its task.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    store = asked.app.store
    letter = _find_dead_letter(asked)
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
        "edits": edit_views(store, letter.original_task_id),
        "by_hand": audit_views(store, f"dead_letter:{letter.id}", f"task:{letter.original_task_id}"),
        "why": REASON_TEXTS.get(letter.reason, ""),
        "shell": f"outlast dlq replay {letter.id} --app {quote(asked.reference)}",
    }


def _find_dead_letter(asked: PageRequest) -> DeadLetter:
    letter = asked.app.store.dead_letter(parse_row_number(asked.path["number"]))
    if letter is None:
        message = f"there is no dead letter {asked.path['number']} (any more): it was replayed, discarded or pruned"
        raise NotFoundError(message)
    return letter


def replay_one(asked: PageRequest) -> ActionResult:
    """Queue the task of a dead letter again."""
    letter = _find_dead_letter(asked)
    why = form_text(asked.form, "why")
    outcome = asked.app.dead_letters.replay(letter.id, who=asked.who, why=why)[0].outcome
    data = {"outcome": outcome, "number": letter.id, "task": letter.original_task_id}
    if outcome == "conflict":
        message = f"dead letter {letter.id} stayed: its unique key is taken by another live task"
        return ActionResult(message, f"{_DETAIL_PATH}/{letter.id}", data, ok=False)
    if outcome == "gone":
        message = f"dead letter {letter.id} is not there any more: somebody else was faster"
        raise NotFoundError(message)
    message = f"dead letter {letter.id} was replayed: task {letter.original_task_id} is queued again, with its history"
    return ActionResult(message, f"/tasks/{letter.original_task_id}", data)


def discard_one(asked: PageRequest) -> ActionResult:
    """Remove a dead letter for good."""
    letter = _find_dead_letter(asked)
    why = form_text(asked.form, "why")
    outcome = asked.app.dead_letters.discard(letter.id, who=asked.who, why=why)[0].outcome
    if outcome == "gone":
        message = f"dead letter {letter.id} is not there any more: somebody else was faster"
        raise NotFoundError(message)
    data = {"outcome": outcome, "number": letter.id, "task": letter.original_task_id}
    return ActionResult(f"dead letter {letter.id} was discarded", _DETAIL_PATH, data)


class FieldView(NamedTuple):
    """A field as the form shows it."""

    name: str
    label: str
    kind: str
    text: str
    masked: bool
    lines: int


def read_edit(asked: PageRequest) -> Mapping[str, Any]:
    """Return the arguments of a dead letter as a form.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    letter = _find_dead_letter(asked)
    fields = _argument_fields(letter)
    payload, cut = payload_text(letter.parameters)
    typed = {name: values[0] for name, values in asked.form.items() if values}
    version = _arguments_version(asked, letter)
    if typed.get("version", str(version)) != str(version):
        typed = {}  # it was typed for what somebody else has changed since
    return {
        "number": letter.id,
        "task": letter.original_task_id,
        "task_type": letter.task_type,
        "error_type": letter.error_type,
        "error_message": masked_text(letter.error_message),
        "fields": [_field_view(field, typed) for field in fields.rows],
        "others": fields.others,
        "readable": _parse_arguments(letter) is not None,
        "known": letter.task_type in asked.app.tasks_by_name,
        "version": version,
        "payload": payload,
        "payload_cut": cut,
    }


def _field_view(field: ArgumentField, typed: Mapping[str, str]) -> FieldView:
    """Return a field with what was typed into it, if anything was."""
    view = FieldView(field.name, field.label, field.kind, field.text, field.masked, field.lines)
    return view._replace(text=typed.get(field.name, field.text))


def _parse_arguments(letter: DeadLetter) -> Any:
    """Return the arguments; None for what cannot be read."""
    try:
        value = json.loads(letter.parameters)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _argument_fields(letter: DeadLetter) -> ArgumentFields:
    value = _parse_arguments(letter)
    return (
        ArgumentFields((), others=False) if value is None else argument_fields(value, masked_value(letter.parameters))
    )


def _arguments_version(asked: PageRequest, letter: DeadLetter) -> int:
    """Return how often the arguments were changed: what was typed is meant for these and no others."""
    return len(asked.app.store.edits(letter.original_task_id))


def save_edit(asked: PageRequest) -> ActionResult:
    """Change the arguments of a dead letter, and replay it at once if that is wished.

    Raises:
        FormError: If what was typed cannot be used.
        NotThereError: If there is no such dead letter (any more).
    """
    letter = _find_dead_letter(asked)
    app, why = asked.app, form_text(asked.form, "why")
    version = "".join(asked.form.get("version", [])[:1])
    if version and version != str(_arguments_version(asked, letter)):
        message = "somebody else has changed the arguments meanwhile; below they are as they are now"
        raise FormError(message, _EDIT_PAGE)
    if not why:
        message = "say why, for those who look at it later"
        raise FormError(message, _EDIT_PAGE)
    patch = _submitted_patch(asked, letter)
    definition = app.tasks_by_name.get(letter.task_type)
    try:
        app.dead_letters.edit(letter.id, patch, definition=definition, who=asked.who, why=why)
    except (PayloadError, ConfigError) as error:
        raise FormError(masked_text(str(error)), _EDIT_PAGE) from None
    except LookupError as error:
        raise NotFoundError(str(error.args[0])) from None
    data = {"outcome": "edited", "number": letter.id, "task": letter.original_task_id, "operations": len(patch)}
    if "replay" in asked.form:
        done = replay_one(asked)
        message = f"the arguments were changed; {done.message}"
        return done._replace(message=message, data={**data, "outcome": done.data["outcome"]})
    message = f"the arguments of dead letter {letter.id} were changed; replay it to have them used"
    return ActionResult(message, f"{_DETAIL_PATH}/{letter.id}", data)


def _submitted_patch(asked: PageRequest, letter: DeadLetter) -> list[Any]:
    """Return what was typed into the fields, and behind it what stands in the box for a patch."""
    typed = {name: values[0] for name, values in asked.form.items() if values}
    try:
        patch: list[Any] = list(patch_operations(_argument_fields(letter), typed))
        if text := typed.get("patch", "").strip():
            more = json.loads(text)
            patch += more if isinstance(more, list) else [more]
    except FieldError as error:
        raise FormError(masked_text(str(error)), _EDIT_PAGE) from None
    except (ValueError, RecursionError):
        message = 'the patch is no JSON; write a list such as [{"op": "replace", "path": "/url", "value": "…"}]'
        raise FormError(message, _EDIT_PAGE) from None
    if not patch:
        message = "nothing was changed"
        raise FormError(message, _EDIT_PAGE)
    return patch


DETAIL_PAGES = (
    PageRoute("dead_letter", f"{_DETAIL_PATH}/{{number}}", "dead_letter.html", read_dead_letter),
    PageRoute(_EDIT_PAGE, f"{_DETAIL_PATH}/{{number}}/edit", "edit.html", read_edit),
)
DETAIL_ACTIONS = (
    ActionRoute("replay_dead_letter", f"{_DETAIL_PATH}/{{number}}/replay", replay_one),
    ActionRoute("discard_dead_letter", f"{_DETAIL_PATH}/{{number}}/discard", discard_one),
    ActionRoute("save_dead_letter", f"{_DETAIL_PATH}/{{number}}/edit", save_edit),
)
