"""From what an attempt of Celery's did to what is written, and to what Celery is told."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, NamedTuple

from celery.exceptions import Ignore, Reject, Retry  # type: ignore[import-untyped]

from outlast import clock
from outlast.classify import classify
from outlast.decide import decision as decisions
from outlast.decide.breaker import BREAKER_OPEN, OPENED_BY_HAND
from outlast.decide.decision import Defer, Fail, decide
from outlast.engines.celery.engine import CeleryTaskRules, Engine, log, retry_store_call, within_store_timeout
from outlast.engines.celery.message_codec import (
    HEADER,
    MessageAttempt,
    encode_call,
    message_attempt,
    read_header,
    unique_key,
    uses_celery_retry,
)
from outlast.errors import CoolingDownError, LeaseLostError, PayloadError
from outlast.ports.engine import AttemptState
from outlast.ports.rows import Kind, NewTask, Reason, Settlement, Status
from outlast.queue import logs
from outlast.queue.settlement import failure_note
from outlast.queue.task_failure import TaskFailure, task_failure_of
from outlast.record.bus import has_subscribers, publish
from outlast.run.resources import Resource, resource

AttemptDecision = decisions.Retry | Defer | Fail
_LIVE = {Status.QUEUED, Status.RUNNING}
_UNWRITTEN_DELAY = 60.0  # seconds after which a row is sent whose first failure could not be written any more
_MAX_COUNTDOWN = 600.0  # seconds that a message waits in Celery, well below the visibility timeout of a broker


class _LoggedTask(NamedTuple):
    """Of a claim, what a log line tells."""

    id: int
    retry_count: int


class AttemptRecorder:
    """Writes what becomes of attempts.

    Args:
        engine: What is attached to what.
    """

    def __init__(self, engine: Engine) -> None:
        """Keep the engine."""
        self._engine = engine
        self._lending, self._store = engine.lending, engine.app.store

    def failed(
        self, task: Any, request: Any, rules: CeleryTaskRules, held: MessageAttempt | None, error: BaseException
    ) -> Exception | None:
        """Decide on a failed attempt and write it; return what Celery is told in place of the error, if anything."""
        verdict = task_failure_of(error, rules.policy)
        try:
            decision = self.written(task, request, rules, held, verdict)
        except PayloadError as trouble:
            log.error("%s %s: %s", task.name, request.id, trouble)
            return self._retry_in_broker(task, request, rules, error, verdict)
        except Exception as trouble:  # noqa: BLE001  # whatever a database says, the worker goes on
            failure = classify(trouble)
            log.error(
                "%s %s: its failure could not be written (%s): %s", task.name, request.id, failure.category, failure
            )
            if held is not None:  # the row is given back, and sent once more
                return _retry_signal(error, self._engine.resend_after)
            return self._retry_in_broker(task, request, rules, error, verdict)
        match decision:
            case None:
                return _ignore_signal(task, request, "another delivery of it has told of this attempt already")
            case Fail():
                return None
            case _:
                return _retry_signal(error, decision.delay)

    def ended(
        self, task: Any, request: Any, rules: CeleryTaskRules, held: MessageAttempt | None, error: BaseException
    ) -> None:
        """Write the end of a task of which Celery says so itself."""
        try:
            self.written(task, request, rules, held, task_failure_of(error, rules.policy), over=True)
        except Exception as trouble:  # noqa: BLE001  # as above; Celery has its own record of it
            log.error("%s %s: its end could not be written: %s", task.name, request.id, classify(trouble))

    @within_store_timeout
    def written(
        self,
        task: Any,
        request: Any,
        rules: CeleryTaskRules,
        held: MessageAttempt | None,
        verdict: TaskFailure,
        *,
        over: bool = False,
    ) -> AttemptDecision | None:
        """Write a failed attempt; return what was decided, None where the attempt is not the current one.

        Args:
            task: The task.
            request: The call.
            rules: What holds for it.
            held: Its row, where it has one; else it gets one.
            verdict: What it raised.
            over: Whether Celery has ended it already.

        Raises:
            PayloadError: If its arguments cannot be kept.
            Exception: What a database raises.
        """
        itself = over or uses_celery_retry(task, request)
        held = held or self._find_or_add_row(task, request, rules, delay=_UNWRITTEN_DELAY)
        standing = None if held is None else retry_store_call(lambda: self._lending.attempt_state(held.task_id))
        if held is None or not _is_current(standing, held.attempt):
            return None
        decision = _decide_attempt(rules, held, verdict, standing, itself=itself)
        settlement = _settlement(held.task_id, verdict, decision)
        if not self._settled(settlement, held):
            return None
        self._tell(rules, held, verdict, decision)
        return decision

    @within_store_timeout
    def put_off(self, task: Any, request: Any, rules: CeleryTaskRules, wait: float) -> Exception:
        """Have an attempt wait in the store without having begun; return what Celery is told."""
        held = message_attempt(request)
        held = held and held._replace(unbegun=True)  # another message for it may have begun
        reason = CoolingDownError(f"{rules.resource} cools down", retry_after=wait)
        try:
            if held is None:
                known = self._find_or_add_row(task, request, rules, delay=wait) is not None
            else:
                standing = self._lending.attempt_state(held.task_id)
                if standing is not None and standing.canary:  # nobody wants to learn from a canary tomorrow
                    self.written(task, request, rules, held, task_failure_of(reason, rules.policy))
                    return reason
                settlement = Settlement(held.task_id, 0, Kind.DEFER, wait)
                known = self._lending.settle_attempt(settlement, held.attempt, unbegun=True)
        except Exception as trouble:  # noqa: BLE001  # neither a payload nor a database keeps the message from waiting
            log.warning("%s %s: waits in the broker: %s", task.name, request.id, classify(trouble))
            return self._resend_message(task, request, reason, min(wait, _MAX_COUNTDOWN), spent=0)
        if not known:
            return _ignore_signal(task, request, "another delivery of it runs, or has been put off already")
        log.info("%s %s: put off for %.1f s, %s", task.name, request.id, wait, reason)
        return _retry_signal(reason, wait)

    @within_store_timeout
    def done(self, held: MessageAttempt) -> None:
        """Write a success."""
        settlement = Settlement(held.task_id, 0, Kind.DONE)
        try:
            if not self._settled(settlement, held):
                log.warning("task %d: its success was refused, another attempt has it by now", held.task_id)
        except Exception as trouble:  # noqa: BLE001  # it is given back and runs once more
            log.error("task %d: its success could not be written: %s", held.task_id, classify(trouble))

    @within_store_timeout
    def lent(self, held: MessageAttempt, seconds: float) -> bool:
        """Have a row wait for a message that Celery sends itself; tell whether it does."""
        try:
            return self._lending.release_to_engine([(held.task_id, held.epoch or 0)], seconds) == 1
        except Exception as trouble:  # noqa: BLE001  # it is given back and runs once more
            log.error("task %d: it could not be given to Celery: %s", held.task_id, classify(trouble))
            return False

    def stale(self, task: Any, request: Any, held: MessageAttempt) -> Exception:
        """Return what Celery is told of a message for an attempt that is not the current one, or runs already."""
        standing = self._lending.attempt_state(held.task_id)
        why = f"task {held.task_id} is not there any more"
        if standing is not None and standing.status not in _LIVE:
            why = f"task {held.task_id} is over: {standing.status}"
        elif standing is not None:
            current = standing.retry_count + 1
            why = (
                f"attempt {held.attempt} of task {held.task_id} runs already, or is over; the current one is {current}"
            )
        return _ignore_signal(task, request, why)

    def find_redelivered(self, task: Any, request: Any) -> MessageAttempt | None:
        """Return the row of a task whose first message is delivered again, and failed before without a word of it.

        Raises:
            Ignore: If its failure was written, so that the message has been dealt with.
        """
        if not (request.delivery_info or {}).get("redelivered"):
            return None
        number = self._lending.find_by_key(task.name, unique_key(request.id))
        if number is None:
            return None
        if not self.is_unwritten(number):
            raise _ignore_signal(task, request, f"it was delivered before, and its failure is with task {number}")
        return MessageAttempt(number, 1, None)

    def is_unwritten(self, number: int) -> bool:
        """Tell whether a row has been added for a failure that was then not written."""
        row = self._store.get(number)
        return row is not None and row.status in _LIVE and not (row.attempt or row.deferrals or row.replays)

    def _find_or_add_row(
        self, task: Any, request: Any, rules: CeleryTaskRules, *, delay: float
    ) -> MessageAttempt | None:
        """Return the row of a task's first attempt, mostly a new one; None where an earlier delivery has seen to it."""
        key, known = unique_key(request.id), None
        if (request.delivery_info or {}).get("redelivered"):
            known = retry_store_call(lambda: self._lending.find_by_key(task.name, key))
        if known is not None:
            return MessageAttempt(known, 1, None) if self.is_unwritten(known) else None
        itself = uses_celery_retry(task, request)
        text = encode_call(task, request, limit=self._engine.app.payload_limit, itself=itself)
        row = NewTask(
            task.name, text, self._engine.queue, delay=delay, unique_key=key, resource=rules.resource,
            expires=_seconds_left(request.expires),
        )  # fmt: skip
        added = retry_store_call(lambda: self._store.enqueue([row])[0])
        if not added.created and not self.is_unwritten(added.id):
            return None
        return MessageAttempt(added.id, 1, None)

    def _settled(self, settlement: Settlement, held: MessageAttempt) -> bool:
        who = self._engine.worker_id or None
        return retry_store_call(
            lambda: self._lending.settle_attempt(
                settlement, held.attempt, epoch=held.epoch, reporter=who, unbegun=held.unbegun
            )
        )

    def _tell(
        self, rules: CeleryTaskRules, held: MessageAttempt, verdict: TaskFailure, decision: AttemptDecision
    ) -> None:
        about: Any = _LoggedTask(held.task_id, held.attempt - 1)
        told: Any = rules
        logs.log_failure(told, about, verdict, decision)
        failure = verdict.failure
        if rules.resource is not None and isinstance(decision, Defer) and failure.exception_name not in _OWN_REFUSALS:
            reason = f"{failure.category}: {failure.message:.200}"
            self._engine.app.cooling.start_cooldown(rules.resource, decision.delay, reason)
        if not has_subscribers():
            return
        from outlast.record.events import TaskDeferred, TaskFailed, TaskRetrying  # noqa: PLC0415  # only subscribers need them

        which = (rules.name, held.task_id, held.attempt)
        match decision:
            case decisions.Retry(delay):
                publish(TaskRetrying(*which, delay, failure))
            case Defer(delay):
                publish(TaskDeferred(*which, delay, failure))
            case Fail(reason):
                publish(TaskFailed(*which, reason, failure))

    def _retry_in_broker(
        self, task: Any, request: Any, rules: CeleryTaskRules, error: BaseException, verdict: TaskFailure
    ) -> Exception | None:
        """Decide on a failed attempt that the store cannot keep: the message itself waits and counts, in Celery."""
        attempt = int(request.retries or 0) + 1
        decision: AttemptDecision = Fail("exhausted" if verdict.wanted else "permanent")
        if not uses_celery_retry(task, request):
            decision = decide(
                verdict.failure, rules.policy, attempt=attempt, wanted=verdict.wanted, chance=clock.chance
            )  # fmt: skip
        told: Any = rules
        about: Any = _LoggedTask(0, attempt - 1)
        logs.log_failure(told, about, verdict, decision)
        if isinstance(decision, Fail):
            log.error("%s %s: there is no dead letter of it, only Celery's own record", task.name, request.id)
            return None
        return self._resend_message(task, request, error, min(decision.delay, _MAX_COUNTDOWN))

    @staticmethod
    def _resend_message(task: Any, request: Any, error: BaseException, wait: float, *, spent: int = 1) -> Exception:
        """Send the message once more, to be taken after a while; the broker keeps it until then."""
        retries = int(request.retries or 0) + spent
        header = read_header(request) or {}
        header = header | {"retries": int(header.get("retries", 0)) + spent}
        headers = (request.headers or {}) | {HEADER: header}
        task.signature_from_request(request, countdown=wait, retries=retries, headers=headers).apply_async()
        return _retry_signal(error, wait)


