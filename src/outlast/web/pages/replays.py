"""The pages of replays: the list, one replay, and the preview that starts one."""

import re
from collections.abc import Sequence

from outlast.operations import FILTERS, ROW, Parameter, filter_arguments
from outlast.ports.rows import DeadLetterFilter, Group
from outlast.ports.store import Store
from outlast.ports.triage import Replay
from outlast.queue.dead_letters import dead_letter_filter, masked_replay
from outlast.queue.masking import masked_row
from outlast.report.dead_letters import Facet, ReplayLine, filter_params, filter_text, replay_line
from outlast.report.text_format import group_title
from outlast.web.routing import BEFORE, FormPage, PageData, PageRequest, PageRoute, require

MAX_LISTED = 50
"""How many replays, the newest, are listed and updated live."""
_PATH = "/replays"
_NEW_PAGE = "new_replay"
_GROUPS = 20
_REPLAY_VIEW = re.compile(r"replay-([1-9]\d{0,18})", re.ASCII)


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
    lines = {f"replay-{each.id}": replay_line(masked_replay(each)) for each in replays}
    if view == "replays":
        return "replays_live.html", {"replays": list(lines.values()), "workers": workers}
    return ("replay_live.html", {"replay": lines[view], "workers": workers}) if view in lines else None


def _alive_workers(store: Store) -> int:
    return sum(1 for worker in store.workers() if worker.alive)


def read_replays(request: PageRequest) -> PageData:
    """Return the newest replays."""
    store = request.app.store
    return {
        "replays": [replay_line(masked_replay(each)) for each in store.replay_runs(limit=MAX_LISTED)],
        "workers": _alive_workers(store),
    }


def read_replay(request: PageRequest) -> PageData:
    """Return one replay.

    Raises:
        LookupError: If there is no replay with that number.
    """
    store, replay_id = request.app.store, request.values["replay_id"]
    replay = require(store.replay_run(replay_id), f"replay {replay_id} does not exist")
    return {
        "replay": replay_line(masked_replay(replay)),
        "workers": _alive_workers(store),
        "cause": _cause(store, replay.filters),
        "bad_task": store.canaries(replay.id).dead,
    }


def _cause(store: Store, criteria: DeadLetterFilter) -> str:
    """Return the title of the group of failures that a filter names; empty if it names none."""
    group = store.failure(criteria.fingerprint) if criteria.fingerprint else None
    if group is None:
        return ""
    tasks = [criteria.task_type] if criteria.task_type else list(store.failure_tasks(group.fingerprint))
    return group_title(group.error_type, tasks or [group.task_type])


def read_new(request: PageRequest) -> PageData:
    """Return a preview of what a replay would queue again."""
    store = request.app.store
    criteria = dead_letter_filter(filter_arguments(request.values), before=request.values["before"])
    newest = store.dead_letter_lines(criteria._replace(limit=1)).rows
    before = criteria.before or (newest[0].id + 1 if newest else None)
    found = request.app.dead_letters.dry_run(**filter_arguments(request.values), before=before) if before else None
    groups = store.groups(criteria._replace(before=before, limit=_GROUPS)) if found else []
    by_group = store.tasks_by_group([each.fingerprint for each in groups]) if groups else {}
    names = {each.fingerprint: [criteria.task_type or each.task_type] for each in groups}
    if criteria.task_type is None:
        names |= {fingerprint: list(tasks) for fingerprint, tasks in by_group.items() if tasks}
    return {
        "total": found.total if found else 0,
        "groups": [masked_row(each) for each in groups],
        "more_groups": max(len(found.groups) - len(groups), 0) if found else 0,
        "tasks": [Facet(*each) for each in found.tasks.items()] if found else [],
        "categories": [Facet(*each) for each in found.categories.items()] if found else [],
        "given": filter_params(criteria),
        "before": before,
        "what": filter_text(filter_params(criteria)),
        "cause": _cause(store, criteria),
        "workers": _alive_workers(store),
        "_titles": [group_title(each.error_type, names[each.fingerprint]) for each in groups],
    }


_ID = Parameter("replay_id", ROW, "The id of the replay.", required=True)
_LIST = {"replays": list[ReplayLine], "workers": int}
_ONE = {"replay": ReplayLine, "workers": int, "cause": str, "bad_task": int | None}
_NEW = {"total": int, "groups": list[Group], "tasks": list[Facet], "categories": list[Facet]}
PAGES = (
    PageRoute("replays", _PATH, "replays.html", read_replays, returns=_LIST),
    PageRoute(_NEW_PAGE, f"{_PATH}/new", "new_replay.html", read_new, (*FILTERS, BEFORE), _NEW),
    PageRoute("replay", f"{_PATH}/{{replay_id}}", "replay.html", read_replay, (_ID,), _ONE),
)
FORMS = {"start_replay": FormPage(_NEW_PAGE)}
