"""The result of a simulation, and of several that are compared."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from statistics import median
from typing import Any, NamedTuple

from outlast.decide.backoff import short_repr
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigError
from outlast.simulate.chart import INK, TimeStep, draw_svg, draw_text
from outlast.simulate.engine import MAX_EVENTS, ScriptedSide, SimulatedRun, SimulationEngine, arrivals
from outlast.simulate.scenario import Scenario
from outlast.units import span

RUNS = 5
"""Runs of a simulation, each with random numbers of its own."""
MAX_RUNS = 100
MAX_WORK = 2_000_000
"""Most pieces of work of a scenario: each takes half a kilobyte and about 10 µs for each call."""
MAX_VARIANTS = 200
"""Most policies of a sweep."""
_STEPS = 60
FIGURES = {
    "work": "work that arrived",
    "calls": "calls made",
    "amplification": "calls for each piece of work",
    "peak": "most calls in a second",
    "successes": "work that succeeded",
    "dead_letters": "work that failed for good",
    "refused": "calls that an open breaker refused",
    "deferred": "deferrals, which use no attempt",
    "recovery": "time to recover after the outage",
    "p50": "time to complete, median",
    "p95": "time to complete, 95th percentile",
    "p99": "time to complete, 99th percentile",
}
"""The figures of a simulation, and what they mean."""
_PERCENTILES = ("p50", "p95", "p99")
_SECONDS = ("recovery", *_PERCENTILES)


class Spread(NamedTuple):
    """A figure over all runs: the smallest, the median and the largest value."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """Return the spread of the known values; None if none is known."""
        known = [each for each in values if each is not None]
        return cls(min(known), median(known), max(known)) if known else None

    def text(self, *, seconds: bool = False) -> str:
        """Return the median, and the smallest and largest value if they differ."""
        shown = span if seconds else _number_text
        low, middle, high = shown(self.low), shown(self.median), shown(self.high)
        return middle if low == high else f"{middle}  ({low} to {high})"


@dataclass(frozen=True)
class Simulation:
    """What a policy did in a scenario.

    Attributes:
        name: Name of the policy.
        policy: The policy.
        scenario: The scenario.
        runs: What happened in each run.
    """

    name: str
    policy: RetryPolicy
    scenario: Scenario
    runs: tuple[SimulatedRun, ...] = field(repr=False)

    def figure(self, name: str) -> Spread | None:
        """Return a figure of `FIGURES`; None if it is not known, such as the recovery without an outage."""
        return Spread.of(_figure(run, name) for run in self.runs)

    def shown(self, name: str) -> str | None:
        """Return a figure as text; None if it is not known."""
        found = self.figure(name)
        return None if found is None else found.text(seconds=name in _SECONDS)

    @property
    def amplification(self) -> float:
        """Calls made for each piece of work, in the median of the runs."""
        return median(run.amplification for run in self.runs)

    @property
    def completed(self) -> float:
        """Share of the work that succeeded, in the median of the runs."""
        return median(run.successes / run.work if run.work else 1.0 for run in self.runs)

    @property
    def reasons(self) -> dict[str, int]:
        """Why work failed for good, over all runs."""
        return sum((Counter(run.failed) for run in self.runs), Counter())

    @property
    def cut_off(self) -> bool:
        """Whether a run had too many events, so that the figures are incomplete."""
        return any(run.cut_off for run in self.runs)

    def timeline(self, steps: int = _STEPS) -> list[TimeStep]:
        """Return what happened over time in the first run, in at most so many steps of equal length."""
        seconds = self.runs[0].seconds
        length = max(1, math.ceil((max(seconds, default=0) + 1) / steps))
        counts: dict[int, list[int]] = {}
        for second, numbers in seconds.items():
            known = counts.setdefault(second // length, [0, 0, 0, 0])
            for place, number in enumerate(numbers):
                known[place] += number
        return [
            TimeStep(place * length, length, *counts.get(place, (0, 0, 0, 0)))
            for place in range(max(counts, default=0) + 1)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the timeline as JSON-ready values."""
        figures = {name: None if (found := self.figure(name)) is None else found._asdict() for name in FIGURES}
        return {
            "policy": self.name,
            "runs": len(self.runs),
            "figures": figures,
            "reasons": self.reasons,
            "cut_off": self.cut_off,
            "timeline": [step._asdict() for step in self.timeline()],
        }

    def svg(self, title: str = "", *, ink: str = INK) -> str:
        """Return the chart of calls over time as SVG, with lines and texts in the colour `ink`."""
        phases = [(each.start, each.end) for each in self.scenario.other_side.phases]
        return draw_svg(self.timeline(), phases, title or f"Calls per second with the policy {self.name}", ink)

    def __str__(self) -> str:
        """Return the figures as lines of text, and the chart."""
        runs = len(self.runs)
        lines = [
            f"{self.name}: {runs} run{'s' if runs > 1 else ''}" + ("; cut off, too many events" if self.cut_off else "")
        ]
        for name, meaning in FIGURES.items():
            found = self.figure(name)
            if name not in {"refused", "deferred", "recovery"} or (found is not None and found.high):
                lines.append(f"  {meaning:38} {self.shown(name) or 'unknown'}")
        return "\n".join([*lines, "", draw_text(self.timeline())])


