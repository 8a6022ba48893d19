"""The table of operations. The CLI commands, page actions, JSON endpoints, OpenAPI and audit entries follow it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.errors import ConfigError
from outlast.operations import (
    COUNT,
    DURATION,
    FILTERS,
    FLAG,
    GROUP,
    MAX_SELECTED,
    MINUTES,
    NAME,
    PATCH,
    QUEUE,
    RATE,
    RESOURCE,
    ROW,
    SOURCE,
    WHY,
    Parameter,
    Values,
    actions,
    parse_values,
    text_kind,
)
from outlast.operations.actions import OperationResult
from outlast.ports.rows import DeadLetterFilter
from outlast.queue.audit import audit_disabled, write_audit
from outlast.queue.dead_letters import audit_subject

if TYPE_CHECKING:
    from outlast.app import App


class Operation(NamedTuple):
    """Something that people can change by hand; for operators only.

    Attributes:
        name: Its name in the audit log, JSON, OpenAPI and pages.
        help: What it does, in a sentence or two.
        run: Does it; called with the app, the values and the person who asked for it.
        parameters: Its parameters, the subject first.
        subject: Returns the subject of its audit entry.
        path: Path of the page action, and below ``/api`` of the JSON endpoint. A variable is the name of a parameter.
        returns: Names and JSON types of the data of its result.
        command: Words of its command, after ``outlast``; empty if the command line has no command of its own for it.
        example: Arguments of an example of the command.
        confirm: A question that is asked before; empty for none.
        page: Path of the page that is shown next, with variables; by default the path without its last part.
        is_strict: Whether unknown fields are refused, because a misspelled filter would affect too much.
        form_path: A path without variables, for a form in which people type the name of the subject; empty for none.
        role: The role that a caller needs.
    """

    name: str
    help: str
    run: "Callable[[App, Values, str | None], OperationResult]"
    parameters: tuple[Parameter, ...]
    subject: Callable[[Values], str]
    path: str
    returns: Mapping[str, str]
    command: str = ""
    example: str = ""
    confirm: str = ""
    page: str = ""
    is_strict: bool = False
    form_path: str = ""
    role: str = "operator"

    @property
    def fields(self) -> tuple[Parameter, ...]:
        """The parameters that are not variables of the path."""
        return tuple(each for each in self.parameters if f"{{{each.name}}}" not in self.path)


def perform(app: "App", operation: Operation, values: Values, who: str | None = None) -> OperationResult:
    """Write the audit entry of an operation, then do it. Commands, pages and JSON endpoints all go through here.

    Args:
        app: The app.
        operation: A row of the table.
        values: What `parse_values` returned.
        who: The person; by default the user of this process.
    """
    shown = {
        each.name: each.kind.audited(values[each.name])
        for each in operation.parameters
        if values.get(each.name) is not None
    }
    given = {name: value for name, value in shown.items() if name != WHY.name and f"{{{name}}}" not in operation.path}
    why = values.get(WHY.name) or ""
    write_audit(app.store, operation.name, operation.subject(values), given, who=who, why=why, most=MAX_SELECTED)
    with audit_disabled():
        return operation.run(app, values, who)


def perform_texts(
    app: "App", operation: Operation, given: Mapping[str, Sequence[str]], who: str | None
) -> OperationResult:
    """Parse the texts of a form or a JSON object, then `perform`. Refused values leave an audit entry too."""
    try:
        values = parse_values(app, operation.parameters, given, is_strict=operation.is_strict)
    except (ConfigError, LookupError) as error:
        record_refusal(app, operation, given, who, error)
        raise
    return perform(app, operation, values, who)


def record_refusal(
    app: "App", operation: Operation, given: Mapping[str, Sequence[str]], who: str | None, error: Exception
) -> None:
    """Write the audit entry of an operation whose values were refused; it has none of the values."""
    why = "".join(given.get(WHY.name, [])[:1])
    write_audit(app.store, operation.name, "refused", {"refused": str(error)}, who=who, why=why)


_SCALARS = ["string", "number", "boolean", "null"]
_UNKNOWN_FIELD = {"type": [*_SCALARS, "array"], "items": {"type": _SCALARS}}


def request_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON Schema of the object that the JSON endpoint of an operation takes."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: parameter_schema(each) for each in operation.fields},
        "additionalProperties": False if operation.is_strict else _UNKNOWN_FIELD,
    }
    required = [each.name for each in operation.fields if each.required]
    return {**schema, "required": required} if required else schema


def response_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON Schema of the object that the JSON endpoint of an operation returns."""
    returned = {"ok": "boolean", "message": "string", **operation.returns}
    properties = {name: {"type": kind.split("|")} for name, kind in returned.items()}
    return {"type": "object", "properties": properties, "required": ["ok", "message"]}


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """Return the JSON Schema of a parameter, with its help and its default."""
    schema = {**parameter.kind.schema, "description": parameter.help}
    if parameter.default:
        is_text = schema["type"] == "string"
        schema["default"] = parameter.default if is_text else json.loads(parameter.default)
    if not parameter.many:
        return schema
    return {"type": "array", "items": schema, "minItems": int(parameter.required), "maxItems": MAX_SELECTED}


