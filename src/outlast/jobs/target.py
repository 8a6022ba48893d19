"""The attempts of one target, and its result."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from outlast import async_backends, clock
from outlast.classify import classify
from outlast.decide.decision import Abort, Defer, Fail, decide_target
from outlast.decide.policy import RetryPolicy
from outlast.errors import AbortJob, SkipTarget
from outlast.failure import Category, Failure
from outlast.jobs.context import JobContext, RunFacts, log, redacted_id
from outlast.ports.job_rows import TargetDone, TargetStatus
from outlast.ports.rows import storable
from outlast.record.log_text import failure_keys, first_line, traceback_of
from outlast.run.again import never_awaitable
from outlast.run.call_state import CallState
from outlast.run.logs import CONTEXT_LOG_KEYS
from outlast.run.report import report_counter, report_of
from outlast.run.resources import Resource

_MAX_ERROR_TEXT = 1000  # stored characters of an error
_SUCCESS = TargetStatus.SUCCESS
_ERROR = 40


WouldDecision = tuple[str, float | None, str]
"""What observe mode would do, after how many seconds, and why."""
WouldDecide = Callable[[BaseException, Failure, RetryPolicy], WouldDecision]


class TargetPlan(NamedTuple):
    """How a run processes each target.

    Attributes:
        handler: The user's function.
        policy: Attempts and waits.
        facts: The facts of the run.
        budget: Retry budget of the whole run.
        wait: Waits some seconds before another attempt; returns False if the run stops meanwhile.
        wait_async: The same on an event loop.
        keep_targets: Whether failed targets are stored as JSON, for another run.
        judge: In observe mode, returns what would be done about an error; each target is then called once.
    """

    handler: Callable[[JobContext, Any], Any]
    policy: RetryPolicy
    facts: RunFacts
    budget: Resource | None
    wait: Callable[[float], bool]
    wait_async: Callable[[float], Awaitable[bool]]
    keep_targets: bool
    judge: WouldDecide | None = None

    @classmethod
    def standalone(
        cls,
        handler: Callable[[JobContext, Any], Any],
        policy: RetryPolicy,
        facts: RunFacts,
        budget: Resource | None = None,
        *,
        keep_targets: bool,
        judge: WouldDecide | None = None,
    ) -> "TargetPlan":
        """Return a plan whose waits do not end when the run stops."""
        return cls(handler, policy, facts, budget, _wait, _wait_async, keep_targets, judge)

    def started(self) -> float | None:
        """Return the monotonic time from which the time limits count; None if there are none, or in observe mode."""
        timed = self.policy.deadline is not None or self.policy.attempt_timeout is not None
        return clock.monotonic() if timed and self.judge is None else None


def _wait(seconds: float) -> bool:
    clock.sleep(seconds)
    return True


async def _wait_async(seconds: float) -> bool:
    await clock.sleep_async(seconds)
    return True


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
        yield keys
    finally:
        CONTEXT_LOG_KEYS.reset(token)


def run_attempts(plan: TargetPlan, keys: dict[str, Any], source_id: str, target: Any) -> TargetResult:  # noqa: C901  # one loop
    """Call the handler in this thread until it succeeds or the policy gives up; return the result."""
    keys["source_id"] = source_id
    policy, serial, started = plan.policy, report_counter.last, plan.started()
    context = JobContext(plan.facts, source_id, policy.max_attempts)
    state: CallState | None = None
    while True:
        context._begin(policy, started, started if state is None else state.attempt_began)  # noqa: SLF001  # ours
        try:
            result = plan.handler(context, target)
            if result is not None:
                never_awaitable(plan.facts.job_id, result)
        except Exception as error:  # noqa: BLE001  # the policy decides
            if isinstance(error, SkipTarget | AbortJob) or plan.judge is not None:
                return _skipped_or_final(plan, context, target, error)
            if state is None:
                state = CallState(policy, _target_name(context), serial, started, plan.budget)
            delay = state.failed(error)
            if delay is None:
                return final_result(plan, context, target, error)
        else:
            if state is not None:
                state.succeeded()
            return TargetResult(TargetDone(source_id, _SUCCESS, context.attempt), context.counts)
        if delay > 0 and not plan.wait(delay):
            return TargetResult(None, context.counts)
        if started is not None and not state.begin():
            return final_result(plan, context, target, state.overslept())


async def run_attempts_async(  # noqa: C901  # one loop
    plan: TargetPlan, keys: dict[str, Any], source_id: str, target: Any
) -> TargetResult:
    """Await the handler until it succeeds or the policy gives up; cancel an attempt that takes too long."""
    keys["source_id"] = source_id
    policy, serial, started = plan.policy, report_counter.last, plan.started()
    context = JobContext(plan.facts, source_id, policy.max_attempts)
    state: CallState | None = None
    while True:
        context._begin(policy, started, started if state is None else state.attempt_began)  # noqa: SLF001  # ours
        try:
            left, awaitable = context.time_left, plan.handler(context, target)
            await (awaitable if left is None else async_backends.run_with_timeout(left, awaitable))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            if isinstance(error, SkipTarget | AbortJob) or plan.judge is not None:
                return _skipped_or_final(plan, context, target, error)
            if state is None:
                state = CallState(policy, _target_name(context), serial, started, plan.budget)
            delay = state.failed(error)  # type: ignore[arg-type]  # a task that the handler itself cancelled is a failure like others
            if delay is None:
                return final_result(plan, context, target, error)
        else:
            if state is not None:
                state.succeeded()
            return TargetResult(TargetDone(source_id, _SUCCESS, context.attempt), context.counts)
        if delay > 0 and not await plan.wait_async(delay):
            return TargetResult(None, context.counts)
        if started is not None and not state.begin():
            return final_result(plan, context, target, state.overslept())


def _is_cancelled() -> bool:
    """Return whether the running task is being cancelled, and not only a task that the handler awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _target_name(context: JobContext) -> str:
    """Return the name of a target in logs and events."""
    return f"{context.job_id} {redacted_id(context.source_id)}"


