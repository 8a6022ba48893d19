"""Decides how many tasks a worker claims, when it pauses, and which claimed tasks may start."""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from outlast import clock
from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.decide.limits import Candidate, ResourceLimit, ResourceLimits
from outlast.errors import ConfigError, ConfigurationError
from outlast.ports.rows import Claimed, Kind, SettleAndClaim, Settlement
from outlast.ports.store import LimitRequest, Store
from outlast.queue.definition import Definition
from outlast.queue.logs import log
from outlast.queue.settlement import StartCooldown, expiry_settlement

_STARTED_AHEAD = 0.02  # seconds of work whose start is marked with the claim
_HELD_AHEAD = 0.1  # seconds of work in reserve, its start not marked
_MAX_AHEAD = 500
_MEASURE_SPAN = 0.02  # minimum seconds of a measurement: tasks that end together by chance are not a rate
_MEASURE_TASKS = 50  # as many tasks are a rate, however soon they end


class ClaimPace:
    """Measures finished tasks per second, and derives how many tasks to claim ahead.

    A start is marked before the call, so that a crash shows what was running. Marking each start alone would cost a
    commit, so tasks that will start within milliseconds are marked with their claim.

    Args:
        concurrency: Number of tasks that run at the same time.
        now: The time in seconds, by any clock.
    """

    def __init__(self, concurrency: int, now: float) -> None:
        self.concurrency = concurrency
        self.rate = 0.0
        self._since, self._count = now, 0

    def finished(self, tasks: int, now: float) -> None:
        """Record that tasks have finished."""
        self._count += tasks
        span = now - self._since
        if span >= _MEASURE_SPAN or self._count >= _MEASURE_TASKS:
            self.rate = self._count / max(span, 0.001)
            self._since, self._count = now, 0

    def stalled(self, now: float) -> None:
        """Record that nothing has finished for long."""
        self.rate, self._since, self._count = 0.0, now, 0

    @property
    def ahead(self) -> int:
        """Number of tasks, in addition to the running ones, whose start may be marked."""
        return min(_MAX_AHEAD, int(self.rate * _STARTED_AHEAD))

    @property
    def held(self) -> int:
        """Number of further tasks to hold without marking their start."""
        return min(_MAX_AHEAD, int(self.rate * _HELD_AHEAD), self.concurrency) if self.ahead < self.concurrency else 0


_PAUSES = (5.0, 300.0)  # seconds after the first failure, and at most


class ClaimPause:
    """Pauses claiming after a system failure. Pauses double; after each, one task is claimed as a probe.

    Attributes:
        until: Time before which nothing is claimed, on the caller's clock.
        reason: The failure, for people; empty without a pause.
    """

    def __init__(self) -> None:
        self.until = 0.0
        self.reason = ""
        self._pause = DoublingPause(*_PAUSES)

    def failed(self, now: float, reason: str) -> float:
        """Record a system failure. Returns the seconds of the pause."""
        if now < self.until:
            return self.until - now
        seconds = self._pause.grow()
        self.until, self.reason = now + seconds, reason
        return seconds

    def succeeded(self, now: float) -> None:
        """Record a success. After the pause, it ends the limit of one task."""
        if self.reason and now >= self.until:
            self.until, self.reason = 0.0, ""
            self._pause.reset()

    def limit(self, now: float, limit: int) -> int:
        """Return how many tasks may be claimed: none during the pause, then one as a probe, then all."""
        if not self.reason:
            return limit
        return 0 if now < self.until else min(1, limit)


def start_cooldown(store: Store, cooldown: StartCooldown) -> None:
    """Start a cooldown of a resource for all workers. An error is only logged: the task itself is deferred anyway."""
    try:
        store.start_cooldown(*cooldown)
    except Exception as error:  # noqa: BLE001  # as above
        log.warning("could not start the cooldown of %s: %s", cooldown.resource, classify(error).message)


# Only tasks with a rate-limited resource ask the store, one transaction per batch. A task that may not start yet is
# released with a delay, uses no attempt and holds no slot of this worker.

