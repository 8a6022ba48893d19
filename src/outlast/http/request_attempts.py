"""The attempts of one HTTP request, with the same decisions for every client library, sync and async.

The attempt loops drive them: a transport sends the request once, and `RequestAttempts` waits for cooldowns before it,
reports the outcome to the resource and the cooldowns, and raises the responses that the policy retries.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from outlast import clock
from outlast.classify import attach_failure, failure_of
from outlast.classify.safe_access import contained
from outlast.decide.decision import Defer, Place
from outlast.errors import CoolingDownError, ResourceUnavailableError
from outlast.failure import Category, Failure
from outlast.http.bodies import streamable_encodings
from outlast.http.settings import KEY_HEADER, Settings, request_key
from outlast.run.call_state import CURRENT, Call, CallPlan, CallState, attempt_seconds_left, restart_attempt
from outlast.run.loops import retry_sync

if TYPE_CHECKING:
    from outlast.decide.policy import RetryPolicy
    from outlast.run.resources import Turn

FIRST_ERROR_STATUS = 400
"""Responses with this status and above are classified."""
PEEK_LIMIT = 65536
"""Bytes of the body of such a response that are read to classify it, and kept with the error."""
PEEK_SECONDS = 5.0
"""Seconds for which such a body may stall; one that goes on after half of them is classified by what there is."""
_SERVER_ERRORS = 500
_RECHECK_SECONDS = 1.0  # seconds after which a request that waits for a cooldown checks whether it ended early
_DEFAULT_COOLDOWN = 60.0  # seconds, if a backoff function of the user's raises an error
_NOTE_BODY_READ = "not retried by outlast: its body can be read only once"
_NOTE_NOT_IDEMPOTENT = "not retried by outlast: a {} is not safe to send twice; add an Idempotency-Key to allow it"
_MAX_REASON = 200  # characters


class ClientAdapter(Protocol):
    """What `RequestAttempts` has to know about a client library."""

    def name(self, request: Any) -> str:
        """Return method and address for logs: no query, no credentials."""

    def method(self, request: Any) -> str:
        """Return the method in capitals."""
        return str(request.method).upper()

    def marked(self, request: Any) -> bool:
        """Return whether the request says that it may be sent twice."""

    def whole(self, request: Any) -> bool:
        """Return whether the body can be sent once more as it was."""

    def unsent(self, request: Any, error: Exception) -> bool:
        """Return whether an error means that nothing of the request was sent, and its body was not read."""

    def status_error(self, request: Any, response: Any) -> Exception:
        """Return the library's own error for a response."""


def prepare_headers(request: Any, settings: Settings, body: Callable[[], bytes | str | None]) -> None:
    """Add an idempotency key and accepted encodings to a request, where the settings need them.

    Args:
        request: The request.
        settings: Settings of the transport.
        body: Returns its body; None if it is not known in advance.
    """
    headers = request.headers
    if settings.keys and request.method not in settings.methods and KEY_HEADER not in headers:
        headers[KEY_HEADER] = request_key(request.method, request.url, body())
    if settings.max_body is not None and headers.get("Accept-Encoding"):
        headers["Accept-Encoding"] = streamable_encodings(headers["Accept-Encoding"])


def is_retried(policy: "RetryPolicy", error: Exception, failure: Failure) -> bool:
    """Return whether the policy retries the error of a response; any other response is returned to the caller."""
    try:
        return policy.retries(error, failure)
    except Exception:  # noqa: BLE001  # a predicate of the user's; the loop logs it and raises the error
        return True


class _RequestState(CallState):
    """The state of a request that failed: it defers waits that are longer than the request may take (C7)."""

    place = Place.HTTP

    def __init__(self, call: Call, args: tuple[Any, ...]) -> None:
        super().__init__(call, args)
        self.sending: RequestAttempts = args[0]
        self.patience = self.sending.settings.most_patience

    @property
    def name(self) -> str:
        """Method and address of the request."""
        return self.sending.name

    def failed(self, error: Exception) -> float | None:
        """Decide on a failed attempt; a request that must not be sent twice is not retried."""
        sending = self.sending
        if error is sending.cooling_error and self.attempt == 1:  # nothing was sent, and the cooldown is logged
            return None
        if error is not sending.status_error and not sending.may_repeat(error):
            return None
        delay = super().failed(error)
        if error is sending.status_error:
            sending.start_cooldown(
                failure_of(error), self.decision.delay if isinstance(self.decision, Defer) else delay
            )
        return delay


