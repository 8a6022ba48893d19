"""Interleaved measuring: every round runs each contender once, and ratios are taken within a round.

Machines are shared and noisy. What slows one contender down in a round slows its neighbours too, so the median of the
rounds' ratios says more than the ratio of two medians.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """One line of the report.

    Attributes:
        what: What was measured.
        ratio: Median of the per-round ratios.
        against: What it is measured against.
        bound: The ratio that is promised, or None for a peer that is only shown.
        seconds: Median time of one run.
        at_least: Whether the bound is a floor, as for a rate; otherwise it is a ceiling.
        unit: What the ratio and its bound count, where they are no ratio.
    """

    what: str
    ratio: float
    against: str
    bound: float | None
    seconds: float
    at_least: bool = False
    unit: str = "×"

    @property
    def holds(self) -> bool:
        """Whether the promise is kept; a peer has made none."""
        if self.bound is None:
            return True
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound


def per_call(function: Callable[[], object], number: int) -> Callable[[], float]:
    """Return a contender that runs a function `number` times and returns the seconds per call."""

    def run() -> float:
        start = time.perf_counter()
        for _ in range(number):
            function()
        return (time.perf_counter() - start) / number

    return run


def interleaved(contenders: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every contender once per round; return the times by name, one per round."""
    times: dict[str, list[T]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # once unmeasured: files, caches and branch predictors are cold
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(run())
    return times


def ratio(
    times: dict[str, list[float]], what: str, against: str, bound: float | None, base: str | None = None
) -> Result:
    """Compare two contenders round by round, after taking a common base off both."""
    zero = times[base] if base else [0.0] * len(times[what])
    ratios = [(one - off) / (other - off) for one, other, off in zip(times[what], times[against], zero, strict=True)]
    net = [one - off for one, off in zip(times[what], zero, strict=True)]
    return Result(what, statistics.median(ratios), against, bound, statistics.median(net))


def rate(times: dict[str, list[float]], name: str, pair: tuple[str, str], bound: float | None) -> Result:
    """Compare the rates of a pair round by round."""
    what, against = pair
    ratios = [other / one for one, other in zip(times[what], times[against], strict=True)]
    return Result(name, statistics.median(ratios), against, bound, statistics.median(times[what]), at_least=True)


def added(times: dict[str, list[float]], name: str, pair: tuple[str, str], against: str, bound: float | None) -> Result:
    """Compare what the first of a pair takes more than the second with a third, round by round."""
    what, over = pair
    more = [one - other for one, other in zip(times[what], times[over], strict=True)]
    ratios = [extra / whole for extra, whole in zip(more, times[against], strict=True)]
    return Result(name, statistics.median(ratios), against, bound, statistics.median(more))
