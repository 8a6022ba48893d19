"""The monitor: polls the sources that are due, cycle by cycle. Several monitors can share a profile.

All monitors of a profile work on the same cycle. Each claims sources, polls them and records the results. The monitor
that finds no source left ends the cycle.
"""

import asyncio
import contextlib
import importlib
import os
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

import outlast
from outlast import clock
from outlast.breaker_sync import breaker_store_of, process_name, sync_breakers_async
from outlast.classify import classify
from outlast.decide.policy import RetryPolicy
from outlast.decide.source_health import Profile
from outlast.errors import ConfigError, OutlastError
from outlast.failure import RETRYABLE
from outlast.http.transport import AsyncRetryTransport
from outlast.ports.source_rows import Closed, Cycle, NewAlert, Source, SourceFilter, Sources
from outlast.ports.store import Store
from outlast.run.cooldowns import CooldownTracker
from outlast.run.signals import stop_on_signals
from outlast.run.store_wait import wait_for_store_async
from outlast.sources import outcomes, registry
from outlast.sources.announcements import CycleSummary, announce_cycle, log, redacted_source_url
from outlast.sources.inflight import InflightSources, write_results
from outlast.sources.poller import ObservingClose, ObservingPoller, Poller, PollSettings

_SINGLE_ATTEMPT = RetryPolicy(
    max_attempts=1, retry_on=RETRYABLE
)  # the monitor tries again itself, and holds no slot meanwhile


def open_client(cooling: CooldownTracker, *, concurrency: int, timeout: float, user_agent: str | None) -> Any:
    """Return an AsyncClient of httpx2, or of httpx where that is what is installed.

    Raises:
        ConfigError: If neither is.
    """
    library = _httpx_module()
    limits = library.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    transport = AsyncRetryTransport(
        library.AsyncHTTPTransport(limits=limits), policy=_SINGLE_ATTEMPT, cooling=cooling, patience=0.0
    )
    agent = user_agent or f"outlast/{outlast.__version__}"
    return library.AsyncClient(
        transport=transport, timeout=timeout, follow_redirects=True, headers={"User-Agent": agent}
    )


