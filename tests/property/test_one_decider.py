"""One decider: random failures, policies and states give the same decisions through `decide` and on every real path.

`expected` asks `decide` about one attempt after the other. Each driver sends the same attempts down a real path, on a
fake clock with fixed random numbers, and returns what the path did. Both are lists of steps: kind, reason, delay.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import outlast
from outlast import Budget, RetryPolicy
from outlast.classify import classify
from outlast.decide.breaker import BreakerSettings
from outlast.decide.decision import AlertKind, Decision, DecisionReason, DecisionState, Place, Retry, decide
from outlast.decide.policy import verdict_on
from outlast.decide.source_health import Profile, SourceHealth
from outlast.errors import AbortJob, ConfigError, SkipTarget
from outlast.http import AsyncRetryTransport, RetryTransport
from outlast.jobs.context import RunFacts
from outlast.jobs.target import TargetPlan, run_attempts
from outlast.observe.alert_delivery import HINT_LIMIT, ChannelQueue, send_queues
from outlast.ports.external_attempts import AttemptState
from outlast.ports.rows import Claimed, DeadLetterFilter, Kind, Settlement, Status
from outlast.ports.source_rows import Alert, Source
from outlast.queue.settlement import dead_letter_reason, decide_task, settle_failure, task_state
from outlast.queue.task_failure import task_failure_of
from outlast.record.bus import subscribe
from outlast.record.events import GaveUp, Observed
from outlast.run import resources
from outlast.run.call_state import CURRENT
from outlast.run.cooldowns import CooldownTracker
from outlast.sources.poller import Poller, PollSettings
from outlast.testing import fake_clock
from outlast.worker import ErrorHandler, ExponentialBackoffStrategy
from property.failure_scenarios import (
    URL,
    VERDICTS,
    Fault,
    Scenario,
    broken_predicate,
    faults,
    policies,
    scenarios,
    with_corner_cases,
)

WALL_TIME = 1_750_000_000
NOW = datetime.fromtimestamp(WALL_TIME, UTC)
_numbers = count(1)


@dataclass(frozen=True)
class Step:
    """One decision.

    Attributes:
        kind: ``retry``, ``defer``, ``fail``, ``abort`` or ``skip``.
        delay: Seconds, for a retry or a deferral.
        reason: Why; None if the path does not show it.
    """

    kind: str
    delay: float | None
    reason: str | None


def step_of(decision: Decision) -> Step:
    delay = getattr(decision, "delay", None)
    return Step(type(decision).__name__.lower(), None if delay is None else float(delay), str(decision.reason))


# What is expected


class State(DecisionState):
    """The facts about an attempt, with a resource that allows so many retries."""

    retries_left: int | None = None
    breaker_open = False

    def refusal(self):
        if self.breaker_open:
            return DecisionReason.BREAKER
        return DecisionReason.BUDGET if self.retries_left == 0 else None


def verdict(policy, error, failure):
    """Return what the policy says about an error, as facts of a state."""
    try:
        wanted, wait = verdict_on(policy.retry_on, error, failure)
    except (RuntimeError, ConfigError):  # a broken function
        wanted = wait = None
    return {"wanted": wanted, "wait": wait}


def expected(scenario: Scenario, *, limit=None, in_process=False, **facts) -> list[Step]:
    """Return the decisions of `decide`, from the first attempt to the one that is not a retry.

    Args:
        scenario: The failures, the policy and the state.
        limit: Seconds for all attempts.
        in_process: Whether the attempts are made by an attempt loop, which knows more about them than a queue.
        facts: What the path tells the decider besides.
    """
    policy, steps, now, previous = scenario.policy, [], 0.0, None
    for attempt, fault in enumerate(scenario.faults, 1):
        now += fault.seconds
        error = fault.error()
        failure = classify(error)
        state = State(attempt=attempt, chance=lambda: scenario.chance, **verdict(policy, error, failure), **facts)
        if limit is not None:
            state.time_left = max(0.0, limit - now)
        if state.expires_in is not None:
            state.expires_in -= now
        if in_process:
            state.previous, state.retries_off = previous, scenario.retries_off
            state.nested = scenario.nested and not scenario.retries_off  # else the inner call makes one attempt
            state.timed_out = limit is not None and type(error) is TimeoutError
            state.skips, state.aborts = isinstance(error, SkipTarget), isinstance(error, AbortJob)
            if scenario.budget is not None:
                state.retries_left = max(0, scenario.budget - attempt + 1)
            state.breaker_open = attempt >= (scenario.breaker_opens_at or attempt + 1)
        decision = decide(failure, policy, state)
        steps.append(step_of(decision))
        if not isinstance(decision, Retry):
            return steps
        now, previous = now + decision.delay, decision.delay
    raise AssertionError("a policy allowed more attempts than it should")


def without_retry_reasons(steps: list[Step]) -> list[Step]:
    """Return the steps as a path shows them that does not tell why it retries."""
    return [replace(each, reason=None) if each.kind == "retry" else each for each in steps]


def as_stored(steps: list[Step]) -> list[Step]:
    """Return the steps as a dead letter shows them: a broken policy is a permanent failure."""
    *retries, last = without_retry_reasons(steps)
    if last.kind == "fail":
        last = replace(last, reason=str(dead_letter_reason(DecisionReason(last.reason))))
    return [*retries, last]


# The paths


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Log nothing: formatting thousands of records takes longer than all decisions."""
    caplog.set_level(logging.CRITICAL, "outlast")


