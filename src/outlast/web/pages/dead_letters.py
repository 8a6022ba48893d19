"""The pages of dead letters: the list, one dead letter, and the form that edits its arguments."""

import json
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from outlast.errors import ConfigError, PayloadError
from outlast.ports.read_rows import MAX_ROWS_SCANNED
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
from outlast.web.filters import DEAD_LETTER_PARAMS, dead_letter_filter, return_path, selected_rows
from outlast.web.routing import (
    ActionResult,
    ActionRoute,
    FormError,
    NotFoundError,
    PageData,
    PageRequest,
    PageRoute,
    Query,
    require,
)
from outlast.web.task_view import audit_views, edit_views, mask_optional, masked_line, payload_text, task_view

_PATH = "/dead-letters"
_EDIT_PAGE = "edit_dead_letter"
_ROWS = 40
_MAX_CONFLICTS = 50  # more numbers would make the URL too long


def read_dead_letters(request: PageRequest) -> PageData:
    """Return a page of dead letters, newest first, and the values they can be filtered by."""
    store, query = request.app.store, request.query
    criteria = dead_letter_filter(query, store.now(), _ROWS)
    found = store.dead_letter_lines(criteria)
    tasks, categories, whole = facets(store.dead_letter_counts(), task=criteria.task_type, category=criteria.category)
    given = filter_params(criteria)
    counted = not given.keys() - {"task", "category"}  # there are counters for these two only
    if not counted:
        tasks, categories = ([each._replace(size=None) for each in some] for some in (tasks, categories))
    return {
        "rows": [row._replace(error_message=masked_line(row.error_message)) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": given,
        "first_page": criteria.before is None,
        "tasks": tasks,
        "categories": categories,
        "whole": whole if counted else None,
        "counted": counted,
        "stayed": _conflicting_rows(query),
        "_what": filter_text(given),
        "_look": MAX_ROWS_SCANNED,
        "_reasons": REASON_TEXTS,
        "_back": urlencode(given),
        "_commands": [
            dlq_command(verb, _command_filters(criteria), request.reference) for verb in ("replay", "discard")
        ],
    }


def _command_filters(criteria: DeadLetterFilter) -> dict[str, str]:
    """Return a filter as command-line options have it: times with an offset."""
    times = {"since": criteria.since, "until": criteria.until}
    return filter_params(criteria) | {name: at.isoformat() for name, at in times.items() if at is not None}


def _conflicting_rows(query: Query) -> list[int]:
    """Return the numbers of the dead letters that the previous action could not replay."""
    texts = query.get("stayed", "").split(",")[:_MAX_CONFLICTS]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20]  # noqa: PLR2004  # digits


def replay_selected(request: PageRequest) -> ActionResult:
    """Replay the selected dead letters, each in its own transaction."""
    return _handle_selected(request, "replayed", request.app.dead_letters.replay)


def discard_selected(request: PageRequest) -> ActionResult:
    """Discard the selected dead letters."""
    return _handle_selected(request, "discarded", request.app.dead_letters.discard)


def _handle_selected(request: PageRequest, word: str, act: Callable[..., Sequence[Handled]]) -> ActionResult:
    why = request.text("why")
    numbers = selected_rows(request.form, "dead letter")
    handled = [each for number in numbers for each in act(number, who=request.who, why=why)]
    outcomes: dict[str, list[int]] = {word: [], "conflict": [], "gone": []}
    for each in handled:
        outcomes[each.outcome].append(each.id)
    stayed = ",".join(str(each) for each in outcomes["conflict"][:_MAX_CONFLICTS])
    to = return_path(request.form, _PATH, DEAD_LETTER_PARAMS, {"stayed": stayed} if stayed else {})
    return ActionResult(handled_text(word, handled), to, outcomes, ok=len(outcomes[word]) == len(numbers))


