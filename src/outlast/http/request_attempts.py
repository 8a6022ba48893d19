"""The attempts of one HTTP request, with the same decisions for every client library, sync and async.

The transport asks before each attempt whether to wait, reports the outcome, and does the waiting and sending itself.
"""

import math
from contextlib import suppress
from typing import Any, Protocol

from outlast import clock
from outlast.classify import classify, default_classifier
from outlast.decide.policy import matches
from outlast.errors import CoolingDownError, ResourceUnavailableError
from outlast.failure import RETRYABLE, Category, Failure
from outlast.http.settings import Settings
from outlast.run.call_state import CallState, attempt_seconds_left
from outlast.run.report import report_counter

FIRST_ERROR_STATUS = 400
"""Answers of this status and above are judged."""
PEEK_LIMIT = 65536
"""Bytes of such an answer's body that are read to judge it, and kept with the error."""
PEEK_SECONDS = 5.0
"""Seconds for which such a body may stall; one that goes on after half of them is judged by what there is."""
_SERVER_ERRORS = 500
_RECHECK_SECONDS = 1.0  # seconds after which a request that waits for a cooldown looks whether it is over early
_DEFAULT_COOLDOWN = 60.0  # seconds, where a backoff of the user's cannot be asked
_NOTE_BODY_READ = "not retried by outlast: its body can be read only once"
_NOTE_NOT_IDEMPOTENT = "not retried by outlast: a {} is not safe to send twice; add an Idempotency-Key to allow it"
_MAX_REASON = 200  # characters


class ClientAdapter(Protocol):
    """What a course has to know of a client library."""

    def name(self, request: Any) -> str:
        """Return method and address for logs: no query, no credentials."""

    def method(self, request: Any) -> str:
        """Return the method in capitals."""

    def marked(self, request: Any) -> bool:
        """Tell whether the request says of itself that it may be sent twice."""

    def whole(self, request: Any) -> bool:
        """Tell whether the body can be sent once more as it was."""

    def unsent(self, request: Any, error: Exception) -> bool:
        """Tell whether an error means that nothing of the request has left, and its body was not begun."""

    def status_error(self, request: Any, response: Any) -> Exception:
        """Return the library's own error for an answer."""


class _RequestCallState(CallState):
    """An `Attempting` that hands a wait back which is longer than the request may take (C7)."""

    __slots__ = ("patience",)

    patience: float | None

    def _wait(self, failure: Failure | None) -> tuple[float, str]:
        patience = self.patience
        if patience is None or failure is None or not _asks_to_wait(failure):
            return super()._wait(failure)
        more = self.number < self.policy.for_category(failure.category).max_attempts
        if more and failure.retry_after is not None and failure.retry_after > patience:
            return failure.retry_after, "deferred"
        delay, reason = super()._wait(failure)
        return delay, "deferred" if not reason and delay > patience else reason

    def give_up_cooling_down(self, error: CoolingDownError) -> None:
        """Give up because another answer has made the cooldown longer than can be waited for."""
        if self.began is None:
            self.began = clock.monotonic()
        self._give_up(error, None, "deferred", error.retry_after or 0.0)


