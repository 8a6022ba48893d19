"""Failures: groups of one cause, and why one of them fails."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from outlast.errors import ConfigError
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import Attempt
from outlast.queue.masking import masked_text
from outlast.report.flow import series_of, steps_of
from outlast.report.replays import form_time
from outlast.report.verdict import verdict_of
from outlast.report.words import CATEGORIES, span
from outlast.web.charts import category_series, spark, stacked
from outlast.web.live.board import DAY, HALF_HOUR, group_lines
from outlast.web.narrowing import choice_of, length_of, line_of, moment_of, text_of
from outlast.web.routing import Action, Asked, Done, NotThereError, Page, RefusedError
from outlast.web.task_view import masked_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.ports.read_rows import FailureGroup
    from outlast.queue.triage import Triage

__all__ = ["ACTIONS", "PAGES"]

_ORDERS = ("latest", "largest")
_STANDINGS = ("open", "acknowledged", "snoozed")
_NAMES = ("category", "task", "text", "dead", "standing", "since", "until", "order")
_SHOWN = 40
_SAMPLES = 20
_LONGEST_NOTE = 2_000  # characters


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
    now = store.now()
    order = choice_of(query, "order", _ORDERS) or "latest"
    which = FailureFilter(
        category=choice_of(query, "category", CATEGORIES),
        task_type=text_of(query, "task"),
        text=text_of(query, "text"),
        dead=bool(query.get("dead")),
        standing=choice_of(query, "standing", _STANDINGS),
        since=moment_of(query, "since", now),
        until=moment_of(query, "until", now),
        largest=order == "largest",
        after=query.get("after"),
        limit=_SHOWN,
    )
    page = store.failures(which)
    names = [group.fingerprint for group in page.rows]
    flows = store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}
    lines = group_lines(page.rows, flows, now)
    narrowed = {name: query[name] for name in _NAMES if name in query}
    times = {name: form_time(at) for name, at in (("since", which.since), ("until", which.until)) if at is not None}
    return {
        "groups": lines,
        "next": page.next,
        "looked": page.looked,
        "order": order,
        "since": which.since,
        "until": which.until,
        "_categories": [(name, name.replace("_", " ")) for name in CATEGORIES],
        "_trends": {line.fingerprint: spark(line.trend, "Failures in the last 24 hours") for line in lines},
        "_narrowed": narrowed | times,
        "_timeless": {name: value for name, value in narrowed.items() if name not in times},
        "_standings": _STANDINGS,
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
        masked_line(attempt.error_message),
        attempt.delay,
    )


def _other(samples: list[Attempt]) -> int:
    """Return how many tasks the samples are of."""
    return len({sample.task_id for sample in samples})


def acknowledge(asked: Asked) -> Done:
    """Say that somebody sees to a group; it is open again by itself once it fails after that."""
    return _marked(asked, lambda box, group: box.acknowledge(group, who=asked.who), "somebody sees to it now")


def snooze(asked: Asked) -> Done:
    """Have a group not told of for a while.

    Raises:
        RefusedError: If that is not a duration.
    """
    text = line_of(asked.form, "for") or "24h"
    seconds = length_of(text, "for")
    return _marked(asked, lambda box, group: box.snooze(group, seconds, who=asked.who), f"snoozed for {span(seconds)}")


def reopen(asked: Asked) -> Done:
    """Have a group told of again."""
    return _marked(asked, lambda box, group: box.snooze(group, 0.0, who=asked.who), "it is open again")


def note(asked: Asked) -> Done:
    """Write a note to a group; an empty one removes it.

    Raises:
        RefusedError: If it is too long.
    """
    text = line_of(asked.form, "note", _LONGEST_NOTE)
    said = "the note was kept" if text else "the note was removed"
    return _marked(asked, lambda box, group: box.note(group, text, who=asked.who), said)


def _marked(asked: Asked, mark: "Callable[[Triage, str], FailureGroup]", said: str) -> Done:
    fingerprint = asked.path["fingerprint"]
    try:
        group = mark(asked.app.dead_letters, fingerprint)
    except LookupError:
        message = "there is no such group of failures"
        raise NotThereError(message) from None
    except ConfigError as error:
        raise RefusedError(str(error)) from None
    data = {"group": fingerprint, "standing": group.standing(asked.app.store.now())}
    return Done(said, f"/failures/{quote(fingerprint, safe='')}", data)


PAGES: tuple[Page, ...] = (
    Page("failures", "/failures", "failures.html", _failures),
    Page("failure", "/failures/{fingerprint}", "failure.html", _failure),
)
ACTIONS: tuple[Action, ...] = (
    Action("acknowledge_group", "/failures/{fingerprint}/acknowledge", acknowledge),
    Action("snooze_group", "/failures/{fingerprint}/snooze", snooze),
    Action("reopen_group", "/failures/{fingerprint}/reopen", reopen),
    Action("note_group", "/failures/{fingerprint}/note", note),
)
