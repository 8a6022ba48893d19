"""Alerts about groups of dead letters: new ones, growing ones, and those that wait too long."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from outlast.failure import Category
from outlast.ports.read_rows import FailureFilter, FailureGroup
from outlast.ports.rows import Attempt
from outlast.ports.source_rows import NewAlert
from outlast.ports.store import Store
from outlast.queue.masking import masked_row, masked_text

GROUP_ALERT_EVERY = 15.0
"""Seconds between two rounds."""
AGE_KEY = "age:dead_letters"
"""Key of the alert about dead letters that wait too long."""
_QUIET = timedelta(days=3)  # a group without failures and dead letters for that long is over
_FIRST_STEP = 10
_PAGE, _MAX_GROUPS = 200, 1000
_MAX_TITLE_ERROR = 160  # characters of an error in a title


class GroupAlerts:
    """Raises alerts about groups. Several workers may do so: the outbox drops alerts that were raised already.

    Snoozed and acknowledged groups raise no alerts; a new failure reopens an acknowledged group.

    Args:
        store: The store with the groups.
        age: Seconds after which the oldest dead letter of an open group raises an alert; None for never.
    """

    def __init__(self, store: Store, age: float | None) -> None:
        self._store, self._age = store, age
        self._after: str | None = None

    def check_groups(self) -> None:
        """Raise the alerts that are new. Call it again and again."""
        now = self._store.now()
        unannounced = self._store.unannounced_groups(_PAGE, quiet=_QUIET.total_seconds())
        fresh = {each.fingerprint: each for each in unannounced}
        others = self._known_groups(fresh)
        keys = [f"{kind}:{each}" for each in (*fresh, *others) for kind in ("group", "growth")]
        last_alerts = self._store.last_alerts([*keys, AGE_KEY])  # read after the groups, so that it is not older
        announced = {key: alert.state for key, alert in last_alerts.items()}
        alerts = self._age_alerts()
        for group in (*fresh.values(), *others.values()):
            found = _growth_alerts(group, announced.get(f"growth:{group.fingerprint}"))
            is_known = group.fingerprint in fresh or f"group:{group.fingerprint}" in announced
            if is_known or group.acknowledged_at is not None:  # else the group is older than alerts
                found.append(_group_alert(group, now))
            is_open = group.standing(now) == "open"
            alerts += [alert for alert in found if is_open or alert.state is None]
        changed = [alert for alert in alerts if announced.get(alert.key) != alert.state]
        if changed:
            self._store.raise_alerts(changed)

    def _known_groups(self, fresh: Mapping[str, FailureGroup]) -> dict[str, FailureGroup]:
        """Return groups that may have changed: those with dead letters, the latest, and the next page of all."""
        pages = [self._store.failures(FailureFilter(limit=_PAGE))]
        if self._after is not None:
            pages.append(self._store.failures(FailureFilter(after=self._after, limit=_PAGE)))
        self._after, after = pages[-1].next, None
        for _ in range(_MAX_GROUPS // _PAGE):
            pages.append(self._store.failures(FailureFilter(dead=True, after=after, limit=_PAGE)))
            after = pages[-1].next
            if after is None:
                break
        found = {group.fingerprint: group for page in pages for group in page.rows}
        return {name: group for name, group in found.items() if name not in fresh}

    def _age_alerts(self) -> list[NewAlert]:
        if self._age is None:
            return []
        oldest, age = self._store.oldest_dead_letter(), _hours_or_seconds(self._age)
        if oldest is None or oldest <= self._age:
            return [NewAlert(AGE_KEY, None, f"no dead letter has waited for more than {age}")]
        text = "outlast dlq groups lists them by cause; acknowledged and snoozed groups do not count"
        return [NewAlert(AGE_KEY, "old", f"dead letters have waited for more than {age}", text)]


def growth_step(dead: int) -> int | None:
    """Return the largest of 10, 100, 1000, … that a number of dead letters has reached; None below 10."""
    return None if dead < _FIRST_STEP else 10 ** (len(str(dead)) - 1)


def _group_alert(group: FailureGroup, now: datetime) -> NewAlert:
    key, about = f"group:{group.fingerprint}", _group_title(group)
    if group.dead <= 0 and now - group.last_seen > _QUIET:
        return NewAlert(key, None, f"{about}: no failure for {_QUIET.days} days, and no dead letters left")
    if group.acknowledged_at is not None:
        return NewAlert(
            key, f"again after {group.acknowledged_at.isoformat()}", f"fails again: {about}", _group_details(group)
        )
    return NewAlert(key, "new", f"new failure: {about}", _group_details(group))


def _growth_alerts(group: FailureGroup, announced: str | None) -> list[NewAlert]:
    """Return the alerts about a growing group. A step stays announced until no dead letter is left."""
    key, about = f"growth:{group.fingerprint}", _group_title(group)
    if group.dead <= 0:
        return [NewAlert(key, None, f"no dead letters left: {about}")]
    step = growth_step(group.dead)
    if step is None or (announced is not None and step <= int(announced)):
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
"""Maximum number of groups of category unknown, and of all groups."""
_SAMPLES_PER_GROUP = 3


def sampled_groups(store: Store) -> list[tuple[FailureGroup, list[Attempt]]]:
    """Return the largest groups, and the largest of category unknown, with their last attempts; all masked."""
    unknown = store.failures(FailureFilter(category=str(Category.UNKNOWN), largest=True, limit=LARGEST_GROUPS)).rows
    every = store.failures(FailureFilter(largest=True, limit=LARGEST_GROUPS)).rows
    groups = {group.fingerprint: group for group in (*unknown, *every)}
    return [
        (masked_row(group), [masked_row(each) for each in store.failure_samples(fingerprint, _SAMPLES_PER_GROUP)])
        for fingerprint, group in groups.items()
    ]
