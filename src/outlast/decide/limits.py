"""How much a resource takes, from all workers of a store together. Pure: a store keeps what is known, and locks it.

Starts and retries follow the generic cell rate algorithm: one number per resource, the time at which all that was let
through would be paid for at the limit's rate. Who is refused gets a place behind those who wait already, so that it
comes back once, at about the time when there is room, and not again and again.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outlast.decide.backoff import short_repr
from outlast.errors import ConfigError
from outlast.units import RATE_FORMAT, parse_rate

PLACE_SPACING = 1.05
"""Places are so much further apart than the limit asks for: who comes back finds room, also when others were late."""
SLOT_HORIZON = 300.0
"""Seconds that a task waits for a slot at most until it asks again: how long tasks take is a guess, a rate is none."""
FARTHEST_PLACE = 365 * 86400.0
"""Seconds to the last place that there is; no calendar ends before it."""
FIRST_MEAN = 0.1
"""Seconds that a task is taken to need before one was seen to end."""
_SHORTEST_STEP = 0.001  # seconds between two places
_TIME_TOLERANCE = 1e-5  # seconds; what is nearer is now, for a float has no more digits at this distance from 1970
_CLOCK_TOLERANCE = 5.0  # seconds by which a clock may differ from itself before what it said is not believed


class ResourceLimit(NamedTuple):
    """What a resource takes. None stands for no limit.

    Attributes:
        resource: Its name; by custom the host.
        rate: Starts of tasks per second.
        burst: Starts that may come at once.
        concurrency: Tasks that run at once.
        retries: Starts per second of tasks that have failed before.
        retry_burst: Of those, how many may come at once.
    """

    resource: str
    rate: float | None = None
    burst: int = 1
    concurrency: int | None = None
    retries: float | None = None
    retry_burst: int = 1


class LimitState(NamedTuple):
    """What is known of a resource. Times are seconds since the epoch, by the store's clock.

    Attributes:
        tat: When all starts so far are paid for at the rate.
        spread: The next place for who came too early for the rate.
        spread_rate: The rate by which those places were given.
        slot_spread: The next place for who found no slot.
        retry_tat: When all started retries are paid for at their rate.
        retry_spread: The next place for who has failed just now.
        retry_again: The next place for a retry that came too early.
        retry_rate: The rate by which retries have got their places.
        mean: Seconds that a task needs.
        asked_at: When somebody last asked.
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
    """A claimed task that asks to start; the epoch counts its claims, `retry` tells whether it has failed before."""

    task_id: int
    epoch: int
    retry: bool = False


class LimitDecision(NamedTuple):
    """What an ask comes to: who starts, who waits for how many seconds, and what is known then."""

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
    """Decide who of those who ask may start.

    Args:
        limit: What the resource takes.
        known: What is known of it; None for nothing.
        candidates: Who asks, in this order.
        busy: Tasks of the resource that run.
        mean: Seconds that a task needs, as the caller has seen it; None if it has seen none.
        now: The time by the store's clock.
        chance: Returns a random number in [0, 1).
    """
    turnstile = _AdmissionRound(limit, _plausible_state(limit, known, mean, now), now)
    admitted, waits = list[Candidate](), dict[int, float]()
    for each in candidates:
        wait = turnstile.ask(each, busy + len(admitted), chance)
        if wait is None:
            admitted.append(each)
        else:
            waits[each.task_id] = wait
    return LimitDecision(admitted, waits, turnstile.standing)


def retry_places(
    limit: ResourceLimit, known: LimitState | None, count: int, now: float
) -> tuple[list[float], LimitState]:
    """Give places to retries; nobody is turned away, the last one waits longest.

    Args:
        limit: What the resource takes.
        known: What is known of it; None for nothing.
        count: How many.
        now: The time by the store's clock.

    Returns:
        The seconds for which each is to wait, and what is known then.
    """
    standing = _plausible_state(limit, known, None, now)
    if limit.retries is None:
        return [0.0] * count, standing
    step, place = PLACE_SPACING / limit.retries, standing.retry_spread
    waits = []
    for _ in range(count):
        waits.append(max(0.0, place - (limit.retry_burst - 1) * step - now))
        place = min(max(place, now) + step, now + FARTHEST_PLACE)
    return waits, standing._replace(retry_spread=place)


def _plausible_state(limit: ResourceLimit, known: LimitState | None, mean: float | None, now: float) -> LimitState:
    """Return what is known, as far as it can be true: a clock may have been put back, and a setting changed.

    Who has no rate of its own leaves the places of the others alone.
    """
    standing = known or LimitState()
    if standing.asked_at > now + _CLOCK_TOLERANCE:
        standing = standing._replace(spread=now, slot_spread=now, retry_spread=now, retry_again=now)
    if limit.rate is not None:
        if _rate_was_raised(standing.spread_rate, limit.rate):
            standing = standing._replace(spread=now)
        standing = standing._replace(tat=min(standing.tat, now + limit.burst / limit.rate), spread_rate=limit.rate)
    if limit.retries is not None:
        if _rate_was_raised(standing.retry_rate, limit.retries):
            standing = standing._replace(retry_spread=now, retry_again=now)
        paid = min(standing.retry_tat, now + limit.retry_burst / limit.retries)
        standing = standing._replace(retry_tat=paid, retry_rate=limit.retries)
    return standing._replace(mean=standing.mean if mean is None else mean, asked_at=now)


def _rate_was_raised(before: float | None, rate: float) -> bool:
    """Tell whether there is room now before the next place. Under a lower rate, places go on behind those given."""
    return before is not None and rate > before


