"""The attempts of one target, and its result."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from outlast import clock
from outlast.classify import failure_of
from outlast.classify.safe_access import HeldInterrupts, contained
from outlast.decide.decision import Abort, Decision, DecisionState, Defer, Place, Skip, decide
from outlast.decide.policy import RetryPolicy
from outlast.errors import AbortJob, SkipTarget
from outlast.failure import Failure, Origin, first_line
from outlast.jobs.context import JobContext, RunFacts, log, redacted_id
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.ports.rows import storable
from outlast.record.log_text import failure_line, traceback_of
from outlast.run.call_state import Call, CallPlan, CallState
from outlast.run.logs import CONTEXT_LOG_KEYS
from outlast.run.loops import checked_result_type, limited, retry_async, retry_sync
from outlast.run.resources import Resource

_MAX_ERROR_TEXT = 1000  # stored characters of an error
_SUCCESS = TargetStatus.SUCCESS
_ERROR = 40


WouldDecision = tuple[str, float | None, str]
"""What observe mode would do, after how many seconds, and why."""
WouldDecide = Callable[[BaseException, Failure, RetryPolicy], WouldDecision]


@dataclass
class TargetPlan:
    """How a run processes each target.

    Attributes:
        handler: The user's function.
        policy: Attempts and waits.
        facts: The facts of the run.
        budget: Retry budget of the whole run.
        keep_targets: Whether failed targets are stored as JSON, for another run.
        judge: In observe mode, returns what would be done about an error; each target is then called once.
        wait: Waits some seconds before another attempt; returns False if the run stops meanwhile.
        wait_async: The same on an event loop.
    """

    handler: Callable[[JobContext, Any], Any]
    policy: RetryPolicy
    facts: RunFacts
    budget: Resource | None = None
    keep_targets: bool = False
    judge: WouldDecide | None = None
    wait: Callable[[float], bool] | None = None
    wait_async: Callable[[float], Awaitable[bool]] | None = None

    @cached_property
    def attempts(self) -> Callable[[JobContext, Any], Any]:
        """Calls the handler with its retries; in observe mode, once."""
        if self.judge is not None:
            return lambda context, target: _check_result(self, self._call(context, target))
        return retry_sync(self._call, self._call_plan())

    @cached_property
    def attempts_async(self) -> Callable[[JobContext, Any], Awaitable[Any]]:
        """The same for a coroutine function; an attempt is cancelled when its time is up."""
        if self.judge is not None:
            return self._call_async
        plan = self._call_plan()
        attempt = self._call_async if plan.limit is None else limited(self._call_async, plan.limit)
        return retry_async(attempt, plan)

    def _call_plan(self) -> CallPlan:
        plan = CallPlan(
            self.policy, self.facts.job_id, state=_TargetState, sleep=self._sleep, sleep_async=self._sleep_async
        )
        plan.resource = self.budget
        return plan

    def _call(self, context: JobContext, target: Any) -> Any:
        context._begin()  # noqa: SLF001  # ours
        return self.handler(context, target)

    async def _call_async(self, context: JobContext, target: Any) -> None:
        context._begin()  # noqa: SLF001  # ours
        await self.handler(context, target)

    def _sleep(self, _state: CallState, seconds: float) -> None:
        if seconds <= 0:
            return
        if self.wait is None:
            clock.sleep(seconds)
        elif not self.wait(seconds):
            raise _RunStopped

    async def _sleep_async(self, _state: CallState, seconds: float) -> None:
        if seconds <= 0:
            return
        if self.wait_async is None:
            await clock.sleep_async(seconds)
        elif not await self.wait_async(seconds):
            raise _RunStopped


class _RunStopped(Exception):  # noqa: N818  # a signal
    """The run stops while a target waits for its next attempt."""


class _TargetState(CallState):
    """The state of a target whose handler failed."""

    place = Place.TARGET

    def __init__(self, call: Call, args: tuple[Any, ...]) -> None:
        super().__init__(call, args)
        self._context: JobContext = args[0]

    @property
    def name(self) -> str:
        """The job and the target."""
        return _target_name(self._context)

    def begin(self) -> None:
        """Begin the next attempt, if there is time for it."""
        try:
            super().begin()
        finally:
            self._context._decision = self.decision  # noqa: SLF001  # ours

    def failed(self, error: Exception) -> float | None:
        """Decide on a failed attempt; a handler may skip its target or stop the job."""
        self.skips, self.aborts = issubclass(type(error), SkipTarget), issubclass(type(error), AbortJob)
        if self.skips or self.aborts:
            self.decision, delay = decide(None, self.plan.policy, self), None
        else:
            delay = super().failed(error)
        self._context._decision = self.decision  # noqa: SLF001  # ours
        return delay


class TargetResult(NamedTuple):
    """The result of a target.

    Attributes:
        row: Row for the ledger; None for an interrupted target, which counts as not attempted.
        counts: Counts from the handler.
        abort: Why the whole job must end, if it must.
        failure: The last failure; None for a target that succeeded or was skipped.
        observed: In observe mode, the failure that the handler raised.
        would: In observe mode, what would have been done about it.
    """

    row: TargetDone | None
    counts: Counter[str] | None = None
    abort: str | None = None
    failure: Failure | None = None
    observed: Failure | None = None
    would: WouldDecision | None = None


@contextmanager
def run_log_keys(facts: RunFacts) -> Iterator[dict[str, Any]]:
    """Add the keys of the run to log records of attempts in the block; `run_attempts` adds the key of its target."""
    keys = facts.keys()
    token = CONTEXT_LOG_KEYS.set(keys)
    try:
        with HeldInterrupts(drop=True):  # a run handles Ctrl-C as a signal
            yield keys
    finally:
        CONTEXT_LOG_KEYS.reset(token)


def run_attempts(plan: TargetPlan, keys: dict[str, Any], source_id: str, target: Any) -> TargetResult:
    """Call the handler in this thread until it succeeds or the policy gives up; return the result."""
    keys["source_id"] = source_id
    context = JobContext(plan.facts, source_id, plan.policy.max_attempts)
    try:
        plan.attempts(context, target)
    except _RunStopped:
        return TargetResult(None, context.counts)
    except Exception as error:  # noqa: BLE001  # an error of a handler concerns its target
        return final_result(plan, context, target, error)
    finally:
        context._call = None  # noqa: SLF001  # ours; it refers to the context
    return TargetResult(TargetDone(source_id, _SUCCESS, context.attempt), context.counts)


async def run_attempts_async(plan: TargetPlan, keys: dict[str, Any], source_id: str, target: Any) -> TargetResult:
    """Await the handler until it succeeds or the policy gives up; return the result."""
    keys["source_id"] = source_id
    context = JobContext(plan.facts, source_id, plan.policy.max_attempts)
    try:
        await plan.attempts_async(context, target)
    except _RunStopped:
        return TargetResult(None, context.counts)
    except (Exception, asyncio.CancelledError) as error:
        if issubclass(type(error), asyncio.CancelledError) and _is_cancelled():
            raise
        return final_result(plan, context, target, error)
    finally:
        context._call = None  # noqa: SLF001  # ours; it refers to the context
    return TargetResult(TargetDone(source_id, _SUCCESS, context.attempt), context.counts)


def _check_result(plan: TargetPlan, result: Any) -> None:
    if result is not None:
        checked_result_type(plan.facts.job_id, result)


def _is_cancelled() -> bool:
    """Return whether the running task is being cancelled, and not only a task that the handler awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _target_name(context: JobContext) -> str:
    """Return the name of a target in logs and events."""
    return f"{context.job_id} {redacted_id(context.source_id)}"