class RequestAttempts:
    """One request, from before its first attempt.

    Args:
        settings: Of the transport.
        kit: Of the library.
        request: What is sent.
        scope: What cools down if the server asks for it.
    """

    __slots__ = (
        "_began", "_ends", "_held", "_kit", "_permit", "_probes", "_request", "_serial", "_settings", "_started",
        "_state", "scope",
    )  # fmt: skip

    def __init__(self, settings: Settings, kit: ClientAdapter, request: Any, scope: str) -> None:
        """Note the time where the policy has a limit."""
        self._settings = settings
        self._kit = kit
        self._request = request
        self._serial = report_counter.last
        self._started = clock.monotonic() if settings.timed else None
        self._state: _RequestCallState | None = None
        self._permit: int | None = None
        self._began = self._held = 0.0
        self._ends: float | None = None
        self._probes = False
        self.scope = scope

    def wait(self) -> None:
        """Wait until the scope may be called; for sync transports.

        Raises:
            CoolingDownError: If that takes longer than the request may wait.
        """
        while (left := self._settings.cooling.admit(self.scope)) > 0:
            clock.sleep(self.hold(left))
        self.admitted()

    def admitted(self) -> None:
        """Note that the scope may be called; where that is its probe, it is given back unless something comes of it."""
        self._probes = self._settings.cooling.is_probing(self.scope)

    def hold(self, left: float) -> float:
        """Return the seconds to wait before asking again after a cooldown that has so long to go.

        Raises:
            CoolingDownError: If that is longer than the request may wait.
        """
        deadline, patience = self._settings.policy.deadline, self._settings.most_patience
        over = patience is not None and self._held + left > patience
        if deadline is not None and self._started is not None:
            over = over or left >= self._started + deadline - clock.monotonic()
        if over:
            error = CoolingDownError(
                f"{self.scope}: not called, its cooldown ends in {math.ceil(left)} s", retry_after=left
            )
            if self._state is not None:
                self._state.give_up_cooling_down(error)
            raise error
        wait = min(left, _RECHECK_SECONDS)
        self._held += wait
        return wait

    def begin(self) -> float | None:
        """Begin an attempt; return the seconds that it may take, None where there is no limit.

        Raises:
            Exception: The error of the attempt before, if the deadline is over.
        """
        limit, state = self._settings.first_limit, self._state
        if limit is None:
            return None
        if state is not None:
            if not state.begin():
                raise state.overslept()
            limit = state.attempt_left()
        elif self._held:  # some of the time is gone
            limit = attempt_seconds_left(self._settings.policy, self._started, clock.monotonic())
        self._ends = None if limit is None else clock.monotonic() + limit
        return limit

    def looking(self) -> float:
        """Return the seconds for which the body of an answer may stall while it is looked at."""
        return PEEK_SECONDS if self._ends is None else max(0.0, min(PEEK_SECONDS, self._ends - clock.monotonic()))

    def enter(self) -> None:
        """Ask the policy's resource for a call; part of the attempt, so that the policy decides on its refusal.

        Raises:
            ResourceUnavailableError: If it lets no call pass.
        """
        guard = self._settings.guard
        if guard is not None:
            self._permit = guard.enter()
            self._began = clock.monotonic()

    def succeeded(self) -> None:
        """Tell that the server answered as it should."""
        guard, permit = self._settings.guard, self._permit
        if guard is not None and permit is not None:
            self._permit = None
            guard.succeeded(permit, clock.monotonic() - self._began)
        if self._state is not None:
            self._state.succeeded()
        self._probes = False
        self._settings.cooling.answered(self.scope)

    def cancelled(self) -> None:
        """Tell that the attempt was interrupted: neither success nor failure."""
        guard, permit = self._settings.guard, self._permit
        if guard is not None and permit is not None:
            self._permit = None
            guard.withdrawn(permit)

    def failed(self, error: Exception) -> float | None:
        """Decide on an attempt that raised an error.

        Returns:
            Seconds to wait before the next attempt; None if the error is to be raised.
        """
        self._tell_guard(error)
        if isinstance(error, ResourceUnavailableError):  # nobody was called
            self._give_back()
        self._probes = False
        return self._after(error) if self._may_repeat(error) else None

    def refused(self, response: Any) -> tuple[float | None, Exception | None]:
        """Decide on an answer with a status of 400 or more.

        Returns:
            Seconds to wait before the next attempt, None if there is none; and the error to raise then, None if the
            answer is the caller's.
        """
        error = self._kit.status_error(self._request, response)
        self._tell_guard(error)
        self._probes = False
        failure, delay = default_classifier().weigh(error), None  # its texts are made where somebody reads them
        given_up = self._is_given_up(error, failure) and self._may_repeat(error)
        if given_up:
            delay = self._after(error)
        self._cool(error, failure, delay)
        return delay, error if given_up and (delay is not None or self._settings.raises) else None

    def give_up_response(self, response: Any, judged: Any) -> float | None:
        """Decide on an answer as `refused` does, and close it where it is nobody's; for sync transports.

        Args:
            response: The answer.
            judged: The same with what was read of its body.

        Returns:
            Seconds to wait before the next attempt; None if the answer is the caller's.

        Raises:
            Exception: The library's own error for it, if there is no other attempt.
        """
        try:
            delay, error = self.refused(judged)
        except BaseException:
            response.close()
            raise
        if error is None:
            return None
        with suppress(Exception):  # it is thrown away; the connection knows whether it can be used again
            response.close()
        try:
            if delay is None:
                raise error
        finally:
            del error  # an error whose traceback holds this frame would refer to itself
        return delay

    def ended(self) -> None:
        """Give back what nothing came of, and let go of the last error: its traceback holds this course."""
        self._give_back()
        if self._state is not None:
            self._state.last = None

    def _give_back(self) -> None:
        if self._probes:
            self._probes = False
            self._settings.cooling.withdrawn(self.scope)

    def _tell_guard(self, error: Exception) -> None:
        guard, permit = self._settings.guard, self._permit
        if guard is not None and permit is not None:
            self._permit = None
            guard.failed(error, permit)

    def _is_given_up(self, error: Exception, failure: Failure) -> bool:
        """Tell whether the policy retries such an answer; any other is handed to the caller."""
        retry_on = self._settings.policy.retry_on
        if isinstance(retry_on, frozenset):  # categories, and the answer has been weighed
            return failure.retryable if retry_on == RETRYABLE else failure.category in retry_on
        try:
            return matches(retry_on, error)
        except Exception:  # noqa: BLE001  # a predicate of the user's; the loop logs it
            return True

    def _may_repeat(self, error: Exception) -> bool:
        """Tell whether the request may be sent again, and say on the error why not."""
        kit, request = self._kit, self._request
        if isinstance(error, ResourceUnavailableError) or kit.unsent(request, error):
            return True
        method = kit.method(request)
        if method not in self._settings.methods and not kit.marked(request):
            error.add_note(_NOTE_NOT_IDEMPOTENT.format(method))
            return False
        if not kit.whole(request):
            error.add_note(_NOTE_BODY_READ)
            return False
        return True

    def _after(self, error: Exception) -> float | None:
        state = self._state
        if state is None:
            settings, name = self._settings, self._kit.name(self._request)
            state = self._state = _RequestCallState(settings.policy, name, self._serial, self._started, settings.guard)
            state.patience = settings.most_patience
        return state.failed(error)

    def _cool(self, error: Exception, failure: Failure, delay: float | None) -> None:
        """Have the scope cool down, where an answer asks for it."""
        if not _asks_to_wait(failure):
            if (failure.http_status or _SERVER_ERRORS) < _SERVER_ERRORS:  # it is well; what it says is another matter
                self._settings.cooling.answered(self.scope)
            return
        seconds = failure.retry_after
        if seconds is None:
            seconds = self._own_wait(failure) if delay is None else delay
        if seconds > 0:
            self._settings.cooling.start_cooldown(
                self.scope, seconds, classify(error).message[:_MAX_REASON], failure.capped
            )

    def _own_wait(self, failure: Failure) -> float:
        try:
            return self._settings.policy.delay_after(failure, 1, chance=clock.chance)
        except Exception:  # noqa: BLE001  # a backoff of the user's; the answer at hand matters more
            return _DEFAULT_COOLDOWN


def _asks_to_wait(failure: Failure) -> bool:
    """Tell whether an answer asks to be left alone."""
    return failure.category is Category.RATE_LIMIT or bool(failure.retry_after)
