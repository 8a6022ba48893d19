"""The pages of dead letters: the list, one dead letter, and the form that edits its arguments."""

import json
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from outlast.operations import FILTERS, PATCH, ROW, InvalidValueError, Parameter, filter_arguments, text_kind
from outlast.operations.actions import arguments_version, find_dead_letter
from outlast.ports.read_rows import MAX_ROWS_SCANNED, DeadLetterLine
from outlast.ports.rows import DeadLetter, DeadLetterFilter
from outlast.queue.dead_letters import dead_letter_filter
from outlast.queue.masking import masked_row, masked_text, masked_value
from outlast.report.dead_letters import (
    REASON_TEXTS,
    ArgumentField,
    ArgumentFields,
    Facet,
    FieldError,
    argument_fields,
    dlq_command,
    facets,
    filter_params,
    filter_text,
    patch_operations,
)
from outlast.web.routing import BEFORE, Form, FormPage, PageData, PageRequest, PageRoute, Query
from outlast.web.task_view import TaskView, audit_views, edit_views, masked_line, payload_text, task_view

_PATH = "/dead-letters"
_EDIT_PAGE = "dead_letter_arguments"
_ROWS = 40
_MAX_CONFLICTS = 50  # more numbers would make the URL too long


def read_dead_letters(request: PageRequest) -> PageData:
    """Return a page of dead letters, newest first, and the values they can be filtered by."""
    store = request.app.store
    criteria = dead_letter_filter(filter_arguments(request.values), before=request.values["before"], limit=_ROWS)
    found = store.dead_letter_lines(criteria)
    tasks, categories, whole = facets(store.dead_letter_counts(), task=criteria.task_type, category=criteria.category)
    given = filter_params(criteria)
    counted = not given.keys() - {"task", "category"}  # there are counters for these two only
    if not counted:
        tasks, categories = ([each._replace(size=None) for each in some] for some in (tasks, categories))
    return {
        "rows": [masked_row(row, masked_line) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": given,
        "first_page": criteria.before is None,
        "tasks": tasks,
        "categories": categories,
        "whole": whole if counted else None,
        "counted": counted,
        "stayed": _conflicting_rows(request.values["stayed"] or ""),
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


def _conflicting_rows(stayed: str) -> list[int]:
    """Return the numbers of the dead letters that the previous action could not replay."""
    texts = stayed.split(",")[:_MAX_CONFLICTS]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20]  # noqa: PLR2004  # digits


def read_dead_letter(request: PageRequest) -> PageData:
    """Return a dead letter with the history of its task.

    Raises:
        LookupError: If there is no dead letter with that number.
    """
    store = request.app.store
    dead_letter = find_dead_letter(request.app, request.values["dead_letter_id"])
    task = store.get(dead_letter.original_task_id)
    payload, cut = payload_text(dead_letter.parameters)
    last = dead_letter.failure
    return {
        "dead_letter": masked_row(dead_letter._replace(parameters="", failure={})),
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


def read_edit(request: PageRequest) -> PageData:
    """Return the arguments of a dead letter as a form.

    Raises:
        LookupError: If there is no dead letter with that number.
    """
    dead_letter = find_dead_letter(request.app, request.values["dead_letter_id"])
    fields = _argument_fields(dead_letter)
    payload, cut = payload_text(dead_letter.parameters)
    typed = request.typed()
    version = arguments_version(request.app, dead_letter)
    if typed.get("version", str(version)) != str(version):
        typed = {}  # someone else has changed the arguments since this was typed
    return {
        "dead_letter_id": dead_letter.id,
        "task_id": dead_letter.original_task_id,
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


def submitted_edit(request: PageRequest) -> Form:
    """Return the parameters of an edit: the patch from the fields of the form, followed by the one in ``patch``.

    Raises:
        InvalidValueError: If a field or the patch is not valid.
        LookupError: If there is no dead letter with that id.
    """
    dead_letter, typed = find_dead_letter(request.app, request.values["dead_letter_id"]), request.typed()
    try:
        patch: list[Any] = list(patch_operations(_argument_fields(dead_letter), typed))
    except FieldError as error:
        raise InvalidValueError(masked_text(str(error))) from None
    if text := typed.get("patch", "").strip():
        patch += PATCH.parse(text, "patch", request.app)
    return {**request.form, "patch": [json.dumps(patch)]}


_ID = Parameter("dead_letter_id", ROW, "The id of the dead letter.", required=True)
_STAYED = Parameter("stayed", text_kind(2_000), "Ids that the last action could not replay, separated by commas.")
_LIST = {"rows": list[DeadLetterLine], "next": str | None, "tasks": list[Facet], "categories": list[Facet]}
_ONE = {"dead_letter": DeadLetter, "payload": str, "history": TaskView | None, "edits": list[PageData]}
_EDIT = {"dead_letter_id": int, "task_id": int, "fields": list[PageData], "version": int}
PAGES = (
    PageRoute("dead_letters", _PATH, "dead_letters.html", read_dead_letters, (*FILTERS, BEFORE, _STAYED), _LIST),
    PageRoute("dead_letter", f"{_PATH}/{{dead_letter_id}}", "dead_letter.html", read_dead_letter, (_ID,), _ONE),
    PageRoute(_EDIT_PAGE, f"{_PATH}/{{dead_letter_id}}/edit", "edit.html", read_edit, (_ID,), _EDIT),
)
FORMS = {"edit_dead_letter": FormPage(_EDIT_PAGE, submitted_edit)}
