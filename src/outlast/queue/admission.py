"""Decides how many tasks a worker claims, when it pauses, and which claimed tasks may start."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from outlast import clock
from outlast.decide.backoff import DoublingPause
from outlast.decide.limits import Candidate, ResourceLimit
from outlast.ports.rows import Claimed, Kind, SettleAndClaim, Settlement
from outlast.ports.store import LimitRequest, Store
from outlast.queue.definition import TaskDefinition
from outlast.queue.execution import expiry_settlement, park_settlement
from outlast.queue.logs import log

_STARTED_AHEAD = 0.02  # seconds of work whose start is marked with the claim
_HELD_AHEAD = 0.1  # seconds of work that is held in reserve, its start not marked
_MAX_AHEAD = 500
_MEASURE_SPAN = 0.02  # seconds over which is measured at least: what ends together by chance is no pace
_MEASURE_TASKS = 50  # tasks that end within one span are a pace by themselves, and need not be seen to go on


class ClaimPace:
    """Tasks per second, as measured, and what follows from it.

    A start is marked before the call, so that a crash tells what was running. To mark each by itself would cost a
    commit; what is going to begin within milliseconds anyway is therefore marked with its claim.

    Args:
        concurrency: How many tasks run at once.
        now: The time, in seconds by any clock.
    """

    def __init__(self, concurrency: int, now: float) -> None:
        """Begin slowly."""
        self.concurrency = concurrency
        self.rate = 0.0
        self._since, self._count = now, 0

    def finished(self, tasks: int, now: float) -> None:
        """Take in how many tasks were finished by now."""
        self._count += tasks
        span = now - self._since
        if span >= _MEASURE_SPAN or self._count >= _MEASURE_TASKS:
            self.rate = self._count / max(span, 0.001)
            self._since, self._count = now, 0

    def stalled(self, now: float) -> None:
        """Take in that nothing was finished for long."""
        self.rate, self._since, self._count = 0.0, now, 0

    @property
    def ahead(self) -> int:
        """How many tasks beyond those that run may have their start marked."""
        return min(_MAX_AHEAD, int(self.rate * _STARTED_AHEAD))

    @property
    def held(self) -> int:
        """How many more may be held without a start."""
        return min(_MAX_AHEAD, int(self.rate * _HELD_AHEAD), self.concurrency) if self.ahead < self.concurrency else 0


_PAUSES = (5.0, 300.0)  # seconds after the first failure, and at most


class ClaimPause:
    """Waits that double while the machine stays unwell; after each, one task is let through as a probe.

    Attributes:
        until: Time before which nothing is claimed, on the caller's clock.
        reason: Why, for people; empty while all is well.
    """

    def __init__(self) -> None:
        """Begin well."""
        self.until = 0.0
        self.reason = ""
        self._pause = DoublingPause(*_PAUSES)

    def failed(self, now: float, reason: str) -> float:
        """Take in that something failed for want of resources; return the seconds of the pause."""
        if now < self.until:
            return self.until - now
        seconds = self._pause.grow()
        self.until, self.reason = now + seconds, reason
        return seconds

    def succeeded(self, now: float) -> None:
        """Take in a success: once the pause is over, all is well again."""
        if self.reason and now >= self.until:
            self.until, self.reason = 0.0, ""
            self._pause.reset()

    def limit(self, now: float, limit: int) -> int:
        """Return how many tasks may be claimed: none during the pause, one as a probe, then all."""
        if not self.reason:
            return limit
        return 0 if now < self.until else min(1, limit)


# Only tasks with a rate-limited resource ask the store, one transaction per batch. A task that may not start yet goes
# back to the queue with a time, uses no attempt and holds no slot of this worker.

Definition = TaskDefinition[Any, Any]
_LIMIT_RETRY_WAIT = 5.0  # seconds until a limit is asked for again that could not be: to try may take seconds itself
_DURATION_WEIGHT = 0.2  # of the newest duration in the mean


class Admitted(NamedTuple):
    """What became of tasks on their way to the runners.

    Attributes:
        batch: Those that start.
        settlements: What is written for the others.
        limited: Whether a limit was asked for.
        error: What the store said if it could not be asked.
    """

    batch: list[tuple[Definition, Claimed]]
    settlements: list[Settlement]
    limited: bool = False
    error: Exception | None = None


class Admission:
    """Lets claimed tasks through.

    Args:
        store: Which keeps the limits across workers.
        definitions: The tasks that are known, by name.
        limits: By resource; looked at anew for each batch.
    """

    def __init__(
        self, store: Store, definitions: Mapping[str, Definition], limits: Mapping[str, ResourceLimit]
    ) -> None:
        """Begin with nothing measured."""
        self._store, self._definitions, self._limits = store, definitions, limits
        self._unknown: set[str] = set()
        self._unasked: dict[str, float] = {}  # until when a limit is not asked for, as that has failed
        self._began: dict[int, tuple[str, float]] = {}
        self._means: dict[str, float] = {}
        self._placed: dict[int, int] = {}  # retries that have their place, and the claims they belong to
        named = {each.resource for each in definitions.values()} if limits else set()
        for name in sorted(limits.keys() - named):  # a slip of the pen, and nothing would be limited
            log.warning("the limit of %s has no effect: no task of this app has it as its resource", name)

    def admit_ready(self, ready: deque[Claimed]) -> Admitted:
        """Empty a queue of tasks that are to start now."""
        batch, settlements, asking = list[tuple[Definition, Claimed]](), list[Settlement](), False
        while ready:
            claimed = ready.popleft()
            definition = self._definitions.get(claimed.task_type)
            if definition is None:
                self._warn_unknown_task(claimed)
                settlements.append(park_settlement(claimed))
            elif claimed.expires_in is not None and claimed.expires_in <= 0:
                settlements.append(expiry_settlement(claimed))
            else:
                batch.append((definition, claimed))
                asking = asking or claimed.resource in self._limits
        return self._ask(batch, settlements) if asking else Admitted(batch, settlements)

    def _ask(self, batch: list[tuple[Definition, Claimed]], settlements: list[Settlement]) -> Admitted:
        by_resource: dict[str, list[Candidate]] = {}
        for _, claimed in batch:
            if claimed.resource is not None and claimed.resource in self._limits:
                candidate = Candidate(claimed.id, claimed.epoch, claimed.retry_count > 0)
                by_resource.setdefault(claimed.resource, []).append(candidate)
        asks = [
            LimitRequest(self._limits[name], tuple(candidates), self._means.get(name))
            for name, candidates in by_resource.items()
            if self._may_ask(name)
        ]
        error, waits = None, dict[int, float]()
        try:
            waits = self._store.admit(asks) if asks else {}
        except Exception as caught:  # noqa: BLE001  # what cannot be asked for must not start
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
                if claimed.resource in by_resource:
                    self._began[claimed.id] = (claimed.resource, now)
        return Admitted(through, settlements, limited=True, error=error)

    def place_retries(self, unwritten: list[Settlement], held: Mapping[int, Claimed]) -> None:
        """Give retries of resources with a budget a place each, behind those of all other workers; once per retry.

        The place is added to the wait that the policy asks for: the longer one of the two would have all whose place
        comes before the end of that wait return at once. Where the store cannot be asked, the policy's wait has to do:
        the budget is asked for again when they start, and outcomes are not held back for a place.

        Args:
            unwritten: Settlements that are about to be written; changed in place.
            held: The claims, by task.

        Raises:
            Exception: What the store says if it cannot be asked.
        """
        if not self._limits:
            return
        waiting: dict[str, list[int]] = {}
        for index, each in enumerate(unwritten):
            claimed = held.get(each.task_id)
            if each.kind is not Kind.RETRY or claimed is None or self._placed.get(each.task_id) == each.epoch:
                continue
            limit = self._limits.get(claimed.resource) if claimed.resource is not None else None
            if limit is not None and limit.retries is not None and self._may_ask(limit.resource):
                waiting.setdefault(limit.resource, []).append(index)
        for resource, indexes in waiting.items():
            try:
                waits = self._store.reserve_retries(self._limits[resource], len(indexes))
            except Exception:
                self._postpone_limits(waiting)
                raise
            indexes.sort(key=lambda index: unwritten[index].delay)
            for index, wait in zip(indexes, waits, strict=True):
                each = unwritten[index]
                unwritten[index] = each._replace(delay=each.delay + wait)
                self._placed[each.task_id] = each.epoch

    def wrote(self, turn: SettleAndClaim) -> None:
        """Take in that a turn is written."""
        if self._limits:
            for number, _ in turn.done:
                self.settled(number, Kind.DONE)
            for each in turn.settlements:
                self.settled(each.task_id, each.kind)

    def settled(self, number: int, kind: Kind) -> None:
        """Take in that what became of a task is written."""
        self._placed.pop(number, None)
        resource, began = self._began.pop(number, (None, 0.0))
        if resource is not None and kind is not Kind.RELEASE:
            seconds = clock.monotonic() - began
            mean = self._means.get(resource, seconds)
            self._means[resource] = mean + _DURATION_WEIGHT * (seconds - mean)

    def forget(self) -> None:
        """Forget what was in our hands."""
        self._began.clear()
        self._placed.clear()

    def _may_ask(self, resource: str) -> bool:
        """Tell whether a limit can be asked for, as far as is known."""
        if self._unasked.get(resource, 0.0) > clock.monotonic():
            return False
        self._unasked.pop(resource, None)
        return True

    def _postpone_limits(self, resources: Iterable[str]) -> None:
        """Remember that limits could not be asked for: the tasks of other resources must not wait for each new try."""
        self._unasked |= dict.fromkeys(resources, clock.monotonic() + _LIMIT_RETRY_WAIT)

    def _warn_unknown_task(self, claimed: Claimed) -> None:
        """Say once per name that nobody here knows it."""
        if claimed.task_type not in self._unknown:
            self._unknown.add(claimed.task_type)
            known = ", ".join(sorted(self._definitions)) or "none"
            log.warning(
                "%s %d: this worker has no task of that name (it has: %s); parked until a worker with that task runs",
                claimed.task_type, claimed.id, known,
            )  # fmt: skip
