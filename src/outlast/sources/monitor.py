"""The monitor: polls the sources that are due, cycle by cycle. Several monitors can share a profile.

All monitors of a profile work on the same cycle. Each claims sources, polls them and records the results. The monitor
that finds no source left ends the cycle.
"""

import asyncio
import importlib
import os
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

import outlast
from outlast import async_backends, clock
from outlast.breaker_sync import breaker_store_of, process_name, sync_breakers_async
from outlast.classify import classify
from outlast.decide.policy import RetryPolicy
from outlast.decide.source_health import Profile
from outlast.errors import ConfigError, OutlastError
from outlast.failure import RETRYABLE
from outlast.http.public_addresses import PublicRedirects, mark_first_hop
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

_SINGLE_ATTEMPT = RetryPolicy(max_attempts=1, retry_on=RETRYABLE)  # the monitor retries itself, without holding a slot


def open_client(cooling: CooldownTracker, settings: PollSettings, agent: str | None) -> Any:
    """Return an AsyncClient of httpx2, or of httpx if only that is installed.

    Args:
        cooling: The cooldowns of hosts.
        settings: Its `concurrency` limits the connections, its `timeout` each step of a request, and its
            `allow_private` says where redirects may lead.
        agent: The User-Agent header; None for that of Outlast.

    Raises:
        ConfigError: If neither is installed.
    """
    library = _httpx_module()
    at_once = settings.concurrency
    limits = library.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    sender = library.AsyncHTTPTransport(limits=limits) if settings.allow_private else PublicRedirects(library, limits)
    return library.AsyncClient(
        transport=AsyncRetryTransport(sender, policy=_SINGLE_ATTEMPT, cooling=cooling, patience=0.0),
        timeout=settings.timeout,
        follow_redirects=True,
        headers={"User-Agent": agent or f"outlast/{outlast.__version__}"},
        event_hooks={"request": [mark_first_hop]},
    )


