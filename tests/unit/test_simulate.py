"""Simulations: small cases recomputed by hand, decisions as in the real loop, the laws of budgets, and comparisons."""

import itertools
import json
import math
import subprocess
import sys
import tomllib
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outlast
from outlast import OtherSide, Phase, Scenario
from outlast.errors import BreakerOpenError, ConfigError, RetryableError
from outlast.failure import Category
from outlast.simulate import compare, sweep
from outlast.simulate.engine import ScriptedSide, SimulationEngine
from outlast.testing import fake_clock

ALWAYS_DOWN = OtherSide(latency=0.0, phases=(Phase(start=0, length=1e9, down=True),))


def fixed(attempts, delay=1.0, **changes):
    return outlast.RetryPolicy(max_attempts=attempts, base_delay=delay, jitter="none", **changes)


def only(policy, scenario, **changes):
    return outlast.simulate(policy, scenario, runs=1, **changes).runs[0]


class TestByHand:
    def test_all_is_well(self):
        run = only(fixed(3), Scenario(rate=2, duration=10, arrivals="constant", other_side=OtherSide(latency=0.25)))

        assert (run.work, run.calls, run.successes, run.dead_letters) == (20, 20, 20, 0)
        assert run.completions == [0.25] * 20
        assert (run.peak, run.ended) == (2, 9.75), "the last one arrives at 9.5 s"

    def test_an_outage_that_some_outlast(self):
        """Down from 5 to 10 s. Calls at 5 to 7 s fail three times, 2 s apart; those at 8 and 9 s succeed later."""
        side = OtherSide(latency=0.0, phases=(Phase(start=5, length=5, down=True),))
        run = only(fixed(3, 2.0), Scenario(rate=1, duration=12, arrivals="constant", other_side=side))

        # 5: 5, 7, 9 fail; 6: 6, 8 fail, 10 succeeds; 7: 7, 9 fail, 11 succeeds; 8: 8 fails, 10; 9: 9 fails, 11
        assert (run.work, run.calls) == (12, 7 + 3 + 3 + 3 + 2 + 2)
        assert (run.successes, run.failed) == (11, {"exhausted": 1})
        assert sorted(run.completions)[-4:] == [2.0, 2.0, 4.0, 4.0]
        assert run.recovery == 1.0, "at 10 s two are open, one more than before the outage"

    def test_a_deferral_uses_no_attempt_and_cools_down_all_tasks(self):
        """One call per second is allowed; the second task gets 429 with 30 s, and the third does not call before."""
        side = OtherSide(latency=0.0, limit=1.0, retry_after=30)
        run = only(fixed(1), Scenario(rate=2, duration=1.5, arrivals="constant", other_side=side, place="task"))

        assert (run.work, run.calls, run.deferred, run.successes) == (3, 5, 2, 3)
        assert run.completions == [0.0, 30.0, 59.5]

    def test_slots(self):
        """One worker with one slot takes 2 s for each of three tasks that arrive at once."""
        scenario = Scenario(rate=0.05, duration=60, arrivals="burst", concurrency=1, other_side=OtherSide(latency=2.0))

        assert only(fixed(1), scenario).completions == [2.0, 4.0, 6.0]

    def test_capacity_makes_calls_wait_and_time_out(self):
        """Two calls per second are served; of four at once, the fourth would take 0.1 + 1.5 s."""
        side = OtherSide(latency=0.1, timeout=1.5, capacity=2.0)
        run = only(fixed(1), Scenario(rate=4 / 60, duration=60, arrivals="burst", other_side=side, place="call"))

        assert run.completions == pytest.approx([0.1, 0.6, 1.1])
        assert run.failed == {"exhausted": 1}

    def test_a_breaker_saves_calls(self):
        breaker = outlast.BreakerSettings(consecutive=2, open_for=10)
        scenario = Scenario(
            rate=1, duration=9, arrivals="constant", other_side=ALWAYS_DOWN, place="call", breaker=breaker
        )
        run = only(fixed(1), scenario)

        assert (run.calls, run.refused) == (2, 7)

    def test_each_process_has_its_own_breaker_for_calls(self):
        breaker = outlast.BreakerSettings(consecutive=2, open_for=100)
        scenario = Scenario(
            rate=1, duration=20, arrivals="constant", other_side=ALWAYS_DOWN, place="call", breaker=breaker, processes=3
        )

        assert only(fixed(1), scenario).calls == 6

    def test_a_limit_of_retries_spaces_them(self):
        """Ten tasks fail at once; with one retry per second, their second calls take nine seconds."""
        side = OtherSide(latency=0.0, phases=(Phase(start=0, length=0.5, down=True),))
        scenario = {
            "rate": 10 / 60,
            "duration": 60,
            "arrivals": "burst",
            "processes": 10,
            "limit": {"retries": "1/s", "retry_burst": 1},
            "other_side": {"latency": 0.0, "phases": [{"start": 0, "length": 0.5, "down": True}]},
        }
        run = only(fixed(2), Scenario.from_settings(scenario))
        free = only(fixed(2), Scenario(rate=10 / 60, duration=60, arrivals="burst", processes=10, other_side=side))

        assert (run.calls, free.calls) == (20, 20)
        assert free.ended == 1.0
        assert run.ended >= 1.0 + 9

    def test_a_deadline_ends_a_call_as_the_loop_does(self):
        scenario = Scenario(rate=1, duration=1, arrivals="constant", other_side=ALWAYS_DOWN, place="call")
        run = only(fixed(10, 2.0, deadline=5.0), scenario)

        assert (run.calls, run.failed) == (3, {"deadline": 1})

    @pytest.mark.parametrize("place", ["task", "call"])
    def test_attempt_timeout_ends_an_attempt(self, place):
        side = OtherSide(latency=10.0, phases=[Phase(start=5, length=1000, latency=0.5)])
        scenario = Scenario(rate=1, duration=1, arrivals="constant", other_side=side, place=place)
        run = only(fixed(9, 1.0, attempt_timeout=2.0), scenario)

        assert (run.calls, run.ended) == (3, 6.5)  # at 0 and 3 cancelled after two seconds, at 6 it succeeds