def _figure(run: SimulatedRun, name: str) -> float | None:
    value: float | None
    value = percentile(run.completions, float(name[1:]) / 100) if name in _PERCENTILES else getattr(run, name)
    return value


def percentile(values: list[float], share: float) -> float | None:
    """Return the smallest value that is not exceeded by this share of the values; None without values."""
    values.sort()  # in place: sorted once, however often it is asked
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else None


def simulate(
    policy: RetryPolicy | str,
    scenario: Scenario | None = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    name: str = "",
    progress: Callable[[int], object] | None = None,
    most_events: int = MAX_EVENTS,
) -> Simulation:
    """Simulate what a policy does in a scenario, without any real call or wait.

    Args:
        policy: The policy, or the name of a preset.
        scenario: The scenario; by default ten tasks per second for ten minutes, and nothing fails.
        runs: Number of runs with different random numbers.
        seed: The random numbers; the same seed gives the same result.
        name: Name of the policy in the result.
        progress: Called from time to time with the number of calls of the current run.
        most_events: Events after which a run is cut off.

    Raises:
        ConfigError: If an argument is not valid.
    """
    if type(runs) is not int or not 1 <= runs <= MAX_RUNS:
        raise ConfigError(f"runs is {short_repr(runs)}; give a whole number from 1 to {MAX_RUNS}")
    known = preset(policy) if isinstance(policy, str) else policy
    shown = name or (policy if isinstance(policy, str) else "policy")
    given = Scenario() if scenario is None else scenario
    for what, value, kind in (("policy", known, RetryPolicy), ("scenario", given, Scenario)):
        if not isinstance(value, kind):
            raise ConfigError(f"{what} is {short_repr(value)}; give a {kind.__name__}")
    if given.rate * given.duration > MAX_WORK:
        raise ConfigError(f"the scenario has more than {MAX_WORK:,} pieces of work; lower the rate or the duration")
    tallies = []
    for number in range(seed, seed + runs):
        random = Random(number)  # noqa: S311  # a simulation, not a secret
        side = ScriptedSide(given.other_side, random.random)
        work = arrivals(given, Random(f"arrivals {number}"))  # noqa: S311  # the same work for every policy
        tallies.append(SimulationEngine(known, given, side, work, random).run(progress, most_events=most_events))
    return Simulation(shown, known, given, tuple(tallies))


@dataclass(frozen=True)
class Comparison:
    """Several policies in the same scenario, with the same work.

    Attributes:
        simulations: One for each policy.
    """

    simulations: tuple[Simulation, ...]

    @property
    def best(self) -> list[Simulation]:
        """The best trade-offs: no other policy makes fewer calls and completes more, or is better in one of the two.

        Of several that are equal in both, only the one with the shortest 95th percentile is listed.
        """
        ranked = sorted(self.simulations, key=_rank)
        front: list[Simulation] = []
        for each in ranked:
            if not front or each.completed > front[-1].completed:
                front.append(each)
        return front

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each policy: its name, its main figures, and whether it is one of the best trade-offs."""
        best = {id(each) for each in self.best}
        names = ("amplification", "peak", "dead_letters", "recovery", "p50", "p95", "p99")
        return [
            {"policy": each.name, "completed": each.completed}
            | {name: None if (found := each.figure(name)) is None else found.median for name in names}
            | {"best": id(each) in best}
            for each in self.simulations
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as JSON-ready values."""
        return {"policies": self.rows()}


def _rank(simulation: Simulation) -> tuple[float, float, float]:
    p95 = simulation.figure("p95")
    return simulation.amplification, -simulation.completed, math.inf if p95 is None else p95.median


def compare(
    policies: Mapping[str, RetryPolicy],
    scenario: Scenario,
    *,
    progress: Callable[[int], object] | None = None,
    **settings: Any,
) -> Comparison:
    """Simulate several policies in the same scenario.

    Args:
        policies: The policies by name.
        scenario: The scenario.
        progress: Called after each policy with the number of those that are done.
        settings: `runs`, `seed` and `most_events` of `simulate`.
    """
    done = []
    for name, policy in policies.items():
        done.append(simulate(policy, scenario, name=name, **settings))
        if progress is not None:
            progress(len(done))
    return Comparison(tuple(done))


def sweep(policy: RetryPolicy, choices: Mapping[str, Sequence[Any]]) -> dict[str, RetryPolicy]:
    """Return every combination of some settings of a policy, by its name: ``max_attempts=2 base_delay=0.5``.

    Raises:
        ConfigError: If a setting does not exist or is not valid, or there are too many combinations.
    """
    size = math.prod(len(values) for values in choices.values())
    if size > MAX_VARIANTS:
        raise ConfigError(f"the sweep has {size} policies; at most {MAX_VARIANTS} are allowed: give fewer values")
    names = [name for name in RetryPolicy._fields if name != "overrides"]
    for name in choices:
        if name not in names:
            raise ConfigError(f"{name!r} is not a setting of a policy; choose from: {', '.join(names)}")
    combined = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    return {
        " ".join(f"{name}={value}" for name, value in changes.items()): policy.replace(**changes)
        for changes in combined
    }


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
