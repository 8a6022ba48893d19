"""Replay recorded tasks under another policy.

When a task first ran, and what came of it, is taken from the record. What later calls would have met is inferred from
all recorded calls of the resource, the nearest three before and after in time:

- **up** if all six succeeded, **down** if all six failed in the same sense;
- **mixed** if both happen side by side: a call fails with their share of failures;
- **unknown** if the three before agree, the three after agree, and the two differ, or if the record ends while the
  resource is down: a lucky reading takes such a call as a success, an unlucky one as a failure;
- **limited** if it answered that there were too many requests: it allows the rate of successful calls of those times.

Permanent failures belong to a task, not to the resource, and happen again. Each reading runs several times; the range
is from the smallest to the largest figure, widened by `MODEL_ERROR`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from statistics import median
from typing import Any, NamedTuple, Protocol

from outlast.decide.breaker import Budget
from outlast.decide.policy import RetryPolicy
from outlast.failure import RETRYABLE, Category, Failure
from outlast.ports.rows import Attempt, RecordedTask, Status
from outlast.simulate.engine import Answer, SimulatedCall, SimulatedRun, SimulationEngine, failed_answer
from outlast.simulate.result import Spread
from outlast.simulate.scenario import MAX_COUNT, Scenario
from outlast.units import span

MAX_RECORDED = 200_000
"""Most tasks of a history; of more, the newest."""
MODEL_ERROR = 0.05
"""By how much a range is widened: the error that the validation against real workers allows."""
_PAGE = 1000
_NEIGHBOURS = 3
_MAX_FITTED = 3000  # calls to which a limit is fitted
_BURSTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)  # calls that a limit may allow at once
_LONGEST_BURST = 5.0  # seconds of its rate
_RATE_STEP, _RATE_STEPS, _REFINEMENTS = 0.96, 130, (0.01, 0.004, 0.0015)
_MIN_LIMIT_ERROR, _MAX_LIMIT_ERROR = 0.02, 0.2
_RUNS = 3  # of each reading
_LUCKY, _NEAREST, _UNLUCKY = "lucky", "nearest", "unlucky"
_ENDED = {Status.DONE, Status.FAILED, Status.DISCARDED, Status.CANCELLED}


class RecordReader(Protocol):
    """The part of a store that a replay reads; nothing is ever written."""

    def recorded_tasks(self, before: int | None, limit: int) -> list[RecordedTask]:
        """Return tasks with their failed attempts, newest first."""


class RecordedCall(NamedTuple):
    """One recorded call.

    Attributes:
        start: When it started, in seconds since the epoch.
        seconds: How long it took.
        known: Whether its outcome is known.
        failure: The failure; None for a success.
        delay: Seconds until the next one was due; None if there was none.
    """

    start: float
    seconds: float
    known: bool
    failure: Failure | None
    delay: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the other side answered that there were too many requests."""
        return self.failure is not None and self.failure.category is Category.RATE_LIMIT

    @property
    def is_down(self) -> bool:
        """Whether the failure is one of the other side, not of the task."""
        return self.failure is not None and self.failure.retryable and not self.is_limited


class _Work(NamedTuple):
    """A recorded task, as it is replayed."""

    resource: str
    calls: tuple[RecordedCall, ...]
    permanent: Failure | None


def _calls_of(task: RecordedTask) -> list[RecordedCall]:
    calls = [_call_of(each) for each in task.attempts if each.started_at is not None]
    if task.status is Status.DONE and task.started_at is not None and task.ended_at is not None:
        seconds = (task.ended_at - task.started_at).total_seconds()
        calls.append(RecordedCall(task.started_at.timestamp(), max(0.0, seconds), known=True, failure=None))
    return calls


def _call_of(attempt: Attempt) -> RecordedCall:
    assert attempt.started_at is not None  # noqa: S101  # for type checkers: its caller has looked
    start, known = attempt.started_at.timestamp(), attempt.outcome in {"retry", "fail"}
    failure = Failure.from_dict(attempt.failure) if known else None
    return RecordedCall(start, max(0.0, attempt.finished_at.timestamp() - start), known, failure, attempt.delay)