class _Script:
    """Answers by a list of errors and successes, one for each call, for the simulation and for a real function."""

    def __init__(self, kinds):
        self.kinds, self.left = kinds, list(kinds)
        self.side = ScriptedSide(OtherSide(latency=0.0, retry_after=3.0), Random(0).random)

    def answer(self, _now, _call):
        kind = self.left.pop(0) if self.left else "ok"
        side = self.side
        answers = {"down": side._down_answer, "error": side._error, "full": side._full, "limited": side._limited}
        return answers[kind].after(0.0) if kind in answers else self.side.answer(0.0, _call)

    def function(self):
        answer = self.answer(0.0, None)
        if answer.error is not None:
            raise answer.error


NUMBERS = itertools.count()
KINDS = st.lists(st.sampled_from(["ok", "down", "error", "full", "limited"]), min_size=1, max_size=12)
POLICIES = st.builds(
    outlast.RetryPolicy,
    max_attempts=st.integers(1, 6),
    retry_on=st.sampled_from([None, {Category.NETWORK}, (ConnectionError,)]),
    backoff=st.sampled_from(["fixed", "linear", "exponential"]),
    base_delay=st.sampled_from([0.5, 1.0, 4.0]),
    jitter=st.sampled_from(["none", "full", "equal", "decorrelated", 0.5]),
    deadline=st.sampled_from([None, 4.0, 20.0]),
)


@settings(max_examples=60, deadline=None)
@given(KINDS, POLICIES, st.floats(0.0, 0.99))
def test_the_simulator_decides_as_the_real_loop(kinds, policy, chance):
    """The same answers, one after the other, in a real call on the test clock and in a simulated one."""
    real, simulated = _Script(kinds), _Script(kinds)
    with fake_clock(chance=chance) as clock:
        try:
            outlast.call(real.function, policy=policy)
            reason = None
        except Exception as error:
            report = outlast.report_of(error)
            reason = None if report is None else report.reason
        waits = [each for each in clock.waits if each > 0]

    engine = SimulationEngine(policy, Scenario(place="call"), simulated, iter([(0.0, None)]), Random(0))
    engine.chance = lambda: chance
    run = engine.run()

    assert len(real.left) == len(simulated.left)
    assert run.ended == pytest.approx(sum(waits))
    assert set(run.failed) == ({reason} if reason else set())


PROTECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "breaker": st.builds(
            outlast.BreakerSettings, consecutive=st.integers(1, 4), open_for=st.sampled_from([5.0, 40.0, 120.0])
        ),
        "budget": st.builds(outlast.Budget, st.integers(1, 4), st.sampled_from([0.0, 0.01, 0.1])),
    },
)
EVERY = 30.0  # seconds from one call to the next; all retries of a call take less


