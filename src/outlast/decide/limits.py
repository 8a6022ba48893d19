"""Rate and concurrency limits of a resource across all workers of a store. Pure: the store keeps and locks the state.

Starts and retries follow the generic cell rate algorithm (GCRA): one number per resource, the theoretical arrival time
(TAT) at which everything admitted so far fits the rate. A refused task gets a place behind those already waiting, so
that it asks again once, at about the time when there is room.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from outlast.decide.backoff import short_repr
from outlast.errors import ConfigError
from outlast.units import RATE_FORMAT, parse_rate

PLACE_SPACING = 1.05
"""Factor by which places are further apart than the rate needs, so that a task finds room even if others were late."""
SLOT_HORIZON = 300.0
"""Maximum seconds that a task waits for a slot before it asks again; the duration of tasks is only an estimate."""
FARTHEST_PLACE = 365 * 86400.0
"""Seconds to the last possible place, so that no date overflows."""
FIRST_MEAN = 0.1
"""Assumed duration of a task in seconds, before one has finished."""
_SHORTEST_STEP = 0.001  # seconds between two places
_TIME_TOLERANCE = 1e-5  # seconds; smaller differences count as now, since a float timestamp is not more precise
_CLOCK_TOLERANCE = 5.0  # seconds by which the clock may go back before stored times are discarded


class ResourceLimit(NamedTuple):
    """The limits of a resource. None means no limit.

    Attributes:
        resource: Name of the resource; by convention the host.
        rate: Task starts per second.
        burst: Starts allowed at once.
        concurrency: Tasks that may run at once.
        retries: Starts per second of tasks that have failed before.
        retry_burst: Retries allowed at once.
    """

    resource: str
    rate: float | None = None
    burst: int = 1
    concurrency: int | None = None
    retries: float | None = None
    retry_burst: int = 1


_MAX_FOUND = 20_000  # resources whose limit is remembered


class ResourceLimits(dict[str, ResourceLimit]):
    """The limits of an app, by name or pattern. In a pattern, ``*`` stands for any characters, or none."""

    def __init__(self) -> None:
        self._found: dict[str | None, ResourceLimit | None] = {None: None}
        self._patterns: list[tuple[re.Pattern[str], ResourceLimit]] = []
        self._known = 0

    def find(self, resource: str | None) -> ResourceLimit | None:
        """Return the limit of a resource; None if it has none.

        Its own limit comes first, then that of the longest pattern that matches; of equally long ones, the first that
        was added. Each resource that a pattern matches has the limit for itself.
        """
        if len(self) != self._known or len(self._found) > _MAX_FOUND:
            self._found, self._known = {None: None}, len(self)
            longest_first = sorted((name for name in self if "*" in name), key=len, reverse=True)
            self._patterns = [(_pattern(name), self[name]) for name in longest_first]
        try:
            return self._found[resource]
        except KeyError:
            found = self._found[resource] = self._search(str(resource))
            return found

    def _search(self, resource: str) -> ResourceLimit | None:
        if resource in self and "*" not in resource:
            return self[resource]
        limit = next((limit for pattern, limit in self._patterns if pattern.fullmatch(resource)), None)
        return None if limit is None else limit._replace(resource=resource)


def _pattern(name: str) -> re.Pattern[str]:
    """Return the regular expression of a name with stars; atomic groups, so that no text takes long to match."""
    first, *middle, last = map(re.escape, name.split("*"))
    return re.compile("".join([first, *(f"(?>.*?{part})" for part in middle), ".*", last]), re.DOTALL)


class LimitState(NamedTuple):
    """The stored state of a limit. Times are seconds since the epoch, by the store's clock.

    Attributes:
        tat: Theoretical arrival time: when all starts so far fit the rate.
        spread: The next place for a task that was too early for the rate.
        spread_rate: The rate with which those places were assigned.
        slot_spread: The next place for a task that found no free slot.
        retry_tat: Theoretical arrival time of retries.
        retry_spread: The next place for a task that has just failed.
        retry_again: The next place for a retry that was too early.
        retry_rate: The rate with which places of retries were assigned.
        mean: Mean duration of a task in seconds.
        asked_at: When a worker last asked.
    """

    tat: float = 0.0
    spread: float = 0.0
    spread_rate: float | None = None
    slot_spread: float = 0.0
    retry_tat: float = 0.0
    retry_spread: float = 0.0
    retry_again: float = 0.0
    retry_rate: float | None = None
    mean: float = FIRST_MEAN
    asked_at: float = 0.0


class Candidate(NamedTuple):
    """A claimed task that asks to start; `epoch` counts its claims, `retry` is whether it has failed before."""

    task_id: int
    epoch: int
    retry: bool = False


class LimitDecision(NamedTuple):
    """The tasks that may start, the seconds that the others wait, and the new state of the limit."""

    admitted: list[Candidate]
    waits: dict[int, float]
    standing: LimitState


def admit_candidates(
    limit: ResourceLimit,
    known: LimitState | None,
    candidates: Sequence[Candidate],
    *,
    busy: int,
    mean: float | None,
    now: float,
    chance: Callable[[], float],
) -> LimitDecision:
    """Decide which candidates may start.

    Args:
        limit: The limits of the resource.
        known: Its stored state; None if there is none.
        candidates: The tasks that ask, in this order.
        busy: Running tasks of the resource.
        mean: Mean duration of a task in seconds, as the caller measured it; None if unknown.
        now: The time by the store's clock.
        chance: Returns a random number in [0, 1).
    """
    round_ = _AdmissionRound(limit, _plausible_state(limit, known, mean, now), now)
    admitted, waits = list[Candidate](), dict[int, float]()
    for each in candidates:
        wait = round_.wait_seconds(each, busy + len(admitted), chance)
        if wait is None:
            admitted.append(each)
        else:
            waits[each.task_id] = wait
    return LimitDecision(admitted, waits, round_.state)


def retry_places(
    limit: ResourceLimit, known: LimitState | None, count: int, now: float
) -> tuple[list[float], LimitState]:
    """Return the waits of retries. None is dropped; the last one waits longest.

    Args:
        limit: The limits of the resource.
        known: Its stored state; None if there is none.
        count: Number of retries.
        now: The time by the store's clock.

    Returns:
        The seconds that each retry waits, and the new state of the limit.
    """
    state = _plausible_state(limit, known, None, now)
    if limit.retries is None:
        return [0.0] * count, state
    step, place = PLACE_SPACING / limit.retries, state.retry_spread
    waits = []
    for _ in range(count):
        waits.append(max(0.0, place - (limit.retry_burst - 1) * step - now))
        place = min(max(place, now) + step, now + FARTHEST_PLACE)
    return waits, state._replace(retry_spread=place)


def _plausible_state(limit: ResourceLimit, known: LimitState | None, mean: float | None, now: float) -> LimitState:
    """Return the stored state, corrected if the clock went back or a setting changed.

    A caller without a rate does not change the places that depend on it.
    """
    state = known or LimitState()
    if state.asked_at > now + _CLOCK_TOLERANCE:
        state = state._replace(spread=now, slot_spread=now, retry_spread=now, retry_again=now)
    if limit.rate is not None:
        if _rate_was_raised(state.spread_rate, limit.rate):
            state = state._replace(spread=now)
        state = state._replace(tat=min(state.tat, now + limit.burst / limit.rate), spread_rate=limit.rate)
    if limit.retries is not None:
        if _rate_was_raised(state.retry_rate, limit.retries):
            state = state._replace(retry_spread=now, retry_again=now)
        paid = min(state.retry_tat, now + limit.retry_burst / limit.retries)
        state = state._replace(retry_tat=paid, retry_rate=limit.retries)
    return state._replace(mean=state.mean if mean is None else mean, asked_at=now)


def _rate_was_raised(before: float | None, rate: float) -> bool:
    """Return whether there is room before the next place. With a lower rate, new places follow the assigned ones."""
    return before is not None and rate > before


class _AdmissionRound:
    """Admits candidates while there is room, and assigns places to the others."""

    def __init__(self, limit: ResourceLimit, state: LimitState, now: float) -> None:
        self.limit, self.state, self._now = limit, state, now
        self._early = set[str]()

    def wait_seconds(self, candidate: Candidate, busy: int, chance: Callable[[], float]) -> float | None:
        """Return None if the candidate may start, else the seconds after which to ask again."""
        limit, state, now = self.limit, self.state, self._now
        if limit.rate is not None:
            free = state.tat - (limit.burst - 1) / limit.rate
            if free > now + _TIME_TOLERANCE:
                return self._until_place("spread", candidate, free, limit.rate)
        if limit.concurrency is not None and busy >= limit.concurrency:
            return self._until_slot(limit.concurrency, chance)
        if candidate.retry and limit.retries is not None:
            free = state.retry_tat - (limit.retry_burst - 1) / limit.retries
            if free > now + _TIME_TOLERANCE:
                return self._until_place("retry_again", candidate, free, limit.retries)
            state = state._replace(retry_tat=max(state.retry_tat, now) + 1 / limit.retries)
        if limit.rate is not None:
            state = state._replace(tat=max(state.tat, now) + 1 / limit.rate)
        self.state = state
        return None

    def _until_place(self, places: str, candidate: Candidate, free: float, rate: float) -> float:
        """Return the wait for the next of these places; a retry has its own, not those of tasks that fail now.

        The first task that already had a place and is only slightly early just waits for its time.
        """
        following: float = getattr(self.state, places)
        is_slightly_early = candidate.epoch > 1 and free - self._now <= 0.5 / rate and places not in self._early
        if is_slightly_early:
            self._early.add(places)
        place, after = _next_place(0.0 if is_slightly_early else following, free, rate, self._now)
        self.state = self.state._replace(**{places: max(following, after)})
        return place - self._now

    def _until_slot(self, concurrency: int, chance: Callable[[], float]) -> float:
        """Return the wait for a slot. Beyond the horizon there are no places, and the wait is random."""
        now, rate = self._now, self.limit.rate
        step = max(
            _SHORTEST_STEP,
            PLACE_SPACING * self.state.mean / concurrency,
            0.0 if rate is None else PLACE_SPACING / rate,
        )
        place = max(self.state.slot_spread, now + step)
        if place + step > now + SLOT_HORIZON:
            return SLOT_HORIZON * (1 + chance()) / 2
        self.state = self.state._replace(slot_spread=place + step)
        return place - now


def _next_place(following: float, free: float, rate: float, now: float) -> tuple[float, float]:
    """Return the next place, no earlier than `free`, and the place after it."""
    place = min(max(following, free), now + FARTHEST_PLACE)
    return place, place + max(_SHORTEST_STEP, PLACE_SPACING / rate)


_MAX_COUNT = 100_000  # starts at once, or running tasks
_NAME_LIMIT = 200
_BURST_SECONDS = 0.1  # a worker that wakes up late by this much loses nothing
_RETRY_BURST_SECONDS = 1.0  # retries come in groups, and a single one should not wait


def per_second(name: str, value: object) -> float:
    """Return a rate as a number per second.

    Raises:
        ConfigError: If it is not a rate.
    """
    rate = parse_rate(value)
    if rate is None:
        raise ConfigError(f"{name} is {short_repr(value)}; {RATE_FORMAT}")
    return rate


def check_limit(
    resource: str,
    *,
    rate: str | float | None = None,
    burst: int | None = None,
    concurrency: int | None = None,
    retries: str | float | None = None,
    retry_burst: int | None = None,
) -> ResourceLimit:
    """Return a limit; `app.limit` describes the settings.

    Raises:
        ConfigError: If a setting is not valid, or nothing is limited.
    """
    name: object = resource
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_LIMIT or "\0" in name:
        allowed = f"1 to {_NAME_LIMIT} characters"
        raise ConfigError(f"resource is {short_repr(name)}; give the name that tasks have as resource=…, {allowed}")
    if rate is None and concurrency is None and retries is None:
        raise ConfigError(f"the limit of {resource!r} limits nothing; give rate=…, concurrency=… or retries=…")
    for what, of, number, base in (("burst", "rate", burst, rate), ("retry_burst", "retries", retry_burst, retries)):
        if number is not None and base is None:
            raise ConfigError(f"{what} is {short_repr(number)}, but {of}=… is missing; give both")
    starts = None if rate is None else per_second("rate", rate)
    retry_starts = None if retries is None else per_second("retries", retries)
    return ResourceLimit(
        resource,
        starts,
        _check_count("burst", burst) or default_burst(starts),
        _check_count("concurrency", concurrency),
        retry_starts,
        _check_count("retry_burst", retry_burst) or _count_in(_RETRY_BURST_SECONDS, retry_starts),
    )


def default_burst(rate: float | None) -> int:
    """Return the starts allowed at once if only the rate is set."""
    return _count_in(_BURST_SECONDS, rate)


def _count_in(seconds: float, rate: float | None) -> int:
    """Return the number of starts in `seconds`, at least 1."""
    return 1 if rate is None else max(1, round(rate * seconds))


def _check_count(name: str, value: int | None) -> int | None:
    count: object = value
    if count is not None and (type(count) is not int or not 1 <= count <= _MAX_COUNT):
        raise ConfigError(f"{name} is {short_repr(value)}; give a whole number from 1 to {_MAX_COUNT}")
    return value
