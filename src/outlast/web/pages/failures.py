"""The pages of failures: groups of failures with one cause, one group, and suggested rules."""

from outlast.classify import default_classifier
from outlast.operations import FILTERS, FLAG, Parameter, choice_kind, text_kind
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import Attempt
from outlast.queue.failure_groups import LARGEST_GROUPS, sampled_groups
from outlast.queue.masking import masked_text, masked_texts
from outlast.report.classification import StoredJudgement, Suggestion, stored_judgement, suggestions
from outlast.report.dead_letters import form_time
from outlast.report.flow import series_of, steps_of
from outlast.report.text_format import CATEGORIES
from outlast.web.charts import category_series, sparkline, stacked_chart
from outlast.web.pages.overview import DAY, HALF_HOUR, GroupLine, group_lines
from outlast.web.routing import PageData, PageRequest, PageRoute, require
from outlast.web.task_view import masked_line

_ORDERS = ("latest", "largest")
_STANDINGS = ("open", "acknowledged", "snoozed")
_ROWS = 40
_SAMPLES = 20


def _read_failures(request: PageRequest) -> PageData:
    store, values = request.app.store, {**request.values}
    order, task, dead = (values.pop(name) for name in ("order", "task", "dead"))
    criteria = FailureFilter(**values, task_type=task, dead=bool(dead), largest=order == "largest", limit=_ROWS)
    page, now = store.failures(criteria), store.now()
    names = [group.fingerprint for group in page.rows]
    flows = store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}
    lines = group_lines(page.rows, flows, store.tasks_by_group(names) if names else {}, now)
    params = {each.name: request.query[each.name] for each in _FILTERS if each.name in request.query}
    times = {name: form_time(at) for name in ("since", "until") if (at := values[name])}
    return {
        "groups": lines,
        "next": page.next,
        "looked": page.looked,
        "order": order,
        "since": criteria.since,
        "until": criteria.until,
        "_categories": [(name, name.replace("_", " ")) for name in CATEGORIES],
        "_trends": {line.fingerprint: sparkline(line.trend, "Failures in the last 24 hours") for line in lines},
        "_narrowed": params | times,
        "_timeless": {name: value for name, value in params.items() if name not in times},
        "_standings": _STANDINGS,
    }


def _read_failure(request: PageRequest) -> PageData:
    store, fingerprint = request.app.store, request.values["fingerprint"]
    group = require(store.failure(fingerprint), f"failure group {fingerprint:.100} does not exist")
    now = store.now()
    points = store.failure_flow([fingerprint], window=DAY, step=HALF_HOUR).get(fingerprint, [])
    tasks = store.failure_tasks(fingerprint)
    (line,) = group_lines([group], {fingerprint: points}, {fingerprint: tasks}, now)
    samples = store.failure_samples(fingerprint, _SAMPLES)
    steps = steps_of(now, DAY, HALF_HOUR)
    series = category_series({group.error_category: series_of(points, steps, HALF_HOUR)}, "dead_letters")
    failure = masked_texts(samples[0].failure) if samples else {}
    linked = [each._replace(params={"group": fingerprint}) for each in series]
    return {
        "group": line,
        "verdict": stored_judgement(group.error_category, failure),
        "traceback": masked_text(next((sample.traceback for sample in samples if sample.traceback), "")),
        "message": masked_text(samples[0].error_message) if samples else line.error_message,
        "samples": [_attempt_sample(sample) for sample in samples],
        "tasks": tasks,
        "_trend": stacked_chart("trend", "Failures in the last 24 hours", linked, steps, HALF_HOUR),
        "_other": len({sample.task_id for sample in samples}),
    }


def _attempt_sample(attempt: Attempt) -> PageData:
    names = ("task_id", "attempt", "outcome", "worker_id", "finished_at", "error_message", "delay")
    return {name: getattr(attempt, name) for name in names} | {"error_message": masked_line(attempt.error_message)}


def _read_suggestions(request: PageRequest) -> PageData:
    found = suggestions(sampled_groups(request.app.store), default_classifier().rules)
    return {"suggestions": found, "looked": LARGEST_GROUPS}


_SHARED = {"category", "task", "text", "since", "until"}
_FILTERS = (
    *(each for each in FILTERS if each.name in _SHARED),
    Parameter("dead", FLAG, "Only groups that have dead letters."),
    Parameter("standing", choice_kind(_STANDINGS), "Only groups with this standing."),
    Parameter("order", choice_kind(_ORDERS), "What comes first.", default=_ORDERS[0]),
)
_AFTER = Parameter("after", text_kind(500), "Where the page begins: `next` of the previous page.")
_FINGERPRINT = Parameter("fingerprint", text_kind(200), "The fingerprint of the group.", required=True)
_LIST = {"groups": list[GroupLine], "next": str | None}
_ONE = {"group": GroupLine, "verdict": StoredJudgement, "traceback": str, "tasks": dict[str, int]}
PAGES = (
    PageRoute("failures", "/failures", "failures.html", _read_failures, (*_FILTERS, _AFTER), _LIST),
    PageRoute("failure", "/failures/{fingerprint}", "failure.html", _read_failure, (_FINGERPRINT,), _ONE),
    PageRoute(
        "suggestions", "/suggestions", "suggestions.html", _read_suggestions,
        returns={"suggestions": list[Suggestion], "looked": int},
    ),
)  # fmt: skip