def _httpx_module() -> Any:
    for name in ("httpx2", "httpx"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ConfigError("polling needs an HTTP client; install one with: pip install 'outlast[feeds]'")


class SharedCooldownTracker(CooldownTracker):
    """The cooldowns of an app, ``app.cooling``; with alerts about capped ones.

    Args:
        store: Shares them.
    """

    def __init__(self, store: Store) -> None:
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
_LOOK = 0.5  # seconds between two checks for sources that are due or released
_BATCH = 200  # sources claimed at once
_BUSY_PER_SLOT = 2  # sources polled for each request that may run
_MAX_HELD_PER_SLOT = 10  # with those that wait for their host or their next attempt; other monitors need some too
_LONG_LEASES = 10  # leases after which a source that is still polled is logged
_MAX_NAMED = 5
_PAUSE = 1.0  # seconds between two attempts while the store is down
_COMPLAIN_EVERY = 60.0  # seconds between two log records about it
_STORE_THREADS = 3  # threads for the store alone: slow name resolution must not cost leases
_MAX_DELIVERIES = 20  # each delivers hundreds of alerts


class MonitorDelivery(Protocol):
    """Delivers alerts while the monitor runs."""

    def start(self) -> None:
        """Start the thread."""

    def stop(self) -> None:
        """Stop the thread."""

    def wake(self) -> None:
        """Check for alerts at once."""

    def deliver(self) -> int:
        """Deliver waiting alerts in this thread; return how many."""


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
        self.settings = settings
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._id = f"{self.name}-{uuid.uuid4().hex[:8]}"
        self.store = store
        self.delivery = delivery
        self._cooling = cooling
        self._open_client = client
        if client is None and getattr(settings.fetch, "needs_client", True):
            self._open_client = partial(open_client, cooling, settings, user_agent)
        self._lease = lease
        self._grace = grace
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
        async_backends.check_no_event_loop("monitor.run_async()")
        asyncio.run(self._with_threads(self.run_async()))

    def cycle(self, *, everything: bool = True) -> CycleSummary | None:
        """Run one cycle to its end, for example from cron.

        Args:
            everything: Whether to poll all active sources; otherwise those that are due. A cycle that is already under
                way is finished first, and another one follows.

        Returns:
            The summary of the last cycle; None if no source was due.
        """
        async_backends.check_no_event_loop("monitor.cycle_async()")
        return asyncio.run(self._with_threads(self.cycle_async(everything=everything)))

    async def _with_threads(self, work: "Coroutine[Any, Any, T]") -> T:
        """Run a coroutine with a thread for each fetch: name resolution and feed parsing use threads."""
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
                    while not self.stopping:
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
                    if (
                        cycle.id in {each.id for each in newest} and not self.stopping
                    ):  # it was started before this call
                        cycle = await self._in_thread(self.store.open_cycle, self.profile.name, everything=True)
                        summary = summary if cycle is None else await self._take_part(cycle, client)
        if not self.stopping:
            await self._deliver()
        return summary

    async def _deliver(self) -> None:
        """Deliver alerts if no thread does. Errors are only logged."""
        if self.delivery is None:
            return
        try:
            for _ in range(_MAX_DELIVERIES):
                if not await asyncio.to_thread(self.delivery.deliver):
                    return
        except Exception as error:  # noqa: BLE001  # the alerts stay in the outbox
            log.error("could not deliver alerts: %s", classify(error))

    def check(self) -> None:
        """Check all sources without a request.

        Raises:
            ConfigError: If some are not valid. The message lists all of them.
        """
        which = SourceFilter(profile=self.profile.name)
        registry.check_sources(source for source in self.store.sources(which) if source.is_active)

    def _signals(self) -> AbstractContextManager[None]:
        def first() -> None:
            log.warning("stopping: running polls have %.0f s to finish; a second signal ends at once", self._grace)
            self.stop()

        return stop_on_signals(asyncio.get_running_loop(), first, lambda: log.warning("second signal: ending at once"))

    def _opened(self) -> AbstractAsyncContextManager[Any]:
        return self._open_client() if self._open_client is not None else nullcontext()

    async def _take_part(self, cycle: Cycle, client: Any) -> CycleSummary | None:
        """Poll sources of a cycle until none is left; return None if the monitor stops before that."""
        began = clock.monotonic()
        polls = ObservingPoller if self.observes else Poller
        inflight = InflightSources(polls(self.settings, self._cooling, client, self._stopping.is_set))
        renewing = asyncio.create_task(self._renew())
        waits = warned = False
        try:
            while not self.stopping:
                self._beat()
                taken = await self._taken(cycle, inflight)
                if not inflight.is_empty:
                    await inflight.wait(_LOOK)
                    await self._write(inflight)
                    warned = warned or self._warn_of_long_polls(cycle, inflight)
                elif not taken:
                    closed = await self._closed(cycle)
                    if closed is not None:
                        seconds, broken = clock.monotonic() - began, inflight.poller.broken_callbacks
                        transitions = inflight.transitions + len(closed.transitions)
                        summary = CycleSummary(closed.cycle, transitions, broken, seconds)
                        log.info("%s", summary, extra={"cycle": cycle.id, "profile": self.profile.name})
                        return summary
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
                await self._release_all(inflight)
            finally:
                renewing.cancel()
            if hasattr(client, "cookies"):
                client.cookies.clear()  # cookies do not outlive a cycle

    async def _taken(self, cycle: Cycle, inflight: InflightSources) -> list[Source]:
        """Claim as many sources as there is room for."""
        at_once = self.settings.concurrency
        room = min(at_once * _BUSY_PER_SLOT - inflight.busy, at_once * _MAX_HELD_PER_SLOT - inflight.held, _BATCH)
        if room <= 0:
            return []
        lease = clock.lease_seconds(self._lease)
        taken = await self._asked(self.store.claim_sources, cycle.id, self._id, room, lease)
        inflight.take(taken)
        return taken

    def _warn_of_long_polls(self, cycle: Cycle, inflight: InflightSources) -> bool:
        """Warn about sources of this monitor that keep the cycle from ending; return whether there are any."""
        long = inflight.held_for(self._lease * _LONG_LEASES)
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

    async def _write(self, inflight: InflightSources) -> None:
        """Write results; those that the store does not accept are kept."""
        results = inflight.results()
        try:
            changed = await write_results(self._asked, self.store, self.profile.rules, results)
        except BaseException as error:
            inflight.keep(results)
            if not isinstance(error, Exception):
                raise
            await self._pause(error)
            return
        inflight.transitions += changed
        if changed and self.delivery is not None:
            self.delivery.wake()

    async def _closed(self, cycle: Cycle) -> Closed | None:
        """End the cycle, unless another monitor has; return None while others are polling sources of it."""
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
        if known is None:  # many cycles have ended since
            return Closed(cycle, [])
        return None if known.ended_at is None else Closed(known, [])

    async def _release_all(self, inflight: InflightSources) -> None:
        """Write the results and release the other sources."""
        await inflight.end(self._grace)
        try:
            await write_results(self._in_thread, self.store, self.profile.rules, inflight.results())
        except Exception as error:  # noqa: BLE001  # the sources are polled again
            log.warning(
                "could not store the results of the last polls; those sources are polled again: %s", classify(error)
            )
        try:
            await self._in_thread(self.store.release_sources, self._id)
        except Exception as error:  # noqa: BLE001  # the leases expire
            log.warning("could not release sources; they are free when their lease expires: %s", classify(error))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._in_thread(self.store.renew_sources, self._id, clock.lease_seconds(self._lease))
            except Exception as error:  # noqa: BLE001  # any error of the database; retried later
                self._complain(error)

    async def _asked(self, ask: "Callable[P, T]", *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the store in a thread; while the monitor runs, retry as long as the store is down.

        Raises:
            Exception: An error that a retry does not help against; outside of `run`, any error.
        """
        while True:
            try:
                return await self._in_thread(ask, *args, **kwargs)
            except Exception as error:  # noqa: BLE001  # `_pause` raises it if waiting does not help
                await self._pause(error)

    async def _pause(self, error: Exception) -> None:
        """Wait a moment for a store that is down; raise the error if that does not help."""
        if not self.running or self.stopping or isinstance(error, OutlastError):
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
