"""The poll of one source: fetched, tried again by the policy, put off where its host asks for it, told if it is new."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

from holdfast import backends, clock
from holdfast.classify import classify
from holdfast.decide.profiles import Profile
from holdfast.errors import ConfigError
from holdfast.failure import Category, Failure
from holdfast.http.scopes import host_of
from holdfast.ports.source_rows import Source
from holdfast.ports.sources import Change
from holdfast.record.tracebacks import traceback_of
from holdfast.run.attempting import Attempting
from holdfast.run.cooling import Cooling
from holdfast.run.report import MARKS
from holdfast.run.retry import is_coroutine_function
from holdfast.sources import outcomes
from holdfast.sources.fetched import Changed, Fetched
from holdfast.sources.telling import log, shown

__all__ = ["Poller", "Settings"]

_HELD_BACK = "CoolingDownError"


class Settings(NamedTuple):
    """How sources are polled.

    Attributes:
        profile: Policy and rules.
        fetch: Gets a source and the client, brings what is there.
        on_change: Called when there is something new.
        every: Seconds between two polls of a source.
        timeout: Seconds for one fetch.
        concurrency: Fetches at once.
        per_host: Fetches of one host at once.
    """

    profile: Profile
    fetch: Any
    on_change: Any
    every: float
    timeout: float
    concurrency: int
    per_host: int


class Poller:
    """Polls sources one by one, any number of them at the same time.

    Args:
        settings: How.
        cooling: What is left alone.
        client: For the fetchers.

    Attributes:
        resting: Polls that wait for their host or for their next attempt; they take no slot.
        broken_callbacks: How often `on_change` raised.
    """

    def __init__(self, settings: Settings, cooling: Cooling, client: Any) -> None:
        """Begin with all slots free."""
        self._settings = settings
        self._cooling = cooling
        self._client = client
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._hosts: dict[str, tuple[asyncio.Semaphore, list[int]]] = {}
        self._awaits = settings.on_change is not None and is_coroutine_function(settings.on_change)
        self.resting: set[asyncio.Task[Any]] = set()
        self.broken_callbacks = 0

    async def poll(self, source: Source) -> Change:
        """Poll a source; return what is to be written. Nothing that its fetcher raises comes out of here."""
        profile, every = self._settings.profile, self._settings.every
        host, serial = host_of(source.url), MARKS.last
        state: Attempting | None = None
        attempts = 0
        while True:
            left = await self._left(host)
            if left > 0:
                return outcomes.deferred(left, None, attempts)
            attempts += 1
            try:
                async with self._slot(host):
                    fetched = await self._fetched(source)
                return await self._seen(source, fetched, attempts)
            except Exception as error:  # noqa: BLE001  # whatever a fetcher raises is that source's alone
                failure = classify(error)
                wait = await self._put_off(failure, error, host)
                if wait is not None:
                    return outcomes.deferred(wait, failure, attempts - (failure.exception_name == _HELD_BACK))
                if state is None:
                    began = clock.monotonic() if profile.policy.deadline is not None else None
                    state = Attempting(profile.policy, f"source {source.id} ({shown(source)})", serial, began)
                delay = state.failed(error)
            if delay is None:
                return outcomes.failed(profile.rules, every, failure, attempts)
            with self._at_rest():
                await clock.sleep_async(delay)

    async def _fetched(self, source: Source) -> Fetched:
        given = await backends.run_within(self._settings.timeout, self._settings.fetch(source, self._client))
        if isinstance(given, Fetched):
            return given
        if isinstance(given, str | bytes):
            return Fetched(given)
        message = f"the fetcher returned {type(given).__name__}; it has to return Fetched, text or bytes"
        raise ConfigError(message)

    async def _seen(self, source: Source, fetched: Fetched, attempts: int) -> Change:
        """Tell of what is new, and say what is written; a change counts as seen when `on_change` has returned."""
        settings = self._settings
        rules, every = settings.profile.rules, settings.every
        digest = fetched.hash or _digest(fetched.content)
        if fetched.not_modified:
            return outcomes.succeeded(rules, every, fetched, None, outcome="unchanged", attempts=attempts)
        if digest == source.content_hash:
            return outcomes.succeeded(rules, every, fetched, digest, outcome="unchanged", attempts=attempts)
        told = await self._tell(Changed(source, fetched, first=source.content_hash is None))
        return outcomes.succeeded(rules, every, fetched, digest if told else None, outcome="changed", attempts=attempts)

    async def _tell(self, changed: Changed) -> bool:
        on_change = self._settings.on_change
        if on_change is None:
            return True
        try:
            if self._awaits:
                await on_change(changed)
            else:
                await asyncio.to_thread(on_change, changed)
        except Exception as error:  # noqa: BLE001  # a mistake of the user's never counts against a source
            self.broken_callbacks += 1
            log.error(
                "on_change failed for source %d (%s); it is called again at the next poll\n%s",
                changed.source.id,
                shown(changed.source),
                traceback_of(error),
                extra={"source_id": changed.source.id},
            )
            return False
        return True

    async def _left(self, host: str) -> float:
        cooling = self._cooling
        return cooling.left(host) if cooling.is_quick(host) else await asyncio.to_thread(cooling.left, host)

    async def _put_off(self, failure: Failure, error: Exception, host: str) -> float | None:
        """Return the seconds to put a source off, and leave the host alone for as long; None where neither is asked."""
        wait = failure.retry_after
        if failure.exception_name == _HELD_BACK:
            return wait or 1.0
        if failure.category is Category.RATE_LIMIT:
            wait = wait or self._settings.profile.policy.delay_after(failure, 1, chance=clock.chance)
        elif failure.http_status is None and failure.category is not Category.QUOTA_EXHAUSTED:
            return None
        if not wait:
            return None
        answered = _host_that_answered(error) or host
        if await self._left(answered) <= 0:  # else the transport has told it already
            reason = f"{failure.exception_name}: {failure.message}"[:200]
            await asyncio.to_thread(self._cooling.cool, answered, wait, reason, failure.capped)
        return wait

    @contextlib.asynccontextmanager
    async def _slot(self, host: str) -> AsyncIterator[None]:
        """Wait for the host, then for a slot."""
        known, users = self._hosts.setdefault(host, (asyncio.Semaphore(self._settings.per_host), [0]))
        users[0] += 1
        try:
            with self._at_rest():
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

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        poll = asyncio.current_task()
        if poll is None:  # not within a task: there is no such thing under asyncio.run
            yield
            return
        self.resting.add(poll)
        try:
            yield
        finally:
            self.resting.discard(poll)


def _host_that_answered(error: Exception) -> str | None:
    """Return the host of the answer that an error carries: after a redirect it is another than the source's."""
    response: Any = getattr(error, "response", None)
    url = getattr(response, "url", None) or getattr(getattr(response, "request", None), "url", None)
    return host_of(str(url)) if url is not None else None


def _digest(content: object) -> str:
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
    return hashlib.sha256(data).hexdigest()
