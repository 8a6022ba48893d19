"""Sources against a plain model of them, whatever polls, outages and hands do, in whatever order (pitfalls 60 to 62)."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast import clock
from outlast.classify import classify
from outlast.decide.decision import AlertKind
from outlast.decide.presets import preset
from outlast.decide.source_health import Profile, SourceRules
from outlast.errors import NetworkError, RateLimitError, ResourceNotFoundError
from outlast.sources import outcomes
from outlast.sources.fetchers import Fetched
from outlast.sources.registry import SourceRegistry
from outlast.stores.sqlite.memory import MemoryStore
from outlast.testing import FakeClock

TROUBLE = {"error", "disabled"}
FIRST, LONGEST, LIMIT, STALE = 100.0, 400.0, 1000.0, 5000.0
ERRORS = {True: ResourceNotFoundError("gone"), False: NetworkError("down")}


@dataclass
class Plain:
    """What a source should be; `pending` is None, or whether the failure counts."""

    state: str = "healthy"
    count: int = 0
    since: float | None = None
    was_well: bool = False
    by: str | None = None
    probes: int = 0
    passed: int = 0
    until: float | None = None
    outcome: str | None = None
    pending: bool | None = None
    in_cycle: bool = False
    open: str | None = None
    kinds: list[str] = field(default_factory=list)
    into_trouble: int = 0
    probe_asked: bool = False

    def tell(self, state):
        """Keep what is told of it."""
        if state == self.open:
            return
        self.kinds.append("first" if self.open is None else "recovered" if state is None else "changed")
        self.open = state

    def become(self, state):
        before, self.state = self.state, state
        if before == state:
            return
        if state in TROUBLE:
            self.into_trouble += 1
            self.tell(state)
        elif before in TROUBLE:
            self.tell(None)


class SourceMachine(RuleBasedStateMachine):
    @initialize(
        count=st.integers(1, 6),
        threshold=st.integers(1, 3),
        probation=st.integers(0, 2),
        disables=st.booleans(),
    )
    def begin(self, count, threshold, probation, disables):
        self.clock = FakeClock(1_800_000_000.0)
        self.before = clock.use(self.clock)
        self.rules = SourceRules(
            threshold=threshold, probation=probation, disables=disables, first_probe=FIRST, longest_probe=LONGEST,
            stale_after=STALE, outage_sources=4, outage_limit=LIMIT,
        )  # fmt: skip
        self.store = MemoryStore()
        profile = Profile("feed", preset("feed"), self.rules)
        self.book = SourceRegistry(self.store, {"feed": profile})
        self.model: dict[int, Plain] = {}
        self.cycle, self.claims = None, {}
        self.outage_since, self.outage_open, self.outage_kinds = None, None, []
        self.polled_before, self.ended_at = None, None
        for _ in range(count):
            self.a_source_is_added()

    def teardown(self):
        clock.use(self.before)

    @property
    def now(self):
        return self.clock.now()

    @precondition(lambda self: len(self.model) < 8)
    @rule()
    def a_source_is_added(self):
        self.model[self.book.add(f"http://feed.test/{len(self.model)}").id] = Plain()

    @rule(seconds=st.sampled_from([1.0, 60.0, 150.0, 700.0, 3000.0]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @precondition(lambda self: self.cycle is None)
    @rule()
    def a_cycle_begins(self):
        due = {
            number
            for number, plain in self.model.items()
            if (plain.until is None or plain.until <= self.now) and plain.by != "hand"
        }
        self.cycle = self.store.open_cycle("feed", everything=True)
        assert (self.cycle is not None) == bool(due)
        if self.cycle is None:
            return
        self.claims = {each.id: each.epoch for each in self.store.claim_sources(self.cycle.id, "me", 100, 1e6)}
        assert self.claims.keys() == due
        for number, plain in self.model.items():
            plain.in_cycle = number in due
            plain.outcome = None if plain.in_cycle else plain.outcome

    @precondition(lambda self: self.cycle is not None and self.claims)
    @rule(
        data=st.data(),
        result=st.sampled_from(["changed", "unchanged", "failed", "failed", "down", "deferred", "limited"]),
    )
    def a_poll_ends(self, data, result):
        self.end_poll(data.draw(st.sampled_from(sorted(self.claims))), result)

    def end_poll(self, number, result):
        change = {
            "changed": lambda: outcomes.success_change(
                self.rules, 900, Fetched(), "new", outcome="changed", attempts=1
            ),
            "unchanged": lambda: outcomes.success_change(
                self.rules, 900, Fetched(), None, outcome="unchanged", attempts=1
            ),
            "failed": lambda: outcomes.failure_change(self.rules, 900, classify(ERRORS[True]), 1),
            "down": lambda: outcomes.failure_change(self.rules, 900, classify(ERRORS[False]), 1),
            "deferred": lambda: outcomes.deferral_change(self.rules, 60.0, None, 0),
            "limited": lambda: outcomes.deferral_change(self.rules, 60.0, classify(RateLimitError("busy")), 1),
        }[result]()
        self.store.change_sources({number: (self.claims.pop(number), change)})
        plain = self.model[number]
        if plain.outcome is not None:  # a hand was quicker, and the poll comes too late
            return
        if result in {"changed", "unchanged"}:
            self.succeed(plain, result)
        elif result in {"deferred", "limited"}:
            plain.outcome, plain.pending, plain.until = "deferred", None, self.now + 60.0
            if result == "limited" and plain.state != "disabled":  # nothing is counted, but it is no success either
                plain.since = self.now if plain.since is None else plain.since
                if plain.count >= self.rules.threshold or self.now - plain.since >= STALE:
                    plain.become("error")
        else:
            plain.outcome, plain.pending = "failed", result == "failed"
            plain.until = self.now + self.wait(plain) if plain.state == "disabled" else None

    def succeed(self, plain, outcome):
        """A success; one that somebody reports beside the cycle is no outcome of it."""
        plain.outcome, plain.pending, plain.until = outcome or plain.outcome, None, None
        if plain.by == "hand":
            return
        plain.count, plain.since, plain.was_well = 0, None, True
        if plain.state == "disabled" and self.rules.probation:
            plain.by, plain.passed = None, 0
            plain.become("probation")
        elif plain.state == "probation" and plain.passed + 1 < self.rules.probation:
            plain.passed += 1
        else:
            plain.by, plain.probes, plain.passed = None, 0, 0
            plain.become("healthy")

    def fail(self, plain, counts):
        """A failure stands."""
        plain.pending = None
        if plain.by == "hand":
            return
        plain.since = self.now if plain.since is None else plain.since
        plain.count += counts
        if plain.state == "disabled":
            plain.probes += 1
        elif counts and self.rules.disables and (plain.count >= self.rules.threshold or plain.state == "probation"):
            plain.probes += plain.state == "probation"
            plain.by, plain.passed = "rule", 0
            plain.become("disabled")
        elif plain.count >= self.rules.threshold or self.now - plain.since >= STALE:
            plain.become("error")
        elif counts and plain.state == "healthy":
            plain.become("warning")
        if plain.state == "disabled":
            plain.until, plain.probe_asked = self.now + self.wait(plain), False

    def wait(self, plain):
        return min(FIRST * 2**plain.probes, LONGEST)

    @precondition(lambda self: self.cycle is not None)
    @rule(data=st.data(), outage=st.booleans())
    def a_cycle_ends(self, data, outage):
        close = outcomes.cycle_close("feed", self.rules)
        if self.claims and any(self.model[each].outcome is None for each in self.claims):
            assert self.store.close_cycle(self.cycle.id, close) is None, "somebody is still polled"
        results = st.sampled_from(["changed", "unchanged", "failed", "down", "deferred", "limited"])
        for number in sorted(self.claims):
            self.end_poll(number, "down" if outage else data.draw(results))
        closed = self.store.close_cycle(self.cycle.id, close)
        polled = [each for each in self.model.values() if each.in_cycle and each.outcome != "deferred"]
        bad = [each for each in polled if each.pending is not None]
        if self.ended_at is not None and self.now - self.ended_at >= max(LIMIT, 86400.0):
            self.outage_since = None  # nobody knows what was in between
        some_well = len(bad) < len(polled)
        fresh = [each for each in polled if each.since is None and (each.was_well or not some_well)]
        fresh_bad = [each for each in fresh if each.pending is not None]
        wide = len(polled) >= 4 and 2 * len(bad) >= len(polled) and fresh_bad and 2 * len(fresh_bad) >= len(fresh)
        lasted = 0.0 if self.outage_since is None else self.now - self.outage_since
        most = self.polled_before is not None and 2 * len(polled) >= self.polled_before
        enough = len(polled) >= 4 or (most and not bad)
        if wide:
            self.outage_since = self.now if self.outage_since is None else self.outage_since
        elif some_well and enough:
            self.outage_since = None
        self.polled_before, self.ended_at = len(polled), self.now
        self.tell_outage("outage" if wide and lasted < LIMIT else "lasting" if wide else None)
        for plain in bad:
            if wide and lasted < LIMIT:
                plain.pending = None
            else:
                self.fail(plain, plain.pending)
        assert (closed.cycle.polled, closed.cycle.failed) == (len(polled), len(bad))
        assert closed.cycle.sources == sum(each.in_cycle for each in self.model.values())
        assert closed.cycle.sources == closed.cycle.polled + closed.cycle.deferred
        for plain in self.model.values():
            plain.in_cycle = False
        self.cycle, self.claims = None, {}

    def tell_outage(self, state):
        if state == self.outage_open or (state is None and self.outage_since is not None):
            return
        self.outage_kinds.append("first" if self.outage_open is None else "recovered" if state is None else "changed")
        self.outage_open = state

    @rule(data=st.data())
    def somebody_enables(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.book.enable(number)
        plain = self.model[number]
        plain.count, plain.since, plain.by, plain.probes, plain.passed = 0, None, None, 0, 0
        plain.until = plain.pending = None
        plain.become("healthy")

    @rule(data=st.data())
    def somebody_disables(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.book.disable(number, "by hand")
        plain = self.model[number]
        plain.state, plain.by = "disabled", "hand"
        plain.until = plain.pending = None
        plain.tell(None)
        if plain.in_cycle and plain.outcome is None:
            plain.outcome = "deferred"

    @rule(data=st.data())
    def somebody_probes(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        plain = self.model[number]
        assert self.book.probe(number) is (plain.by != "hand")
        if plain.by != "hand":
            plain.until, plain.probe_asked = None, True

    @rule(data=st.data(), counts=st.booleans())
    def a_failure_is_reported(self, data, counts):
        number = data.draw(st.sampled_from(sorted(self.model)))
        plain = self.model[number]
        before = plain.state
        moved = self.book.record_failure(number, ERRORS[counts])
        self.fail(plain, counts)
        assert (moved is not None) == (plain.state != before)

    @rule(data=st.data())
    def a_success_is_reported(self, data):
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.book.record_success(number)
        self.succeed(self.model[number], None)

    @invariant()
    def sources_are_what_they_should_be(self):
        for number, plain in self.model.items():
            source = self.store.source(number)
            health = source.health
            assert (source.state, source.consecutive_failures, health.disabled_by) == (
                plain.state,
                plain.count,
                plain.by,
            )
            assert (health.probes, health.failing_since is None) == (plain.probes, plain.since is None)
            found = None if source.not_before is None else source.not_before.timestamp()
            assert found == plain.until
            if health.disabled_by == "rule" and not plain.probe_asked:
                assert source.not_before is not None, "it is probed again, and not at once"
            if self.cycle is None:
                assert source.pending is None

    @invariant()
    def states_add_up(self):
        counts = self.book.health("feed")
        assert sum(counts.values()) == len(self.model)
        for state, count in counts.items():
            assert count == sum(plain.state == state for plain in self.model.values())

    @invariant()
    def each_matter_is_told_of_in_its_order(self):
        rows = self.store.alerts(limit=10_000)[::-1]
        for number, plain in self.model.items():
            kinds = [str(each.kind) for each in rows if each.key == f"source:{number}"]
            assert kinds == plain.kinds
            assert len([each for each in kinds if each != "recovered"]) == plain.into_trouble, "one for each"
            told = None
            for kind in kinds:
                assert (kind == "first") == (told is None), "first when nothing is open, and only then"
                told = None if kind == AlertKind.RECOVERED else kind
            assert (told is not None) == (plain.open is not None)
        assert [str(each.kind) for each in rows if each.key == "outage:feed"] == self.outage_kinds


SourceMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=40)
TestSources = pytest.mark.timeout(300)(SourceMachine.TestCase)  # thousands of steps, each on a real file