class RequestAttempts:
    """One request, from before its first attempt.

    Args:
        settings: Settings of the transport.
        adapter: Adapter of the client library.
        request: The request.
        scope: What cools down if the server asks for it.

    Attributes:
        failure: The classified response, if it has an error status and is returned.
        cooling_error: The error of a request that was not sent, because its scope cools down.
        status_error: The error of the last response, if the policy retries such a response.
        response: The response of the last attempt, until it is closed or returned.
    """

    def __init__(self, settings: Settings, adapter: ClientAdapter, request: Any, scope: str) -> None:
        self.settings = settings
        self.scope = scope
        self.failure: Failure | None = None
        self.cooling_error: Exception | None = None
        self.status_error: Exception | None = None
        self.response: Any = None
        self._adapter = adapter
        self._request = request
        self._permit: int | None = None
        self._began = self._held = 0.0
        self._ends: float | None = None
        self._probes = False
        self._turn: Turn | None = None  # its turn by the rate limit, while it waits for it

    def send(self, limit: float | None) -> Any:
        """Send the request once; it may take `limit` seconds. For async transports, a coroutine."""
        raise NotImplementedError

    def peek(self, response: Any) -> Any:
        """Return a copy of a response with the beginning of its body. For async transports, a coroutine."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Method and address for logs."""
        return self._adapter.name(self._request)

    def wait(self) -> None:
        """Wait until the scope may be called; for sync transports.

        Raises:
            ResourceUnavailableError: If that takes longer than the request may wait.
        """
        while (seconds := self.pause(self.settings.cooling.admit(self.scope))) is not None:
            clock.sleep(seconds)

    def pause(self, left: float) -> float | None:
        """Return the seconds to wait before asking about the cooldown again; None if the request may be sent.

        The cooldown comes first, then the rate limit. It may be long until the turn of a request, so the cooldown is
        asked again then. If there is a new one, the turn is lost, or all requests would be sent at once after it.

        Args:
            left: Seconds until the end of the cooldown; 0 without a cooldown.

        Raises:
            ResourceUnavailableError: If that is longer than the request may wait.
        """
        turn, self._turn = self._turn, None
        if left > 0:
            return self.hold(left)
        limiter, request = self.settings.limiter, self._request
        self._probes = self.settings.cooling.is_probing(self.scope)  # the probe is given back if it is not sent
        if turn is not None:
            restart_attempt(CURRENT.get())
        elif limiter is not None:
            self._turn = limiter.reserve(self.settings.per(str(request.url), request.headers), CURRENT.get())
        if self._turn is None:
            return None
        self._give_probe_back()
        return self._turn.seconds_left()

    def hold(self, left: float) -> float:
        """Return the seconds to wait before asking again about a cooldown that has `left` seconds to go.

        Raises:
            CoolingDownError: If that is longer than the request may wait.
        """
        patience = self.settings.most_patience
        started = self._started()
        too_long = patience is not None and self._held + left > patience
        if self.settings.policy.deadline is not None and started is not None:
            too_long = too_long or left >= started + self.settings.policy.deadline - clock.monotonic()
        if too_long:
            self.cooling_error = CoolingDownError(
                f"{self.scope}: not called, its cooldown ends in {math.ceil(left)} s", retry_after=left
            )
            raise self.cooling_error
        wait = min(left, _RECHECK_SECONDS)
        self._held += wait
        return wait

    def begin(self) -> float | None:
        """Begin an attempt; return the seconds that it may take, None for no limit."""
        limit, current = self.settings.first_limit, CURRENT.get()
        if limit is None:
            return None
        if isinstance(current, CallState):
            limit = current.attempt_left()
        elif self._held:  # waiting for the cooldown took some of the time
            limit = attempt_seconds_left(self.settings.policy, self._started(), clock.monotonic())
        self._ends = None if limit is None else clock.monotonic() + limit
        return limit

    def _started(self) -> float | None:
        current = CURRENT.get()
        return None if current is None else current.started if isinstance(current, CallState) else current[1]

    def peek_seconds(self) -> float:
        """Return the seconds for which the body of a response may stall while it is read."""
        return PEEK_SECONDS if self._ends is None else max(0.0, min(PEEK_SECONDS, self._ends - clock.monotonic()))

    def enter(self) -> None:
        """Ask the policy's resource for a call; part of the attempt, so that the policy decides about a refusal.

        Raises:
            ResourceUnavailableError: If it refuses the call.
        """
        guard = self.settings.guard
        if guard is not None:
            self._permit = guard.enter()
            self._began = clock.monotonic()

    def broke(self, error: BaseException) -> None:
        """Report to the resource and the cooldown that an attempt raised an error or was interrupted."""
        if issubclass(type(error), ResourceUnavailableError):  # nobody was called
            self._give_probe_back()
        elif issubclass(type(error), Exception):
            self._probes = False
        guard, permit = self.settings.guard, self._permit
        self._permit = None
        if guard is not None and permit is not None:
            guard.ended(error, permit)

    def answer(self, response: Any, peeked: Any) -> Any:
        """Return a response, or raise it if the policy retries such a response.

        Args:
            response: The response.
            peeked: A copy with the beginning of its body; None for a response without an error status.

        Raises:
            Exception: The library's own error for the response.
        """
        if peeked is None:
            self._succeeded()
            return response
        error = self._adapter.status_error(self._request, peeked)
        try:
            self.broke(error)
            failure = failure_of(error)
            if not is_retried(self.settings.policy, error, failure) or not self.may_repeat(error):
                self.start_cooldown(failure, None)
                self.failure = failure
                return response
            attach_failure(error, failure)
            self.status_error = error
            raise error
        finally:
            del error  # an error whose traceback holds this frame would refer to itself

    def _succeeded(self) -> None:
        guard, permit = self.settings.guard, self._permit
        if guard is not None and permit is not None:
            self._permit = None
            guard.succeeded(permit, clock.monotonic() - self._began)
        self._probes = False
        self.settings.cooling.answered(self.scope)

    def close_response(self) -> None:
        """Close the response of the last attempt, if it was not returned."""
        response, self.response = self.response, None
        if response is not None:
            with suppress(Exception):  # it is discarded; the connection knows whether it can be used again
                response.close()

    async def close_response_async(self) -> None:
        """Do the same on an event loop."""
        response, self.response = self.response, None
        if response is not None:
            with suppress(Exception):  # as above
                await response.aclose()

    def take_response(self, error: Exception) -> Any:
        """Return the response that is returned instead of its error; None if the error is to be raised."""
        if self.settings.raises or error is not self.status_error:
            return None
        response, self.response = self.response, None
        return response

    def end(self) -> None:
        """Give back a probe and a turn that were not used, and forget the last error: its traceback refers to this."""
        self._give_probe_back()
        if self._turn is not None:
            self._turn.give_back()
            self._turn = None
        self.status_error = self.cooling_error = None

    def _give_probe_back(self) -> None:
        if self._probes:
            self._probes = False
            self.settings.cooling.withdrawn(self.scope)

    def may_repeat(self, error: Exception) -> bool:
        """Return whether the request may be sent again; if not, add a note to the error that says why."""
        adapter, request = self._adapter, self._request
        if issubclass(type(error), ResourceUnavailableError) or adapter.unsent(request, error):
            return True
        method = adapter.method(request)
        if method not in self.settings.methods and not adapter.marked(request):
            contained(None, BaseException.add_note, error, _NOTE_NOT_IDEMPOTENT.format(method))
            return False
        if not adapter.whole(request):
            contained(None, BaseException.add_note, error, _NOTE_BODY_READ)
            return False
        return True

    def start_cooldown(self, failure: Failure, delay: float | None) -> None:
        """Start a cooldown of the scope if a response asks for one.

        Args:
            failure: The classified response.
            delay: The wait that was decided on, in seconds, if there is one.
        """
        cooling = self.settings.cooling
        if not (failure.category is Category.RATE_LIMIT or failure.retry_after):
            if (failure.http_status or _SERVER_ERRORS) < _SERVER_ERRORS:  # the host is well
                cooling.answered(self.scope)
            return
        seconds = failure.retry_after
        if seconds is None:
            seconds = self._own_wait(failure) if delay is None else delay
        if seconds > 0:
            cooling.start_cooldown(self.scope, seconds, failure.message[:_MAX_REASON], failure.capped)

    def _own_wait(self, failure: Failure) -> float:
        try:
            return self.settings.policy.delay_after(failure, 1, chance=clock.chance)
        except Exception:  # noqa: BLE001  # a backoff function of the user's; the response matters more
            return _DEFAULT_COOLDOWN


