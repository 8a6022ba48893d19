"""The breaker against a plain model of it, in whatever order calls begin, end and time passes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlast import BreakerSettings
from outlast.decide.breaker import Breaker


class BreakerMachine(RuleBasedStateMachine):
    """The model keeps every outcome since the last change of state, and counts from scratch each time."""

    @initialize(
        consecutive=st.none() | st.integers(1, 4),
        rate=st.none() | st.sampled_from([0.25, 0.5, 1.0]),
        window=st.integers(1, 6),
        slow=st.none() | st.just(2.0),
        probes=st.integers(1, 3),
    )
    def begin(self, consecutive, rate, window, slow, probes):
        if consecutive is None and rate is None:
            consecutive = 2
        self.settings = BreakerSettings(
            consecutive=consecutive, failure_rate=rate, window=window, slow_call=slow, open_for=10, probes=probes
        )
        self.breaker = Breaker(self.settings)
        self.now = 0.0
        self.calls = []
        self.state, self.until = "closed", 0.0
        self.change()

    def change(self, state=None):
        self.state = state or self.state
        self.epoch = object()
        self.outcomes, self.passed = [], 0

    @rule(seconds=st.sampled_from([1.0, 4.0, 10.0, 11.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def a_call_begins(self):
        permit = self.breaker.permit(self.now)
        waiting = any(epoch is self.epoch for _, epoch in self.calls)
        if self.now >= self.until and (self.state == "open" or (self.state == "half_open" and waiting)):
            self.change("half_open")  # for the first time, or because a probe never came back
            self.until = self.now + self.settings.open_for
        running = sum(epoch is self.epoch for _, epoch in self.calls)
        allowed = self.state == "closed" or (self.state == "half_open" and running + self.passed < self.settings.probes)
        assert bool(permit) == allowed
        if permit:
            self.calls.append((permit, self.epoch))

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), end=st.sampled_from(["success", "slow", "failure", "cancelled"]))
    def a_call_ends(self, data, end):
        permit, epoch = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        if end == "failure":
            self.breaker.failed(self.now, permit)
        elif end == "cancelled":
            self.breaker.withdrawn(permit)
        else:
            self.breaker.succeeded(self.now, permit, 3.0 if end == "slow" else 0.0)
        if epoch is self.epoch and end != "cancelled":
            failed = end == "failure" or (end == "slow" and self.settings.slow_call is not None)
            self.counted(failed)

    def counted(self, failed):
        if self.state == "half_open":
            self.passed += not failed
            if failed:
                self.opened(self.settings.open_for)
            elif self.passed == self.settings.probes:
                self.change("closed")
            return
        self.outcomes.append(failed)
        row = 0
        for each in reversed(self.outcomes):
            if not each:
                break
            row += 1
        last = self.outcomes[-self.settings.window :]
        rate = self.settings.failure_rate
        too_many = self.settings.consecutive is not None and row >= self.settings.consecutive
        too_often = rate is not None and len(last) == self.settings.window and sum(last) / len(last) >= rate
        if failed and (too_many or too_often):
            self.opened(self.settings.open_for)

    def opened(self, seconds):
        self.change("open")
        self.until = self.now + seconds

    @rule(seconds=st.sampled_from([0.0, 5.0, float("inf")]))
    def opened_by_hand(self, seconds):
        self.breaker.open(self.now, seconds=seconds)
        self.opened(seconds)

    @rule()
    def closed_by_hand(self):
        self.breaker.close()
        if self.state == "closed":
            self.outcomes = []
        else:
            self.change("closed")

    @invariant()
    def the_states_agree(self):
        if hasattr(self, "breaker"):
            assert self.breaker.state == self.state
            assert bool(self.breaker.passing) == (self.state == "closed")
            assert len(self.breaker.outcomes) <= self.settings.window


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
