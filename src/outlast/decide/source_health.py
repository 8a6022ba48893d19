"""The health of a source that is polled for years: what a success or a failure makes of it, and what is an outage.

Pure: the rules and the time come in, the new health goes out. Stores lock the row, the monitor asks.
"""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError
from outlast.failure import Category

_DAY = 86400.0
_MAX_DOUBLINGS = 30


class SourceState(StrEnum):
    """Where a source stands."""

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
"""What counts against a source. The others are the network's, the host's or our own trouble."""


@dataclass(frozen=True)
class SourceRules:
    """When a source is in trouble, and what follows.

    Attributes:
        threshold: Counted failures in a row at which it is told, and disabled where it may be.
        disables: Whether it is disabled then; otherwise its state is ``error`` and it is polled on.
        counted: Categories that count. Others never do.
        stale_after: Seconds without one success, for whatever reason, after which its state is ``error``.
        first_probe: Seconds after which a disabled source is probed; the wait doubles with every probe that fails.
        longest_probe: The longest wait between two probes.
        probation: Successes that a source which was disabled needs, after the probe's, to be healthy; until then one
            counted failure disables it again.
        outage_sources: A cycle that polled fewer is never taken for an outage.
        outage_share: Share of them that has to fail for an outage.
        outage_limit: Seconds after which failures stand all the same, though so many fail.
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
        """Refuse what would fail years later."""
        for name, least in (("threshold", 1), ("probation", 0), ("outage_sources", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                message = f"{name} is {value!r}; give a whole number, {least} or more"
                raise ConfigError(message)
        for name in ("stale_after", "first_probe", "longest_probe", "outage_limit"):
            value = getattr(self, name)
            if type(value) not in {int, float} or not 0 < value < float("inf"):
                message = f"{name} is {value!r}; give a number of seconds above 0"
                raise ConfigError(message)
        share: object = self.outage_share
        if type(share) not in {int, float} or not 0 < self.outage_share <= 1:
            message = f"outage_share is {share!r}; give a number above 0 and up to 1"
            raise ConfigError(message)
        disables: object = self.disables
        if type(disables) is not bool:
            message = f"disables is {disables!r}; give True or False"
            raise ConfigError(message)
        object.__setattr__(self, "counted", frozenset(Category.parse(each) for each in self.counted))

    def replace(self, **changes: Any) -> "SourceRules":
        """Return other rules that differ in some settings."""
        return replace(self, **changes)


class SourceHealth(NamedTuple):
    """What is known of a source's health.

    Attributes:
        consecutive_failures: Counted failures in a row; a success sets it to 0.
        failing_since: Since when there was no success; None after one.
        disabled_at: Since when it is disabled, or last was.
        disabled_by: ``rule`` or ``hand``.
        probes: Probes in a row that failed.
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
    """Return the health after a success; a 304 is one."""
    well = health._replace(consecutive_failures=0, failing_since=None, last_success_at=now)
    cured = well._replace(state=SourceState.HEALTHY, disabled_at=None, disabled_by=None, probes=0, passed=0)
    match health.state:
        case SourceState.DISABLED if rules.probation:
            return well._replace(state=SourceState.PROBATION, disabled_by=None, passed=0)
        case SourceState.PROBATION if health.passed + 1 < rules.probation:
            return well._replace(passed=health.passed + 1)
        case _:
            return cured


def after_failure(health: SourceHealth, category: Category, rules: SourceRules, now: datetime) -> SourceHealth:
    """Return the health after a failure that stands."""
    counts = category in rules.counted
    since = health.failing_since or now
    failures = health.consecutive_failures + counts
    worse = health._replace(consecutive_failures=failures, failing_since=since, last_failure_at=now)
    if health.state is SourceState.DISABLED:
        return worse._replace(probes=health.probes + 1)
    if counts and rules.disables and (failures >= rules.threshold or health.state is SourceState.PROBATION):
        again = health.probes + (health.state is SourceState.PROBATION)
        return worse._replace(state=SourceState.DISABLED, disabled_at=now, disabled_by="rule", probes=again, passed=0)
    if failures >= rules.threshold or now - since >= timedelta(seconds=rules.stale_after):
        return worse._replace(state=SourceState.ERROR)
    if counts and health.state is SourceState.HEALTHY:
        return worse._replace(state=SourceState.WARNING)
    return worse


