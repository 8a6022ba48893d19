"""The claim loop of a worker: claim → admit → run → decide → settle.

One thread exchanges tasks with the store. Each `ClaimLoop.tick` does these steps:

1. collect: take the outcomes that runners have finished. A runner runs a task (`execution`) and decides about its
   outcome (`settlement`).
2. claim: request as many tasks as there is room for.
3. settle: write the outcomes, mark starts and claim tasks, in one transaction of the store.
4. admit: park unknown tasks, end expired tasks, and ask the store for rate limits (`admission`).
5. run: pass the admitted tasks to the runners (`runners`).
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from threading import Event
from typing import NamedTuple

from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.decide.limits import ResourceLimits
from outlast.errors import LeaseLostError
from outlast.failure import Category
from outlast.ports.rows import Claim, Claimed, Kind, Note, Reason, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.ports.store import Store
from outlast.queue.admission import Admission, ClaimPace, ClaimPause, start_cooldown
from outlast.queue.definition import Definition
from outlast.queue.logs import log
from outlast.queue.runners import Runners
from outlast.queue.settlement import StartCooldown, release_settlement
from outlast.queue.suspects import SuspectTurns

_GATHER_SECONDS = 0.003  # seconds to wait for more outcomes while runners are busy
_STALLED_AFTER = 1.0  # seconds without progress after which tasks that have not started are released
_STORE_PAUSES = (0.1, 5.0)  # seconds after the first failure of the store, and at most
_RECONCILE_EVERY = 60.0  # seconds; a database that lost commits may still count finished tasks as ours
_MAX_REFUSALS = 3  # times that the store may refuse a settlement before its last resort
_DUE_LATER = {Kind.RETRY, Kind.DEFER, Kind.RELEASE, Kind.CRASH}
_STORE_OUTAGE = {
    Category.NETWORK,
    Category.DATABASE_BUSY,
    Category.SYSTEM,
    Category.API_TEMPORARY,
    Category.AUTHENTICATION,
}


@dataclass
class WorkerState:
    """What the threads of a worker share.

    Attributes:
        worker_id: Its id in the store; another one after a lost lease.
        stop: Set when the worker is asked to stop.
        outcomes: Number of recorded outcomes, by kind.
        pause: The pause after a system failure.
        stopping: Whether the loop claims nothing more and only finishes what runs.
        tasks_due: Whether a task may be due, so that the loop claims.
        suspects_due: Whether a suspect is due.
        lease_lost: Whether the store has given the tasks to other workers.
    """

    worker_id: str
    stop: Event = field(default_factory=Event)
    outcomes: Counter[Kind] = field(default_factory=Counter)
    pause: ClaimPause = field(default_factory=ClaimPause)
    stopping: bool = False
    tasks_due: bool = False
    suspects_due: bool = False
    lease_lost: bool = False


@dataclass
class LoopState:
    """The tasks of a claim loop, and when it looks for more. Only its own thread changes it.

    Attributes:
        held: Claims by task id, until their outcomes are written.
        reserve: Held tasks whose start is not marked.
        ready: Held tasks whose start is marked, on their way to the runners.
        running: Number of tasks that the runners have.
        done: Successes to write, as (id, epoch).
        settlements: Other outcomes to write.
        refusals: How often the store refused to settle a task.
        backlog: Whether the store may have more due tasks.
        worked: Whether the last tick had something to do.
        due_at: When the next task is due, if known.
        checked_at: When the loop last looked for due tasks.
        progress_at: When a task last started or ended.
        reconciled_at: When `held` was last compared with the store; minus infinity to do it before the next claim.
    """

    held: dict[int, Claimed] = field(default_factory=dict)
    reserve: deque[Claimed] = field(default_factory=deque)
    ready: deque[Claimed] = field(default_factory=deque)
    running: int = 0
    done: list[tuple[int, int]] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    refusals: Counter[int] = field(default_factory=Counter)
    backlog: bool = True
    worked: bool = True
    due_at: float | None = None
    checked_at: float = field(default_factory=time.monotonic)
    progress_at: float = field(default_factory=time.monotonic)
    reconciled_at: float = field(default_factory=time.monotonic)

    @property
    def unstarted(self) -> int:
        """Number of tasks that the runners do not have yet."""
        return len(self.reserve) + len(self.ready)

    def expect_due(self, seconds: float) -> None:
        """Look for due tasks in so many seconds, or earlier if that is planned already."""
        at = time.monotonic() + seconds
        self.due_at = at if self.due_at is None else min(at, self.due_at)


class ClaimLoop:
    """Moves tasks between the store and the runners.

    Args:
        store: The store with the tasks.
        worker: What the threads of the worker share.
        definitions: The known tasks, by name.
        queues: The queues to claim from.
        runners: Run the tasks, and put their outcomes into a queue.
        holds_lease: Returns whether the lease is certainly valid; nothing is claimed without it.
        limits: The limits of resources across all workers, by name.
    """

    def __init__(
        self,
        store: Store,
        worker: WorkerState,
        definitions: Mapping[str, Definition],
        queues: tuple[str, ...],
        runners: Runners,
        holds_lease: Callable[[], bool] = lambda: True,
        limits: ResourceLimits | None = None,
    ) -> None:
        self.store, self.worker, self.queues = store, worker, queues
        self.runners, self.outcome_queue, self.holds_lease = runners, runners.outcome_queue, holds_lease
        self.state = LoopState()
        self.pace = ClaimPace(runners.concurrency, time.monotonic())
        self._admission = Admission(store, definitions, ResourceLimits() if limits is None else limits)
        self._suspect_turns = SuspectTurns()
        self._store_pause = DoublingPause(*_STORE_PAUSES)

    @property
    def idle(self) -> bool:
        """Whether it holds no task, and found none when it last looked."""
        return not (self.state.held or self.state.backlog or self.worker.tasks_due or self.unsettled)

    @property
    def unsettled(self) -> int:
        """Number of outcomes that are not in the store yet."""
        return len(self.state.done) + len(self.state.settlements) + len(self.outcome_queue.outcomes)

    def tick(self, timeout: float) -> None:
        """Wait for something to do, for at most `timeout` seconds, and do it.

        Raises:
            LeaseLostError: If the store has given the tasks to other workers.
        """
        self._wait(timeout)
        self.collect_outcomes()
        if not self._reconcile():
            return
        self._check_due()
        request = self._next_request()
        self.state.worked = request is not None
        if request is None:
            return
        result = self._settle_and_claim(request)
        if result is None:
            return
        self._apply_settled(request, result)
        self._apply_claimed(request, result)
        self._admit_and_run()

    def forget_tasks(self) -> None:
        """Forget all tasks after a lost lease. Those that run continue, but their outcomes are dropped."""
        running = self.state.running - len(self.runners.take_back())
        self.state = LoopState(running=running, due_at=self.state.due_at, reconciled_at=self.state.reconciled_at)
        self._admission.forget_tasks()
        self._suspect_turns.task = None

    def release_unstarted(self) -> None:
        """Return all tasks that have not started to the queue."""
        state, taken = self.state, self.runners.take_back()
        state.running -= len(taken)
        state.settlements += [release_settlement(each) for each in (*taken, *state.reserve, *state.ready)]
        state.reserve.clear()
        state.ready.clear()

    def collect_outcomes(self) -> None:
        """Take the outcomes of the runners. Those of tasks that other workers have by now are dropped."""
        state, now = self.state, time.monotonic()
        taken = self.outcome_queue.take()
        if taken:
            self.pace.finished(len(taken), now)
            state.progress_at = now
        state.running -= len(taken)
        cooldowns: dict[str, StartCooldown] = {}
        for task_id, epoch, settlement, cooldown, pause in taken:
            if cooldown is not None:
                longest = cooldowns.setdefault(cooldown.resource, cooldown)
                if cooldown.seconds > longest.seconds:
                    cooldowns[cooldown.resource] = cooldown
            if pause is not None:
                seconds = self.worker.pause.failed(now, pause)
                log.error("claiming pauses for %.0f s because of a system failure: %s", seconds, pause)
            claimed = state.held.get(task_id)
            if claimed is None or claimed.epoch != epoch:  # after a lost lease, another claim may hold the task
                continue
            if settlement is None:
                state.done.append((task_id, epoch))
            else:
                state.settlements.append(settlement)
        for each in cooldowns.values():
            start_cooldown(self.store, each)
        if state.done:
            self.worker.pause.succeeded(now)
        self._release_stalled(now)

    def _release_stalled(self, now: float) -> None:
        """Release tasks that have not started if the running ones make no progress, so that other workers run them."""
        state = self.state
        waiting = state.unstarted + max(0, state.running - self.pace.concurrency)
        if waiting and now - state.progress_at > _STALLED_AFTER:
            self.release_unstarted()
            self.pace.stalled(now)
            state.progress_at = now

    def _wait(self, timeout: float) -> None:
        state, queue = self.state, self.outcome_queue
        if self._store_pause.seconds:
            self._wait_for_store()
        elif not (state.worked and self._can_claim_now()):
            if state.due_at is not None and not self.worker.stopping and not state.backlog:
                timeout = min(timeout, max(0.0, state.due_at - time.monotonic()))
            queue.wake.wait(timeout)
        if 0 < len(queue.outcomes) < min(state.running, self.pace.ahead // 2) and not self.worker.stopping:
            queue.idle.wait(_GATHER_SECONDS)

    def _wait_for_store(self) -> None:
        """Pause after a failure of the store. A stop shortens the pause to a tenth of a second."""
        end = time.monotonic() + self._store_pause.seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            if self.worker.stopping or self.worker.stop.is_set():
                return

    def _can_claim_now(self) -> bool:
        """Return whether there is room for another batch while the last one runs."""
        running = self.state.running - len(self.outcome_queue.outcomes)
        has_room = running <= self.pace.concurrency + self.pace.ahead - 1
        return self.state.backlog and not self.worker.stopping and has_room

    def _reconcile(self) -> bool:
        """Release what the store counts as ours and we do not hold, such as claims of an exchange without an answer."""
        if time.monotonic() - self.state.reconciled_at <= _RECONCILE_EVERY:
            return True
        try:
            self.store.reconcile(self.worker.worker_id, list(self.state.held))
        except Exception as error:  # noqa: BLE001  # tried again soon
            self._pause_after_store_error(error)
            return False
        self.state.reconciled_at = time.monotonic()
        return True

    def _check_due(self) -> None:
        """Ask the store for due tasks, if the time has come and no notification arrived."""
        state, now = self.state, time.monotonic()
        if self.worker.tasks_due:
            self.worker.tasks_due, state.backlog = False, True
            return
        is_time = (state.due_at is not None and now >= state.due_at) or now - state.checked_at >= self.store.poll
        if state.backlog or self.worker.stopping or not is_time:
            return
        state.checked_at, state.due_at = now, None
        try:
            wait = self.store.next_due(self.queues)
            if wait == 0:
                state.backlog = True
                self.worker.suspects_due = self.worker.suspects_due or self.store.suspects_due(self.queues)
            elif wait is not None:
                state.expect_due(wait)
        except Exception as error:  # noqa: BLE001  # tried again soon
            self._pause_after_store_error(error)

    def _next_request(self) -> SettleAndClaim | None:
        """Return what to write and to claim; None if there is nothing to do."""
        state, claim = self.state, self._next_claim()
        free = max(0, self.pace.concurrency - state.running - len(state.ready))
        start = [(each.id, each.epoch) for each in islice(state.reserve, free)]
        if claim is None and not (start or state.done or state.settlements):
            return None
        try:
            self._admission.place_retries(state.settlements, state.held)
        except Exception as error:  # noqa: BLE001  # the retry budget is asked for again when they start
            self._pause_after_store_error(error)
        return SettleAndClaim(self.worker.worker_id, state.done, state.settlements, start, claim)

    def _next_claim(self) -> Claim | None:
        state, turns, now = self.state, self._suspect_turns, time.monotonic()
        if self.worker.stopping or not state.backlog or turns.task is not None or not self.holds_lease():
            return None
        if turns.waits(now, due=self.worker.suspects_due):
            if state.held:
                return None
            if self._is_suspect_still_due():
                return Claim(self.queues, 1, 1, suspect=True)
            turns.ended(now)
        concurrency, ahead = self.pace.concurrency, self.pace.ahead
        total = state.running + state.unstarted
        if total > concurrency + ahead:
            return None
        batch = concurrency + ahead + self.pace.held
        limit = self.worker.pause.limit(now, min(batch, batch + ahead - total))
        if limit <= 0:
            return None
        self.queues = (*self.queues[1:], self.queues[0])  # each queue comes first in turn
        return Claim(self.queues, limit, max(0, min(limit, concurrency - total + 2 * ahead)))

    def _is_suspect_still_due(self) -> bool:
        """Return whether a suspect is still due: other workers may have claimed it while our tasks ended."""
        try:
            self.worker.suspects_due = self.store.suspects_due(self.queues)
        except Exception as error:  # noqa: BLE001  # asked again soon
            self._pause_after_store_error(error)
            return False
        return self.worker.suspects_due

    def _settle_and_claim(self, request: SettleAndClaim) -> SettleAndClaimResult | None:
        """Exchange outcomes for tasks. Returns None if the store failed; the outcomes are then kept."""
        try:
            result = self.store.settle_and_claim(request)
        except LeaseLostError:
            raise
        except Exception as error:  # noqa: BLE001  # an error of the database must not end the worker
            self.state.reconciled_at = -math.inf  # the transaction may have been committed
            if self._pause_after_store_error(error) not in _STORE_OUTAGE:
                self._settle_each(request)
            return None
        if self._store_pause.seconds:
            log.warning("the store is available again")
            self._store_pause.reset()
        return result

    def _pause_after_store_error(self, error: Exception) -> Category:
        """Make the next tick wait, and return the category of the error."""
        failure = classify(error)
        before, seconds = self._store_pause.seconds, self._store_pause.grow()
        if self.worker.stopping and before == seconds:  # it is tried ten times a second
            return failure.category
        log.error("the store failed (%s), retrying in %.1f s: %s", failure.category, seconds, failure.message)
        return failure.category

    def _settle_each(self, request: SettleAndClaim) -> None:
        """Settle tasks one by one, because the store refuses one of them."""
        if not (request.done or request.settlements):
            return
        state, kept = self.state, set[int]()
        for kind, task_id, refused in settle_one_by_one(self.store, request, state.refusals):
            if refused is None:  # tried again, finally in another form; a finished task must not run twice
                kept.add(task_id)
                continue
            self.worker.outcomes[kind] += refused == []
            state.held.pop(task_id, None)
            self._admission.record_settled(task_id, kind)
            state.refusals.pop(task_id, None)
        state.done = [pair for pair in request.done if pair[0] in kept]
        state.settlements = [each for each in request.settlements if each.task_id in kept]
        self._end_suspect_turn()
        if not kept:
            self._store_pause.reset()

    def _end_suspect_turn(self) -> None:
        turns = self._suspect_turns
        if turns.task is not None and turns.task not in self.state.held:
            turns.ended(time.monotonic())
            self.worker.suspects_due = self.state.backlog = True  # there may be more; others have their turn first

    def _apply_settled(self, request: SettleAndClaim, result: SettleAndClaimResult) -> None:
        """Drop the tasks whose outcomes are written, and count them."""
        state, refused, outcomes = self.state, set(result.refused), self.worker.outcomes
        self._admission.record_written(request)
        for task_id, _ in request.done:
            state.held.pop(task_id, None)
        outcomes[Kind.DONE] += sum(task_id not in refused for task_id, _ in request.done)
        for each in request.settlements:
            state.held.pop(each.task_id, None)
            if each.kind in _DUE_LATER:
                state.expect_due(each.delay)
            is_limited = each.kind is Kind.RELEASE and each.delay > 0  # released because of a limit: not an outcome
            if each.task_id not in refused and not is_limited:
                outcomes[each.kind] += 1
        state.done, state.settlements = [], []
        self._end_suspect_turn()
        if refused:
            log.warning("%d results were refused: other workers have the tasks", len(refused))

    def _apply_claimed(self, request: SettleAndClaim, result: SettleAndClaimResult) -> None:
        """Take in the tasks whose start is marked, and the claimed tasks."""
        state, refused = self.state, set(result.refused)
        for _ in request.start:
            claimed = state.reserve.popleft()
            if claimed.id in refused:
                state.held.pop(claimed.id, None)
            else:
                state.ready.append(claimed)
        if request.claim is not None:
            self._update_backlog(request.claim, result.claimed)
        for claimed in result.claimed:
            state.held[claimed.id] = claimed
            (state.ready if claimed.started else state.reserve).append(claimed)

    def _update_backlog(self, claim: Claim, claimed: list[Claimed]) -> None:
        state, turns = self.state, self._suspect_turns
        state.checked_at = time.monotonic()
        state.backlog = len(claimed) >= claim.limit
        if claim.suspect:
            self.worker.suspects_due, state.backlog = False, True
            if claimed:
                turns.task = claimed[0].id
            else:
                turns.ended(state.checked_at)
        elif not claimed:
            turns.end_rest()
            state.backlog = self.worker.suspects_due

    def _admit_and_run(self) -> None:
        state = self.state
        admitted = self._admission.admit_ready(state.ready)
        state.settlements += admitted.settlements
        if admitted.error is not None:
            self._pause_after_store_error(admitted.error)
        elif admitted.limited:
            state.expect_due(0.0)  # released tasks become due one by one, without a notification
        if state.settlements:
            self.outcome_queue.wake.set()
        state.running += len(admitted.batch)
        if admitted.batch:
            state.progress_at = time.monotonic()
            self.runners.start(admitted.batch)


class SettleAnswer(NamedTuple):
    """What the store answered to one settlement.

    Attributes:
        kind: What was settled.
        task_id: The task.
        refused: The task if another worker has it, else empty; None if the store failed.
    """

    kind: Kind
    task_id: int
    refused: list[int] | None


def settle_one_by_one(store: Store, request: SettleAndClaim, refusals: Counter[int]) -> list[SettleAnswer]:
    """Settle each task of a request in its own transaction.

    If the store refuses a settlement, it is tried again without its texts. After some refusals of both, the task ends
    as a dead letter without them.

    Args:
        store: The store.
        request: The settlements.
        refusals: How often the store refused each task; updated.
    """
    answers = []
    for pair in request.done:
        refused = _try_settle(store, SettleAndClaim(request.worker_id, [pair], [], []))
        answers.append(SettleAnswer(Kind.DONE, pair[0], refused))
    for settlement in request.settlements:
        task_id, refused = settlement.task_id, None
        forms = [settlement, _without_texts(settlement)]
        if refusals[task_id] >= _MAX_REFUSALS:
            forms = [_last_resort(settlement)]
        for form in forms:
            refused = _try_settle(store, SettleAndClaim(request.worker_id, [], [form], []))
            if refused is not None:
                break
        else:
            refusals[task_id] += 1
        answers.append(SettleAnswer(settlement.kind, task_id, refused))
    return answers


def _try_settle(store: Store, request: SettleAndClaim) -> list[int] | None:
    try:
        return store.settle_and_claim(request).refused
    except LeaseLostError:
        raise
    except Exception as error:  # noqa: BLE001  # the others are settled too
        log.error("the store refused a settlement: %s", classify(error).message)
        return None


def _last_resort(settlement: Settlement) -> Settlement:
    """Return the plainest settlement that ends the task."""
    if settlement.kind is Kind.DONE:
        return settlement._replace(result=None)
    note = _without_texts(settlement).note or Note("Refused", "the store refused its outcome", "unknown", "", "{}")
    return Settlement(settlement.task_id, settlement.epoch, Kind.FAIL, note=note, reason=Reason.EXHAUSTED)


def _without_texts(settlement: Settlement) -> Settlement:
    """Return a settlement without the texts of its error, one of which the store may have refused."""
    if settlement.note is None:
        return settlement
    note = settlement.note._replace(
        error_type=settlement.note.error_type.encode("ascii", "replace").decode("ascii"),
        error_message="the store refused the text of this error",
        failure="{}",
        traceback="",
    )
    return settlement._replace(note=note)
