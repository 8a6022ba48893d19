"""The health of a polled source: its states, the rules that change them, outages, and profiles.

Pure: functions take the rules and the time and return the new health. The store locks the row.
"""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from outlast.decide.backoff import check_count, check_flag, choice
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError
from outlast.failure import Category

_DAY = 86400.0
_MAX_DOUBLINGS = 30


class SourceState(StrEnum):
    """The state of a source."""

    HEALTHY = "healthy"
    WARNING = "warning"
    ERROR = "error"
    DISABLED = "disabled"
    PROBATION = "probation"


COUNTED_CATEGORIES = frozenset(
    {
        Category.ACCESS_DENIED,
        Category.NOT_FOUND,
        Category.INVALID_PARAMETERS,
        Category.AUTHENTICATION,
        Category.DATA,
        Category.UNKNOWN,
    }
)
"""Categories that count against a source. The others are problems of the network, the host or this program."""


@dataclass(frozen=True)
class SourceRules:
    """When a source is unhealthy, and what happens then.

    Attributes:
        threshold: Counted failures in a row after which an alert is sent and the source is disabled, if `disables`.
        disables: Whether it is disabled then; otherwise its state is ``error`` and polling continues.
        counted: Categories that count as failures of the source.
        stale_after: Seconds without a success, for any reason, after which its state is ``error``.
        first_probe: Seconds after which a disabled source is probed; the wait doubles with every failed probe.
        longest_probe: Maximum seconds between two probes.
        probation: Successes that a disabled source needs after a successful probe to be healthy; until then one
            counted failure disables it again.
        outage_sources: A cycle that polled fewer sources never counts as an outage.
        outage_share: Share of the polled sources that must fail for an outage.
        outage_limit: Seconds after which failures count although the outage continues.
    """

    threshold: int = 5
    disables: bool = True
    counted: frozenset[Category] = COUNTED_CATEGORIES
    stale_after: float = 14 * _DAY
    first_probe: float = _DAY
    longest_probe: float = 7 * _DAY
    probation: int = 1
    outage_sources: int = 10
    outage_share: float = 0.5
    outage_limit: float = _DAY

    def __post_init__(self) -> None:
        """Check the rules."""
        for name, minimum in (("threshold", 1), ("probation", 0), ("outage_sources", 1)):
            check_count(name, getattr(self, name), minimum)
        for name in ("stale_after", "first_probe", "longest_probe", "outage_limit"):
            value = getattr(self, name)
            if type(value) not in {int, float} or not 0 < value < float("inf"):
                raise ConfigError(f"{name} is {value!r}; give a number of seconds above 0")
        share: object = self.outage_share
        if type(share) not in {int, float} or not 0 < self.outage_share <= 1:
            raise ConfigError(f"outage_share is {share!r}; give a number above 0 and up to 1")
        check_flag("disables", self.disables)
        object.__setattr__(self, "counted", frozenset(Category.parse(each) for each in self.counted))

    def replace(self, **changes: Any) -> "SourceRules":
        """Return a copy with some settings changed."""
        return replace(self, **changes)


class SourceHealth(NamedTuple):
    """The health of a source.

    Attributes:
        consecutive_failures: Counted failures in a row; a success sets it to 0.
        failing_since: Time of the first failure after the last success; None after a success.
        disabled_at: When it was last disabled.
        disabled_by: ``rule`` or ``hand``.
        probes: Failed probes in a row.
        passed: Successes during probation.
    """

    state: SourceState = SourceState.HEALTHY
    consecutive_failures: int = 0
    failing_since: datetime | None = None
    disabled_at: datetime | None = None
    disabled_by: str | None = None
    probes: int = 0
    passed: int = 0
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None


def after_success(health: SourceHealth, rules: SourceRules, now: datetime) -> SourceHealth:
    """Return the health after a success; a 304 counts as one."""
    healthy = health._replace(consecutive_failures=0, failing_since=None, last_success_at=now)
    recovered = healthy._replace(state=SourceState.HEALTHY, disabled_at=None, disabled_by=None, probes=0, passed=0)
    match health.state:
        case SourceState.DISABLED if rules.probation:
            return healthy._replace(state=SourceState.PROBATION, disabled_by=None, passed=0)
        case SourceState.PROBATION if health.passed + 1 < rules.probation:
            return healthy._replace(passed=health.passed + 1)
        case _:
            return recovered


