"""Alerts about groups of dead letters: new ones, growing ones, and those that wait too long."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from outlast.failure import Category
from outlast.ports.read_rows import FailureFilter, FailureGroup
from outlast.ports.rows import Attempt
from outlast.ports.source_rows import NewAlert
from outlast.ports.store import Store
from outlast.queue.masking import masked_text

GROUP_ALERT_EVERY = 15.0
"""Seconds between two looks."""
AGE_KEY = "age:dead_letters"
"""Under which it is told that dead letters wait too long."""
_QUIET = timedelta(days=3)  # without a failure or a dead letter: a group is over
_FIRST_STEP, _FACTOR = 10, 10
_PAGE, _MAX_GROUPS = 200, 1000
_MAX_TITLE_ERROR = 160  # characters of an error in a title


class GroupAlerts:
    """Looks at groups and raises alerts; the outbox drops what was told already, so many may do it.

    Snoozed and acknowledged groups are not told of; a group that fails after it was acknowledged is open again.

    Args:
        store: Where groups are.
        age: Seconds after which the oldest dead letter of an open group is told of; None for never.
    """

    def __init__(self, store: Store, age: float | None) -> None:
        """Begin with the groups seen last."""
        self._store, self._age = store, age
        self._after: str | None = None

    def check_groups(self) -> None:
        """Raise what is news; to be called every so often."""
        now = self._store.now()
        untold = self._store.unannounced_groups(_PAGE, quiet=_QUIET.total_seconds())
        fresh = {each.fingerprint: each for each in untold}
        others = self._known_groups(fresh)
        told = self._last_alert_states((*fresh, *others))  # after the groups: who tells meanwhile knows them no older
        news = self._news(fresh, others, told, now)
        if news:
            self._store.raise_alerts(news)

    def _last_alert_states(self, fingerprints: Iterable[str]) -> dict[str, str | None]:
        """Return the state that was told last of each matter, by key."""
        keys = [f"{kind}:{each}" for each in fingerprints for kind in ("group", "growth")]
        return {key: alert.state for key, alert in self._store.last_alerts([*keys, AGE_KEY]).items()}

    def _known_groups(self, fresh: Mapping[str, FailureGroup]) -> dict[str, FailureGroup]:
        """Return groups that may have changed: those with dead letters, those seen lately, the next page of all."""
        page = self._store.failures(FailureFilter(limit=_PAGE))
        found = {each.fingerprint: each for each in page.rows}
        if self._after is None:
            self._after = page.next
        else:
            page = self._store.failures(FailureFilter(after=self._after, limit=_PAGE))
            found.update((each.fingerprint, each) for each in page.rows)
            self._after = page.next
        after: str | None = None
        for _ in range(_MAX_GROUPS // _PAGE):
            page = self._store.failures(FailureFilter(dead=True, after=after, limit=_PAGE))
            found.update((each.fingerprint, each) for each in page.rows)
            after = page.next
            if after is None:
                break
        return {name: group for name, group in found.items() if name not in fresh}

    def _news(
        self,
        fresh: Mapping[str, FailureGroup],
        others: Mapping[str, FailureGroup],
        told: Mapping[str, str | None],
        now: datetime,
    ) -> list[NewAlert]:
        """Return what is not as it was told last."""
        alerts = self._age_alerts()
        for group in (*fresh.values(), *others.values()):
            found = _growth_alerts(group, told.get(f"growth:{group.fingerprint}"))
            is_known = group.fingerprint in fresh or f"group:{group.fingerprint}" in told
            if is_known or group.acknowledged_at is not None:  # else it was there before alerts
                found.append(_group_alert(group, now))
            is_open = group.standing(now) == "open"
            alerts += [alert for alert in found if is_open or alert.state is None]
        return [alert for alert in alerts if told.get(alert.key) != alert.state]

    def _age_alerts(self) -> list[NewAlert]:
        if self._age is None:
            return []
        oldest = self._store.oldest_dead_letter()
        if oldest is None or oldest <= self._age:
            return [NewAlert(AGE_KEY, None, f"no dead letter has waited for more than {_hours_or_seconds(self._age)}")]
        text = "outlast dlq groups lists them by cause; acknowledged and snoozed groups do not count"
        return [
            NewAlert(AGE_KEY, "old", f"dead letters have waited for more than {_hours_or_seconds(self._age)}", text)
        ]


def growth_step(dead: int) -> int | None:
    """Return the largest of 10, 100, 1000, … that a number of dead letters has reached; None below 10."""
    if dead < _FIRST_STEP:
        return None
    step = _FIRST_STEP
    while dead >= step * _FACTOR:
        step *= _FACTOR
    return step


def _has_ended(group: FailureGroup, now: datetime) -> bool:
    return group.dead <= 0 and now - group.last_seen > _QUIET


def _group_alert(group: FailureGroup, now: datetime) -> NewAlert:
    key, about = f"group:{group.fingerprint}", _group_title(group)
    if _has_ended(group, now):
        return NewAlert(key, None, f"{about}: no failure for {_QUIET.days} days, and no dead letters left")
    if group.acknowledged_at is not None:
        return NewAlert(
            key, f"again after {group.acknowledged_at.isoformat()}", f"fails again: {about}", _group_details(group)
        )
    return NewAlert(key, "new", f"new failure: {about}", _group_details(group))


def _growth_alerts(group: FailureGroup, told: str | None) -> list[NewAlert]:
    """Return what is told of a group that grows. A step that was told stands until no dead letter is left."""
    key, about = f"growth:{group.fingerprint}", _group_title(group)
    if group.dead <= 0:
        return [NewAlert(key, None, f"no dead letters left: {about}")]
    step = growth_step(group.dead)
    if step is None or (told is not None and step <= int(told)):
        return []
    return [NewAlert(key, str(step), f"{step} or more dead letters: {about}", _group_details(group))]


def _group_title(group: FailureGroup) -> str:
    message = " ".join(masked_text(group.error_message).split())
    cut = message if len(message) <= _MAX_TITLE_ERROR else f"{message[: _MAX_TITLE_ERROR - 1]}…"
    return f"{group.task_type or 'a program'}: {group.error_type}: {cut}"


def _group_details(group: FailureGroup) -> str:
    counts = f"{group.failures} failures, {group.dead} dead letters, category {group.error_category}"
    return f"{counts}; outlast dlq list --group {group.fingerprint}"


def _hours_or_seconds(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:g} h" if hours >= 1 else f"{seconds:g} s"


LARGEST_GROUPS = 100
"""Groups that are looked at: so many of unknown ones, and so many of all."""
_SAMPLES_PER_GROUP = 3


def sampled_groups(store: Store) -> list[tuple[FailureGroup, list[Attempt]]]:
    """Return the largest groups of failures, unknown ones in any case, with their last attempts; all masked."""
    unknown = store.failures(FailureFilter(category=str(Category.UNKNOWN), largest=True, limit=LARGEST_GROUPS)).rows
    every = store.failures(FailureFilter(largest=True, limit=LARGEST_GROUPS)).rows
    groups = {group.fingerprint: group for group in (*unknown, *every)}
    return [
        (
            group._replace(error_message=masked_text(group.error_message)),
            [_mask_attempt(attempt) for attempt in store.failure_samples(group.fingerprint, _SAMPLES_PER_GROUP)],
        )
        for group in groups.values()
    ]


def _mask_attempt(attempt: Attempt) -> Attempt:
    return attempt._replace(
        error_message=masked_text(attempt.error_message),
        traceback=masked_text(attempt.traceback),
        failure=_mask_failure(attempt.failure),
    )


def _mask_failure(failure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: masked_text(value) if isinstance(value, str) else value for name, value in failure.items()}
