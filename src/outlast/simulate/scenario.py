"""What is simulated: how work arrives, how the other side behaves over time, and what protects it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from outlast.decide.backoff import is_number, short_repr
from outlast.decide.breaker import BreakerSettings, Budget
from outlast.decide.decision import Place
from outlast.decide.limits import ResourceLimit, check_limit
from outlast.errors import ConfigError
from outlast.failure import Category
from outlast.units import DURATION_FORMAT, RATE_FORMAT, parse_duration, parse_rate

RESOURCE = "other side"
"""Name of the only resource of a simulation."""
ARRIVALS = ("poisson", "constant", "burst")
"""How work can arrive."""
BURST_EVERY = 60.0
"""Seconds between two bursts."""
PLACES = (Place.TASK, Place.CALL)
"""What can be simulated: tasks of workers, and calls that a retry repeats."""
TASK_CONCURRENCY = 10
"""Tasks that a worker runs at the same time, if the scenario does not say."""
MAX_COUNT = 10_000
"""Most processes, and most concurrent calls of each."""


def _duration(value: object) -> float | None:
    seconds = parse_duration(value) if isinstance(value, str) else value
    return float(seconds) if isinstance(seconds, int | float) and is_number(seconds) and seconds >= 0 else None


def _share(value: object) -> float | None:
    if isinstance(value, str):
        number, percent, _ = value.strip().partition("%")
        try:
            value = float(number) / (100 if percent else 1)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and is_number(value) and 0 <= value <= 1 else None


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    return value if type(value) is int and 1 <= value <= MAX_COUNT else None


def _category(value: object) -> Category | None:
    return Category(value) if isinstance(value, str) and value in set(Category) else None


_KINDS: dict[str, tuple[Any, str]] = {
    "duration": (_duration, DURATION_FORMAT),
    "rate": (parse_rate, RATE_FORMAT),
    "share": (_share, "give a share from 0 to 1, or a percentage such as 30%"),
    "count": (_count, f"give a whole number from 1 to {MAX_COUNT}"),
    "flag": (lambda value: value if isinstance(value, bool) else None, "give true or false"),
    "category": (_category, f"choose one of: {', '.join(Category)}"),
    "arrivals": (lambda value: value if value in ARRIVALS else None, f"choose one of: {', '.join(ARRIVALS)}"),
    "place": (lambda value: Place(value) if value in PLACES else None, f"choose one of: {', '.join(PLACES)}"),
}


def _setting(kind: str, default: Any) -> Any:
    return field(default=default, metadata={"kind": kind})


def _check_fields(value: Any) -> None:
    """Convert the fields of a dataclass that have a kind: texts such as ``10m``, ``50/s`` and ``30%`` to numbers."""
    for each in dataclasses.fields(value):
        given, kind = getattr(value, each.name), each.metadata.get("kind")
        if kind is None or (given is None and each.default is None):
            continue
        parse, allowed = _KINDS[kind]
        parsed = parse(given)
        if parsed is None:
            raise ConfigError(f"{each.name} is {short_repr(given)}; {allowed}")
        object.__setattr__(value, each.name, parsed)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A time in which the other side behaves differently. What is not set stays as it is.

    Attributes:
        start: Seconds from the beginning of the simulation.
        length: Its seconds.
        down: Whether every call is refused.
        errors: Share of calls that fail.
        latency: Seconds that a call takes.
        capacity: Calls per second that it can serve.
        limit: Calls per second that it allows.
    """

    start: float = _setting("duration", 0.0)
    length: float = _setting("duration", 60.0)
    down: bool = _setting("flag", default=False)
    errors: float | None = _setting("share", None)
    latency: float | None = _setting("duration", None)
    capacity: float | None = _setting("rate", None)
    limit: float | None = _setting("rate", None)

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_fields(self)

    @property
    def end(self) -> float:
        """Seconds from the beginning of the simulation to the end of the phase."""
        return self.start + self.length


