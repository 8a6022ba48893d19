"""Between the claim and the runners: who is known here, is still worth starting, and may start by the limits.

Only tasks of a limited resource are asked for, all of a batch in one transaction. Who may not start yet is given back
with a time at which to come again: it has spent no attempt, and holds no slot of this worker.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from outlast import clock
from outlast.decide.limits import Candidate, Limit
from outlast.ports.limits import Ask
from outlast.ports.rows import Claimed, Kind, Settlement, Turn
from outlast.ports.store import Store
from outlast.queue.definition import TaskDefinition
from outlast.queue.executing import expired, parked
from outlast.queue.logs import log

__all__ = ["Admitting", "Passed"]

Definition = TaskDefinition[Any, Any]
_UNASKED_WAIT = 5.0  # seconds until a limit is asked for again that could not be: to try may take seconds itself
_WEIGHT = 0.2  # of the newest duration in the mean


class Passed(NamedTuple):
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


class Admitting:
    """Lets claimed tasks through.

    Args:
        store: Which keeps the limits across workers.
        definitions: The tasks that are known, by name.
        limits: By resource; looked at anew for each batch.
    """

    def __init__(self, store: Store, definitions: Mapping[str, Definition], limits: Mapping[str, Limit]) -> None:
        """Begin with nothing measured."""
        self._store, self._definitions, self._limits = store, definitions, limits
        self._unknown: set[str] = set()
        self._unasked: dict[str, float] = {}  # until when a limit is not asked for, as that has failed
        self._began: dict[int, tuple[str, float]] = {}
        self._means: dict[str, float] = {}
        self._placed: dict[int, int] = {}  # retries that have their place, and the claims they belong to
        named = {each.resource for each in definitions.values()} if limits else set()
        for name in sorted(limits.keys() - named):  # a slip of the pen, and nothing would be limited
            log.warning("the limit of %s limits nothing: no task here has that as its resource", name)

    def let_through(self, ready: deque[Claimed]) -> Passed:
        """Empty a queue of tasks that are to start now."""
        batch, settlements, asking = list[tuple[Definition, Claimed]](), list[Settlement](), False
        while ready:
            claimed = ready.popleft()
            definition = self._definitions.get(claimed.task_type)
            if definition is None:
                self._tell_of(claimed)
                settlements.append(parked(claimed))
            elif claimed.expires_in is not None and claimed.expires_in <= 0:
                settlements.append(expired(claimed))
            else:
                batch.append((definition, claimed))
                asking = asking or claimed.resource in self._limits
        return self._ask(batch, settlements) if asking else Passed(batch, settlements)

    def _ask(self, batch: list[tuple[Definition, Claimed]], settlements: list[Settlement]) -> Passed:
        by_resource: dict[str, list[Candidate]] = {}
        for _, claimed in batch:
            if claimed.resource is not None and claimed.resource in self._limits:
                candidate = Candidate(claimed.id, claimed.epoch, claimed.retry_count > 0)
                by_resource.setdefault(claimed.resource, []).append(candidate)
        asks = [
            Ask(self._limits[name], tuple(candidates), self._means.get(name))
            for name, candidates in by_resource.items()
            if self._may_ask(name)
        ]
        error, waits = None, dict[int, float]()
        try:
            waits = self._store.admit(asks) if asks else {}
        except Exception as caught:  # noqa: BLE001  # what cannot be asked for must not start
            error = caught
            self._leave_alone(ask.limit.resource for ask in asks)
        for name in by_resource.keys() & self._unasked.keys():
            waits |= {each.task_id: _UNASKED_WAIT for each in by_resource[name]}
        now, through = clock.monotonic(), []
        for definition, claimed in batch:
            if claimed.id in waits:
                settlements.append(Settlement(claimed.id, claimed.epoch, Kind.RELEASE, waits[claimed.id]))
            else:
                through.append((definition, claimed))
                if claimed.resource in by_resource:
                    self._began[claimed.id] = (claimed.resource, now)
        return Passed(through, settlements, limited=True, error=error)

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
                self._leave_alone(waiting)
                raise
            indexes.sort(key=lambda index: unwritten[index].delay)
            for index, wait in zip(indexes, waits, strict=True):
                each = unwritten[index]
                unwritten[index] = each._replace(delay=each.delay + wait)
                self._placed[each.task_id] = each.epoch

    def wrote(self, turn: Turn) -> None:
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
            self._means[resource] = mean + _WEIGHT * (seconds - mean)

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

    def _leave_alone(self, resources: Iterable[str]) -> None:
        """Remember that limits could not be asked for: the tasks of other resources must not wait for each new try."""
        self._unasked |= dict.fromkeys(resources, clock.monotonic() + _UNASKED_WAIT)

    def _tell_of(self, claimed: Claimed) -> None:
        """Say once per name that nobody here knows it."""
        if claimed.task_type not in self._unknown:
            self._unknown.add(claimed.task_type)
            known = ", ".join(sorted(self._definitions)) or "none"
            log.warning(
                "%s %d: no task of that name here (there are: %s); parked until a worker that has it comes by",
                claimed.task_type, claimed.id, known,
            )  # fmt: skip