def _retry_signal(error: BaseException, seconds: float) -> Exception:
    """Return what tells Celery that a task waits; the message is sent by whoever has it wait."""
    told: Exception = Retry(exc=error, when=round(seconds, 3))
    return told


def _ignore_signal(task: Any, request: Any, why: str) -> Exception:
    """Return what tells Celery to forget a message; it would not log why."""
    log.info("%s %s: a message is ignored, %s", task.name, request.id, why)
    told: Exception = Ignore(why)
    return told


_OWN_REFUSALS = {"ConcurrencyLimitError", "BreakerOpenError"}
"""What we held back ourselves says nothing of the resource that is not known already."""


def _decide_attempt(
    rules: CeleryTaskRules, held: MessageAttempt, verdict: TaskFailure, standing: AttemptState | None, *, itself: bool
) -> AttemptDecision:
    if standing is not None and standing.canary:
        return Fail(Reason.CANARY)  # it is tried so that the others need not be
    if itself:  # its retries are over, by Celery's own count: ours do not multiply them
        return Fail("exhausted" if verdict.wanted else "permanent")
    return decide(
        verdict.failure,
        rules.policy,
        attempt=held.attempt,
        wanted=verdict.wanted,
        deferred_for=0.0 if standing is None else standing.deferred_for,
        expires_in=None if standing is None else standing.expires_in,
        chance=clock.chance,
    )