@dataclass(frozen=True, kw_only=True)
class OtherSide:
    """What is called, and how it behaves.

    Calls above `capacity` wait. A call that waits for longer than `timeout` fails, but has used capacity all the same,
    so more retries leave less for useful work: a retry storm. Where twice the timeout is queued already, a call is
    refused at once.

    Attributes:
        latency: Seconds that a call takes, without a queue.
        timeout: Seconds after which a call that waits for capacity fails.
        errors: Share of calls that fail.
        category: Category of these failures.
        capacity: Calls per second that it can serve; None for any number.
        limit: Calls per second that it allows; it answers 429 to the others. None for no limit.
        retry_after: Seconds in the Retry-After of a 429; None for none.
        phases: Times in which this is different. Where two overlap, the later one in the list applies.
    """

    latency: float = _setting("duration", 0.1)
    timeout: float = _setting("duration", 5.0)
    errors: float = _setting("share", 0.0)
    category: Category = _setting("category", Category.API_TEMPORARY)  # noqa: RUF009  # makes a field
    capacity: float | None = _setting("rate", None)
    limit: float | None = _setting("rate", None)
    retry_after: float | None = _setting("duration", None)
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_fields(self)
        object.__setattr__(self, "phases", tuple(self.phases))
        wrong = next((each for each in self.phases if type(each) is not Phase), None)
        if wrong is not None:
            raise ConfigError(f"phases has {short_repr(wrong)}; give values of the class Phase")

    def at(self, seconds: float) -> "tuple[OtherSide, bool]":
        """Return how it behaves at a time, and whether it is down."""
        now, down = self, False
        for phase in self.phases:
            if phase.start <= seconds < phase.end:
                names = ("errors", "latency", "capacity", "limit")
                given = {name: value for name in names if (value := getattr(phase, name)) is not None}
                now, down = dataclasses.replace(now, **given), phase.down
        return now, down

    @property
    def outages(self) -> "list[Phase]":
        """The phases in which it is down, or fails more often."""
        return [each for each in self.phases if each.down or (each.errors or 0.0) > self.errors or each.capacity]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Work that arrives, the other side that it calls, and what protects that side.

    `from_settings` and TOML files also take texts: ``"10m"`` for a duration, ``"50/s"`` for a rate, ``"30%"`` for a
    share.

    Attributes:
        rate: Pieces of work that arrive per second; each needs one successful call.
        duration: Seconds for which they arrive. The simulation ends when all of them have ended.
        arrivals: ``poisson`` (at random), ``constant`` (evenly), or ``burst`` (those of a minute at once).
        place: ``task`` (workers run them, and a wait holds no slot) or ``call`` (a retry waits inside the call).
        processes: Number of workers or other processes.
        concurrency: Calls that each process makes at the same time; None for 10 in a worker, and any number elsewhere.
        other_side: What is called.
        breaker: Circuit breaker. Each process has its own; workers share it through the store.
        budget: Retry budget of each process, for calls.
        limit: Limits that all workers share, for tasks.
        cooldown: Whether tasks have a resource, so that a Retry-After keeps all of them from calling.
    """

    rate: float = _setting("rate", 10.0)
    duration: float = _setting("duration", 600.0)
    arrivals: str = _setting("arrivals", "poisson")
    place: Place = _setting("place", Place.TASK)  # noqa: RUF009  # makes a field
    processes: int = _setting("count", 1)
    concurrency: int | None = _setting("count", None)
    other_side: OtherSide = field(default_factory=OtherSide)
    breaker: BreakerSettings | None = None
    budget: Budget | None = None
    limit: ResourceLimit | None = None
    cooldown: bool = _setting("flag", default=True)

    def __post_init__(self) -> None:
        """Check the settings, and that those of tasks and calls are not mixed."""
        _check_fields(self)
        for name, kind in _TABLES.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and (value is not None or name == "other_side"):
                raise ConfigError(
                    f"{name} is {short_repr(value)}; give a table: [{name}], or a value of the class {kind.__name__}"
                )
        if self.budget is not None and self.place is Place.TASK:
            raise ConfigError(
                "budget is for calls; workers do not use it. Give place = 'call', or limit with retries=… for tasks"
            )
        if self.limit is not None and self.place is Place.CALL:
            raise ConfigError("limit is for tasks; calls do not use it. Give place = 'task', or budget for calls")

    @property
    def slots(self) -> float:
        """Number of calls that may run at the same time in all processes."""
        own = self.concurrency or (TASK_CONCURRENCY if self.place is Place.TASK else float("inf"))
        return own * self.processes

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "Scenario":
        """Return the scenario of a TOML table or a form.

        Raises:
            ConfigError: If a setting does not exist or is not valid; the message names it.
        """
        given = dict(settings)
        side = _table(given, "other_side")
        if side is not None:
            phases = side.get("phases", [])
            if not isinstance(phases, list | tuple):
                raise ConfigError(f"phases is {short_repr(phases)}; give a list of tables: [[other_side.phases]]")
            built = tuple(each if isinstance(each, Phase) else _build(Phase, each, "phases") for each in phases)
            given["other_side"] = _build(OtherSide, {**side, "phases": built}, "other_side")
        for name, kind in (("breaker", BreakerSettings), ("budget", Budget), ("limit", partial(check_limit, RESOURCE))):
            table = _table(given, name)
            if table is not None:
                given[name] = _build(kind, table, name)
        scenario: Scenario = _build(cls, given, "")
        return scenario


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return a table of settings; None if there is none, or it is a value already."""
    table = settings.get(name)
    return dict(table) if isinstance(table, Mapping) else None


_TABLES = {"other_side": OtherSide, "breaker": BreakerSettings, "budget": Budget, "limit": ResourceLimit}
_CHOICES: dict[str, tuple[str, ...]] = {
    "breaker": ("consecutive", "failure_rate", "window", "slow_call", "open_for", "probes"),
    "budget": ("capacity", "per_second"),
    "limit": ("rate", "burst", "concurrency", "retries", "retry_burst"),
}


def _build(kind: Any, settings: Any, place: str) -> Any:
    """Return a value from a table of settings; an error names the table."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{place} is {short_repr(settings)}; give a table of settings")
    known = _CHOICES.get(place) or tuple(each.name for each in dataclasses.fields(kind))
    prefix = f"{place}." if place else ""
    for name in settings:
        if name not in known:
            raise ConfigError(f"{prefix}{name} is not a setting; choose from: {', '.join(known)}")
    try:
        return kind(**settings)
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}") from None
    except TypeError as error:
        raise ConfigError(f"{place}: {error}") from None
