"""The pages of replays: the list, one replay, and the preview that starts one."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from outlast.errors import ConfigError
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.store import Store
from outlast.ports.triage import Replay
from outlast.queue.masking import masked_text
from outlast.report.dead_letters import Facet, filter_params, filter_text, replay_line
from outlast.report.text_format import counted
from outlast.web.filters import DEAD_LETTER_PARAMS, dead_letter_filter
from outlast.web.routing import (
    ActionResult,
    ActionRoute,
    FormError,
    InvalidInputError,
    PageData,
    PageRequest,
    PageRoute,
    Query,
    require,
)

MAX_LISTED = 50
"""How many replays, the newest, are listed and updated live."""
_PATH = "/replays"
_NEW_PAGE = "new_replay"
_GROUPS = 20
_REPLAY_VIEW = re.compile(r"replay-([1-9]\d{0,18})", re.ASCII)
_FIELDS = frozenset([*DEAD_LETTER_PARAMS, "all", "before", "canary", "max_failures", "rate", "why"])
_NO = frozenset(["0", "false", "no"])
_YES = frozenset(["1", "true", "yes"])


def is_replay_view(view: str) -> bool:
    """Return whether a live view shows replays."""
    return view == "replays" or _REPLAY_VIEW.fullmatch(view) is not None


def replay_update(view: str, replays: Sequence[Replay] | None, workers: int) -> tuple[str, PageData] | None:
    """Return the template and the data that update a live view of replays; None if there is nothing to show.

    Args:
        view: Name of the view.
        replays: The newest replays; None if they were not read.
        workers: How many workers are alive.
    """
    if replays is None:
        return None
    if view == "replays":
        return "replays_live.html", {
            "replays": [replay_line(each, masked_text) for each in replays],
            "workers": workers,
        }
    found = _REPLAY_VIEW.fullmatch(view)
    replay = next((each for each in replays if found and each.id == int(found[1])), None)
    return (
        None
        if replay is None
        else ("replay_live.html", {"replay": replay_line(replay, masked_text), "workers": workers})
    )


def _alive_workers(store: Store) -> int:
    return sum(1 for worker in store.workers() if worker.alive)


def read_replays(request: PageRequest) -> PageData:
    """Return the newest replays."""
    store = request.app.store
    return {
        "replays": [replay_line(each, masked_text) for each in store.replay_runs(limit=MAX_LISTED)],
        "workers": _alive_workers(store),
    }


def read_replay(request: PageRequest) -> PageData:
    """Return one replay.

    Raises:
        NotFoundError: If there is no replay with that number.
    """
    store, replay = request.app.store, _find_replay(request)
    return {
        "replay": replay_line(replay, masked_text),
        "workers": _alive_workers(store),
        "cause": _group_title(store, replay.which.fingerprint),
        "bad_task": store.canaries(replay.id).dead,
    }


def _group_title(store: Store, fingerprint: str | None) -> str:
    """Return the title of a group of failures; empty if there is none."""
    group = store.failure(fingerprint) if fingerprint else None
    return f"{group.error_type or 'Failure'} in {group.task_type}" if group else ""


def _find_replay(request: PageRequest) -> Replay:
    found = request.app.store.replay_run(request.row_number())
    return require(found, f"replay {request.path['number']} does not exist")


def read_new(request: PageRequest) -> PageData:
    """Return a preview of what a replay would queue again."""
    store = request.app.store
    criteria = dead_letter_filter(request.query, store.now())
    newest = store.dead_letter_lines(criteria._replace(limit=1)).rows
    before = criteria.before or (newest[0].id + 1 if newest else None)
    arguments = _filter_arguments(criteria._replace(before=before))
    found = request.app.dead_letters.dry_run(**arguments) if newest or criteria.before else None
    groups = store.groups(criteria._replace(before=before, limit=_GROUPS)) if found else []
    return {
        "total": found.total if found else 0,
        "groups": [each._replace(error_message=masked_text(each.error_message)) for each in groups],
        "more_groups": max(len(found.groups) - len(groups), 0) if found else 0,
        "tasks": [Facet(*each) for each in found.tasks.items()] if found else [],
        "categories": [Facet(*each) for each in found.categories.items()] if found else [],
        "given": filter_params(criteria),
        "before": before,
        "what": filter_text(filter_params(criteria)),
        "cause": _group_title(store, criteria.fingerprint),
        "workers": _alive_workers(store),
    }


def _filter_arguments(criteria: DeadLetterFilter) -> PageData:
    arguments = {name: value for name, value in criteria._asdict().items() if value is not None and name != "limit"}
    return arguments or {"all": True}


def start_replay(request: PageRequest) -> ActionResult:
    """Start a replay; workers carry it out.

    Raises:
        FormError: If the input is not valid.
        InvalidInputError: If a field is unknown, or there is neither a filter nor ``all``.
    """
    _check_names(request.form)
    sent = {name: value for name, value in request.typed().items() if value}
    query = {name: sent[name] for name in (*DEAD_LETTER_PARAMS, "before") if name in sent}
    criteria = dead_letter_filter(query, request.app.store.now())
    _check_filter(criteria, _flag_text(sent, "all") in _YES)
    try:
        replay = request.app.dead_letters.replay_later(
            canary=_flag_text(sent, "canary") not in _NO,
            rate=sent.get("rate", "").strip() or None,
            max_failures=_whole_number(sent.get("max_failures", "").strip()),
            who=request.who,
            why=request.text("why"),
            **_filter_arguments(criteria),
        )
    except (ConfigError, InvalidInputError) as error:
        raise FormError(str(error), _NEW_PAGE, query) from None
    message = f"replay {replay.id} has started: {counted(replay.total, 'dead letter')}"
    return ActionResult(message, f"{_PATH}/{replay.id}", {"number": replay.id, "total": replay.total})


def _whole_number(text: str) -> Any:
    """Return a number; a text that is not one is returned as it is, and refused with the other settings."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else text or None


