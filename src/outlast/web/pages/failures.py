"""The pages of failures: groups of failures with one cause, one group, and suggested rules."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from outlast.classify import default_classifier
from outlast.errors import ConfigError
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import Attempt
from outlast.queue.failure_groups import LARGEST_GROUPS, sampled_groups
from outlast.queue.masking import masked_text
from outlast.report.classification import stored_judgement, suggestions
from outlast.report.dead_letters import form_time
from outlast.report.flow import series_of, steps_of
from outlast.report.text_format import CATEGORIES, span
from outlast.web.charts import category_series, sparkline, stacked_chart
from outlast.web.filters import choice_param, duration_field, form_text, text_param, time_param
from outlast.web.pages.overview import DAY, HALF_HOUR, group_lines
from outlast.web.routing import ActionResult, ActionRoute, InvalidInputError, NotFoundError, PageRequest, PageRoute
from outlast.web.task_view import masked_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.ports.read_rows import FailureGroup
    from outlast.queue.dead_letters import DeadLetterTriage


_ORDERS = ("latest", "largest")
_STANDINGS = ("open", "acknowledged", "snoozed")
_FILTER_PARAMS = ("category", "task", "text", "dead", "standing", "since", "until", "order")
_ROWS = 40
_SAMPLES = 20
_MAX_NOTE_CHARS = 2_000


class AttemptSample(NamedTuple):
    """A failed attempt as the page of its group shows it, masked."""

    task_id: int
    attempt: int
    outcome: str
    worker_id: str | None
    finished_at: datetime
    error_message: str
    delay: float | None


def _read_failures(request: PageRequest) -> Mapping[str, Any]:
    query, store = request.query, request.app.store
    now = store.now()
    order = choice_param(query, "order", _ORDERS) or "latest"
    criteria = FailureFilter(
        category=choice_param(query, "category", CATEGORIES),
        task_type=text_param(query, "task"),
        text=text_param(query, "text"),
        dead=bool(query.get("dead")),
        standing=choice_param(query, "standing", _STANDINGS),
        since=time_param(query, "since", now),
        until=time_param(query, "until", now),
        largest=order == "largest",
        after=query.get("after"),
        limit=_ROWS,
    )
    page = store.failures(criteria)
    names = [group.fingerprint for group in page.rows]
    flows = store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}
    lines = group_lines(page.rows, flows, now)
    params = {name: query[name] for name in _FILTER_PARAMS if name in query}
    limits = (("since", criteria.since), ("until", criteria.until))
    times = {name: form_time(at) for name, at in limits if at is not None}
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


def _read_failure(request: PageRequest) -> Mapping[str, Any]:
    store, fingerprint = request.app.store, request.path["fingerprint"]
    group = store.failure(fingerprint)
    if group is None:
        message = f"failure group {fingerprint:.100} does not exist"
        raise NotFoundError(message)
    now = store.now()
    points = store.failure_flow([fingerprint], window=DAY, step=HALF_HOUR).get(fingerprint, [])
    (line,) = group_lines([group], {fingerprint: points}, now)
    samples = store.failure_samples(fingerprint, _SAMPLES)
    steps = steps_of(now, DAY, HALF_HOUR)
    series = category_series({group.error_category: series_of(points, steps, HALF_HOUR)}, "dead_letters")
    linked = [each._replace(params={"group": fingerprint}) for each in series]
    return {
        "group": line,
        "verdict": stored_judgement(group.error_category, _mask_failure(samples[0].failure) if samples else {}),
        "traceback": masked_text(next((sample.traceback for sample in samples if sample.traceback), "")),
        "message": masked_text(samples[0].error_message) if samples else line.error_message,
        "samples": [_attempt_sample(sample) for sample in samples],
        "_trend": stacked_chart("trend", "Failures in the last 24 hours", linked, steps, HALF_HOUR),
        "_other": _sampled_task_count(samples),
    }


def _mask_failure(failure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: masked_text(value) if isinstance(value, str) else value for name, value in failure.items()}


def _attempt_sample(attempt: Attempt) -> AttemptSample:
    return AttemptSample(
        attempt.task_id,
        attempt.attempt,
        attempt.outcome,
        attempt.worker_id,
        attempt.finished_at,
        masked_line(attempt.error_message),
        attempt.delay,
    )


def _sampled_task_count(samples: list[Attempt]) -> int:
    """Return how many different tasks the samples belong to."""
    return len({sample.task_id for sample in samples})


def acknowledge(request: PageRequest) -> ActionResult:
    """Acknowledge a group: stop alerting about it. It reopens when it fails again."""
    return _update_group(request, lambda triage, group: triage.acknowledge(group, who=request.who), "acknowledged")


def snooze(request: PageRequest) -> ActionResult:
    """Snooze a group: stop alerting about it for a while.

    Raises:
        InvalidInputError: If the form field ``for`` is not a duration.
    """
    text = form_text(request.form, "for") or "24h"
    seconds = duration_field(text, "for")
    return _update_group(
        request, lambda triage, group: triage.snooze(group, seconds, who=request.who), f"snoozed for {span(seconds)}"
    )


def reopen(request: PageRequest) -> ActionResult:
    """Reopen a group: alert about it again."""
    return _update_group(request, lambda triage, group: triage.snooze(group, 0.0, who=request.who), "reopened")


def note(request: PageRequest) -> ActionResult:
    """Save a note on a group; an empty one removes it.

    Raises:
        InvalidInputError: If it is too long.
    """
    text = form_text(request.form, "note", _MAX_NOTE_CHARS)
    message = "the note was saved" if text else "the note was removed"
    return _update_group(request, lambda triage, group: triage.note(group, text, who=request.who), message)


def _update_group(
    request: PageRequest, update: "Callable[[DeadLetterTriage, str], FailureGroup]", done: str
) -> ActionResult:
    fingerprint = request.path["fingerprint"]
    try:
        group = update(request.app.dead_letters, fingerprint)
    except LookupError:
        message = f"failure group {fingerprint:.100} does not exist"
        raise NotFoundError(message) from None
    except ConfigError as error:
        raise InvalidInputError(str(error)) from None
    data = {"group": fingerprint, "standing": group.standing(request.app.store.now())}
    return ActionResult(done, f"/failures/{quote(fingerprint, safe='')}", data)


def _read_suggestions(request: PageRequest) -> Mapping[str, Any]:
    found = suggestions(sampled_groups(request.app.store), default_classifier().rules)
    return {"suggestions": found, "looked": LARGEST_GROUPS}


PAGES: tuple[PageRoute, ...] = (
    PageRoute("failures", "/failures", "failures.html", _read_failures),
    PageRoute("failure", "/failures/{fingerprint}", "failure.html", _read_failure),
    PageRoute("suggestions", "/suggestions", "suggestions.html", _read_suggestions),
)
ACTIONS: tuple[ActionRoute, ...] = (
    ActionRoute("acknowledge_group", "/failures/{fingerprint}/acknowledge", acknowledge),
    ActionRoute("snooze_group", "/failures/{fingerprint}/snooze", snooze),
    ActionRoute("reopen_group", "/failures/{fingerprint}/reopen", reopen),
    ActionRoute("note_group", "/failures/{fingerprint}/note", note),
)
