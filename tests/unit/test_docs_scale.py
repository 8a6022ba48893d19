"""The page on scale shows what the simulation says today."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "scale.md").read_text("utf-8")
sys.path.append(str(ROOT))

from tools.simulate_scale import Costs, Fleet, fleets, one_machine, simulate, table  # noqa: E402  # it is no package


def test_the_tables_are_those_of_the_simulation():
    assert table(one_machine()) in PAGE
    assert table(fleets()) in PAGE


def test_the_costs_are_those_that_the_page_names():
    costs = Costs()
    for told in (
        f"{costs.turn * 1000:.2f} ms, and {costs.per_task * 1e6:.0f} µs for each task",
        f"{costs.call * 1e6:.0f} µs",
        f"{costs.log} claimed and settled",
        f"{costs.disk / 1e6:.0f} MB a second",
    ):
        assert told in PAGE


def test_the_simulation_keeps_to_what_must_hold():
    alone, used = simulate(Fleet(1, task=0.1))
    assert 95 < alone < 100.01, "ten at once of a tenth of a second"
    assert used < 0.05
    crowd, busy = simulate(Fleet(100, cores=2))
    assert busy > 0.99
    assert crowd <= 2 / Costs().per_task
    assert crowd * Costs().log <= Costs().disk
    rates = [simulate(Fleet(workers, cores=16, task=0.01))[0] for workers in (1, 4, 10, 30, 100)]
    assert rates == sorted(rates)
