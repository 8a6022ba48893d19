"""Failures: groups of one cause, and why one of them fails."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.ports.read_rows import FailureFilter
from holdfast.ports.rows import Attempt
from holdfast.queue.masking import masked_text
from holdfast.report.flow import series_of, steps_of
from holdfast.report.verdict import verdict_of
from holdfast.report.words import CATEGORIES
from holdfast.web.board import DAY, HALF_HOUR, group_lines
from holdfast.web.charts import category_series, spark, stacked
from holdfast.web.narrowing import choice_of, text_of
from holdfast.web.routing import Action, Asked, NotThereError, Page

__all__ = ["ACTIONS", "PAGES"]

_ORDERS = ("latest", "largest")
_SHOWN = 40
_SAMPLES = 20


class Sample(NamedTuple):
    """A failed attempt as the page of its group shows it; its texts are masked."""

    task_id: int
    attempt: int
    outcome: str
    worker_id: str | None
    finished_at: datetime
    error_message: str
    delay: float | None


def _failures(asked: Asked) -> Mapping[str, Any]:
    query, store = asked.query, asked.app.store
    order = choice_of(query, "order", _ORDERS) or "latest"
    which = FailureFilter(
        category=choice_of(query, "category", CATEGORIES),
        task_type=text_of(query, "task"),
        text=text_of(query, "text"),
        dead=bool(query.get("dead")),
        largest=order == "largest",
        after=query.get("after"),
        limit=_SHOWN,
    )
    page = store.failures(which)
    names = [group.fingerprint for group in page.rows]
    flows = store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}
    lines = group_lines(page.rows, flows, store.now())
    return {
        "groups": lines,
        "next": page.next,
        "looked": page.looked,
        "order": order,
        "_categories": [(name, name.replace("_", " ")) for name in CATEGORIES],
        "_trends": {line.fingerprint: spark(line.trend, "Failures in the last 24 hours") for line in lines},
        "_narrowed": {name: query[name] for name in ("category", "task", "text", "dead", "order") if name in query},
    }


def _failure(asked: Asked) -> Mapping[str, Any]:
    store, fingerprint = asked.app.store, asked.path["fingerprint"]
    group = store.failure(fingerprint)
    if group is None:
        message = "there is no such group of failures"
        raise NotThereError(message)
    now = store.now()
    points = store.failure_flow([fingerprint], window=DAY, step=HALF_HOUR).get(fingerprint, [])
    (line,) = group_lines([group], {fingerprint: points}, now)
    samples = store.failure_samples(fingerprint, _SAMPLES)
    steps = steps_of(now, DAY, HALF_HOUR)
    series = category_series({group.error_category: series_of(points, steps, HALF_HOUR)}, "dead_letters")
    linked = [each._replace(params={"group": fingerprint}) for each in series]
    return {
        "group": line,
        "verdict": verdict_of(group.error_category, _masked(samples[0].failure) if samples else {}),
        "traceback": masked_text(next((sample.traceback for sample in samples if sample.traceback), "")),
        "message": masked_text(samples[0].error_message) if samples else line.error_message,
        "samples": [_sample(sample) for sample in samples],
        "_trend": stacked("trend", "Failures in the last 24 hours", linked, steps, HALF_HOUR),
        "_other": _other(samples),
    }


def _masked(failure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: masked_text(value) if isinstance(value, str) else value for name, value in failure.items()}


def _sample(attempt: Attempt) -> Sample:
    return Sample(
        attempt.task_id,
        attempt.attempt,
        attempt.outcome,
        attempt.worker_id,
        attempt.finished_at,
        masked_text(attempt.error_message),
        attempt.delay,
    )


def _other(samples: list[Attempt]) -> int:
    """Return how many tasks the samples are of."""
    return len({sample.task_id for sample in samples})


PAGES: tuple[Page, ...] = (
    Page("failures", "/failures", "failures.html", _failures),
    Page("failure", "/failures/{fingerprint}", "failure.html", _failure),
)
ACTIONS: tuple[Action, ...] = ()