def probe_delay(health: SourceHealth, rules: SourceRules) -> float:
    """Return the seconds until a disabled source is probed next."""
    return min(rules.first_probe * 2.0 ** min(health.probes, _MAX_DOUBLINGS), rules.longest_probe)


class PollCounts(NamedTuple):
    """What a cycle found, as far as it tells of an outage: sources that were put off are not in it.

    Attributes:
        polled: Sources that answered or failed, without those that were asked to come later.
        failed: Those that failed.
        known: Those of the polled whose failures had stood before.
        known_failed: Those of the known that failed again.
    """

    polled: int
    failed: int
    known: int = 0
    known_failed: int = 0


def is_outage(polls: PollCounts, rules: SourceRules, lasts: float = 0.0) -> bool:
    """Tell whether so many sources failed together that it is not their fault.

    Sources whose failures stood before are no sign of an outage: a book half of which is dead would have one for ever.

    Args:
        polls: What a cycle found.
        rules: The shares.
        lasts: Seconds for which an outage lasts already.
    """
    fresh, fresh_failed = polls.polled - polls.known, polls.failed - polls.known_failed
    return (
        polls.polled >= rules.outage_sources
        and polls.failed >= rules.outage_share * polls.polled
        and fresh_failed > 0
        and fresh_failed >= rules.outage_share * fresh
        and lasts < rules.outage_limit
    )


# Profiles: a policy for one poll and the rules for a source's health, under one name.

_PROFILE_SETTINGS = ("name", "policy", "rules", "fetch")
_RULE_SETTINGS = frozenset(each.name for each in fields(SourceRules))


@dataclass(frozen=True)
class Profile:
    """How sources of one kind are polled and judged.

    Attributes:
        name: Sources are kept under it; each profile has cycles of its own.
        policy: Retries within one poll.
        rules: What becomes of a source that fails poll after poll.
        fetch: What its sources are where nothing else is said: ``feed`` or ``page``.
    """

    name: str
    policy: RetryPolicy
    rules: SourceRules = field(default_factory=SourceRules)
    fetch: str = "feed"

    def __post_init__(self) -> None:
        """Refuse what cannot be fetched."""
        if self.fetch not in {"feed", "page"}:
            message = f"fetch is {self.fetch!r}; choose feed or page"
            raise ConfigError(message)

    def replace(self, **changes: Any) -> "Profile":
        """Return another profile: ``outlast.profile("feed").replace(name="news", threshold=3)``.

        Args:
            changes: ``name``, ``policy``, ``rules``, ``fetch``, or settings of `SourceRules`.

        Raises:
            ConfigError: If a setting does not exist or cannot be used.
        """
        own = {name: changes.pop(name) for name in _PROFILE_SETTINGS if name in changes}
        unknown = changes.keys() - _RULE_SETTINGS
        if unknown:
            choices = ", ".join((*_PROFILE_SETTINGS, *sorted(_RULE_SETTINGS)))
            message = f"{min(unknown)!r} is no setting of a profile; choose from: {choices}"
            raise ConfigError(message)
        return replace(replace(self, **own), rules=own.get("rules", self.rules).replace(**changes))


PROFILES = {
    "blog": Profile("blog", preset("blog"), SourceRules(disables=False), "page"),
    "feed": Profile("feed", preset("feed")),
}
"""`blog`: counts, tells at the fifth failure in a row, never disables. `feed`: disables at the fifth."""


def profile(name: str) -> Profile:
    """Return the profile of that name, to use as it is or with ``replace``.

    Raises:
        ConfigError: If there is none; the message lists the valid names.
    """
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        message = f"{name!r} is no profile; choose one of: {', '.join(PROFILES)}"
        raise ConfigError(message) from None