class _AdmissionRound:
    """One ask: it lets through while there is room, and gives places to the others."""

    def __init__(self, limit: ResourceLimit, standing: LimitState, now: float) -> None:
        self.limit, self.standing, self._now = limit, standing, now
        self._early = self._retry_early = False

    def ask(self, candidate: Candidate, busy: int, chance: Callable[[], float]) -> float | None:
        """Return None for who may start, else the seconds after which to ask again."""
        limit, standing, now = self.limit, self.standing, self._now
        if limit.rate is not None:
            free = standing.tat - (limit.burst - 1) / limit.rate
            if free > now + _TIME_TOLERANCE:
                return self._until_start(candidate, free, limit.rate)
        if limit.concurrency is not None and busy >= limit.concurrency:
            return self._until_slot(limit.concurrency, chance)
        if candidate.retry and limit.retries is not None:
            free = standing.retry_tat - (limit.retry_burst - 1) / limit.retries
            if free > now + _TIME_TOLERANCE:
                return self._until_retry(candidate, free, limit.retries)
            standing = standing._replace(retry_tat=max(standing.retry_tat, now) + 1 / limit.retries)
        if limit.rate is not None:
            standing = standing._replace(tat=max(standing.tat, now) + 1 / limit.rate)
        self.standing = standing
        return None

    def _until_start(self, candidate: Candidate, free: float, rate: float) -> float:
        little = not self._early and self._is_little(candidate, free, rate)
        self._early = self._early or little
        place, after = _next_place(0.0 if little else self.standing.spread, free, rate, self._now)
        self.standing = self.standing._replace(spread=max(self.standing.spread, after))
        return place - self._now

    def _until_retry(self, candidate: Candidate, free: float, rate: float) -> float:
        """Return the wait of a retry. It was in line before: its place is not behind those who fail just now."""
        little = not self._retry_early and self._is_little(candidate, free, rate)
        self._retry_early = self._retry_early or little
        place, after = _next_place(0.0 if little else self.standing.retry_again, free, rate, self._now)
        self.standing = self.standing._replace(retry_again=max(self.standing.retry_again, after))
        return place - self._now

    def _is_little(self, candidate: Candidate, free: float, rate: float) -> bool:
        """Tell whether somebody who had its place came a little early, and so waits for that little."""
        return candidate.epoch > 1 and free - self._now <= 0.5 / rate

    def _until_slot(self, concurrency: int, chance: Callable[[], float]) -> float:
        """Return the wait for a slot. Far behind there are no places: it is then one at random."""
        now, rate = self._now, self.limit.rate
        step = max(
            _SHORTEST_STEP,
            PLACE_SPACING * self.standing.mean / concurrency,
            0.0 if rate is None else PLACE_SPACING / rate,
        )
        place = max(self.standing.slot_spread, now + step)
        if place + step > now + SLOT_HORIZON:
            return SLOT_HORIZON * (1 + chance()) / 2
        self.standing = self.standing._replace(slot_spread=place + step)
        return place - now


def _next_place(following: float, free: float, rate: float, now: float) -> tuple[float, float]:
    """Return a place, not before there is room, and the one after it."""
    place = min(max(following, free), now + FARTHEST_PLACE)
    return place, place + max(_SHORTEST_STEP, PLACE_SPACING / rate)


# The settings of a limit, from what people write: ``"10/s"``, ``"5000/h"`` or a number per second.

_MAX_RATE = 100_000  # starts at once, or tasks that run
_NAME_LIMIT = 200
_BURST_SECONDS = 0.1  # a worker that is woken late by so much loses nothing
_RETRY_BURST_SECONDS = 1.0  # retries come in bunches, and one by itself should not be held up


def per_second(name: str, value: object) -> float:
    """Return a rate as a number per second.

    Raises:
        ConfigError: If it is not a rate.
    """
    rate = parse_rate(value)
    if rate is None:
        message = f"{name} is {short_repr(value)}; {RATE_FORMAT}"
        raise ConfigError(message)
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
        ConfigError: If a setting cannot be used, or nothing is limited.
    """
    name: object = resource
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_LIMIT or "\0" in name:
        longest = f"{_NAME_LIMIT} characters at most"
        message = f"resource is {short_repr(name)}; give the name that tasks have as resource=…, {longest}"
        raise ConfigError(message)
    if rate is None and concurrency is None and retries is None:
        message = f"the limit of {resource!r} limits nothing; give rate=…, concurrency=… or retries=…"
        raise ConfigError(message)
    for what, of, number, base in (("burst", "rate", burst, rate), ("retry_burst", "retries", retry_burst, retries)):
        if number is not None and base is None:
            message = f"{what} is {short_repr(number)}, and there is no {of}=… that it belongs to; give that as well"
            raise ConfigError(message)
    starts = None if rate is None else per_second("rate", rate)
    again = None if retries is None else per_second("retries", retries)
    return ResourceLimit(
        resource,
        starts,
        _check_count("burst", burst) or _count_in(_BURST_SECONDS, starts),
        _check_count("concurrency", concurrency),
        again,
        _check_count("retry_burst", retry_burst) or _count_in(_RETRY_BURST_SECONDS, again),
    )


def _count_in(seconds: float, rate: float | None) -> int:
    """Return how many come in so many seconds, 1 at least."""
    return 1 if rate is None else max(1, round(rate * seconds))


def _check_count(name: str, value: int | None) -> int | None:
    given: object = value
    if given is not None and (type(given) is not int or not 1 <= given <= _MAX_RATE):
        message = f"{name} is {short_repr(value)}; give a whole number from 1 to {_MAX_RATE}"
        raise ConfigError(message)
    return value