def _httpx_module() -> Any:
    for name in ("httpx2", "httpx"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    message = "polling needs an HTTP client; install one with: pip install 'outlast[feeds]'"
    raise ConfigError(message)


class SharedCooldownTracker(CooldownTracker):
    """What an app's processes know of cooldowns; it is its ``app.cooling``.

    Args:
        store: Shares them.
    """

    def __init__(self, store: Store) -> None:
        """Begin without a thread."""
        super().__init__(store)
        self._outbox = store

    def _capped_again(self, scope: str, times: int, reason: str) -> None:
        title = f"{scope}: asks repeatedly for a cooldown of more than an hour"
        self._outbox.raise_alerts([NewAlert(f"cooldown:{scope}", "capped", title, reason)])
        super()._capped_again(scope, times, reason)

    def _calmed(self, scope: str, *, answers: bool) -> None:
        how = "available again" if answers else "no longer asks for a cooldown of more than an hour"
        self._outbox.raise_alerts([NewAlert(f"cooldown:{scope}", None, f"{scope}: {how}")])


P = ParamSpec("P")
T = TypeVar("T")
_LOOK = 0.5  # seconds between two looks, for sources that are due or that others have left
_BATCH = 200  # sources that are taken in one go
_BUSY_PER_SLOT = 2  # for each request that may run, so many sources are in our hands
_MAX_HELD_PER_SLOT = (
    10  # the same with those that only wait for their host or their next attempt: others shall have some too
)
_LONG_LEASES = 10  # leases after which it is told what we still have in our hands
_MAX_NAMED = 5
_PAUSE = 1.0  # seconds before a store that is down is tried again
_COMPLAIN_EVERY = 60.0  # seconds between two lines about it
_STORE_THREADS = 3  # that ask the store, and do nothing else: names that resolve slowly must not cost us our leases
_MAX_DELIVERIES = 20  # one brings hundreds of alerts


class MonitorDelivery(Protocol):
    """What brings alerts to people, beside the monitor."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def wake(self) -> None:
        """Look at once."""

    def deliver(self) -> int:
        """Deliver what waits, here and now; return how many."""


class Monitor:
    """Polls the sources of one profile: `run` until it is stopped, `cycle` once.

    Args:
        store: The store with the sources.
        cooling: The cooldowns of hosts.
        settings: How to poll the sources.
        delivery: Delivers alerts while the monitor runs.
        client: Returns an async context manager with the HTTP client of the fetchers; by default a client of Outlast.
        lease: Seconds after which other monitors take the sources of a dead monitor.
        grace: Seconds for running fetches to finish when the monitor stops.
        user_agent: The User-Agent header.
        name: The name of the monitor.

    Attributes:
        store: The store with the sources.
        delivery: Delivers alerts, if set.
        running: Whether `run` is running.
        last_beat: Time of the last round of its loop, on the monotonic clock.
    """

    def __init__(  # noqa: PLR0913  # its parts
        self,
        store: Sources,
        cooling: CooldownTracker,
        settings: PollSettings,
        *,
        delivery: MonitorDelivery | None = None,
        client: Callable[[], Any] | None = None,
        lease: float = 60.0,
        grace: float = 10.0,
        user_agent: str | None = None,
        name: str | None = None,
    ) -> None:
        """Open nothing yet."""
        self.settings = settings
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._id = f"{self.name}-{uuid.uuid4().hex[:8]}"
        self.store = store
        self.delivery = delivery
        self._cooling = cooling
        self._client = client
        self._lease = lease
        self._grace = grace
        self._user_agent = user_agent
        self._stopping = threading.Event()
        self._complained: float | None = None
        self._threads = ThreadPoolExecutor(_STORE_THREADS, "outlast-monitor")
        self.running = False
        self.last_beat = clock.monotonic()

    @property
    def profile(self) -> Profile:
        """The profile whose sources it polls."""
        return self.settings.profile

    @property
    def observes(self) -> bool:
        """Whether it only observes, without changing the states of sources."""
        return self.settings.mode == "observe"

    @property
    def stopping(self) -> bool:
        """Whether the monitor is stopping."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop `run`: running fetches may finish, other sources are released. May be called from any thread."""
        self._stopping.set()

    def run(self) -> None:
        """Poll until `stop`, SIGTERM or Ctrl-C."""
        asyncio.run(self._with_threads(self.run_async()))

    def cycle(self, *, everything: bool = True) -> CycleSummary | None:
        """Run one cycle to its end, for example from cron.

        Args:
            everything: Whether to poll all active sources; otherwise those that are due. A cycle that is already under
                way is finished first, and another one follows.

        Returns:
            The summary of the last cycle; None if no source was due.
        """
        return asyncio.run(self._with_threads(self.cycle_async(everything=everything)))

    async def _with_threads(self, work: "Coroutine[Any, Any, T]") -> T:
        """Do something on a loop of ours, with a thread for each fetch: names are looked up in threads, feeds read."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(self.settings.concurrency + _STORE_THREADS))
        return await work

    async def run_async(self) -> None:
        """Poll until `stop` or a signal."""
        if self.delivery is not None:
            self.delivery.start()
        try:
            with self._signals():
                if not await wait_for_store_async(partial(self._in_thread, self.check), self._stopping, self._complain):
                    return
                self.running = True
                async with sync_breakers_async(breaker_store_of(self.store), process_name), self._opened() as client:
                    while not self._stopping.is_set():
                        self._beat()
                        cycle = await self._asked(self.store.open_cycle, self.profile.name)
                        if cycle is None:
                            await asyncio.sleep(_LOOK)
                        else:
                            await self._take_part(cycle, client)
        except Exception as error:
            if not self.stopping or isinstance(error, OutlastError):
                raise
            log.warning("stopped while the store was not available: %s", classify(error))
        finally:
            self.running = False
            if self.delivery is not None:
                await asyncio.to_thread(self.delivery.stop)

    async def cycle_async(self, *, everything: bool = True) -> CycleSummary | None:
        """Run one cycle to its end."""
        await self._in_thread(self.check)
        newest = await self._in_thread(self.store.cycles, self.profile.name, 1) if everything else []
        cycle = await self._in_thread(self.store.open_cycle, self.profile.name, everything=everything)
        summary = None
        if cycle is not None:
            with self._signals():
                async with sync_breakers_async(breaker_store_of(self.store), process_name), self._opened() as client:
                    summary = await self._take_part(cycle, client)
                    if cycle.id in {each.id for each in newest} and not self.stopping:  # it had begun before this call
                        cycle = await self._in_thread(self.store.open_cycle, self.profile.name, everything=True)
                        summary = summary if cycle is None else await self._take_part(cycle, client)
        if not self.stopping:
            await self._deliver()
        return summary

    async def _deliver(self) -> None:
        """Deliver alerts where no thread does; a failure of it changes nothing."""
        if self.delivery is None:
            return
        try:
            for _ in range(_MAX_DELIVERIES):
                if not await asyncio.to_thread(self.delivery.deliver):
                    return
        except Exception as error:  # noqa: BLE001  # they wait in the outbox
            log.error("could not deliver alerts: %s", classify(error))

    def check(self) -> None:
        """Check all sources without a request.

        Raises:
            ConfigError: If some are not valid. The message lists all of them.
        """
        which = SourceFilter(profile=self.profile.name)
        registry.check_sources(source for source in self.store.sources(which) if source.is_active)

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        def first() -> None:
            log.warning("stopping: running polls have %.0f s to finish; a second signal ends at once", self._grace)
            self.stop()

        return stop_on_signals(asyncio.get_running_loop(), first, lambda: log.warning("second signal: ending at once"))

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[Any]:
        settings = self.settings
        if self._client is None and not getattr(settings.fetch, "needs_client", True):
            yield None
            return
        opened = (
            open_client(
                self._cooling, concurrency=settings.concurrency, timeout=settings.timeout, user_agent=self._user_agent
            )
            if self._client is None
            else self._client()
        )
        async with opened as client:
            yield client

    async def _take_part(self, cycle: Cycle, client: Any) -> CycleSummary | None:
        """Poll sources of a cycle until none is left; None if the monitor is told to stop before that."""
        began = clock.monotonic()
        polls = ObservingPoller if self.observes else Poller
        hands = InflightSources(polls(self.settings, self._cooling, client, self._stopping.is_set))
        renewing = asyncio.create_task(self._renew())
        waits = told = False
        try:
            while not self._stopping.is_set():
                self._beat()
                taken = await self._taken(cycle, hands)
                if not hands.is_empty:
                    await hands.wait(_LOOK)
                    await self._write(hands)
                    told = told or self._warn_of_long_polls(cycle, hands)
                elif not taken:
                    closed = await self._closed(cycle)
                    if closed is not None:
                        return self._summary(closed, hands, clock.monotonic() - began)
                    if not waits:
                        waits = True
                        log.info(
                            "cycle %d: waiting for sources of another monitor; if it died, they are free in %.0f s",
                            cycle.id,
                            self._lease,
                        )
                    await asyncio.sleep(_LOOK)
            return None
        finally:
            try:
                await self._release_all(hands)
            finally:
                renewing.cancel()
            if hasattr(client, "cookies"):
                client.cookies.clear()  # what a site wants remembered is none of the next cycle's business

    async def _taken(self, cycle: Cycle, hands: InflightSources) -> list[Source]:
        """Take as many sources as there is room for."""
        at_once = self.settings.concurrency
        room = min(at_once * _BUSY_PER_SLOT - hands.busy, at_once * _MAX_HELD_PER_SLOT - hands.held, _BATCH)
        if room <= 0:
            return []
        taken = await self._asked(self.store.claim_sources, cycle.id, self._id, room, self._lease)
        hands.take(taken)
        return taken

    def _warn_of_long_polls(self, cycle: Cycle, hands: InflightSources) -> bool:
        """Warn if the cycle goes on and on for what we ourselves have in our hands; tell whether it was said."""
        long = hands.held_for(self._lease * _LONG_LEASES)
        if not long:
            return False
        log.warning(
            "cycle %d: %d sources have been polled for more than %.0f s, and the cycle cannot end without them: %s%s",
            cycle.id,
            len(long),
            self._lease * _LONG_LEASES,
            ", ".join(f"{each.id} ({redacted_source_url(each)})" for each in long[:_MAX_NAMED]),
            ", …" if len(long) > _MAX_NAMED else "",
            extra={"cycle": cycle.id, "profile": self.profile.name},
        )
        return True

    async def _write(self, hands: InflightSources) -> None:
        """Write down what is done; what the store does not take stays in our hands."""
        results = hands.results()
        try:
            changed = await write_results(self._asked, self.store, self.profile.rules, results)
        except BaseException as error:
            hands.keep(results)
            if not isinstance(error, Exception):
                raise
            await self._pause(error)
            return
        if changed and self.delivery is not None:
            self.delivery.wake()

    async def _closed(self, cycle: Cycle) -> Closed | None:
        """End the cycle, or see that another monitor has; None while others have sources of it in their hands."""
        profile = self.profile
        watched = ObservingClose(profile.name, profile.rules) if self.observes else None
        close = watched or outcomes.cycle_close(profile.name, profile.rules)
        closed = await self._asked(self.store.close_cycle, cycle.id, close)
        if closed is not None:
            if watched is not None:
                watched.tell()
            announce_cycle(closed)
            if self.delivery is not None:
                self.delivery.wake()
            return closed
        newest = {each.id: each for each in await self._asked(self.store.cycles, self.profile.name, 10)}
        known = newest.get(cycle.id)
        if known is None:  # others have had so many since that it is no news any more
            return Closed(cycle, [])
        return None if known.ended_at is None else Closed(known, [])

    def _summary(self, closed: Closed, hands: InflightSources, seconds: float) -> CycleSummary:
        summary = CycleSummary(closed.cycle, len(closed.transitions), hands.poller.broken_callbacks, seconds)
        log.info("%s", summary, extra={"cycle": closed.cycle.id, "profile": self.profile.name})
        return summary

    async def _release_all(self, hands: InflightSources) -> None:
        """Let go of everything: what is done is written, what is not is given back."""
        await hands.end(self._grace)
        try:
            await write_results(self._in_thread, self.store, self.profile.rules, hands.results())
        except Exception as error:  # noqa: BLE001  # others poll it again
            log.warning(
                "could not store the results of the last polls; those sources are polled again: %s", classify(error)
            )
        try:
            await self._in_thread(self.store.release_sources, self._id)
        except Exception as error:  # noqa: BLE001  # others take over when the lease is over
            log.warning("could not release sources; they are free when their lease expires: %s", classify(error))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._in_thread(self.store.renew_sources, self._id, self._lease)
            except Exception as error:  # noqa: BLE001  # whatever the database says: the next time may do
                self._complain(error)

    async def _asked(self, ask: "Callable[P, T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store in a thread; when it is down, again and again while the monitor runs.

        Raises:
            Exception: What no repetition helps against; outside of `run`, anything.
        """
        while True:
            try:
                return await self._in_thread(ask, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  # raised again where it does not help to wait
                await self._pause(error)

    async def _pause(self, error: Exception) -> None:
        """Wait a moment for a store that is down; raise the error where that does not help."""
        if not self.running or self._stopping.is_set() or isinstance(error, OutlastError):
            raise error
        self._complain(error)
        await asyncio.sleep(_PAUSE)

    async def _in_thread(self, ask: "Callable[P, T]", *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(ask, *args, **kwargs))

    def _complain(self, error: Exception, _pause: float = _PAUSE) -> None:
        self._beat()
        now = clock.monotonic()
        if self._complained is None or now - self._complained >= _COMPLAIN_EVERY:
            self._complained = now
            log.error("the store is not available, retrying every %.0f s: %s", _PAUSE, classify(error))

    def _beat(self) -> None:
        self.last_beat = clock.monotonic()