@settings(max_examples=60, deadline=None)
@given(st.lists(KINDS, min_size=2, max_size=8), st.integers(1, 4), PROTECTIONS)
def test_breaker_and_budget_refuse_as_in_the_real_loop(calls, attempts, protections):
    """Several calls of one resource, one after the other, with everything that a simulated process keeps of them."""
    kinds = [kind for call in calls for kind in call]
    real, simulated, name = _Script(kinds), _Script(kinds), f"shop {next(NUMBERS)}"
    budget = protections.get("budget")
    own = {"budget": outlast.Budget(budget.capacity, budget.per_second)} if budget else {}
    outlast.resource(name, **protections | own)
    policy = fixed(attempts, 0.5, resource=name, retry_on=(RetryableError, OSError))
    reasons, refused = [], 0
    with fake_clock() as clock:
        start = clock.now()
        for number in range(len(calls)):
            clock.advance(start + number * EVERY - clock.now())
            try:
                outlast.call(real.function, policy=policy)
            except Exception as error:
                refused += isinstance(error, BreakerOpenError)
                report = outlast.report_of(error)
                reasons.append(None if report is None else report.reason)

    arrivals = iter([(number * EVERY, None) for number in range(len(calls))])
    run = SimulationEngine(policy, Scenario(place="call", **protections), simulated, arrivals, Random(0)).run()

    assert len(real.left) == len(simulated.left)
    assert run.dead_letters == len(reasons)
    assert run.refused == refused
    assert run.failed == Counter(reasons)


class TestLaws:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 7), st.floats(0.0, 5.0), st.sampled_from(["task", "call"]), st.integers(0, 99))
    def test_a_full_outage_amplifies_by_max_attempts(self, attempts, delay, place, seed):
        scenario = Scenario(rate=5, duration=20, place=place, other_side=ALWAYS_DOWN)
        run = only(fixed(attempts, delay), scenario, seed=seed)

        assert run.amplification == (attempts if run.work else 0)
        assert run.dead_letters == run.work

    @settings(max_examples=25, deadline=None)
    @given(st.integers(2, 8), st.integers(1, 30), st.floats(0.0, 4.0), st.integers(1, 3), st.integers(0, 99))
    def test_a_budget_bounds_the_calls(self, attempts, capacity, per_second, processes, seed):
        budget = outlast.Budget(capacity, per_second)
        scenario = Scenario(
            rate=10, duration=20, place="call", other_side=ALWAYS_DOWN, budget=budget, processes=processes
        )
        run = only(fixed(attempts, 0.5), scenario, seed=seed)

        assert run.calls <= run.work + processes * (capacity + per_second * run.ended) + 1e-6

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 9999), st.sampled_from(["poisson", "constant", "burst"]), st.sampled_from(["task", "call"]))
    def test_all_work_ends_and_a_seed_repeats_it(self, seed, arrivals, place):
        side = OtherSide(errors=0.4, capacity=15, limit=12, phases=(Phase(start=10, length=10, down=True),))
        scenario = Scenario(rate=8, duration=40, arrivals=arrivals, place=place, other_side=side)
        run, again = (only("worker", scenario, seed=seed) for _ in range(2))

        assert run == again
        assert run.work == run.successes + run.dead_letters
        assert run.work <= run.calls <= 5 * run.work


class TestResult:
    SCENARIO = Scenario(rate=4, duration=120, other_side=OtherSide(phases=(Phase(start=30, length=40, down=True),)))

    def test_figures_have_a_spread_over_the_runs(self):
        done = outlast.simulate("worker", self.SCENARIO, runs=3)
        calls = done.figure("calls")

        assert calls.low <= calls.median <= calls.high
        assert calls.low == min(run.calls for run in done.runs)
        assert done.figure("recovery").low >= 0.0
        assert outlast.simulate("worker", Scenario(rate=1, duration=5), runs=1).figure("recovery") is None

    def test_json_text_and_svg(self):
        done = outlast.simulate("worker", self.SCENARIO, runs=2)
        data = json.loads(json.dumps(done.to_dict()))

        assert sum(step["first"] + step["retries"] for step in data["timeline"]) == done.runs[0].calls
        assert str(done).count("\n") > 15
        svg = done.svg("a <title>")
        assert svg.startswith("<svg ")
        assert "a &lt;title&gt;" in svg
        assert "style" not in svg

    def test_too_many_events_are_said(self):
        done = outlast.simulate("worker", self.SCENARIO, runs=1, most_events=100)

        assert done.cut_off
        assert "cut off" in str(done)

    def test_a_comparison_marks_the_best_trade_offs(self):
        found = compare(
            sweep(fixed(2, 10.0), {"max_attempts": [1, 3, 6], "base_delay": [1.0, 20.0]}), self.SCENARIO, runs=2
        )
        points = {each.name: (each.amplification, each.completed) for each in found.simulations}
        best = {each.name for each in found.best}

        for name, (calls, done) in points.items():
            worse = any(c <= calls and d >= done and (c, d) != (calls, done) for c, d in points.values())
            assert not (worse and name in best), name
            assert worse or name in best or any(points[each] == (calls, done) for each in best), name
        assert "max_attempts=6 base_delay=1.0" not in best

    def test_all_policies_get_the_same_work(self):
        found = compare({"a": fixed(1), "b": fixed(6)}, self.SCENARIO, runs=2)

        first, second = ([run.work for run in each.runs] for each in found.simulations)
        assert first == second