def _replay_subject(values: Values) -> str:
    return audit_subject(DeadLetterFilter(fingerprint=values.get("group")))


_DEAD_LETTER = Parameter("dead_letter_id", ROW, "The id of the dead letter.", required=True, argument="ID...")
_DEAD_LETTERS = _DEAD_LETTER._replace(help="The ids of the dead letters.", many=True)
_REPLAY = Parameter("replay_id", ROW, "The id of the replay.", required=True, argument="ID...")
_GROUP = Parameter(
    "fingerprint", GROUP, "The fingerprint of the group, or the start of it.", required=True, argument="GROUP..."
)
_TASK = Parameter("task_id", ROW, "The id of the task.", required=True, argument="ID...")
_TASKS = _TASK._replace(help="The ids of the tasks.", many=True)
_PERIODIC = Parameter("periodic", NAME, "The name of the periodic task.", required=True, argument="NAME...")
_QUEUE = Parameter("queue", QUEUE, "The name of the queue.", required=True, argument="QUEUE...")
_SOURCE = Parameter("source_id", SOURCE, "The id or the URL of the source.", required=True, argument="ID_OR_URL...")
_RESOURCE = Parameter(
    "resource", RESOURCE, "The resource; by convention the host.", required=True, argument="RESOURCE..."
)
_HANDLED = {"dead_letter_id": "integer", "task_id": "integer", "outcome": "string"}
_IDS = {"conflict": "array", "gone": "array"}
_STANDING = {"fingerprint": "string", "standing": "string"}
_CHANGED = {"task_id": "integer", "status": "string", "changed": "boolean"}
_CHANGED_TASKS = {"changed": "array", "unchanged": "array"}
_STATE = {"source_id": "integer", "state": "string"}
_ORDERED = {"resource": "string", "order": "integer", "known": "boolean"}
_about_dead_letter, _about_group = "dead_letter:{dead_letter_id}".format_map, "group:{fingerprint}".format_map
_about_replay, _about_task = "replay:{replay_id}".format_map, "task:{task_id}".format_map
_about_periodic = "periodic:{periodic}".format_map
_about_queue = "queue:{queue}".format_map
_about_source, _about_resource = "source:{source_id}".format_map, "resource:{resource}".format_map

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "replay_dead_letter", "Queue the task of a dead letter again, with its history.",
        partial(actions.handle_dead_letter, "replayed"),
        (_DEAD_LETTER, WHY), _about_dead_letter, "/dead-letters/{dead_letter_id}/replay", _HANDLED,
    ),
    Operation(
        "discard_dead_letter", "Delete a dead letter.", partial(actions.handle_dead_letter, "discarded"),
        (_DEAD_LETTER, WHY),
        _about_dead_letter, "/dead-letters/{dead_letter_id}/discard", _HANDLED,
        confirm="Discard this dead letter for good?", page="/dead-letters",
    ),
    Operation(
        "replay_dead_letters", "Queue the tasks of dead letters again, each in its own transaction.",
        partial(actions.handle_dead_letters, "replayed"), (_DEAD_LETTERS, WHY), lambda _: "dead_letters",
        "/dead-letters/replay", {"replayed": "array", **_IDS},
    ),
    Operation(
        "discard_dead_letters", "Delete dead letters.", partial(actions.handle_dead_letters, "discarded"),
        (_DEAD_LETTERS, WHY), lambda _: "dead_letters", "/dead-letters/discard", {"discarded": "array", **_IDS},
        confirm="Discard the selected dead letters for good?",
    ),
    Operation(
        "edit_dead_letter", "Change the arguments of a dead letter; then replay it to use them.",
        actions.edit_dead_letter,
        (
            _DEAD_LETTER,
            Parameter("patch", PATCH, "JSON Patch operations: a list of add, replace and remove."),
            Parameter("version", COUNT, "The number of earlier edits; the edit is refused if there are more by now."),
            Parameter("replay", FLAG, "Whether to replay it at once."),
            WHY,
        ),
        _about_dead_letter, "/dead-letters/{dead_letter_id}/edit", {**_HANDLED, "operations": "integer"},
    ),
    Operation(
        "start_replay", "Start a replay of all dead letters that match; workers run it.", actions.start_replay,
        (
            *FILTERS, Parameter("all", FLAG, "All dead letters, instead of a filter."),
            Parameter("before", ROW, "Only dead letters with smaller ids."),
            Parameter("limit", ROW, "Dead letters at most, newest first."),
            Parameter("canary", FLAG, "Replay one, then ten, then the rest; any failure stops it.", default="true"),
            Parameter("rate", RATE, "Maximum rate: 10/s, 30/min."),
            Parameter("max_failures", COUNT, "Stop if more replayed tasks fail again, after the canaries."), WHY,
        ),
        _replay_subject, "/replays/start", {"replay_id": "integer", "total": "integer"}, is_strict=True,
        page="/replays/{replay_id}",
    ),
    Operation(
        "stop_replay", "Stop replays. Tasks that they have already queued still run.", actions.stop_replay,
        (_REPLAY, WHY), _about_replay, "/replays/{replay_id}/stop", {"replay_id": "integer", "stopped": "boolean"},
        "dlq replays stop", "3",
    ),
    Operation(
        "resume_replay", "Resume a stopped replay: one task, then ten, then the rest.", actions.resume_replay,
        (_REPLAY, WHY), _about_replay, "/replays/{replay_id}/resume", {"replay_id": "integer", "resumed": "boolean"},
    ),
    Operation(
        "acknowledge_group", "Acknowledge groups: stop alerting about them. They reopen when they fail again.",
        actions.acknowledge_group, (_GROUP, WHY), _about_group, "/failures/{fingerprint}/acknowledge", _STANDING,
        "dlq ack", "5d41402abc4b2a76",
    ),
    Operation(
        "snooze_group", "Snooze groups: send no alerts about them for a while.", actions.snooze_group,
        (_GROUP, Parameter("for", DURATION, "How long, such as 2h or 3d; 0 ends it.", default="24h"), WHY),
        _about_group, "/failures/{fingerprint}/snooze", _STANDING, "dlq snooze", "5d41402abc4b2a76 --for 2h",
    ),
    Operation(
        "reopen_group", "Reopen acknowledged or snoozed groups: alert about them again.",
        actions.reopen_group, (_GROUP, WHY), _about_group, "/failures/{fingerprint}/reopen", _STANDING, "dlq reopen",
        "5d41402abc4b2a76",
    ),
    Operation(
        "note_group", "Attach a note to a group; an empty one removes it.", actions.note_group,
        (
            _GROUP._replace(argument="GROUP"),
            Parameter("note", text_kind(2000, is_audited=False), "What is known, who was asked.", argument="TEXT"),
            WHY,
        ),
        _about_group, "/failures/{fingerprint}/note", _STANDING, "dlq note",
        "5d41402abc4b2a76 'prices with a comma, fixed in 1.4'",
    ),
    Operation(
        "cancel_task", "Cancel tasks that wait or are parked. Running tasks are not stopped.",
        partial(actions.change_task, "cancel"),
        (_TASK, WHY), _about_task, "/tasks/{task_id}/cancel", _CHANGED, "tasks cancel", "42 43",
    ),
    Operation(
        "run_task_now", "Make waiting tasks due now, whatever they wait for.",
        partial(actions.change_task, "run_now"), (_TASK, WHY),
        _about_task, "/tasks/{task_id}/run-now", _CHANGED, "tasks run-now", "42",
    ),
    Operation(
        "cancel_tasks", "Cancel the selected tasks that wait or are parked.",
        partial(actions.change_tasks, "cancel"), (_TASKS, WHY),
        lambda _: "tasks", "/tasks/cancel", _CHANGED_TASKS, confirm="Cancel the selected tasks?",
    ),
    Operation(
        "run_tasks_now", "Make the selected tasks that wait due now.",
        partial(actions.change_tasks, "run_now"), (_TASKS, WHY),
        lambda _: "tasks", "/tasks/run-now", _CHANGED_TASKS,
    ),
    Operation(
        "pause_periodic", "Pause periodic tasks: no worker enqueues them until they are resumed.",
        partial(actions.change_periodic, "pause"), (_PERIODIC, WHY), _about_periodic, "/periodic/{periodic}/pause",
        {"periodic": "string", "paused": "boolean"}, "periodic pause", "nightly", page="/periodic",
    ),
    Operation(
        "resume_periodic", "Resume periodic tasks. Runs that were missed are not made up for.",
        partial(actions.change_periodic, "resume"), (_PERIODIC, WHY), _about_periodic, "/periodic/{periodic}/resume",
        {"periodic": "string", "paused": "boolean"}, "periodic resume", "nightly", page="/periodic",
    ),
    Operation(
        "run_periodic_now", "Enqueue a run of periodic tasks, also if they are paused. The next regular run stays.",
        actions.run_periodic_now, (_PERIODIC, WHY), _about_periodic, "/periodic/{periodic}/run-now",
        {"periodic": "string", "task_id": "integer|null", "created": "boolean"}, "periodic run-now",
        "nightly --app jobs:app", page="/periodic",
    ),
    Operation(
        "mark_deploy", "Mark a deploy: a line on the charts of the dashboard, kept for 90 days.", actions.mark_deploy,
        (Parameter("version", text_kind(80), "What was deployed.", required=True, argument="VERSION"), WHY),
        "deploy:{version}".format_map, "/marks/deploy", {"mark_id": "integer", "version": "string"},
        "mark deploy", "v1.2", page="/",
    ),
    Operation(
        "pause_queue", "Pause queues: workers start no more tasks from them. Tasks can still be added.",
        actions.pause_queue, (_QUEUE, Parameter("new", FLAG, "Also a queue that has no tasks yet."), WHY),
        _about_queue, "/queues/{queue}/pause",
        {"queue": "string", "paused": "boolean"}, "queues pause", "mail", form_path="/queues/pause", page="/queues",
    ),
    Operation(
        "resume_queue", "Resume queues.", actions.resume_queue, (_QUEUE, WHY), _about_queue, "/queues/{queue}/resume",
        {"queue": "string", "paused": "boolean"}, "queues resume", "mail", page="/queues",
    ),
    Operation(
        "enable_source", "Enable sources: reset their failures and poll them at once.", actions.enable_source,
        (_SOURCE, WHY), _about_source, "/sources/{source_id}/enable", _STATE, "sources enable", "12",
    ),
    Operation(
        "disable_source", "Disable sources: do not poll or probe them until you enable them.", actions.disable_source,
        (_SOURCE, WHY), _about_source, "/sources/{source_id}/disable", _STATE, "sources disable",
        "12 --why 'moved to another site'",
    ),
    Operation(
        "probe_source", "Poll sources in the next cycle, even if their profile has disabled them.",
        actions.probe_source, (_SOURCE, WHY), _about_source, "/sources/{source_id}/probe", _STATE, "sources probe",
        "12",
    ),
    Operation(
        "remove_source", "Remove sources and their history.", actions.remove_source, (_SOURCE, WHY), _about_source,
        "/sources/{source_id}/remove", {"source_id": "integer"}, "sources remove", "12 13 --yes",
        confirm="Remove it with its history for good?", page="/sources",
    ),
    Operation(
        "start_cooldown", "Start cooldowns: no process calls these resources. A longer cooldown stays.",
        actions.start_cooldown, (_RESOURCE, Parameter("minutes", MINUTES, "How long.", required=True), WHY),
        _about_resource, "/waits/start-cooldown", {"resource": "string", "seconds": "number"}, "cooldowns start",
        "api.example.com --minutes 15",
    ),
    Operation(
        "end_cooldown", "End cooldowns: what waited for these resources is due now.", actions.end_cooldown,
        (_RESOURCE, WHY), _about_resource, "/waits/end-cooldown",
        {"resource": "string", "ended": "boolean", "sources": "integer"}, "cooldowns end", "api.example.com",
    ),
    Operation(
        "open_breaker", "Open breakers in all processes: calls of these resources are rejected.",
        partial(actions.order_breaker, "open"),
        (_RESOURCE, Parameter("minutes", MINUTES, "How long; without it until it is closed."), WHY), _about_resource,
        "/waits/open-breaker", _ORDERED, "breakers open", "api.example.com --minutes 15",
    ),
    Operation(
        "close_breaker", "Close breakers in all processes.",
        partial(actions.order_breaker, "closed"), (_RESOURCE, WHY), _about_resource,
        "/waits/close-breaker", _ORDERED, "breakers close", "api.example.com",
    ),
)  # fmt: skip
"""All operations."""