def _skipped_or_final(plan: TargetPlan, context: JobContext, target: Any, error: BaseException) -> TargetResult:
    """Return the result of a target that was skipped, aborts the job, or failed in observe mode."""
    if not isinstance(error, SkipTarget):
        return final_result(plan, context, target, error)
    failure = classify(error)
    why = storable(failure.message, _MAX_ERROR_TEXT)
    with suppress(Exception):  # a logging handler that raises must not end the job
        log.debug("%s is skipped: %s", _target_name(context), first_line(why), extra=context.keys())
    row = TargetDone(context.source_id, TargetStatus.SKIPPED, context.attempt, error_message=why)
    if plan.judge is None:
        return TargetResult(row, context.counts)
    return TargetResult(row, context.counts, observed=failure, would=plan.judge(error, failure, plan.policy))


def final_result(plan: TargetPlan, context: JobContext, target: Any, error: BaseException) -> TargetResult:
    """Return the result of a target that gets no further attempt."""
    failure, report = classify(error), report_of(error)
    reason = report.reason if report is not None else "permanent"
    retry_in = None
    if report is not None and report.retry_at is not None:
        retry_in = max(0.0, report.retry_at - clock.now())
    elif failure.category is Category.QUOTA_EXHAUSTED:
        retry_in = failure.retry_after
    decision = decide_target(failure, reason=reason, retry_in=retry_in, aborts=isinstance(error, AbortJob))
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
        _log_failure(plan.policy, context, failure, Fail("observed"), error)
        return TargetResult(row, context.counts, None, failure, failure, plan.judge(error, failure, plan.policy))
    _log_failure(plan.policy, context, failure, decision, error)
    match decision:
        case Abort(why):
            return TargetResult(row, context.counts, why, failure)
        case Defer(delay):
            return TargetResult(
                row._replace(status=TargetStatus.DEFERRED, retry_in=delay), context.counts, None, failure
            )
        case Fail():
            return TargetResult(row, context.counts, None, failure)


def _log_failure(
    policy: RetryPolicy, context: JobContext, failure: Failure, decision: Abort | Defer | Fail, error: BaseException
) -> None:
    if not log.isEnabledFor(_ERROR):
        return
    most = policy.for_category(failure.category).max_attempts
    keys = {
        **context.keys(),
        "attempt": context.attempt,
        "max_attempts": most,
        **failure_keys(failure),
    }
    about = (context.attempt, most, failure.category.value, failure.exception_name, first_line(failure.message))
    with suppress(Exception):  # a logging handler that raises must not end the job
        match decision:
            case Defer(delay):
                log.warning(
                    "%s is deferred for %.0f s after attempt %d of %d (%s): %s: %s",
                    _target_name(context), delay, *about, extra=keys,
                )  # fmt: skip
            case Abort() | Fail():
                what = "ends the job" if isinstance(decision, Abort) else f"failed ({decision.reason})"
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
