"""From what an attempt of Celery's did to what is written, and to what Celery is told."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from celery.exceptions import Ignore, Retry  # type: ignore[import-untyped]

from outlast import clock
from outlast.classify import classify
from outlast.decide import decision as decisions
from outlast.decide.decision import Defer, Fail, decide
from outlast.engines.celery.engine import Engine, Rules
from outlast.engines.celery.envelope import HEADER, key_of, packed
from outlast.engines.celery.headers import Held, header_of, held_by, retries_itself
from outlast.engines.celery.logs import log
from outlast.engines.celery.patience import in_time, patiently
from outlast.errors import CoolingDownError, PayloadError
from outlast.ports.handling import Standing
from outlast.ports.rows import Kind, NewTask, Reason, Settlement, Status
from outlast.queue import logs
from outlast.queue.settling import note_of
from outlast.queue.verdict import Verdict, verdict_on
from outlast.record.bus import has_subscribers, publish

__all__ = ["Decision", "Failing"]

Decision = decisions.Retry | Defer | Fail
_LIVE = {Status.QUEUED, Status.RUNNING}
_BETWEEN = 60.0  # seconds after which a row is sent whose first failure could not be written any more
_LONGEST_COUNTDOWN = 600.0  # seconds that a message waits in Celery, well below the visibility timeout of a broker


class _About(NamedTuple):
    """Of a claim, what a log line tells."""

    id: int
    retry_count: int


class Failing:
    """Writes what becomes of attempts.

    Args:
        engine: What is attached to what.
    """

    def __init__(self, engine: Engine) -> None:
        """Keep the engine."""
        self._engine = engine
        self._lending, self._store = engine.lending, engine.app.store

    def failed(
        self, task: Any, request: Any, rules: Rules, held: Held | None, error: BaseException
    ) -> Exception | None:
        """Decide on a failed attempt and write it; return what Celery is told in place of the error, if anything."""
        verdict = verdict_on(error, rules.policy)
        try:
            decision = self.written(task, request, rules, held, verdict)
        except PayloadError as trouble:
            log.error("%s %s: %s", task.name, request.id, trouble)
            return self._by_broker(task, request, rules, error, verdict)
        except Exception as trouble:  # noqa: BLE001  # whatever a database says, the worker goes on
            failure = classify(trouble)
            log.error(
                "%s %s: its failure could not be written (%s): %s", task.name, request.id, failure.category, failure
            )
            if held is not None:  # the row is given back, and sent once more
                return _again(error, self._engine.resend_after)
            return self._by_broker(task, request, rules, error, verdict)
        match decision:
            case None:
                return _ignored(task, request, "another delivery of it has told of this attempt already")
            case Fail():
                return None
            case _:
                return _again(error, decision.delay)

    def ended(self, task: Any, request: Any, rules: Rules, held: Held | None, error: BaseException) -> None:
        """Write the end of a task of which Celery says so itself."""
        try:
            self.written(task, request, rules, held, verdict_on(error, rules.policy), over=True)
        except Exception as trouble:  # noqa: BLE001  # as above; Celery has its own record of it
            log.error("%s %s: its end could not be written: %s", task.name, request.id, classify(trouble))

    @in_time
    def written(
        self,
        task: Any,
        request: Any,
        rules: Rules,
        held: Held | None,
        verdict: Verdict,
        *,
        over: bool = False,
    ) -> Decision | None:
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
        itself = over or retries_itself(task, request)
        held = held or self._row_of(task, request, rules, delay=_BETWEEN)
        standing = None if held is None else patiently(lambda: self._lending.standing(held.task_id))
        if held is None or not _is_current(standing, held.attempt):
            return None
        decision = _decided(rules, held, verdict, standing, itself=itself)
        settlement = _settlement(held.task_id, verdict, decision)
        if not self._settled(settlement, held):
            return None
        self._tell(rules, held, verdict, decision)
        return decision

    @in_time
    def put_off(self, task: Any, request: Any, rules: Rules, wait: float) -> Exception:
        """Have an attempt wait in the store without having begun; return what Celery is told."""
        held = held_by(request)
        held = held and held._replace(unbegun=True)  # another message for it may have begun
        reason = CoolingDownError(f"{rules.resource} cools down", retry_after=wait)
        try:
            if held is None:
                known = self._row_of(task, request, rules, delay=wait) is not None
            else:
                standing = self._lending.standing(held.task_id)
                if standing is not None and standing.canary:  # nobody wants to learn from a canary tomorrow
                    self.written(task, request, rules, held, verdict_on(reason, rules.policy))
                    return reason
                settlement = Settlement(held.task_id, 0, Kind.DEFER, wait)
                known = self._lending.settle_attempt(settlement, held.attempt, unbegun=True)
        except Exception as trouble:  # noqa: BLE001  # neither a payload nor a database keeps the message from waiting
            log.warning("%s %s: waits in the broker: %s", task.name, request.id, classify(trouble))
            return self._sent_later(task, request, reason, min(wait, _LONGEST_COUNTDOWN), spent=0)
        if not known:
            return _ignored(task, request, "another delivery of it runs, or has been put off already")
        log.info("%s %s: put off for %.1f s, %s", task.name, request.id, wait, reason)
        return _again(reason, wait)

    @in_time
    def done(self, held: Held) -> None:
        """Write a success."""
        settlement = Settlement(held.task_id, 0, Kind.DONE)
        try:
            if not self._settled(settlement, held):
                log.warning("task %d: its success was refused, another attempt has it by now", held.task_id)
        except Exception as trouble:  # noqa: BLE001  # it is given back and runs once more
            log.error("task %d: its success could not be written: %s", held.task_id, classify(trouble))

    @in_time
    def lent(self, held: Held, seconds: float) -> bool:
        """Have a row wait for a message that Celery sends itself; tell whether it does."""
        try:
            return self._lending.lend([(held.task_id, held.epoch or 0)], seconds) == 1
        except Exception as trouble:  # noqa: BLE001  # it is given back and runs once more
            log.error("task %d: it could not be given to Celery: %s", held.task_id, classify(trouble))
            return False

    def stale(self, task: Any, request: Any, held: Held) -> Exception:
        """Return what Celery is told of a message for an attempt that is not the current one, or runs already."""
        standing = self._lending.standing(held.task_id)
        why = f"task {held.task_id} is not there any more"
        if standing is not None and standing.status not in _LIVE:
            why = f"task {held.task_id} is over: {standing.status}"
        elif standing is not None:
            current = standing.retry_count + 1
            why = (
                f"attempt {held.attempt} of task {held.task_id} runs already, or is over; the current one is {current}"
            )
        return _ignored(task, request, why)

    def known_before(self, task: Any, request: Any) -> Held | None:
        """Return the row of a task whose first message is delivered again, and failed before without a word of it.

        Raises:
            Ignore: If its failure was written, so that the message has been dealt with.
        """
        if not (request.delivery_info or {}).get("redelivered"):
            return None
        number = self._lending.by_key(task.name, key_of(request.id))
        if number is None:
            return None
        if not self.is_unwritten(number):
            raise _ignored(task, request, f"it was delivered before, and its failure is with task {number}")
        return Held(number, 1, None)

    def is_unwritten(self, number: int) -> bool:
        """Tell whether a row has been added for a failure that was then not written."""
        row = self._store.get(number)
        return row is not None and row.status in _LIVE and not (row.attempt or row.deferrals or row.replays)

    def _row_of(self, task: Any, request: Any, rules: Rules, *, delay: float) -> Held | None:
        """Return the row of a task's first attempt, mostly a new one; None where an earlier delivery has seen to it."""
        key, known = key_of(request.id), None
        if (request.delivery_info or {}).get("redelivered"):
            known = patiently(lambda: self._lending.by_key(task.name, key))
        if known is not None:
            return Held(known, 1, None) if self.is_unwritten(known) else None
        itself = retries_itself(task, request)
        text = packed(task, request, limit=self._engine.app.payload_limit, itself=itself)
        row = NewTask(
            task.name, text, self._engine.queue, delay=delay, unique_key=key, resource=rules.resource,
            expires=_seconds_left(request.expires),
        )  # fmt: skip
        added = patiently(lambda: self._store.enqueue([row])[0])
        if not added.created and not self.is_unwritten(added.id):
            return None
        return Held(added.id, 1, None)

    def _settled(self, settlement: Settlement, held: Held) -> bool:
        who = self._engine.worker_id or None
        return patiently(
            lambda: self._lending.settle_attempt(
                settlement, held.attempt, epoch=held.epoch, reporter=who, unbegun=held.unbegun
            )
        )

    def _tell(self, rules: Rules, held: Held, verdict: Verdict, decision: Decision) -> None:
        about: Any = _About(held.task_id, held.attempt - 1)
        told: Any = rules
        logs.failed(told, about, verdict, decision)
        failure = verdict.failure
        if rules.resource is not None and isinstance(decision, Defer) and failure.exception_name not in _OUR_OWN:
            reason = f"{failure.category}: {failure.message:.200}"
            self._engine.app.cooling.cool(rules.resource, decision.delay, reason)
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

    def _by_broker(
        self, task: Any, request: Any, rules: Rules, error: BaseException, verdict: Verdict
    ) -> Exception | None:
        """Decide on a failed attempt that the store cannot keep: the message itself waits and counts, in Celery."""
        attempt = int(request.retries or 0) + 1
        decision: Decision = Fail("exhausted" if verdict.wanted else "permanent")
        if not retries_itself(task, request):
            decision = decide(
                verdict.failure, rules.policy, attempt=attempt, wanted=verdict.wanted, chance=clock.chance
            )  # fmt: skip
        told: Any = rules
        about: Any = _About(0, attempt - 1)
        logs.failed(told, about, verdict, decision)
        if isinstance(decision, Fail):
            log.error("%s %s: there is no dead letter of it, only Celery's own record", task.name, request.id)
            return None
        return self._sent_later(task, request, error, min(decision.delay, _LONGEST_COUNTDOWN))

    @staticmethod
    def _sent_later(task: Any, request: Any, error: BaseException, wait: float, *, spent: int = 1) -> Exception:
        """Send the message once more, to be taken after a while; the broker keeps it until then."""
        retries = int(request.retries or 0) + spent
        header = header_of(request) or {}
        header = header | {"retries": int(header.get("retries", 0)) + spent}
        headers = (request.headers or {}) | {HEADER: header}
        task.signature_from_request(request, countdown=wait, retries=retries, headers=headers).apply_async()
        return _again(error, wait)


