"""Failures: groups of one cause, and why one of them fails."""

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
_LONGEST_NOTE = 2_000  # characters


class AttemptSample(NamedTuple):
    """A failed attempt as the page of its group shows it; its texts are masked."""

    task_id: int
    attempt: int
    outcome: str
    worker_id: str | None
    finished_at: datetime
    error_message: str
    delay: float | None


def _read_failures(asked: PageRequest) -> Mapping[str, Any]:
    query, store = asked.query, asked.app.store
    now = store.now()
    order = choice_param(query, "order", _ORDERS) or "latest"
    which = FailureFilter(
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
    page = store.failures(which)
    names = [group.fingerprint for group in page.rows]
    flows = store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}
    lines = group_lines(page.rows, flows, now)
    narrowed = {name: query[name] for name in _FILTER_PARAMS if name in query}
    times = {name: form_time(at) for name, at in (("since", which.since), ("until", which.until)) if at is not None}
    return {
        "groups": lines,
        "next": page.next,
        "looked": page.looked,
        "order": order,
        "since": which.since,
        "until": which.until,
        "_categories": [(name, name.replace("_", " ")) for name in CATEGORIES],
        "_trends": {line.fingerprint: sparkline(line.trend, "Failures in the last 24 hours") for line in lines},
        "_narrowed": narrowed | times,
        "_timeless": {name: value for name, value in narrowed.items() if name not in times},
        "_standings": _STANDINGS,
    }


def _read_failure(asked: PageRequest) -> Mapping[str, Any]:
    store, fingerprint = asked.app.store, asked.path["fingerprint"]
    group = store.failure(fingerprint)
    if group is None:
        message = "there is no such group of failures"
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
    """Return how many tasks the samples are of."""
    return len({sample.task_id for sample in samples})


def acknowledge(asked: PageRequest) -> ActionResult:
    """Say that somebody sees to a group; it is open again by itself once it fails after that."""
    return _update_group(asked, lambda box, group: box.acknowledge(group, who=asked.who), "somebody sees to it now")


def snooze(asked: PageRequest) -> ActionResult:
    """Have a group not told of for a while.

    Raises:
        RefusedError: If that is not a duration.
    """
    text = form_text(asked.form, "for") or "24h"
    seconds = duration_field(text, "for")
    return _update_group(
        asked, lambda box, group: box.snooze(group, seconds, who=asked.who), f"snoozed for {span(seconds)}"
    )


def reopen(asked: PageRequest) -> ActionResult:
    """Have a group told of again."""
    return _update_group(asked, lambda box, group: box.snooze(group, 0.0, who=asked.who), "it is open again")


def note(asked: PageRequest) -> ActionResult:
    """Write a note to a group; an empty one removes it.

    Raises:
        RefusedError: If it is too long.
    """
    text = form_text(asked.form, "note", _LONGEST_NOTE)
    said = "the note was kept" if text else "the note was removed"
    return _update_group(asked, lambda box, group: box.note(group, text, who=asked.who), said)


def _update_group(
    asked: PageRequest, mark: "Callable[[DeadLetterTriage, str], FailureGroup]", said: str
) -> ActionResult:
    fingerprint = asked.path["fingerprint"]
    try:
        group = mark(asked.app.dead_letters, fingerprint)
    except LookupError:
        message = "there is no such group of failures"
        raise NotFoundError(message) from None
    except ConfigError as error:
        raise InvalidInputError(str(error)) from None
    data = {"group": fingerprint, "standing": group.standing(asked.app.store.now())}
    return ActionResult(said, f"/failures/{quote(fingerprint, safe='')}", data)


PAGES: tuple[PageRoute, ...] = (
    PageRoute("failures", "/failures", "failures.html", _read_failures),
    PageRoute("failure", "/failures/{fingerprint}", "failure.html", _read_failure),
)
ACTIONS: tuple[ActionRoute, ...] = (
    ActionRoute("acknowledge_group", "/failures/{fingerprint}/acknowledge", acknowledge),
    ActionRoute("snooze_group", "/failures/{fingerprint}/snooze", snooze),
    ActionRoute("reopen_group", "/failures/{fingerprint}/reopen", reopen),
    ActionRoute("note_group", "/failures/{fingerprint}/note", note),
)


# Suggestions: rules that would judge what nobody knows, to be copied into outlast.toml. Nothing is written.


def _read_suggestions(asked: PageRequest) -> Mapping[str, Any]:
    found = suggestions(sampled_groups(asked.app.store), default_classifier().rules)
    return {"suggestions": found, "looked": LARGEST_GROUPS}


SUGGESTION_PAGES: tuple[PageRoute, ...] = (
    PageRoute("suggestions", "/suggestions", "suggestions.html", _read_suggestions),
)
SUGGESTION_ACTIONS: tuple[ActionRoute, ...] = ()