class TestSettings:
    def test_texts(self):
        scenario = Scenario.from_settings(
            {"rate": "30/m", "duration": "2m", "other_side": {"errors": "30%", "phases": [{"length": "1m"}]}}
        )

        assert (scenario.rate, scenario.duration, scenario.other_side.errors) == (0.5, 120.0, 0.3)
        assert scenario.other_side.phases[0].length == 60.0

    @pytest.mark.parametrize(
        ("given_settings", "said"),
        [
            ({"rate": "often"}, r"rate is 'often'; give a number per second"),
            ({"other_side": {"errors": 2}}, r"other_side\.errors is 2; give a share from 0 to 1"),
            ({"other_side": {"speed": 2}}, r"other_side\.speed is not a setting; choose from: latency"),
            ({"other_side": {"phases": [{"length": "x"}]}}, r"phases\.length is 'x'; give seconds"),
            ({"place": "moon"}, r"place is 'moon'; choose one of: task, call"),
            ({"processes": 0}, r"processes is 0; give a whole number from 1"),
            ({"budget": {"capacity": 5}}, r"budget is for calls"),
            ({"place": "call", "limit": {"rate": 5}}, r"limit is for tasks"),
            ({"breaker": 7}, r"breaker is 7; give a table"),
            ({"breaker": {"probes": 0}}, r"breaker\.probes is 0; give a whole number"),
        ],
    )
    def test_mistakes_name_the_setting_and_what_is_allowed(self, given_settings, said):
        with pytest.raises(ConfigError, match=said):
            Scenario.from_settings(given_settings)

    def test_a_sweep_of_what_does_not_exist(self):
        with pytest.raises(ConfigError, match="'patience' is not a setting of a policy; choose from: max_attempts"):
            sweep(fixed(2), {"patience": [1]})

    def test_a_sweep_that_is_too_large(self):
        with pytest.raises(ConfigError, match="201 policies; at most 200"):
            sweep(fixed(2), {"max_attempts": range(1, 202)})

    def test_values_of_other_types(self):
        with pytest.raises(ConfigError, match="policy is None; give a RetryPolicy"):
            outlast.simulate(None)
        with pytest.raises(ConfigError, match=r"scenario is \{'rate': 1\}; give a Scenario"):
            outlast.simulate("worker", {"rate": 1})
        with pytest.raises(
            ConfigError, match=r"breaker is \{\}; give a table: \[breaker\], or a value of the class BreakerSettings"
        ):
            Scenario(breaker={})
        with pytest.raises(ConfigError, match="phases has 'x'; give values of the class Phase"):
            OtherSide(phases=["x"])

    def test_runs(self):
        with pytest.raises(ConfigError, match="runs is 0; give a whole number"):
            outlast.simulate("worker", runs=0)


@pytest.mark.parametrize("first", ["import outlast.simulate.engine", "import outlast", "from outlast.cli import cli"])
def test_the_package_is_callable_in_any_order_of_imports(first):
    code = f"{first}\nimport outlast\nprint(outlast.simulate('etl', runs=1).runs[0].calls > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"


def test_a_scenario_file_is_toml(tmp_path):
    file = tmp_path / "outage.toml"
    file.write_text(
        'rate = "5/s"\nplace = "call"\n[budget]\ncapacity = 10\nper_second = 1\n[other_side]\nlatency = 0.2\n'
    )

    scenario = Scenario.from_settings(tomllib.loads(file.read_text()))
    assert (scenario.rate, scenario.budget.capacity, scenario.other_side.latency) == (5.0, 10.0, 0.2)
    assert math.isinf(scenario.slots)