_LIMIT_RETRY_WAIT = 5.0  # seconds until the store is asked again after it failed: a try may take seconds itself
_DURATION_WEIGHT = 0.2  # weight of the newest duration in the mean
_MAX_MEANS = 10_000  # resources whose mean is remembered
_MAX_ADAPTED = 1000  # tasks with stored options that are remembered


@lru_cache(maxsize=_MAX_ADAPTED)
def with_stored_options(definition: Definition, options: str) -> Definition:
    """Return a task with the stored options of one call. What this version does not understand is logged and ignored.

    Args:
        definition: The task.
        options: A JSON object, which another version of Outlast may have written.
    """
    try:
        given = dict(json.loads(options))
    except (ValueError, TypeError, RecursionError):
        given = {"options": options}
    for name, value in given.items():
        try:
            definition = definition.with_settings({name: value})
        except (ConfigError, ConfigurationError, TypeError) as error:
            log.warning("%s: the stored option %.100s is ignored: %.200s", definition.name, name, error)
    return definition


class Admitted(NamedTuple):
    """Result of the admission of claimed tasks.

    Attributes:
        batch: The tasks that start.
        settlements: The settlements of the others.
        limited: Whether the store was asked for a limit.
        error: The error of the store, if it failed.
    """

    batch: list[tuple[Definition, Claimed]]
    settlements: list[Settlement]
    limited: bool = False
    error: Exception | None = None


