"""What a million simulated calls cost, with the decider that the loops use, on one core."""

from __future__ import annotations

import statistics
import time
from random import Random

import outlast
from benchmarks.measure import Result
from outlast.simulate.engine import ScriptedSide, SimulationEngine, arrivals

BOUND = 45.0  # seconds of one core for a million calls
ROUNDS = 3
MILLION = 1_000_000
DOWN = (outlast.Phase(start=60, length=600, down=True),)
CASES = {
    "1,000,000 calls of tasks": outlast.Scenario(rate=100, duration=960, processes=8, other_side=outlast.OtherSide(errors=0.3, phases=DOWN)),
    "1,000,000 calls with budget and breaker": outlast.Scenario(
        rate=300, duration=960, processes=8, place="call", budget=outlast.Budget(100, 200),  # type: ignore[arg-type]  # converted
        breaker=outlast.BreakerSettings(consecutive=50), other_side=outlast.OtherSide(errors=0.3, capacity=400),
    ),
}  # fmt: skip


def run() -> list[Result]:
    """Return the results; processor time, so that another program on the machine does not count."""
    results = []
    for what, scenario in CASES.items():
        times = [_seconds_per_million(scenario, seed) for seed in range(ROUNDS)]
        seconds = statistics.median(times)
        results.append(Result(what, seconds, "one core", BOUND, seconds, unit="s"))
    return results


def _seconds_per_million(scenario: outlast.Scenario, seed: int) -> float:
    random = Random(seed)
    side = ScriptedSide(scenario.other_side, random.random)
    engine = SimulationEngine(outlast.preset("worker"), scenario, side, arrivals(scenario, random), random)
    start = time.process_time()
    done = engine.run()
    return (time.process_time() - start) * MILLION / done.calls
