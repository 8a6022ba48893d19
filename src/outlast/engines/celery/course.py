"""One attempt of one task of Celery's, from its message to what Celery is told."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from celery.exceptions import Ignore, Reject, Retry  # type: ignore[import-untyped]

from outlast import clock
from outlast.classify import classify
from outlast.decide.breaker import BREAKER_OPEN, BY_HAND
from outlast.engines.celery.engine import Engine, Rules
from outlast.engines.celery.failing import Failing
from outlast.engines.celery.headers import Held, held_by
from outlast.engines.celery.logs import log
from outlast.engines.celery.patience import in_time
from outlast.errors import LeaseLostError
from outlast.run.resources import Resource, resource

__all__ = ["Course"]

_BY_HAND_FOR = 60.0  # seconds for which the tasks of what was opened by hand wait until the breaker is asked again
_SPREAD, _MOST_SPREAD = 0.1, 10.0  # of a cooldown, and seconds: over so long, what waited for its end comes back


class Course:
    """Runs attempts. What they raise is written before Celery hears of it.

    Args:
        engine: What is attached to what.
    """

    def __init__(self, engine: Engine) -> None:
        """Keep the engine."""
        self._engine, self._failing = engine, Failing(engine)

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
            self._left_to_celery(request, held, told)
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

    def failed_late(self, task: Any, request: Any, error: BaseException) -> None:
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

    @in_time
    def _begun(self, task: Any, request: Any) -> Held | None:
        """Mark the start of an attempt that has a row; None for the first attempt of a task, which has none."""
        engine, held = self._engine, held_by(request)
        try:
            held = held or self._failing.known_before(task, request)
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

    def _put_off(self, task: Any, request: Any, rules: Rules, wait: float) -> Exception:
        """Have an attempt wait for the end of a cooldown, none spent; not all come back in the same moment."""
        wait += clock.chance() * min(_SPREAD * wait, _MOST_SPREAD)
        return self._failing.put_off(task, request, rules, wait)

    def _left_to_celery(self, request: Any, held: Held | None, told: Exception) -> None:
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
        if guard.breaker.reason == BY_HAND:  # whose end nobody knows: somebody may close it at any time
            left = min(left, _BY_HAND_FOR)
        self._engine.app.cooling.cool(guard.name, left, BREAKER_OPEN)


def _seconds_until(when: object) -> float:
    if isinstance(when, datetime):
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - clock.now())
    return float(when) if isinstance(when, int | float) else 0.0


def _guard(rules: Rules) -> Resource | None:
    if rules.resource is None:
        return None
    guard = resource(rules.resource)
    return None if guard.is_bare else guard