class Admission:
    """Decides which claimed tasks may start.

    Args:
        store: Keeps the limits across workers.
        definitions: The known tasks, by name.
        limits: The limits by resource; read again for each batch.
    """

    def __init__(self, store: Store, definitions: Mapping[str, Definition], limits: ResourceLimits) -> None:
        self._store, self._definitions, self._limits = store, definitions, limits
        self._unknown: set[str] = set()
        self._unasked: dict[str, float] = {}  # until when the store is not asked for a limit, because it failed
        self._began: dict[int, tuple[str, float]] = {}
        self._means: dict[str, float] = {}
        self._placed: dict[int, int] = {}  # epochs of the retries that have a place in their budget, by task
        tasks = definitions.values() if limits else ()
        if all(each.computed_resource is None for each in tasks):
            unused = {name for name in limits if "*" not in name}.difference(each.resource for each in tasks)
            for name in sorted(unused):  # probably misspelt
                log.warning("the limit of %s: no task of this app is defined with this resource; is it misspelt?", name)

    def admit_ready(self, ready: deque[Claimed]) -> Admitted:
        """Take all tasks out of a queue, and return which of them start."""
        batch, settlements, asking = list[tuple[Definition, Claimed]](), list[Settlement](), False
        while ready:
            claimed = ready.popleft()
            definition = self._definitions.get(claimed.task_type)
            if definition is None:
                self._warn_unknown_task(claimed)
                settlements.append(Settlement(claimed.id, claimed.epoch, Kind.PARK))
            elif claimed.expires_in is not None and claimed.expires_in <= 0:
                settlements.append(expiry_settlement(claimed.id, claimed.epoch))
            else:
                if claimed.options is not None:
                    definition = with_stored_options(definition, claimed.options)
                batch.append((definition, claimed))
                asking = asking or self._limits.find(claimed.resource) is not None
        return self._ask_store(batch, settlements) if asking else Admitted(batch, settlements)

    def _ask_store(self, batch: list[tuple[Definition, Claimed]], settlements: list[Settlement]) -> Admitted:
        by_resource: dict[str, list[Candidate]] = {}
        limits: dict[str, ResourceLimit] = {}
        for _, claimed in batch:
            limit = self._limits.find(claimed.resource)
            if limit is not None:
                limits[limit.resource] = limit
                candidate = Candidate(claimed.id, claimed.epoch, claimed.retry_count > 0)
                by_resource.setdefault(limit.resource, []).append(candidate)
        asks = [
            LimitRequest(limits[name], tuple(candidates), self._means.get(name))
            for name, candidates in by_resource.items()
            if self._may_ask(name)
        ]
        error, waits = None, dict[int, float]()
        try:
            waits = self._store.admit(asks) if asks else {}
        except Exception as caught:  # noqa: BLE001  # without an answer, a limited task must not start
            error = caught
            self._postpone_limits(ask.limit.resource for ask in asks)
        for name in by_resource.keys() & self._unasked.keys():
            waits |= {each.task_id: _LIMIT_RETRY_WAIT for each in by_resource[name]}
        now, through = clock.monotonic(), []
        for definition, claimed in batch:
            if claimed.id in waits:
                settlements.append(Settlement(claimed.id, claimed.epoch, Kind.RELEASE, waits[claimed.id]))
            else:
                through.append((definition, claimed))
                if claimed.resource is not None and claimed.resource in by_resource:
                    self._began[claimed.id] = (claimed.resource, now)
        return Admitted(through, settlements, limited=True, error=error)

    def place_retries(self, unwritten: list[Settlement], held: Mapping[int, Claimed]) -> None:
        """Reserve a place in the retry budget of their resource for retries, after those of all other workers.

        The wait for the place is added to the delay of the policy. With the longer one of the two, all retries with an
        early place would return at the same time. If the store fails, the delay of the policy remains: the budget is
        asked for again when they start.

        Args:
            unwritten: Settlements that are about to be written; changed in place.
            held: The claims, by task id.

        Raises:
            Exception: The error of the store, if it failed.
        """
        if not self._limits:
            return
        waiting: dict[ResourceLimit, list[int]] = {}
        for index, each in enumerate(unwritten):
            claimed = held.get(each.task_id)
            if each.kind is not Kind.RETRY or claimed is None or self._placed.get(each.task_id) == each.epoch:
                continue
            limit = self._limits.find(claimed.resource)
            if limit is not None and limit.retries is not None and self._may_ask(limit.resource):
                waiting.setdefault(limit, []).append(index)
        for limit, indexes in waiting.items():
            try:
                waits = self._store.reserve_retries(limit, len(indexes))
            except Exception:
                self._postpone_limits(each.resource for each in waiting)
                raise
            indexes.sort(key=lambda index: unwritten[index].delay)
            for index, wait in zip(indexes, waits, strict=True):
                each = unwritten[index]
                unwritten[index] = each._replace(delay=each.delay + wait)
                self._placed[each.task_id] = each.epoch

    def record_written(self, request: SettleAndClaim) -> None:
        """Record that all outcomes of a request are written."""
        if self._limits:
            for number, _ in request.done:
                self.record_settled(number, Kind.DONE)
            for each in request.settlements:
                self.record_settled(each.task_id, each.kind)

    def record_settled(self, number: int, kind: Kind) -> None:
        """Record that the outcome of a task is written."""
        self._placed.pop(number, None)
        resource, began = self._began.pop(number, (None, 0.0))
        if resource is not None and kind is not Kind.RELEASE:
            seconds = clock.monotonic() - began
            mean = self._means.pop(resource, seconds)
            self._means[resource] = mean + _DURATION_WEIGHT * (seconds - mean)
            if len(self._means) > _MAX_MEANS:
                del self._means[next(iter(self._means))]  # the one that was used longest ago

    def forget_tasks(self) -> None:
        """Forget all tasks, because the lease was lost."""
        self._began.clear()
        self._placed.clear()

    def _may_ask(self, resource: str) -> bool:
        """Return whether to ask the store for a limit: not shortly after it failed."""
        if self._unasked.get(resource, 0.0) > clock.monotonic():
            return False
        self._unasked.pop(resource, None)
        return True

    def _postpone_limits(self, resources: Iterable[str]) -> None:
        """Do not ask for limits for a while, so that tasks of other resources do not wait for each failed try."""
        self._unasked |= dict.fromkeys(resources, clock.monotonic() + _LIMIT_RETRY_WAIT)

    def _warn_unknown_task(self, claimed: Claimed) -> None:
        """Warn once per name that this worker has no such task."""
        if claimed.task_type not in self._unknown:
            self._unknown.add(claimed.task_type)
            known = ", ".join(sorted(self._definitions)) or "none"
            log.warning(
                "%s %d: this worker has no task of that name (it has: %s); parked until a worker with that task runs",
                claimed.task_type, claimed.id, known,
            )  # fmt: skip