def _settlement(number: int, verdict: TaskFailure, decision: AttemptDecision) -> Settlement:
    note = failure_note(verdict.failure, verdict.traceback)
    match decision:
        case decisions.Retry(delay):
            return Settlement(number, 0, Kind.RETRY, delay, note)
        case Defer(delay):
            return Settlement(number, 0, Kind.DEFER, delay, note)
        case Fail(reason):
            return Settlement(number, 0, Kind.FAIL, note=note, reason=Reason(reason))


def _is_current(standing: AttemptState | None, attempt: int) -> bool:
    return standing is not None and standing.status in _LIVE and standing.retry_count == attempt - 1


def _seconds_left(expires: object) -> float | None:
    """Return for how long a call is worth starting, from the time that its message has."""
    if isinstance(expires, str):
        try:
            expires = datetime.fromisoformat(expires)
        except ValueError:
            return None
    if not isinstance(expires, datetime):
        return None
    aware = expires if expires.tzinfo else expires.replace(tzinfo=UTC)
    return max(0.0, aware.timestamp() - clock.now())


# One attempt of one task of Celery's, from its message to what Celery is told.

_MANUAL_OPEN_WAIT = 60.0  # seconds for which the tasks of what was opened by hand wait until the breaker is asked again
_SPREAD, _MAX_SPREAD = 0.1, 10.0  # of a cooldown, and seconds: over so long, what waited for its end comes back