@dataclass
class Script:
    """The function that is called: it fails as the scenario says, and notes how it came to be called again."""

    scenario: Scenario
    clock: object
    resource: resources.Resource | None = None
    steps: list[Step] = field(default_factory=list)
    ended: float = 0.0
    calls: int = 0
    give_ups: list[GaveUp] = field(default_factory=list)

    def next_fault(self):
        """Begin an attempt; return how it fails."""
        if self.calls:
            decision = getattr(CURRENT.get(), "decision", None)
            reason = None if decision is None else str(decision.reason)
            self.steps.append(Step("retry", self.clock.monotonic() - self.ended, reason))
        fault = self.scenario.faults[self.calls]
        self.calls += 1
        self.clock.advance(fault.seconds)
        self.ended = self.clock.monotonic()
        if self.calls == self.scenario.breaker_opens_at and self.resource is not None:
            self.resource.open()
        return fault

    def __call__(self, *_args):
        """Fail."""
        errors = [self.next_fault().error()]
        if not self.scenario.nested or self.scenario.retries_off:
            raise errors.pop()
        errors.append(ConnectionError("of the first attempt inside"))

        def inner():
            raise errors.pop()

        outlast.call(inner, policy=RetryPolicy(max_attempts=2, retry_on=Exception, base_delay=0))

    async def in_coroutine(self, *_args):
        """Fail in a coroutine."""
        self()

    def end(self, kind, delay, reason) -> list[Step]:
        """Return the steps with the last one, at which the path has given up."""
        return [*self.steps, Step(kind, delay, reason)]

    def end_of(self, error: Exception) -> list[Step]:
        """Return the steps with the last one as the report on the error shows it."""
        retry_at = error.__outlast__.retry_at
        if retry_at is None:
            return self.end("fail", None, self.last_reason)
        return self.end("defer", retry_at - self.clock.now(), self.last_reason)

    @property
    def last_reason(self) -> str:
        """Why the path gave up."""
        return self.give_ups[-1].reason


@contextmanager
def scripted(scenario: Scenario):
    """Give a script on a fake clock; the scenario's policy gets a resource if there is something to be refused."""
    name = f"one decider {next(_numbers)}"
    with fake_clock(WALL_TIME, chance=scenario.chance) as clock, ExitStack() as stack:
        script = Script(scenario, clock)
        stack.callback(subscribe(script.give_ups.append, GaveUp))
        if scenario.budget is not None or scenario.breaker_opens_at is not None:
            budget = None if scenario.budget is None else Budget(scenario.budget, 0)
            script.resource = outlast.resource(name, budget=budget, breaker=BreakerSettings(consecutive=1000))
            stack.callback(resources._resources.pop, name)
            script.scenario = scenario.with_policy(resource=name)
        if scenario.retries_off:
            stack.enter_context(outlast.no_retries())
        yield script


def drive_call(scenario):
    with scripted(scenario) as script:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # any of them
            outlast.call(script, policy=script.scenario.policy)
        return script.end_of(caught.value)


def drive_async_call(scenario):
    with scripted(scenario) as script:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # any of them
            asyncio.run(outlast.call(script.in_coroutine, policy=script.scenario.policy))
        return script.end_of(caught.value)


def drive_block(scenario):
    with scripted(scenario) as script:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # any of them
            for attempt in outlast.attempts(script.scenario.policy):
                with attempt:
                    script()
        return script.end_of(caught.value)


