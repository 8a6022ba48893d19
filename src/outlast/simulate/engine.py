"""The event loop of a simulation, on a clock of its own: every decision is made by the code of the real loops.

`decide` decides about each failed call, `Breaker` and `Budget` allow it or not, `admit_candidates` and `retry_places`
keep the limits. Only the other side and the time are simulated.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from outlast.classify import attach_failure, failure_of
from outlast.decide.breaker import Breaker, Budget
from outlast.decide.decision import DecisionReason, DecisionState, Defer, Place, Retry, decide
from outlast.decide.limits import Candidate, LimitState, admit_candidates, retry_places
from outlast.errors import BreakerOpenError, RetryableError
from outlast.failure import RETRYABLE, Category, Failure, Origin
from outlast.simulate.scenario import BURST_EVERY, OtherSide, Scenario

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy

REPORT_EVERY = 5000
"""Events between two reports of progress."""
MAX_EVENTS = 10_000_000
"""Events after which a simulation is cut off: a policy may defer work for days."""
_MEAN_WEIGHT = 0.2
_MAX_QUEUED = 2.0  # timeouts; what is queued beyond that is refused at once
_BURST_SECONDS = 1.0  # the other side allows what its rate limit allows in this time at once


class Answer(NamedTuple):
    """What the other side does with a call: it takes some seconds, and fails if there is an error.

    Attributes:
        seconds: Seconds until the end of the call.
        error: The error; None for a success.
        failure: The classified error.
    """

    seconds: float
    error: Exception | None = None
    failure: Failure | None = None

    def after(self, seconds: float) -> "Answer":
        """Return the same answer, which takes so many seconds."""
        return Answer(seconds, self.error, self.failure)


def failed_answer(error: Exception, failure: Failure | None = None) -> Answer:
    """Return the answer of a call that raises an error."""
    known = failure_of(error) if failure is None else failure
    attach_failure(error, known)
    return Answer(0.0, error, known)


def category_answer(
    category: Category, message: str, *, status: int | None = None, retry_after: float | None = None
) -> Answer:
    """Return the answer of a call that fails with a category."""
    error: Exception = RetryableError(message) if category in RETRYABLE else ValueError(message)
    if category is Category.NETWORK:
        error = ConnectionError(message)
    failure = Failure(
        category, category in RETRYABLE, Origin.HTTP, status, retry_after=retry_after, exact=False,
        exception_name=type(error).__name__, message=message, rule="simulated",
    )  # fmt: skip
    return failed_answer(error, failure)


class Answers(Protocol):
    """Answers the calls of a simulation."""

    def answer(self, now: float, call: "SimulatedCall") -> Answer:
        """Return what happens to a call that starts now."""


class ScriptedSide:
    """The other side of a scenario.

    Args:
        side: How it behaves.
        chance: Returns a random number in [0, 1).
    """

    def __init__(self, side: OtherSide, chance: Callable[[], float]) -> None:
        self._side, self._chance = side, chance
        self._changes = sorted({time for phase in side.phases for time in (phase.start, phase.end)})
        self._until = -math.inf
        self._down_answer = failed_answer(ConnectionRefusedError(111, "the other side is down"))
        self._error = category_answer(side.category, "the other side failed")
        self._full = category_answer(Category.API_TEMPORARY, "the other side has no capacity", status=503)
        self._late = failed_answer(TimeoutError("timed out"))
        self._limited = category_answer(
            Category.RATE_LIMIT, "too many requests", status=429, retry_after=side.retry_after
        )
        self._queued, self._seen_at = 0.0, 0.0

    def _change_phase(self, now: float) -> None:
        self._now, self._down = self._side.at(now)
        self._until = next((each for each in self._changes if each > now), math.inf)
        limit = self._now.limit
        self._allowed = None if limit is None else Budget(max(1.0, limit * _BURST_SECONDS), limit)

    def answer(self, now: float, _call: "SimulatedCall") -> Answer:
        """Return what happens to a call that starts now."""
        if now >= self._until or self._until == -math.inf:
            self._change_phase(now)
        side = self._now
        if self._down:
            return self._down_answer.after(side.latency)
        if self._allowed is not None and not self._allowed.take(now):
            return self._limited.after(side.latency)
        seconds = side.latency
        if side.capacity is not None:
            self._queued = max(0.0, self._queued - (now - self._seen_at))
            self._seen_at = now
            if self._queued > _MAX_QUEUED * side.timeout:
                return self._full.after(side.latency)
            seconds += self._queued
            self._queued += 1 / side.capacity
            if seconds > side.timeout:
                return self._late.after(side.timeout)
        if side.errors and self._chance() < side.errors:
            return self._error.after(seconds)
        return Answer(seconds)


class SimulatedCall(DecisionState):
    """One piece of work: a call with its retries, or a task.

    Attributes:
        subject: What the other side needs to know of it.
        arrived: When it arrived.
        began: When its first attempt started; None before.
        deferred_at: When it was first deferred since its last attempt; None if it was not.
        epoch: How often it asked to start.
    """

    def __init__(self, engine: "SimulationEngine", number: int, arrived: float, subject: object) -> None:
        self.engine, self.subject, self.arrived = engine, subject, arrived
        self.place, self.chance = engine.place, engine.chance
        self.guard = engine.guards[number % len(engine.guards)]
        self.number, self.epoch = number, 0
        self.began: float | None = None
        self.deferred_at: float | None = None

    def refusal(self) -> DecisionReason | None:
        """Return why there is no retry, as `CallState` does for calls; a worker has no such reason."""
        if self.place is Place.TASK:
            return None
        breaker, budget, now = self.guard.breaker, self.guard.budget, self.engine.now
        if breaker is not None and breaker.state == "open" and now < breaker.until:
            return DecisionReason.BREAKER
        return None if budget is None or budget.take(now) else DecisionReason.BUDGET


class Guard:
    """The breaker and the budget of one process."""

    def __init__(self, scenario: Scenario) -> None:
        settings, budget = scenario.breaker, scenario.budget
        self.breaker = None if settings is None else Breaker(settings)
        self.budget = None if budget is None else Budget(budget.capacity, budget.per_second)


@dataclass
class SimulatedRun:
    """What happened in one run.

    Attributes:
        work: Pieces of work that arrived: the calls that were needed.
        calls: Calls that reached the other side.
        successes: Work that was done.
        failed: Work that failed for good, by reason: dead letters, or errors that a caller saw.
        refused: Calls that an open breaker refused.
        deferred: Deferrals, which use no attempt.
        completions: Seconds from the arrival to the success of each piece of work.
        seconds: For each second in which something happened: first calls, retries, successful calls, failures for good.
        recovery: Seconds from the end of the last outage until no more work was open than before it; None if unknown.
        ended: Seconds from the beginning to the end of the last work.
        cut_off: Whether the run was ended because it had too many events.
    """

    work: int = 0
    calls: int = 0
    successes: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    deferred: int = 0
    completions: list[float] = field(default_factory=list)
    seconds: dict[int, list[int]] = field(default_factory=dict)
    recovery: float | None = None
    ended: float = 0.0
    cut_off: bool = False

    @property
    def dead_letters(self) -> int:
        """Work that failed for good."""
        return sum(self.failed.values())

    @property
    def amplification(self) -> float:
        """Calls made for each piece of work."""
        return self.calls / self.work if self.work else 0.0

    @property
    def peak(self) -> int:
        """The most calls that reached the other side in one second."""
        return max((first + again for first, again, _, _ in self.seconds.values()), default=0)


Event = tuple[float, int, Callable[..., None], SimulatedCall, Any]


class SimulationEngine:
    """Runs one simulation.

    Args:
        policy: The policy.
        scenario: What protects the other side. Its arrivals and its other side are given as the next two arguments.
        side: Answers the calls.
        arrivals: When work arrives, in order, each with what `side` needs to know of it.
        random: The random numbers.
    """

    def __init__(
        self,
        policy: "RetryPolicy",
        scenario: Scenario,
        side: Answers,
        arrivals: Iterator[tuple[float, object]],
        random: Random,
    ) -> None:
        self.policy, self.scenario, self.side, self.arrivals = policy, scenario, side, arrivals
        self.place, self.chance, self.now = scenario.place, random.random, 0.0
        processes = 1 if self.place is Place.TASK else scenario.processes  # workers share their breakers
        self.guards = [Guard(scenario) for _ in range(processes)]
        self.tally = SimulatedRun()
        self._events: list[Event] = []
        self._order = count()
        self._flow = _Flow(scenario)

    def run(self, progress: Callable[[int], object] | None = None, *, most_events: int = MAX_EVENTS) -> SimulatedRun:
        """Run to the end, and return what happened.

        Args:
            progress: Called from time to time with the number of calls.
            most_events: Events after which the run is cut off.
        """
        tally, events, handled = self.tally, self._events, 0
        upcoming = next(self.arrivals, None)
        while upcoming is not None or events:
            if upcoming is not None and (not events or upcoming[0] <= events[0][0]):
                self.now, subject = upcoming
                call = SimulatedCall(self, tally.work, self.now, subject)
                tally.work += 1
                self._flow.opened(self.now)
                self._start(call)
                upcoming = next(self.arrivals, None)
            else:
                self.now, _, handle, call, value = heapq.heappop(events)
                handle(call, value)
            handled += 1
            if handled >= most_events:
                tally.cut_off = True
                break
            if progress is not None and handled % REPORT_EVERY == 0:
                progress(tally.calls)
        tally.ended = self.now
        return tally

    def _at(self, time: float, handle: Callable[..., None], call: SimulatedCall, value: Any = None) -> None:
        heapq.heappush(self._events, (time, next(self._order), handle, call, value))

    def _start(self, call: SimulatedCall, _value: object = None) -> None:
        """Start an attempt, unless a cooldown, a limit or the breaker delays it."""
        flow, now = self._flow, self.now
        if now < flow.cooldown_until:
            self._at(flow.cooldown_until, self._start, call)
            return
        holds_slot = self.place is Place.CALL and call.began is not None
        if not holds_slot:
            if flow.busy >= flow.slots:
                flow.waiting.append(call)
                return
            call.epoch += 1
            wait = flow.limit_wait(call, now)
            if wait is not None:
                self._at(now + wait, self._start, call)
                return
            flow.busy += 1
        if call.began is None:
            call.began = now
        breaker = call.guard.breaker
        permit = 0 if breaker is None else breaker.passing or breaker.permit(now)
        if breaker is not None and not permit:
            self.tally.refused += 1
            self._decide(call, _refused_answer(breaker, now))
            return
        tally = self.tally
        tally.calls += 1
        second = tally.seconds.setdefault(int(now), [0, 0, 0, 0])
        second[call.attempt > 1 or call.deferred_at is not None] += 1
        answer = self.side.answer(now, call)
        limit = self._attempt_limit(call)
        if limit is not None and answer.seconds > limit:
            answer = _TIMED_OUT.after(limit)
        self._at(now + answer.seconds, self._end, call, (permit, answer))

    def _attempt_limit(self, call: SimulatedCall) -> float | None:
        """Return the seconds after which an attempt is ended; the deadline of a policy does not apply to tasks."""
        limits = (self.policy.attempt_timeout, self._time_left(call))
        return min((each for each in limits if each is not None), default=None)

    def _time_left(self, call: SimulatedCall) -> float | None:
        if self.policy.deadline is None or self.place is Place.TASK or call.began is None:
            return None
        return max(0.0, call.began + self.policy.deadline - self.now)

    def _end(self, call: SimulatedCall, value: tuple[int, Answer]) -> None:
        """End an attempt: report it to the breaker, then decide."""
        permit, answer = value
        breaker, now = call.guard.breaker, self.now
        self._flow.measured(answer.seconds)
        if answer.error is None:
            if breaker is not None:
                breaker.succeeded(now, permit, answer.seconds)
            self.tally.successes += 1
            self.tally.completions.append(now - call.arrived)
            self.tally.seconds.setdefault(int(now), [0, 0, 0, 0])[2] += 1
            self._leave(call)
            return
        if breaker is not None:
            if breaker.settings.is_failure(answer.error):
                breaker.failed(now, permit)
            else:
                breaker.withdrawn(permit)
        self._decide(call, answer)

    def _decide(self, call: SimulatedCall, answer: Answer) -> None:
        """Ask the decider about a failed attempt, and do what it says."""
        assert answer.error is not None  # noqa: S101  # only failed attempts come here
        now, flow, tally, breaker = self.now, self._flow, self.tally, call.guard.breaker
        call.time_left, call.timed_out = self._time_left(call), type(answer.error) is TimeoutError
        call.deferred_for = 0.0 if call.deferred_at is None else now - call.deferred_at
        call.ask_policy(self.policy, answer.error, answer.failure)
        decision = decide(answer.failure, self.policy, call)
        is_task = self.place is Place.TASK
        if is_task and breaker is not None and breaker.state == "open" and self.scenario.cooldown:
            flow.cool(breaker.until)
        if isinstance(decision, Retry):
            call.attempt += 1
            call.deferred_at = None
            if is_task:
                self._free_slot()
                self._at(now + decision.delay + flow.retry_wait(now), self._start, call)
            else:
                call.previous = decision.delay
                self._at(now + decision.delay, self._start, call)
        elif isinstance(decision, Defer) and is_task:
            tally.deferred += 1
            call.deferred_at = now if call.deferred_at is None else call.deferred_at
            if self.scenario.cooldown:
                flow.cool(now + decision.delay)
            self._free_slot()
            self._at(now + decision.delay, self._start, call)
        else:
            reason = str(decision.reason)
            tally.failed[reason] = tally.failed.get(reason, 0) + 1
            tally.seconds.setdefault(int(now), [0, 0, 0, 0])[3] += 1
            self._leave(call)

    def _leave(self, call: SimulatedCall) -> None:
        """End a piece of work."""
        self._flow.closed(self.now, self.tally)
        if call.began is not None:
            self._free_slot()

    def _free_slot(self) -> None:
        flow = self._flow
        flow.busy -= 1
        if flow.waiting:
            self._at(self.now, self._start, flow.waiting.popleft())


_TIMED_OUT = failed_answer(TimeoutError("timed out"))
_REFUSED = failed_answer(BreakerOpenError("not called, the breaker is open"))


def _refused_answer(breaker: Breaker, now: float) -> Answer:
    """Return the answer of a call that the breaker refuses, as `Resource.enter` raises it."""
    if breaker.state != "open":
        return _REFUSED
    return failed_answer(BreakerOpenError("not called, the breaker is open", retry_after=max(0.0, breaker.until - now)))


class _Flow:
    """What limits how much runs: slots, cooldown and limits; and the number of open pieces of work."""

    def __init__(self, scenario: Scenario) -> None:
        self.slots, self.busy = scenario.slots, 0
        self.waiting: deque[SimulatedCall] = deque()
        self.cooldown_until = -math.inf
        self._limit = scenario.limit
        self._state: LimitState | None = None
        self._mean: float | None = None
        self._random = Random(0)  # noqa: S311  # of places, not a secret
        outages = scenario.other_side.outages
        self._outage_start = min((each.start for each in outages), default=math.inf)
        self._outage_end = max((each.end for each in outages), default=math.inf)
        self._open = 0
        self._usual = max(1.0, scenario.rate * scenario.other_side.latency * 2)

    def cool(self, until: float) -> None:
        """Start a cooldown; a longer one stays."""
        self.cooldown_until = max(self.cooldown_until, until)

    def limit_wait(self, call: SimulatedCall, now: float) -> float | None:
        """Return None if the limits allow a start, else the seconds after which to ask again."""
        if self._limit is None:
            return None
        candidate = Candidate(call.number, call.epoch, call.attempt > 1)
        decided = admit_candidates(
            self._limit, self._state, [candidate], busy=self.busy, mean=self._mean, now=now, chance=self._random.random
        )
        self._state = decided.standing
        return decided.waits.get(call.number)

    def retry_wait(self, now: float) -> float:
        """Return the seconds that a retry waits for its place, in addition to the wait of the policy."""
        if self._limit is None or self._limit.retries is None:
            return 0.0
        waits, self._state = retry_places(self._limit, self._state, 1, now)
        return waits[0]

    def measured(self, seconds: float) -> None:
        """Record the duration of a call, as a worker does for its concurrency limit."""
        if self._limit is not None:
            self._mean = seconds if self._mean is None else self._mean + _MEAN_WEIGHT * (seconds - self._mean)

    def opened(self, now: float) -> None:
        """Record that a piece of work arrived."""
        self._open += 1
        if now < self._outage_start:
            self._usual = max(self._usual, self._open)

    def closed(self, now: float, tally: SimulatedRun) -> None:
        """Record that a piece of work has ended."""
        self._open -= 1
        if now >= self._outage_end and tally.recovery is None and self._open <= self._usual:
            tally.recovery = round(now - self._outage_end, 3)


def arrivals(scenario: Scenario, random: Random) -> Iterator[tuple[float, object]]:
    """Yield when work arrives."""
    rate, end = scenario.rate, scenario.duration
    if scenario.arrivals == "constant":
        yield from ((number / rate, None) for number in range(math.ceil(rate * end - 1e-9)))
        return
    if scenario.arrivals == "burst":
        size = max(1, round(rate * BURST_EVERY))
        for burst in range(math.ceil(end / BURST_EVERY)):
            yield from ((burst * BURST_EVERY, None) for _ in range(size))
        return
    now = random.expovariate(rate)
    while now < end:
        yield now, None
        now += random.expovariate(rate)