def request_plan(
    settings: Settings, sleep_async: Callable[[CallState, float], Awaitable[None]] | None = None
) -> CallPlan:
    """Return the plan of a transport's requests."""
    return CallPlan(settings.policy, "request", state=_RequestState, sleep=_sleep, sleep_async=sleep_async)


def sender(settings: Settings) -> Callable[[RequestAttempts], Any]:
    """Return a function that sends a request with the retries of a transport."""
    attempts = retry_sync(_attempt, request_plan(settings))

    def send(sending: RequestAttempts) -> Any:
        try:
            return attempts(sending)
        except Exception as error:
            if (response := sending.take_response(error)) is None:
                raise
            return response
        finally:
            sending.close_response()
            sending.end()

    return send


def _attempt(sending: RequestAttempts) -> Any:
    """Send a request once, when its scope may be called."""
    sending.wait()
    limit, peeked = sending.begin(), None
    try:
        sending.enter()
        response = sending.response = sending.send(limit)
        if response.status_code >= FIRST_ERROR_STATUS:
            peeked = sending.peek(response)
    except BaseException as error:
        sending.broke(error)
        raise
    answered = sending.answer(response, peeked)
    sending.response = None  # it is returned; until here, an interrupt closes it
    return answered


def _sleep(state: Any, seconds: float) -> None:
    state.sending.close_response()  # its connection is free while the request waits
    if seconds > 0:
        clock.sleep(seconds)