class _ResourceRecord:
    """What the recorded calls tell of one resource."""

    def __init__(self, calls: list[RecordedCall]) -> None:
        calls.sort(key=lambda each: each.start)
        known = [each for each in calls if each.known]
        self.calls, self.known = calls, known
        self.times = [each.start for each in known]
        self.down = [each.is_down for each in known]
        self.done_seconds = [each.seconds for each in known if each.failure is None] or [0.0]
        self.failed_seconds = [each.seconds for each in known if each.failure is not None] or [0.0]
        self.limit = _limit_of(calls)

    def state(self, now: float) -> tuple[str, float]:
        """Return ``up``, ``down``, ``mixed`` or ``unknown`` at a time, and the likely share of failures."""
        place = bisect_left(self.times, now)
        before, after = self.down[max(0, place - _NEIGHBOURS) : place], self.down[place : place + _NEIGHBOURS]
        around = before + after
        share = sum(around) / len(around) if around else 0.0
        if not after and any(before):
            return "unknown", share
        if share in {0.0, 1.0}:
            return ("down" if share else "up"), share
        if not (len(set(before)) == len(set(after)) == 1):
            return "mixed", share
        is_later = self.times[place] - now < now - self.times[place - 1]
        nearest = self.down[place if is_later else place - 1]
        if self.times[place] == now:  # a recorded call at this very time
            return ("down" if nearest else "up"), float(nearest)
        return "unknown", float(nearest)

    def failure_at(self, now: float) -> Failure:
        """Return the failure of the other side that is nearest to a time."""
        place = bisect_left(self.times, now)
        earlier = next((each for each in reversed(range(place)) if self.down[each]), None)
        later = next((each for each in range(place, len(self.down)) if self.down[each]), None)
        found = [each for each in (earlier, later) if each is not None]
        failure = self.known[min(found, key=lambda each: abs(self.times[each] - now))].failure
        assert failure is not None  # noqa: S101  # for type checkers: a call that is down has failed
        return failure

    @property
    def back_at(self) -> float | None:
        """When it succeeded again after its last outage; None if it had none, or did not come back."""
        last = next((place for place in reversed(range(len(self.down))) if self.down[place]), None)
        return None if last is None or last + 1 == len(self.times) else self.times[last + 1]


class InferredLimit(NamedTuple):
    """The rate limit of a resource, as its record shows it.

    Attributes:
        rate: Calls per second that it allows.
        burst: Calls that it allows at once.
        error: The relative error of the rate.
    """

    rate: float
    burst: float
    error: float

    def bucket(self, sign: int = 0) -> Budget:
        """Return a token bucket with this limit; with a sign, at the upper (1) or lower (-1) end of the error."""
        return Budget(self.burst, self.rate * (1 + sign * self.error))


def _limit_of(calls: list[RecordedCall]) -> InferredLimit | None:
    """Return the limit of a resource; None if it refused no call.

    It is the token bucket that lets pass what the resource let pass, with the fewest mistakes. All calls count for the
    load, also those whose outcome is not known.
    """
    calls = calls[:_MAX_FITTED]
    known = [(place, each.is_limited) for place, each in enumerate(calls) if each.known and not each.is_down]
    if not any(is_limited for _, is_limited in known):
        return None

    passed = sum(not is_limited for _, is_limited in known)

    def fit(rate: float, burst: int) -> tuple[float, float, int]:
        bucket = Budget(burst, rate)
        taken = [bucket.take(each.start) for each in calls]
        count = sum(taken[place] for place, _ in known)
        mistakes = sum(taken[place] is is_limited for place, is_limited in known)
        return mistakes / 2 + 3 * abs(count - passed), rate, burst

    fastest = 2 * len(calls) / max(calls[-1].start - calls[0].start, 1e-3)
    bursts = [each for each in _BURSTS if each <= 1 + fastest * _LONGEST_BURST]
    best = min(fit(fastest * _RATE_STEP**step, burst) for step in range(_RATE_STEPS) for burst in bursts)
    for step in _REFINEMENTS:
        _, rate, burst = best
        best = min(best, *(fit(rate * (1 + step * each), burst) for each in range(-4, 5)))
    mistakes, rate, burst = best
    error = min(_MAX_LIMIT_ERROR, max(_MIN_LIMIT_ERROR, mistakes / len(known) / 4))
    return InferredLimit(rate, burst, error)


