"""Replays in steps: what one would be about, how far it is, and how it is stopped and goes on."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outlast.errors import ConfigError
from outlast.ports.rows import DeadLetterFilter, Group
from outlast.ports.triage import Replay
from outlast.queue.masking import masked_text
from outlast.report.dead_letters import Facet, ReplayLine, filter_params, filter_text, replay_line
from outlast.web.filters import DEAD_LETTER_PARAMS, dead_letter_filter, form_text
from outlast.web.routing import (
    ActionResult,
    ActionRoute,
    FormError,
    InvalidInputError,
    NotFoundError,
    PageRequest,
    PageRoute,
    parse_row_number,
)

if TYPE_CHECKING:
    from outlast.ports.store import Store


MAX_LISTED = 50
"""Replays that are listed and kept up to date: the newest."""
_PATH = "/replays"
_NEW_PAGE = "new_replay"
_GROUPS = 20
_REPLAY_VIEW = re.compile(r"replay-([1-9]\d{0,18})", re.ASCII)
_FIELDS = frozenset([*DEAD_LETTER_PARAMS, "all", "before", "canary", "rate", "why"])
_NO = frozenset(["0", "false", "no"])
_YES = frozenset(["1", "true", "yes"])


def is_replay_view(view: str) -> bool:
    """Tell whether a page that is kept live shows replays."""
    return view == "replays" or _REPLAY_VIEW.fullmatch(view) is not None


def replay_update(view: str, replays: Sequence[Replay] | None, workers: int) -> tuple[str, Mapping[str, Any]] | None:
    """Return the template that keeps a page of replays live, and what it shows; None where nothing is known.

    Args:
        view: Which page.
        replays: The newest ones.
        workers: How many are alive.
    """
    if replays is None:
        return None
    if view == "replays":
        return "replays_live.html", {"replays": [_masked_replay_line(each) for each in replays], "workers": workers}
    found = _REPLAY_VIEW.fullmatch(view)
    replay = next((each for each in replays if found and each.id == int(found[1])), None)
    return None if replay is None else ("replay_live.html", {"replay": _masked_replay_line(replay), "workers": workers})


def _masked_replay_line(replay: Replay) -> ReplayLine:
    which = replay.which._replace(text=masked_text(replay.which.text) if replay.which.text else None)
    return replay_line(
        replay._replace(which=which, stopped_by=masked_text(replay.stopped_by), reason=masked_text(replay.reason))
    )


def _alive_workers(store: "Store") -> int:
    return sum(1 for worker in store.workers() if worker.alive)


def read_replays(asked: PageRequest) -> Mapping[str, Any]:
    """Return the newest replays."""
    store = asked.app.store
    return {
        "replays": [_masked_replay_line(each) for each in store.replay_runs(limit=MAX_LISTED)],
        "workers": _alive_workers(store),
    }


def read_replay(asked: PageRequest) -> Mapping[str, Any]:
    """Return one replay.

    Raises:
        NotThereError: If there is none of that number.
    """
    store, replay = asked.app.store, _find_replay(asked)
    return {
        "replay": _masked_replay_line(replay),
        "workers": _alive_workers(store),
        "cause": _group_title(store, replay.which.fingerprint),
        "bad_task": store.canaries(replay.id).dead,
    }


def _group_title(store: "Store", fingerprint: str | None) -> str:
    """Return what a group is called; empty for none."""
    group = store.failure(fingerprint) if fingerprint else None
    return f"{group.error_type or 'Failure'} in {group.task_type}" if group else ""


def _find_replay(asked: PageRequest) -> Replay:
    replay = asked.app.store.replay_run(parse_row_number(asked.path["number"]))
    if replay is None:
        message = f"there is no replay {asked.path['number']}"
        raise NotFoundError(message)
    return replay


def read_new(asked: PageRequest) -> Mapping[str, Any]:
    """Return what a replay would be about; nothing is done."""
    store = asked.app.store
    which = dead_letter_filter(asked.query, store.now())
    newest = store.dead_letter_lines(which._replace(limit=1)).rows
    before = which.before or (newest[0].id + 1 if newest else None)
    meant = _filter_arguments(which._replace(before=before))
    found = asked.app.dead_letters.dry_run(**meant) if newest or which.before else None
    groups = store.groups(which._replace(before=before, limit=_GROUPS)) if found else []
    return {
        "total": found.total if found else 0,
        "groups": [_mask_group(each) for each in groups],
        "more_groups": max(len(found.groups) - len(groups), 0) if found else 0,
        "tasks": [Facet(*each) for each in found.tasks.items()] if found else [],
        "categories": [Facet(*each) for each in found.categories.items()] if found else [],
        "given": filter_params(which),
        "before": before,
        "what": filter_text(filter_params(which)),
        "cause": _group_title(store, which.fingerprint),
        "workers": _alive_workers(store),
    }


def _filter_arguments(which: DeadLetterFilter) -> dict[str, Any]:
    narrowing = {name: value for name, value in which._asdict().items() if value is not None and name != "limit"}
    return narrowing or {"all": True}


def _mask_group(group: Group) -> Group:
    return group._replace(error_message=masked_text(group.error_message))


def start_replay(asked: PageRequest) -> ActionResult:
    """Begin a replay that workers carry on.

    Raises:
        FormError: If what was typed cannot be used.
        RefusedError: If a field has an unknown name, or nothing narrows and ``all`` is not sent.
    """
    _check_names(asked.form)
    sent = {name: values[0] for name, values in asked.form.items() if values and values[0]}
    query = {name: sent[name] for name in (*DEAD_LETTER_PARAMS, "before") if name in sent}
    which = dead_letter_filter(query, asked.app.store.now())
    _check_filter(which, _flag_text(sent, "all") in _YES)
    try:
        replay = asked.app.dead_letters.replay_later(
            canary=_flag_text(sent, "canary") not in _NO,
            rate=sent.get("rate", "").strip() or None,
            who=asked.who,
            why=form_text(asked.form, "why"),
            **_filter_arguments(which),
        )
    except (ConfigError, InvalidInputError) as error:
        raise FormError(str(error), _NEW_PAGE, query) from None
    message = (
        f"replay {replay.id} has begun: {replay.total} dead letters"
        if replay.total != 1
        else f"replay {replay.id} has begun: one dead letter"
    )
    return ActionResult(message, f"{_PATH}/{replay.id}", {"number": replay.id, "total": replay.total})


def _flag_text(sent: Mapping[str, str], name: str) -> str:
    return sent.get(name, "").strip().lower()


def _check_names(names: Iterable[str]) -> None:
    """Refuse fields that are not known: what a misspelled one was to leave out would be replayed.

    Raises:
        RefusedError: If there is one.
    """
    unknown = next((name for name in names if name not in _FIELDS), None)
    if unknown is not None:
        message = f"{unknown[:50]!r} is no field of a replay; known are: {', '.join(sorted(_FIELDS))}"
        raise InvalidInputError(message)


def _check_filter(which: DeadLetterFilter, everything: bool) -> None:  # noqa: FBT001  # a private check
    """Refuse a replay of all dead letters that nobody asked for, and one of all that is narrowed.

    Raises:
        RefusedError: If it is one; ``before`` alone does not narrow.
    """
    is_narrowed = which._replace(before=None, limit=None) != DeadLetterFilter()
    if not is_narrowed and not everything:
        message = f"say which dead letters are meant, by one of: {', '.join(DEAD_LETTER_PARAMS)}; or send all=1"
        raise InvalidInputError(message)
    if is_narrowed and everything:
        message = "send all=1, or what narrows, not both"
        raise InvalidInputError(message)


def stop_replay(asked: PageRequest) -> ActionResult:
    """Have a replay queue no more."""
    replay = _find_replay(asked)
    stopped = asked.app.dead_letters.stop_replay(replay.id, who=asked.who, why=form_text(asked.form, "why"))
    said = "was stopped; what it has queued again already runs" if stopped else "had ended already"
    data = {"number": replay.id, "stopped": stopped}
    return ActionResult(f"replay {replay.id} {said}", f"{_PATH}/{replay.id}", data, ok=stopped)


def resume_replay(asked: PageRequest) -> ActionResult:
    """Have a replay go on that was stopped."""
    replay = _find_replay(asked)
    to = f"{_PATH}/{replay.id}"
    try:
        asked.app.dead_letters.resume_replay(replay.id, who=asked.who, why=form_text(asked.form, "why"))
    except ConfigError as error:
        return ActionResult(str(error), to, {"number": replay.id, "resumed": False}, ok=False)
    first = ", one first again" if replay.canary else ""
    return ActionResult(f"replay {replay.id} goes on{first}", to, {"number": replay.id, "resumed": True})


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