def read_dead_letter(request: PageRequest) -> PageData:
    """Return a dead letter with the history of its task.

    Raises:
        NotFoundError: If there is no dead letter with that number.
    """
    store = request.app.store
    dead_letter = _find_dead_letter(request)
    task = store.get(dead_letter.original_task_id)
    payload, cut = payload_text(dead_letter.parameters)
    last = dead_letter.failure
    return {
        "letter": dead_letter._replace(
            parameters="",
            failure={},
            traceback=masked_text(dead_letter.traceback),
            error_message=masked_text(dead_letter.error_message),
            resource=mask_optional(dead_letter.resource),
            options=mask_optional(dead_letter.options),
            unique_key=mask_optional(dead_letter.unique_key),
        ),
        "payload": payload,
        "payload_cut": cut,
        "rule": masked_text(str(last.get("rule") or "")),
        "http_status": last.get("http_status"),
        "location": masked_text(str(last.get("location") or "")),
        "history": None if task is None else task_view(store, task),
        "edits": edit_views(store, dead_letter.original_task_id),
        "by_hand": audit_views(store, f"dead_letter:{dead_letter.id}", f"task:{dead_letter.original_task_id}"),
        "why": REASON_TEXTS.get(dead_letter.reason, ""),
        "shell": f"outlast dlq replay {dead_letter.id} --app {quote(request.reference)}",
    }


def _find_dead_letter(request: PageRequest) -> DeadLetter:
    message = f"dead letter {request.path['number']} does not exist: it may have been replayed, discarded or pruned"
    return require(request.app.store.dead_letter(request.row_number()), message)


def replay_one(request: PageRequest) -> ActionResult:
    """Replay a dead letter: queue its task again."""
    number, task_id, data = _handle_one(request, request.app.dead_letters.replay)
    if data["outcome"] == "conflict":
        message = f"dead letter {number} stayed: its unique key is taken by another live task"
        return ActionResult(message, f"{_PATH}/{number}", data, ok=False)
    message = f"dead letter {number} was replayed: task {task_id} is queued again, with its history"
    return ActionResult(message, f"/tasks/{task_id}", data)


def discard_one(request: PageRequest) -> ActionResult:
    """Discard a dead letter."""
    number, _, data = _handle_one(request, request.app.dead_letters.discard)
    return ActionResult(f"dead letter {number} was discarded", _PATH, data)


def _handle_one(request: PageRequest, act: Callable[..., Sequence[Handled]]) -> tuple[int, int, PageData]:
    """Replay or discard a dead letter; return its number, the number of its task, and the data of the result."""
    dead_letter = _find_dead_letter(request)
    number, task_id = dead_letter.id, dead_letter.original_task_id
    outcome = act(number, who=request.who, why=request.text("why"))[0].outcome
    if outcome == "gone":
        raise NotFoundError(f"dead letter {number} does not exist any more: someone else has just handled it")
    return number, task_id, {"outcome": outcome, "number": number, "task": task_id}


def read_edit(request: PageRequest) -> PageData:
    """Return the arguments of a dead letter as a form.

    Raises:
        NotFoundError: If there is no dead letter with that number.
    """
    dead_letter = _find_dead_letter(request)
    fields = _argument_fields(dead_letter)
    payload, cut = payload_text(dead_letter.parameters)
    typed = request.typed()
    version = _arguments_version(request, dead_letter)
    if typed.get("version", str(version)) != str(version):
        typed = {}  # someone else has changed the arguments since this was typed
    return {
        "number": dead_letter.id,
        "task": dead_letter.original_task_id,
        "task_type": dead_letter.task_type,
        "error_type": dead_letter.error_type,
        "error_message": masked_text(dead_letter.error_message),
        "fields": [_field_view(field, typed) for field in fields.rows],
        "others": fields.others,
        "readable": _parse_arguments(dead_letter) is not None,
        "known": dead_letter.task_type in request.app.tasks_by_name,
        "version": version,
        "payload": payload,
        "payload_cut": cut,
    }


def _field_view(field: ArgumentField, typed: Query) -> PageData:
    """Return a field without its path, with the text that was typed into it, if any."""
    view = field._asdict() | {"text": typed.get(field.name, field.text)}
    return {name: value for name, value in view.items() if name != "path"}