class RecordedSide:
    """Answers calls as the record says, where it says something.

    Args:
        resources: The records by resource.
        start: Start of the simulation in seconds since the epoch.
        reading: How to take what is not known: ``lucky``, ``nearest`` or ``unlucky``.
        lags: Seconds from the time when an attempt is due to its start, as recorded.
        chance: Returns a random number in [0, 1).
    """

    def __init__(
        self,
        resources: dict[str, _ResourceRecord],
        start: float,
        reading: str,
        lags: Sequence[float],
        chance: Callable[[], float],
    ) -> None:
        self._resources, self._start, self._reading = resources, start, reading
        self._lags, self._chance = lags, chance
        self._errors: dict[int, Answer] = {}
        sign = {_LUCKY: 1, _NEAREST: 0, _UNLUCKY: -1}[reading]
        self._allowed = {name: each.limit.bucket(sign) for name, each in resources.items() if each.limit is not None}
        self.states: Counter[str] = Counter()

    def answer(self, now: float, call: SimulatedCall) -> Answer:
        """Return what happens to a call that starts now."""
        work: Any = call.subject
        record = self._resources[work.resource]
        first = work.calls[0]
        bucket = self._allowed.get(work.resource)
        is_first = call.attempt == 1 and call.deferred_at is None
        if is_first and first.known and not (bucket is not None and (first.failure is None or first.is_limited)):
            return self._ended(record, first.failure)
        if bucket is not None and not bucket.take(now):
            self.states["limited"] += 1
            return self._ended(record, next(each.failure for each in record.known if each.is_limited))
        state, share = record.state(self._start + now)
        self.states[state] += 1
        fails = self._chance() < share
        if state == "unknown" and self._reading != _NEAREST:
            fails = self._reading == _UNLUCKY
        if fails:
            return self._ended(record, record.failure_at(self._start + now))
        return self._ended(record, work.permanent)

    def _ended(self, record: _ResourceRecord, failure: Failure | None) -> Answer:
        if failure is None:
            return Answer(self._one_of(record.done_seconds))
        known = self._errors.get(id(failure))
        if known is None:
            error = Exception(failure.message) if failure.category in RETRYABLE else ValueError(failure.message)
            known = self._errors[id(failure)] = failed_answer(error, failure)
        return known.after(self._one_of(record.failed_seconds) + self._one_of(self._lags))

    def _one_of(self, recorded: Sequence[float]) -> float:
        return recorded[int(self._chance() * len(recorded))]


@dataclass(frozen=True)
class HistoryFigures:
    """What was recorded.

    Attributes:
        tasks: Tasks that were replayed.
        calls: Calls that they made.
        dead_letters: Tasks that failed for good.
        recovery: Seconds from the end of the last outage to the end of the last task that it had delayed; None without.
    """

    tasks: int
    calls: int
    dead_letters: int
    recovery: float | None