def _again(error: BaseException, seconds: float) -> Exception:
    """Return what tells Celery that a task waits; the message is sent by whoever has it wait."""
    told: Exception = Retry(exc=error, when=round(seconds, 3))
    return told


def _ignored(task: Any, request: Any, why: str) -> Exception:
    """Return what tells Celery to forget a message; it would not log why."""
    log.info("%s %s: a message is ignored, %s", task.name, request.id, why)
    told: Exception = Ignore(why)
    return told


_OUR_OWN = {"ConcurrencyLimitError", "BreakerOpenError"}
"""What we held back ourselves says nothing of the resource that is not known already."""


def _decided(rules: Rules, held: Held, verdict: Verdict, standing: Standing | None, *, itself: bool) -> Decision:
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


def _settlement(number: int, verdict: Verdict, decision: Decision) -> Settlement:
    note = note_of(verdict.failure, verdict.traceback)
    match decision:
        case decisions.Retry(delay):
            return Settlement(number, 0, Kind.RETRY, delay, note)
        case Defer(delay):
            return Settlement(number, 0, Kind.DEFER, delay, note)
        case Fail(reason):
            return Settlement(number, 0, Kind.FAIL, note=note, reason=Reason(reason))


def _is_current(standing: Standing | None, attempt: int) -> bool:
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