def _parse_arguments(dead_letter: DeadLetter) -> Any:
    """Return the arguments; None if they are not a JSON object."""
    try:
        value = json.loads(dead_letter.parameters)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _argument_fields(dead_letter: DeadLetter) -> ArgumentFields:
    value = _parse_arguments(dead_letter)
    if value is None:
        return ArgumentFields((), others=False)
    return argument_fields(value, masked_value(dead_letter.parameters))


def _arguments_version(request: PageRequest, dead_letter: DeadLetter) -> int:
    """Return how often the arguments were edited. A form is only valid for the version it was made from."""
    return len(request.app.store.edits(dead_letter.original_task_id))


def save_edit(request: PageRequest) -> ActionResult:
    """Edit the arguments of a dead letter, and replay it if the form says so.

    Raises:
        FormError: If the input is not valid.
        NotFoundError: If there is no dead letter with that number.
    """
    dead_letter = _find_dead_letter(request)
    app, why = request.app, request.text("why")
    version = request.field("version")
    if version and version != str(_arguments_version(request, dead_letter)):
        raise FormError(
            "someone else has changed the arguments since you opened this form; it shows the current ones", _EDIT_PAGE
        )
    if not why:
        raise FormError("give a reason; it is kept with the edit", _EDIT_PAGE)
    patch = _submitted_patch(request, dead_letter)
    definition = app.tasks_by_name.get(dead_letter.task_type)
    try:
        app.dead_letters.edit(dead_letter.id, patch, definition=definition, who=request.who, why=why)
    except (PayloadError, ConfigError) as error:
        raise FormError(masked_text(str(error)), _EDIT_PAGE) from None
    except LookupError as error:
        raise NotFoundError(str(error.args[0])) from None
    task_id = dead_letter.original_task_id
    data = {"outcome": "edited", "number": dead_letter.id, "task": task_id, "operations": len(patch)}
    if "replay" in request.form:
        done = replay_one(request)
        message = f"the arguments were changed; {done.message}"
        return done._replace(message=message, data={**data, "outcome": done.data["outcome"]})
    message = f"the arguments of dead letter {dead_letter.id} were changed; replay it to use them"
    return ActionResult(message, f"{_PATH}/{dead_letter.id}", data)


def _submitted_patch(request: PageRequest, dead_letter: DeadLetter) -> list[Any]:
    """Return the patch from the form fields, followed by the operations of the field ``patch``."""
    typed = request.typed()
    try:
        patch: list[Any] = list(patch_operations(_argument_fields(dead_letter), typed))
        if text := typed.get("patch", "").strip():
            more = json.loads(text)
            patch += more if isinstance(more, list) else [more]
    except FieldError as error:
        raise FormError(masked_text(str(error)), _EDIT_PAGE) from None
    except (ValueError, RecursionError):
        raise FormError(
            'the patch is not valid JSON; write a list such as [{"op": "replace", "path": "/url", "value": "…"}]',
            _EDIT_PAGE,
        ) from None
    if not patch:
        raise FormError("nothing was changed", _EDIT_PAGE)
    return patch


PAGES = (
    PageRoute("dead_letters", _PATH, "dead_letters.html", read_dead_letters),
    PageRoute("dead_letter", f"{_PATH}/{{number}}", "dead_letter.html", read_dead_letter),
    PageRoute(_EDIT_PAGE, f"{_PATH}/{{number}}/edit", "edit.html", read_edit),
)
ACTIONS = (
    ActionRoute("replay_dead_letters", f"{_PATH}/replay", replay_selected),
    ActionRoute("discard_dead_letters", f"{_PATH}/discard", discard_selected),
    ActionRoute("replay_dead_letter", f"{_PATH}/{{number}}/replay", replay_one),
    ActionRoute("discard_dead_letter", f"{_PATH}/{{number}}/discard", discard_one),
    ActionRoute("save_dead_letter", f"{_PATH}/{{number}}/edit", save_edit),
)