@dataclass(frozen=True)
class HistoryReplay:
    """What a policy would have done with recorded tasks.

    Attributes:
        name: Name of the policy.
        recorded: What was recorded.
        calls: Calls that the policy would have made: smallest, likely and largest number.
        dead_letters: Tasks that would have failed for good, in the same way.
        recovery: Seconds as in `HistoryFigures`, in the same way; None without an outage that ended.
        states: Calls by the state that was inferred for them, in the likely reading.
        notes: What cannot be known, in sentences.
    """

    name: str
    recorded: HistoryFigures
    calls: Spread
    dead_letters: Spread
    recovery: Spread | None
    states: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready values."""
        shown = {"calls": self.calls, "dead_letters": self.dead_letters, "recovery": self.recovery}
        return {
            "policy": self.name,
            "recorded": vars(self.recorded),
            "simulated": {name: None if each is None else each._asdict() for name, each in shown.items()},
            "states": self.states,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """Return the comparison as lines of text."""
        recorded, recovery = self.recorded, self.recovery
        lines = [
            f"{self.name}: {recorded.tasks:,} recorded tasks",
            f"  calls          {self.calls.text()} instead of {recorded.calls:,}",
            f"  dead letters   {self.dead_letters.text()} instead of {recorded.dead_letters:,}",
        ]
        if recovery is not None:
            known = "unknown" if recorded.recovery is None else span(recorded.recovery)
            lines.append(
                f"  last task done {recovery.text(seconds=True)} after the other side came back; recorded: {known}"
            )
        if self.states:
            inferred = ", ".join(f"{state} {count:,}" for state, count in sorted(self.states.items()))
            lines.append(f"  later calls met, as inferred: {inferred}")
        return "\n".join([*lines, *(f"  note: {each}" for each in self.notes)])


def replay_history(
    store: RecordReader,
    policy: RetryPolicy,
    since: datetime,
    until: datetime,
    *,
    name: str = "policy",
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> HistoryReplay:
    """Return what a policy would have done with the tasks that were enqueued in a range of time. Only reads.

    Args:
        store: The store with the history, such as ``app.store``.
        policy: The policy.
        since: Start of the range.
        until: End of the range.
        name: Name of the policy in the result.
        seed: The random numbers.
        progress: Called with the number of tasks that are read.
    """
    tasks: list[RecordedTask] = []
    before, read, notes = None, 0, []
    begins_earlier = False
    while page := store.recorded_tasks(before, _PAGE):
        before, read = page[-1].id, read + len(page)
        tasks += [each for each in page if since <= each.created_at < until]
        if progress is not None:
            progress(read)
        begins_earlier = begins_earlier or any(each.created_at < since for each in page)
        if all(each.created_at < since for each in page):
            break
        if len(tasks) >= MAX_RECORDED:
            notes.append(f"only the newest {len(tasks):,} tasks of the range were read")
            break
    if not tasks:
        notes.append("no tasks were enqueued in this range")
    elif not begins_earlier and len(tasks) < MAX_RECORDED:
        notes.append("the store begins within the range; finished tasks that were deleted before are missing")
    return replay_tasks(tasks, policy, name=name, seed=seed, notes=notes)


def replay_tasks(
    tasks: Sequence[RecordedTask],
    policy: RetryPolicy,
    *,
    name: str = "policy",
    seed: int = 0,
    notes: Iterable[str] = (),
) -> HistoryReplay:
    """Return what a policy would have done with recorded tasks; `replay_history` describes the arguments."""
    work, left_out, deferrals, dead_letters = list[_Work](), 0, 0, 0
    by_resource: dict[str, list[RecordedCall]] = {}
    for task in sorted(tasks, key=lambda each: each.id):
        calls = _calls_of(task)
        resource = task.resource or task.task_type
        by_resource.setdefault(resource, []).extend(calls)
        if not calls or task.replays or task.crash_count or task.status is Status.CANCELLED:
            left_out += 1
            continue
        failures = [each.failure for each in calls if each.failure is not None]
        permanent = next((each for each in failures if not each.retryable), None)
        work.append(_Work(resource, tuple(calls), permanent))
        deferrals += task.deferrals
        dead_letters += task.status in {Status.FAILED, Status.DISCARDED}
    records = {name: _ResourceRecord(calls) for name, calls in by_resource.items() if calls}
    work.sort(key=lambda each: each.calls[0].start)
    live = sum(task.status not in _ENDED for task in tasks)
    recorded = HistoryFigures(
        len(work), sum(len(each.calls) for each in work) + deferrals, dead_letters, _recorded_recovery(work, records)
    )
    runs = {
        reading: [_run(work, records, policy, reading, Random(f"{seed} {number}")) for number in range(_RUNS)]  # noqa: S311  # a simulation
        for reading in (_LUCKY, _NEAREST, _UNLUCKY)
    }
    states = dict(runs[_NEAREST][0].states)
    return HistoryReplay(
        name,
        recorded,
        _range(runs, lambda each: each.run.calls + deferrals),
        _range(runs, lambda each: each.run.dead_letters),
        None if recorded.recovery is None else _range(runs, lambda each: each.recovery),
        states,
        (*notes, *_notes(policy, left_out, live, deferrals, states)),
    )


class _ReplayRun(NamedTuple):
    """One run of a replay."""

    run: SimulatedRun
    states: Counter[str]
    recovery: float


def _run(
    work: Sequence[_Work], records: dict[str, _ResourceRecord], policy: RetryPolicy, reading: str, random: Random
) -> _ReplayRun:
    start = work[0].calls[0].start if work else 0.0
    side = RecordedSide(records, start, reading, _lags_of(work), random.random)
    scenario = Scenario(processes=MAX_COUNT, cooldown=False)
    began = ((each.calls[0].start - start, each) for each in work)
    untimed = policy.replace(attempt_timeout=None)  # the record has the time limits of its tasks
    run = SimulationEngine(untimed, scenario, side, began, random).run()
    return _ReplayRun(run, side.states, max(0.0, start + run.ended - _back_at(records)))


def _back_at(records: dict[str, _ResourceRecord]) -> float:
    return max((at for each in records.values() if (at := each.back_at) is not None), default=0.0)


def _recorded_recovery(work: Sequence[_Work], records: dict[str, _ResourceRecord]) -> float | None:
    back = _back_at(records)
    last = max((call.start + call.seconds for each in work for call in each.calls), default=0.0)
    return max(0.0, last - back) if back else None


def _lags_of(work: Sequence[_Work]) -> list[float]:
    """Return the seconds from the time when each attempt was due to its start."""
    lags = [
        later.start - (earlier.start + earlier.seconds + earlier.delay)
        for each in work
        for earlier, later in zip(each.calls, each.calls[1:], strict=False)
        if earlier.delay is not None
    ]
    return [max(0.0, each) for each in lags] or [0.0]


def _range(runs: dict[str, list[_ReplayRun]], figure: Callable[[_ReplayRun], float]) -> Spread:
    """Return the range of a figure in all readings, widened by the error of the model, around the likely value."""
    values = [figure(each) for found in runs.values() for each in found]
    likely = median(map(figure, runs[_NEAREST]))
    return Spread(min(values) * (1 - MODEL_ERROR), likely, max(values) * (1 + MODEL_ERROR))


def _notes(policy: RetryPolicy, left_out: int, live: int, deferrals: int, states: dict[str, int]) -> Iterable[str]:
    if left_out:
        yield f"{left_out:,} tasks are left out: never started, cancelled, replayed, or their worker crashed"
    if live:
        yield f"{live:,} tasks have not ended yet; their last outcome is unknown"
    if deferrals:
        yield f"{deferrals:,} deferrals count as calls of both; when they happened is not recorded"
    if states.get("unknown"):
        yield f"{states['unknown']:,} calls fall into times of which the record does not tell; the range covers both"
    if policy.retry_on is not None and not isinstance(policy.retry_on, frozenset):
        yield "the policy decides by exception classes or a function, but the record has only categories"
    if policy.attempt_timeout is not None:
        yield "attempt_timeout is not applied: calls take as long as the recorded ones"