def final_result(plan: TargetPlan, context: JobContext, target: Any, error: BaseException) -> TargetResult:
    """Return the result of a target that gets no further attempt."""
    failure = failure_of(error).settled()
    if failure.origin is Origin.PROGRAM and contained("", getattr, error, "__outlast_step__", "") == "db":  # in `apply`
        failure = failure.replace(origin=Origin.DB)
    decision = context._decision or _final_decision(plan, failure, error)  # noqa: SLF001  # ours
    if isinstance(decision, Skip):
        return _skipped(plan, context, failure, error)
    row = TargetDone(
        context.source_id,
        TargetStatus.FAILED,
        context.attempt,
        _as_json(target) if plan.keep_targets else None,
        storable(failure.exception_name, _MAX_ERROR_TEXT),
        storable(failure.message, _MAX_ERROR_TEXT),
        str(failure.category),
        str(failure.origin),
        failure.http_status,
        failure.fingerprint,
    )
    if plan.judge is not None:
        _log_failure(plan.policy, context, failure, None, error)
        return TargetResult(row, context.counts, None, failure, failure, plan.judge(error, failure, plan.policy))
    _log_failure(plan.policy, context, failure, decision, error)
    why = None
    if isinstance(decision, Abort):
        own = issubclass(type(error), AbortJob)
        why = (failure.message or failure.exception_name) if own else failure_line(failure)
    elif isinstance(decision, Defer):
        row = row._replace(status=TargetStatus.DEFERRED, retry_in=decision.delay)
    return TargetResult(row, context.counts, why, failure)


