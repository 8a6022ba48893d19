"""Polls one source: fetch with retries, deferral while its host is in a cooldown, and the call of `on_change`."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from outlast import async_backends, clock
from outlast.classify import attach_failure, failure_of
from outlast.classify.safe_access import contained, drop_interrupts
from outlast.decide.decision import Decision, DecisionReason, DecisionState, Defer, Place, deferral_seconds
from outlast.decide.source_health import Profile, SourceRules, SourceState, probe_delay
from outlast.errors import ConfigError
from outlast.failure import Failure
from outlast.http.settings import host_of
from outlast.ports.rows import storable
from outlast.ports.source_rows import ChangeSource, Closing, Cycle, Source, SourceChange
from outlast.record.log_text import traceback_of
from outlast.run.call_state import Call, CallPlan, CallState
from outlast.run.cooldowns import CooldownTracker
from outlast.run.loops import retry_async
from outlast.run.observe_mode import publish_observed
from outlast.run.retry import is_coroutine_function
from outlast.sources import outcomes
from outlast.sources.announcements import log, redacted_source_url
from outlast.sources.fetchers import Changed, Fetched, run_in_own_thread

_COOLING_DOWN = "CoolingDownError"
_MAX_CALLBACKS = 16  # calls of `on_change` at once, each in a thread
_STATUSES = range(1000)


class PollSettings(NamedTuple):
    """How sources are polled.

    Attributes:
        profile: Policy and rules.
        fetch: Gets a source and the client, and returns the content.
        on_change: Called when there is something new.
        every: Seconds between two polls of a source.
        timeout: Seconds for one fetch.
        concurrency: Fetches at once.
        per_host: Fetches of one host at once.
        on_change_timeout: Seconds for one call of `on_change`.
        mode: ``act``, or ``observe``: no source changes its state, and nobody is alerted.
        allow_private: Whether redirects may lead to addresses that are not public.
    """

    profile: Profile
    fetch: Any
    on_change: Any
    every: float
    timeout: float
    concurrency: int
    per_host: int
    on_change_timeout: float = 300.0
    mode: str = "act"
    allow_private: bool = False


@dataclass
class _Poll:
    """One poll of a source.

    Attributes:
        attempts: The fetches that were made.
        wait: Seconds that the last failure asked to wait, as the cooldown has them.
        decision: The decision about the last failure.
    """

    source: Source
    host: str
    attempts: int = 0
    wait: float | None = None
    decision: Decision | None = None


class _PollState(CallState):
    """The state of a poll that failed."""

    place = Place.POLL

    def __init__(self, call: Call, args: tuple[Any, ...]) -> None:
        super().__init__(call, args)
        self._poll: _Poll = args[0]

    @property
    def name(self) -> str:
        """The source."""
        source = self._poll.source
        return f"source {source.id} ({redacted_source_url(source)})"

    def _is_logged(self, reason: DecisionReason) -> bool:
        return reason is not DecisionReason.DEFERRED and super()._is_logged(reason)  # the cooldown is logged

    def failed(self, error: Exception) -> float | None:
        """Decide on a failed fetch."""
        if issubclass(type(error), _HostCooling):
            return None
        delay = super().failed(error)
        self._poll.decision = self.decision
        return delay


class _HostCooling(Exception):  # noqa: N818  # a signal
    """The host is in a cooldown: the source is not called. Its argument is the seconds left."""


class Poller:
    """Polls sources one by one, any number of them at the same time.

    Args:
        settings: The settings of the monitor.
        cooling: The cooldowns of hosts; a host is not called during its cooldown.
        client: The HTTP client that fetchers get.
        is_leaving: Returns whether the monitor stops, so that no fetch may start.

    Attributes:
        is_leaving: See above.
        resting: Polls that wait for their host or for their next attempt; they take no slot.
        broken_callbacks: How often `on_change` raised, or did not return in time.
    """

    def __init__(
        self,
        settings: PollSettings,
        cooling: CooldownTracker,
        client: Any,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings = settings
        self._cooling = cooling
        self._client = client
        self.is_leaving = is_leaving
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._hosts: dict[str, tuple[asyncio.Semaphore, list[int]]] = {}
        self._awaits = settings.on_change is not None and is_coroutine_function(settings.on_change)
        self._alone = not getattr(settings.fetch, "needs_client", True)  # it reports nothing to the cooldowns
        self._attempts = retry_async(
            self._attempt, CallPlan(settings.profile.policy, "poll", state=_PollState, sleep_async=self._rest)
        )
        self._callbacks = asyncio.Semaphore(_MAX_CALLBACKS)
        self.resting: set[asyncio.Task[Any]] = set()
        self.broken_callbacks = 0

    @property
    def rules(self) -> SourceRules:
        """By which sources are judged."""
        return self._settings.profile.rules

    async def poll(self, source: Source) -> ChangeSource:
        """Poll a source; return what is to be written. No error of its fetcher is raised."""
        drop_interrupts()
        rules, poll = self.rules, _Poll(source, host_of(source.url))
        try:
            fetched = await self._attempts(poll)
            return await self._seen(source, fetched, poll.attempts)
        except _HostCooling as cooling:
            return outcomes.deferral_change(rules, cooling.args[0], None, poll.attempts)
        except asyncio.CancelledError:
            self._cooling.withdrawn(poll.host)
            raise
        except Exception as error:  # noqa: BLE001  # an error of a fetcher concerns its source alone
            failure = failure_of(error).settled()
            decision = poll.decision
        if isinstance(decision, Defer):
            unasked = failure.exception_name == _COOLING_DOWN  # the source itself was not called
            wait = decision.delay if poll.wait is None else poll.wait
            return outcomes.deferral_change(rules, wait, failure, poll.attempts - unasked)
        counts = "" if failure.category in rules.counted else " (not counted)"
        text = failure.summary
        log.info("source %d (%s) failed%s: %s", source.id, redacted_source_url(source), counts, text)
        return outcomes.failure_change(rules, self._settings.every, failure, poll.attempts)

    async def _attempt(self, poll: "_Poll") -> Fetched:
        """Fetch a source once, when its host and a slot are free."""
        async with self._slot(poll.host):
            if self.is_leaving():
                raise asyncio.CancelledError  # it is released with all polls that have not begun
            # Asked inside the slot: the poll before this one may have been told to wait.
            left = await self._left(poll.host, admit=self._alone)
            if left > 0:
                raise _HostCooling(left)
            poll.attempts += 1
            fetched: Fetched | Exception
            try:
                fetched = await self._fetched(poll.source)
            except Exception as error:  # noqa: BLE001  # raised below: contextlib runs code of errors that it passes on
                poll.wait = await self._start_cooldown(error, poll.host)  # before the next poll of the host begins
                fetched = error
        if isinstance(fetched, Exception):
            raise fetched
        self._cooling.answered(poll.host)
        return fetched

    async def _rest(self, _state: CallState, seconds: float) -> None:
        with _resting_in(self.resting):
            await clock.sleep_async(seconds)

    async def _fetched(self, source: Source) -> Fetched:
        fetching = _await_contained(self._settings.fetch(source, self._client))
        given = await async_backends.run_with_timeout(self._settings.timeout, fetching)
        if isinstance(given, Fetched):
            return _check_fetched(given)
        if isinstance(given, str | bytes):
            return Fetched(given)
        raise ConfigError(f"the fetcher returned {type(given).__name__}; it must return Fetched, text or bytes")

    async def _seen(self, source: Source, fetched: Fetched, attempts: int) -> ChangeSource:
        """Tell of what is new, and say what is written; a change counts as seen when `on_change` has returned."""
        settings = self._settings
        rules, every = settings.profile.rules, settings.every
        digest = fetched.hash or _content_digest(fetched.content)
        if fetched.not_modified or digest == source.content_hash:
            seen = None if fetched.not_modified else digest
            return outcomes.success_change(rules, every, fetched, seen, outcome="unchanged", attempts=attempts)
        seen = digest if await self._tell(Changed(source, fetched, first=source.content_hash is None)) else None
        return outcomes.success_change(rules, every, fetched, seen, outcome="changed", attempts=attempts)

    async def _tell(self, changed: Changed) -> bool:
        on_change = self._settings.on_change
        if on_change is None:
            return True
        try:
            if self._awaits:
                await async_backends.run_with_timeout(
                    self._settings.on_change_timeout, _await_contained(on_change(changed))
                )
            else:
                async with self._callbacks:
                    await self._call_on_change_in_thread(changed)
        except Exception as error:  # noqa: BLE001  # a mistake of the user's never counts against a source
            self.broken_callbacks += 1
            log.error(
                "on_change failed for source %d (%s); it is called again at the next poll\n%s",
                changed.source.id,
                redacted_source_url(changed.source),
                traceback_of(error),
                extra={"source_id": changed.source.id},
            )
            return False
        return True

    async def _call_on_change_in_thread(self, changed: Changed) -> None:
        limit = asyncio.timeout(self._settings.on_change_timeout)
        try:
            async with limit:
                await run_in_own_thread(self._settings.on_change, changed)
        except TimeoutError:
            if not limit.expired():
                raise  # its own
            raise TimeoutError(
                f"no end within {self._settings.on_change_timeout:g} s; its thread cannot be stopped and keeps running"
            ) from None

    async def _left(self, host: str, *, admit: bool = False) -> float:
        ask = self._cooling.admit if admit else self._cooling.left
        return ask(host) if self._cooling.is_quick(host) else await asyncio.to_thread(ask, host)

    async def _start_cooldown(self, error: Exception, host: str) -> float | None:
        """Start the cooldown of a host that asks to wait; return the seconds, None if it does not ask."""
        failure = failure_of(error)
        attach_failure(error, failure)
        wait = deferral_seconds(
            failure, self._settings.profile.policy, DecisionState(place=Place.POLL, chance=clock.chance)
        )
        if wait is None or failure.exception_name == _COOLING_DOWN:
            return wait
        answered = contained(None, _response_host, error) or host
        left = await self._left(answered)  # what the transport has reported already
        unknown = self._alone or left <= 0  # a fetcher without our client has reported nothing
        if unknown or (failure.retry_after is None and left < wait):  # without a hint it knows less than the profile
            reason = f"{failure.exception_name}: {failure.message}"[:200]
            self._cooling.start_cooldown(answered, wait, reason, failure.capped)
        return wait

    @asynccontextmanager
    async def _slot(self, host: str) -> AsyncIterator[None]:
        """Wait for the host, then for a slot."""
        known, users = self._hosts.setdefault(host, (asyncio.Semaphore(self._settings.per_host), [0]))
        users[0] += 1
        try:
            with _resting_in(self.resting):
                await known.acquire()
            try:
                async with self._slots:
                    yield
            finally:
                known.release()
        finally:
            users[0] -= 1
            if not users[0]:
                self._hosts.pop(host, None)


@contextmanager
def _resting_in(polls: "set[asyncio.Task[Any]]") -> Iterator[None]:
    """Have the poll that runs be one of these."""
    poll = asyncio.current_task()
    if poll is None:  # not within a task: there is no such thing under asyncio.run
        yield
        return
    polls.add(poll)
    try:
        yield
    finally:
        polls.discard(poll)


async def _await_contained(awaitable: "Awaitable[Any]") -> Any:
    """Await what the user has written; what would end the event loop, or this poll unseen, becomes an error."""
    try:
        return await awaitable
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        poll = asyncio.current_task()
        if poll is None or poll.cancelling():  # we are told to stop
            raise
        raise RuntimeError(f"{type(error).__name__} was raised") from error


def _check_fetched(fetched: Fetched) -> Fetched:
    """Return what a fetcher gave, if it can be stored; with it a store would refuse the results of other sources.

    Raises:
        ConfigError: If it cannot.
    """
    for name in ("hash", "etag", "last_modified", "memory"):
        text: object = getattr(fetched, name)
        if text is not None and not isinstance(text, str):
            raise ConfigError(f"the fetcher returned a {name} that is {type(text).__name__}; it must be text")
    status: object = fetched.http_status
    if status is not None and (type(status) is bool or not isinstance(status, int) or status not in _STATUSES):
        raise ConfigError("the fetcher returned a value that is not a valid HTTP status")
    if fetched.memory is not None and storable(fetched.memory) != fetched.memory:
        raise ConfigError("the fetcher returned a memory with characters that the store cannot hold")
    return fetched._replace(hash=storable(fetched.hash) if fetched.hash else None)


def _response_host(error: Exception) -> str | None:
    """Return the host of the response of an error. After a redirect it is not the host of the source."""
    response: Any = getattr(error, "response", None)
    url = getattr(response, "url", None) or getattr(getattr(response, "request", None), "url", None)
    return host_of(str(url)) if url is not None else None


def _content_digest(content: object) -> str:
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
    return hashlib.sha256(data).hexdigest()


_STATE_FIELDS = ("state", "disabled_at", "disabled_by", "probes", "passed")


class ObservingPoller(Poller):
    """Polls as usual, but does not change the state of a source."""

    async def poll(self, source: Source) -> ChangeSource:
        """Poll a source; return the change to write."""
        change, rules = await super().poll(source), self.rules

        def held(before: Source, now: datetime) -> SourceChange | None:
            found = change(before, now)
            return None if found is None else _keep_state(before, found, rules, now)

        return held


class ObservingClose:
    """Ends a cycle without changing the state of a source, and publishes which sources would have been disabled.

    Failures are still counted, because they decide when a source would be disabled. That is published once: when the
    count reaches the threshold.

    Args:
        profile: Name of the profile.
        rules: Rules of the profile.
    """

    def __init__(self, profile: str, rules: SourceRules) -> None:
        self._profile, self._rules = profile, rules
        self._close = outcomes.cycle_close(profile, rules)
        self._disabled: list[tuple[Failure, str]] = []

    def __call__(self, cycle: Cycle, previous: Cycle | None, sources: Sequence[Source], now: datetime) -> Closing:
        """Return how the cycle ends. A store may call it more than once."""
        closing = self._close(cycle, previous, sources, now)
        before = {source.id: source for source in sources}
        pairs = [(before[change.source.id], change) for change in closing.changes]
        self._disabled = [
            (Failure.from_dict(source.pending), _disable_reason(change.source))
            for source, change in pairs
            if source.pending is not None and self._would_disable(source, change.source)
        ]
        kept = [_keep_state(source, change, self._rules, now) for source, change in pairs]
        return closing._replace(changes=kept, alerts=())

    def tell(self) -> None:
        """Publish what would have been disabled. Call it after the end of the cycle is written."""
        disabled, self._disabled = self._disabled, []
        for failure, reason in disabled:
            publish_observed(self._profile, failure, "disable", None, reason)

    def _would_disable(self, before: Source, after: Source) -> bool:
        if after.is_active or not before.is_active:
            return False
        limit = 1 if before.state is SourceState.PROBATION else self._rules.threshold
        return before.consecutive_failures < limit


def _disable_reason(source: Source) -> str:
    return f"source {source.id} ({redacted_source_url(source)}), after {outcomes.failures_in_a_row(source)}"


def _keep_state(before: Source, change: SourceChange, rules: SourceRules, now: datetime) -> SourceChange:
    """Return the change without a change of the source's state, so that nobody is alerted."""
    after = change.source
    health = after.health._replace(**{name: getattr(before.health, name) for name in _STATE_FIELDS})
    until = after.not_before
    if before.is_active and not after.is_active:
        until = before.not_before  # it continues to be polled
    elif not before.is_active and until is None:
        until = now + timedelta(seconds=probe_delay(before.health, rules))  # it responds again, but stays disabled
    line = change.poll
    if line is not None:
        line = None if line.outcome in set(SourceState) else line._replace(before=None, after=None)
    return SourceChange(after._replace(health=health, not_before=until), line)