def _flag_text(sent: Query, name: str) -> str:
    return sent.get(name, "").strip().lower()


def _check_names(names: Iterable[str]) -> None:
    """Reject unknown fields: a misspelled filter would replay more than was intended.

    Raises:
        InvalidInputError: If a field is unknown.
    """
    unknown = next((name for name in names if name not in _FIELDS), None)
    if unknown is not None:
        raise InvalidInputError(
            f"{unknown[:50]!r} is not a field of a replay; choose from: {', '.join(sorted(_FIELDS))}"
        )


def _check_filter(criteria: DeadLetterFilter, everything: bool) -> None:  # noqa: FBT001  # a private check
    """Reject a replay without a filter unless ``all`` was sent, and one with both.

    Raises:
        InvalidInputError: If the filter is missing or not allowed; ``before`` alone is not a filter.
    """
    is_narrowed = criteria._replace(before=None, limit=None) != DeadLetterFilter()
    if not is_narrowed and not everything:
        raise InvalidInputError(
            f"send a filter for the dead letters, one of: {', '.join(DEAD_LETTER_PARAMS)}; or send all=1"
        )
    if is_narrowed and everything:
        raise InvalidInputError("send either all=1 or a filter, not both")


def stop_replay(request: PageRequest) -> ActionResult:
    """Stop a replay."""
    replay = _find_replay(request)
    stopped = request.app.dead_letters.stop_replay(replay.id, who=request.who, why=request.text("why"))
    result = "was stopped; tasks that it has queued still run" if stopped else "had already ended"
    data = {"number": replay.id, "stopped": stopped}
    return ActionResult(f"replay {replay.id} {result}", f"{_PATH}/{replay.id}", data, ok=stopped)


def resume_replay(request: PageRequest) -> ActionResult:
    """Resume a replay that was stopped."""
    replay = _find_replay(request)
    to = f"{_PATH}/{replay.id}"
    try:
        request.app.dead_letters.resume_replay(replay.id, who=request.who, why=request.text("why"))
    except ConfigError as error:
        return ActionResult(str(error), to, {"number": replay.id, "resumed": False}, ok=False)
    first = ", starting with one dead letter again" if replay.canary else ""
    return ActionResult(f"replay {replay.id} is resumed{first}", to, {"number": replay.id, "resumed": True})


PAGES = (
    PageRoute("replays", _PATH, "replays.html", read_replays),
    PageRoute(_NEW_PAGE, f"{_PATH}/new", "new_replay.html", read_new),
    PageRoute("replay", f"{_PATH}/{{number}}", "replay.html", read_replay),
)
ACTIONS = (
    ActionRoute("begin_replay", f"{_PATH}/begin", start_replay),
    ActionRoute("stop_replay", f"{_PATH}/{{number}}/stop", stop_replay),
    ActionRoute("resume_replay", f"{_PATH}/{{number}}/resume", resume_replay),
)