def _final_decision(plan: TargetPlan, failure: Failure, error: BaseException) -> Decision:
    """Return the decision on an error that reached no attempt loop: from an executor, or in observe mode."""
    skips, aborts = issubclass(type(error), SkipTarget), issubclass(type(error), AbortJob)
    return decide(failure, plan.policy, DecisionState(place=Place.TARGET, wanted=False, skips=skips, aborts=aborts))


def _skipped(plan: TargetPlan, context: JobContext, failure: Failure, error: BaseException) -> TargetResult:
    """Return the result of a target that its handler skipped."""
    why = storable(failure.message, _MAX_ERROR_TEXT)
    with suppress(Exception):  # a logging handler that raises must not end the job
        log.debug("%s is skipped: %s", _target_name(context), first_line(why), extra=context.keys())
    row = TargetDone(context.source_id, TargetStatus.SKIPPED, context.attempt, error_message=why)
    if plan.judge is None:
        return TargetResult(row, context.counts)
    return TargetResult(row, context.counts, observed=failure, would=plan.judge(error, failure, plan.policy))


def _log_failure(
    policy: RetryPolicy, context: JobContext, failure: Failure, decision: Decision | None, error: BaseException
) -> None:
    """Log the end of a target.

    Args:
        policy: The policy of the job.
        context: The target.
        failure: The classified error.
        decision: What is done about it; None in observe mode.
        error: The error.
    """
    if not log.isEnabledFor(_ERROR):
        return
    most = policy.for_category(failure.category).max_attempts
    keys = {**context.keys(), "attempt": context.attempt, "max_attempts": most, **failure.log_keys()}
    about = (context.attempt, most, failure.category.value, failure.exception_name, first_line(failure.message))
    with suppress(Exception):  # a logging handler that raises must not end the job
        if isinstance(decision, Defer):
            log.warning(
                "%s is deferred for %.0f s after attempt %d of %d (%s): %s: %s",
                _target_name(context), decision.delay, *about, extra=keys,
            )  # fmt: skip
            return
        reason = "observed" if decision is None else str(decision.reason)
        what = "ends the job" if isinstance(decision, Abort) else f"failed ({reason})"
        log.error(
            "%s %s after attempt %d of %d (%s): %s: %s\n%s",
            _target_name(context), what, *about, traceback_of(error), extra=keys,
        )  # fmt: skip


def _as_json(target: Any) -> str | None:
    """Return a target as JSON; None if another run could not read back an equal value."""
    try:
        text = storable(json.dumps(target, ensure_ascii=False, allow_nan=False))
        return text if _is_same(json.loads(text), target) else None
    except (TypeError, ValueError, RecursionError):
        return None


def _is_same(read: Any, target: Any) -> bool:
    """Compare values and types: JSON turns tuples into lists, and numbers as keys into text."""
    if type(read) is not type(target):
        return False
    if isinstance(read, list):
        return len(read) == len(target) and all(map(_is_same, read, target))
    if isinstance(read, dict):
        return len(read) == len(target) and all(map(_is_same, read.items(), target.items()))
    if isinstance(read, tuple):  # an item of a dict
        return all(map(_is_same, read, target))
    return bool(read == target)