class AttemptRunner:
    """Runs attempts. What they raise is written before Celery hears of it.

    Args:
        engine: What is attached to what.
    """

    def __init__(self, engine: Engine) -> None:
        """Keep the engine."""
        self._engine, self._failing = engine, AttemptRecorder(engine)

    def run(self, task: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an attempt for the message that is at hand.

        Args:
            task: The task.
            call: Runs its function.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Raises:
            Ignore: If the message is not of the current attempt: it came twice, or the task is over.
            Retry: If it failed, or was not begun, and waits in the store.
            Exception: What the function raised, where that was the end.
        """
        engine, request = self._engine, task.request
        rules = engine.rules(task)
        wait = 0.0 if rules.resource is None else engine.app.cooling.left(rules.resource)
        if wait > 0:
            raise self._put_off(task, request, rules, wait)
        request.outlast_held = held = self._begun(task, request)
        guard = _guard(rules)
        try:
            with guard or nullcontext():
                value = call(*args, **kwargs)
        except (Retry, Ignore, Reject) as told:
            self._settle_for_celery(request, held, told)
            raise
        except Exception as error:
            again = self._failing.failed(task, request, rules, held, error)
            self._rest(guard)
            if again is None:
                raise
            raise again from error
        if rules.resource is not None:
            engine.app.cooling.answered(rules.resource)
        if not getattr(request, "outlast_lent", False):  # else a retry of it has been sent, and it is not over
            request.outlast_ran = (held,)  # done once Celery has kept its result
        return value

    def succeeded(self, request: Any) -> None:
        """Write that a task is done whose result Celery has kept; one that never failed has no row."""
        ran, request.outlast_ran = getattr(request, "outlast_ran", None), None
        if ran and ran[0] is not None:
            self._failing.done(ran[0])

    def record_late_failure(self, task: Any, request: Any, error: BaseException) -> None:
        """Write a failure that Celery had after the function returned: its result cannot be kept."""
        ran, request.outlast_ran = getattr(request, "outlast_ran", None), None
        if ran:
            self._failing.ended(task, request, self._engine.rules(task), ran[0], error)

    def retries(self, request: Any, when: object) -> None:
        """Have the row of an attempt wait for the message that Celery is about to send for it.

        Not afterwards: another process may have taken the message by then, and found the attempt still running.

        Args:
            request: Of the attempt.
            when: A time, or seconds until then.
        """
        held = getattr(request, "outlast_held", None)
        if held is not None and held.epoch is not None:
            request.outlast_lent = self._failing.lent(held, _seconds_until(when) + self._engine.resend_after)

    @within_store_timeout
    def _begun(self, task: Any, request: Any) -> MessageAttempt | None:
        """Mark the start of an attempt that has a row; None for the first attempt of a task, which has none."""
        engine, held = self._engine, message_attempt(request)
        try:
            held = held or self._failing.find_redelivered(task, request)
            if held is None:
                return None
            epoch = engine.lending.begin(held.task_id, held.attempt, engine.worker_id)
            if epoch is None:
                raise self._failing.stale(task, request, held)
        except Ignore:
            raise
        except LeaseLostError:  # the worker begins anew; the number of the attempt fences all the same
            return held
        except Exception as trouble:  # noqa: BLE001  # whatever a database says, the message is here now
            log.warning("%s %s: runs, though the store cannot be asked: %s", task.name, request.id, classify(trouble))
            return held
        return held._replace(epoch=epoch)

    def _put_off(self, task: Any, request: Any, rules: CeleryTaskRules, wait: float) -> Exception:
        """Have an attempt wait for the end of a cooldown, none spent; not all come back in the same moment."""
        wait += clock.chance() * min(_SPREAD * wait, _MAX_SPREAD)
        return self._failing.put_off(task, request, rules, wait)

    def _settle_for_celery(self, request: Any, held: MessageAttempt | None, told: Exception) -> None:
        """Do with the row as the function wants it done with its message."""
        if held is None or held.epoch is None or getattr(request, "outlast_lent", False):
            return  # where it waits for a message that could not be sent, it is sent again as if that were lost
        if isinstance(told, Retry) or (isinstance(told, Reject) and told.requeue):
            wait = _seconds_until(told.when) if isinstance(told, Retry) else 0.0
            self._failing.lent(held, wait + self._engine.resend_after)
        else:
            self._failing.done(held)

    def _rest(self, guard: Resource | None) -> None:
        """Have all tasks of a resource wait while its breaker is open."""
        if guard is None or not guard.is_open or guard.breaker is None:
            return
        left = max(0.0, guard.breaker.until - clock.monotonic())
        if guard.breaker.reason == OPENED_BY_HAND:  # whose end nobody knows: somebody may close it at any time
            left = min(left, _MANUAL_OPEN_WAIT)
        self._engine.app.cooling.start_cooldown(guard.name, left, BREAKER_OPEN)


def _seconds_until(when: object) -> float:
    if isinstance(when, datetime):
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - clock.now())
    return float(when) if isinstance(when, int | float) else 0.0


def _guard(rules: CeleryTaskRules) -> Resource | None:
    if rules.resource is None:
        return None
    guard = resource(rules.resource)
    return None if guard.is_bare else guard