def after_failure(health: SourceHealth, category: Category, rules: SourceRules, now: datetime) -> SourceHealth:
    """Return the health after a failure that is not part of an outage."""
    counts = category in rules.counted
    since = health.failing_since or now
    failures = health.consecutive_failures + counts
    worse = health._replace(consecutive_failures=failures, failing_since=since, last_failure_at=now)
    if health.state is SourceState.DISABLED:
        return worse._replace(probes=health.probes + 1)
    if counts and rules.disables and (failures >= rules.threshold or health.state is SourceState.PROBATION):
        probes = health.probes + (health.state is SourceState.PROBATION)
        return worse._replace(state=SourceState.DISABLED, disabled_at=now, disabled_by="rule", probes=probes, passed=0)
    if failures >= rules.threshold or now - since >= timedelta(seconds=rules.stale_after):
        return worse._replace(state=SourceState.ERROR)
    if counts and health.state is SourceState.HEALTHY:
        return worse._replace(state=SourceState.WARNING)
    return worse


def probe_delay(health: SourceHealth, rules: SourceRules) -> float:
    """Return the seconds until the next probe of a disabled source."""
    return min(rules.first_probe * 2.0 ** min(health.probes, _MAX_DOUBLINGS), rules.longest_probe)


class PollCounts(NamedTuple):
    """The counts of a cycle that decide whether there is an outage; deferred sources are not included.

    Attributes:
        polled: Sources that answered or failed, without those that were deferred.
        failed: Polled sources that failed.
        known: Polled sources that were failing before.
        known_failed: Sources that were failing before and failed again.
    """

    polled: int
    failed: int
    known: int = 0
    known_failed: int = 0


def is_outage(polls: PollCounts, rules: SourceRules, lasts: float = 0.0) -> bool:
    """Return whether so many sources failed together that the cause is not the sources.

    Sources that were failing before are not a sign of an outage: otherwise a list with half of its sources dead would
    have a permanent outage.

    Args:
        polls: The counts of a cycle.
        rules: The shares and limits.
        lasts: Seconds since the outage started.
    """
    new, new_failed = polls.polled - polls.known, polls.failed - polls.known_failed
    return (
        polls.polled >= rules.outage_sources
        and polls.failed >= rules.outage_share * polls.polled
        and new_failed > 0
        and new_failed >= rules.outage_share * new
        and lasts < rules.outage_limit
    )


_PROFILE_SETTINGS = ("name", "policy", "rules", "fetch")
_RULE_SETTINGS = frozenset(each.name for each in fields(SourceRules))


@dataclass(frozen=True)
class Profile:
    """How sources of one kind are polled: a retry policy for each poll, and the rules for their health.

    Attributes:
        name: Name under which its sources are stored; each profile has its own cycles.
        policy: Retries within one poll.
        rules: What happens to a source that fails poll after poll.
        fetch: The default fetcher: ``feed`` or ``page``.
    """

    name: str
    policy: RetryPolicy
    rules: SourceRules = field(default_factory=SourceRules)
    fetch: str = "feed"

    def __post_init__(self) -> None:
        """Check `fetch`."""
        if self.fetch not in {"feed", "page"}:
            raise ConfigError(f"fetch is {self.fetch!r}; choose feed or page")

    def replace(self, **changes: Any) -> "Profile":
        """Return a copy with some settings changed: ``outlast.profile("feed").replace(name="news", threshold=3)``.

        Args:
            changes: ``name``, ``policy``, ``rules``, ``fetch``, or settings of `SourceRules`.

        Raises:
            ConfigError: If a setting does not exist or is not valid.
        """
        own = {name: changes.pop(name) for name in _PROFILE_SETTINGS if name in changes}
        unknown = changes.keys() - _RULE_SETTINGS
        if unknown:
            choices = ", ".join((*_PROFILE_SETTINGS, *sorted(_RULE_SETTINGS)))
            raise ConfigError(f"{min(unknown)!r} is not a setting of a profile; choose from: {choices}")
        return replace(replace(self, **own), rules=own.get("rules", self.rules).replace(**changes))


PROFILES = {
    "blog": Profile("blog", preset("blog"), SourceRules(disables=False), "page"),
    "feed": Profile("feed", preset("feed")),
}
"""`blog`: alerts at the fifth failure in a row, never disables. `feed`: disables at the fifth."""


def profile(name: str) -> Profile:
    """Return the profile with this name.

    Raises:
        ConfigError: If it does not exist; the message lists the valid names.
    """
    return choice("profile", PROFILES, name)