@dataclass
class ScriptedTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers as the script says."""

    script: Script

    def handle_request(self, request):
        fault = self.script.next_fault()
        if (response := fault.response()) is not None:
            return response
        raise fault.error()

    async def handle_async_request(self, request):
        return self.handle_request(request)


def drive_http(scenario):
    """Send a request. A response that the policy does not retry is returned, and so has no reason."""
    with scripted(scenario) as script:
        inner = ScriptedTransport(script)
        transport = RetryTransport(inner, policy=script.scenario.policy, patience=scenario.patience)
        try:
            transport.handle_request(httpx.Request("GET", URL))
        except Exception as error:
            return script.end_of(error)
        return script.end("fail", None, None)


def drive_async_http(scenario):
    with scripted(scenario) as script:
        inner = ScriptedTransport(script)
        transport = AsyncRetryTransport(inner, policy=script.scenario.policy, patience=scenario.patience)
        try:
            asyncio.run(transport.handle_async_request(httpx.Request("GET", URL)))
        except Exception as error:
            return script.end_of(error)
        return script.end("fail", None, None)


SOURCE = Source(
    1, URL, "feed", "", None, SourceHealth(), None, None, NOW, None, None, None, None, None, 1, None, None, 1, NOW, NOW
)  # fmt: skip


def drive_poll(scenario):
    """Poll a source; what is written shows whether it failed or was deferred."""
    with scripted(scenario) as script:

        async def fetch(source, client):
            script()

        async def poll():
            profile = Profile("feed", script.scenario.policy)
            how = PollSettings(profile, fetch, None, every=900, timeout=60, concurrency=1, per_host=1)
            return await Poller(how, CooldownTracker(), None).poll(SOURCE)

        written = asyncio.run(poll())(SOURCE, NOW)
        if written.poll.outcome == "deferred":
            return script.end("defer", (written.source.not_before - NOW).total_seconds(), script.last_reason)
        assert written.poll.outcome == "failed"
        assert written.poll.attempts == script.calls
        return script.end("fail", None, script.last_reason)


def drive_target(scenario):
    """Run the handler of a job on one target; its retry budget is that of the run."""
    with scripted(scenario) as script:
        facts = RunFacts("job", "run", "test", NOW, None, dry_run=False)
        plan = TargetPlan(script, scenario.policy, facts, budget=script.resource)
        result = run_attempts(plan, {}, "target", "target")
        status = str(result.row.status)
        if status == "skipped":
            return script.end("skip", None, "skipped")
        if result.abort is not None:
            return script.end("abort", None, "aborted")
        if status == "deferred":
            return script.end("defer", result.row.retry_in, script.last_reason)
        return script.end("fail", None, script.last_reason)


def step_of_settlement(settlement: Settlement) -> Step:
    match settlement.kind:
        case Kind.RETRY:
            return Step("retry", settlement.delay, None)
        case Kind.DEFER:
            return Step("defer", settlement.delay, "deferred")
        case Kind.FAIL:
            return Step("fail", None, str(settlement.reason))


def drive_task(scenario):
    """Settle one failed attempt after the other, as a worker does."""
    steps, now = [], 0.0
    with closing(outlast.App("memory://")) as app, fake_clock(WALL_TIME, chance=scenario.chance):
        definition = app.task(name="work", policy=scenario.policy)(lambda: None)
        for attempt, fault in enumerate(scenario.faults, 1):
            now += fault.seconds
            expires_in = None if scenario.expires_in is None else scenario.expires_in - now
            claimed = Claimed(
                1, 1, "work", "{}", attempt, attempt - 1, None, expires_in, scenario.deferred_for,
                started=True, suspect=False, canary=scenario.canary,
            )  # fmt: skip
            failure = task_failure_of(fault.error(), scenario.policy)
            settlement = settle_failure(definition, claimed, failure).settlement
            steps.append(step_of_settlement(settlement))
            if settlement.kind is not Kind.RETRY:
                break
            now += settlement.delay
    return steps


def drive_celery(scenario):
    """Ask for the decision that the Celery engine records, for one failed attempt after the other."""
    steps, now = [], 0.0
    with fake_clock(WALL_TIME, chance=scenario.chance):
        for attempt, fault in enumerate(scenario.faults, 1):
            now += fault.seconds
            expires_in = None if scenario.expires_in is None else scenario.expires_in - now
            row = AttemptState(
                "work", Status.RUNNING, attempt - 1, 1, expires_in, scenario.deferred_for, scenario.canary
            )
            failure = task_failure_of(fault.error(), scenario.policy)
            facts = task_state(failure.wanted, row, attempt=attempt, wait=failure.wait, exhausted=scenario.exhausted)
            decision = decide_task(failure.failure, scenario.policy, facts)
            steps.append(step_of(decision))
            if not isinstance(decision, Retry):
                break
            now += decision.delay
    return steps


def drive_alert(scenario):
    """Send an alert to a channel that fails. A delivery shows only that it gives up, not why."""
    with fake_clock(WALL_TIME, chance=scenario.chance) as clock:
        script = Script(scenario, clock)
        script.name, script.send = "channel", script
        alert = Alert(1, "source:1", AlertKind.FIRST, "error", "title", "", 1, 1, (), None, None, NOW)
        queue = ChannelQueue(script, [alert], scenario.policy, clock.monotonic() + scenario.lease)
        send_queues([queue], lambda: False)
        assert list(queue.failed) == [1]
        return script.end("give up", None, None)


def drive_error_handler(strategy, scenario):
    """Report one failed attempt after the other, as a worker with its own loop does."""
    with fake_clock(WALL_TIME, chance=scenario.chance), closing(outlast.App("memory://")) as app:
        task = app.task(name="work")(lambda: None).enqueue()
        handler, steps = ErrorHandler(app, strategy), []
        for attempt, fault in enumerate(scenario.faults, 1):
            handled = handler.handle_error(task.id, fault.error(), attempt)
            assert handled["changed"]
            stored = app.store.get(task.id)
            if not handled["retry"]:
                (letter,) = app.store.dead_letters(DeadLetterFilter())
                return [*steps, Step("fail", None, str(letter.reason))]
            assert (stored.next_run_after - NOW).total_seconds() == pytest.approx(handled["delay"], abs=0.002)
            if handled["deferred"]:
                assert (stored.deferrals, stored.retry_count) == (1, attempt - 1), "no attempt is used"
                return [*steps, Step("defer", handled["delay"], "deferred")]
            assert stored.retry_count == attempt
            steps.append(Step("retry", handled["delay"], None))
    raise AssertionError("a strategy allowed more attempts than it should")


# The same decisions everywhere


def in_process(scenario, place=Place.CALL, **facts):
    return expected(scenario, place=place, limit=scenario.policy.deadline, in_process=True, **facts)


@pytest.mark.parametrize("drive", [drive_call, drive_async_call, drive_block])
@with_corner_cases
@given(scenario=scenarios)
def test_a_call(drive, scenario):
    assert drive(scenario) == in_process(scenario)


@pytest.mark.parametrize("drive", [drive_http, drive_async_http])
@with_corner_cases
@given(scenario=scenarios)
def test_an_http_request(drive, scenario):
    scenario = replace(scenario, nested=False)
    if scenario.policy.retry_on in VERDICTS:
        # A verdict replaces the wait that a server asks for, but the cooldown of the host holds the request back.
        faults = tuple(each if each.response() is None else replace(each, wait=None) for each in scenario.faults)
        scenario = replace(scenario, faults=faults)
    steps = in_process(scenario, Place.HTTP, patience=scenario.patience)
    last = scenario.faults[len(steps) - 1]
    if (
        last.response() is not None
        and verdict(scenario.policy, last.error(), classify(last.error()))["wanted"] is False
    ):
        steps[-1] = replace(steps[-1], reason=None)
    assert drive(scenario) == steps


@with_corner_cases
@given(scenario=scenarios)
def test_a_poll(scenario):
    assert drive_poll(scenario) == in_process(scenario, Place.POLL)


@with_corner_cases
@given(scenario=scenarios)
def test_a_target_of_a_job(scenario):
    assert drive_target(scenario) == in_process(scenario, Place.TARGET)


def facts_of_task(scenario):
    return {"expires_in": scenario.expires_in, "deferred_for": scenario.deferred_for, "canary": scenario.canary}


@with_corner_cases
@given(scenario=scenarios)
def test_a_task(scenario):
    assert drive_task(scenario) == as_stored(expected(scenario, place=Place.TASK, **facts_of_task(scenario)))


@with_corner_cases
@given(scenario=scenarios)
def test_a_task_of_celery(scenario):
    facts = facts_of_task(scenario) | {"exhausted": scenario.exhausted}
    assert as_stored(drive_celery(scenario)) == as_stored(expected(scenario, place=Place.TASK, **facts))


@with_corner_cases
@given(scenario=scenarios)
def test_the_delivery_of_an_alert(scenario):
    """A delivery knows of no resource and no retries inside; its lease limits the time."""
    scenario = replace(scenario, nested=False, retries_off=False, budget=None, breaker_opens_at=None)
    *retries, _ = expected(scenario, limit=scenario.lease, in_process=True, patience=HINT_LIMIT)
    assert drive_alert(scenario) == [*without_retry_reasons(retries), Step("give up", None, None)]


@settings(max_examples=30)
@with_corner_cases
@given(scenario=scenarios)
def test_an_error_handler(scenario):
    given = scenario.policy
    strategy = ExponentialBackoffStrategy(given.max_attempts, given.base_delay, given.max_delay, jitter=given.nested)
    policy = RetryPolicy(
        max_attempts=given.max_attempts,
        backoff=lambda retry: strategy.policy.get_delay(retry, chance=lambda: scenario.chance),
        jitter=0.0,
        overrides={"rate_limit": {}},  # the delay of a strategy is used as it is
    )
    steps = expected(replace(scenario, policy=policy), place=Place.TASK, counts_own_waits=True)
    assert drive_error_handler(strategy, scenario) == as_stored(steps)


@with_corner_cases
@given(scenario=scenarios)
def test_observe_mode(scenario):
    """Only the first decision is known, at the beginning of the call, and resources are not asked."""
    events = []
    first = replace(scenario.faults[0], seconds=0.0)
    scenario = replace(
        scenario, faults=(first, *scenario.faults[1:]), retries_off=False, budget=None, breaker_opens_at=None
    )
    with scripted(scenario) as script:
        unsubscribe = subscribe(events.append, Observed)
        with pytest.raises(type(first.error())):
            outlast.retry(script, policy=scenario.policy, mode="observe")()
        unsubscribe()
    (event,) = events
    step = in_process(scenario)[0]
    assert (event.decision, event.delay) == (step.kind, step.delay)
    assert event.decision != "fail" or event.reason == step.reason


states = st.builds(
    DecisionState,
    place=st.sampled_from(Place),
    attempt=st.integers(1, 5),
    wanted=st.sampled_from([True] * 8 + [False, None]),
    wait=st.sampled_from([None, None, None, 0.0, 5.25, 7200.0]),
    previous=st.none() | st.integers(0, 60).map(float),
    time_left=st.none() | st.integers(0, 200).map(float),
    patience=st.none() | st.integers(0, 60).map(float),
    deferred_for=st.sampled_from([0.0, 86400.0, 8 * 86400.0]),
    expires_in=st.none() | st.integers(0, 4000).map(float),
    counts_own_waits=st.booleans(),
    chance=st.just(lambda: 0.5),
) | st.builds(
    DecisionState,
    timed_out=st.booleans(),
    nested=st.booleans(),
    retries_off=st.booleans(),
    canary=st.booleans(),
    exhausted=st.booleans(),
    aborts=st.booleans(),
    skips=st.booleans(),
    chance=st.just(lambda: 0.5),
)
THRICE = RetryPolicy(max_attempts=3, backoff="exponential", base_delay=2.0)


@example(fault=Fault(500), policy=THRICE, state=DecisionState(time_left=1.0, chance=lambda: 0.5))
@example(fault=Fault(500), policy=THRICE, state=DecisionState(time_left=5.0, chance=lambda: 0.5))
@example(fault=Fault(500), policy=THRICE, state=DecisionState(place=Place.TASK, expires_in=3.0, chance=lambda: 0.5))
@given(fault=faults, policy=policies, state=states)
def test_explain(fault, policy, state):
    explanation = outlast.explain(fault.error(), policy=policy, state=state)
    assert explanation.decision == decide(classify(fault.error()), policy, state)
    assert str(explanation)


@example(fault=Fault(500), policy=RetryPolicy(retry_on=broken_predicate))
@given(fault=faults, policy=policies)
def test_explain_without_a_state_is_the_first_attempt_of_a_call(fault, policy):
    error, failure = fault.error(), classify(fault.error())
    state = DecisionState(**verdict(policy, error, failure), time_left=policy.deadline, chance=lambda: 1.0)
    assert outlast.explain(error, policy=policy).decision == decide(failure, policy, state)
