"""The claim loop of a worker: one thread that settles outcomes, claims tasks and starts them."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from outlast.classify import classify
from outlast.decide.backoff import DoublingPause
from outlast.decide.limits import ResourceLimit
from outlast.errors import LeaseLostError
from outlast.failure import Category
from outlast.ports.rows import Claim, Claimed, Kind, Note, Reason, SettleAndClaim, SettleAndClaimResult, Settlement
from outlast.ports.store import Store
from outlast.queue.admission import Admission, ClaimPace, ClaimPause
from outlast.queue.definition import TaskDefinition
from outlast.queue.execution import release_settlement
from outlast.queue.logs import log
from outlast.queue.runners import OutcomeQueue, Runners
from outlast.queue.settlement import PauseClaiming, StartCooldown
from outlast.queue.suspects import SuspectTurns

_MAX_REFUSALS = 3  # turns
SettleAnswer = tuple[Kind, int, list[int] | None]
"""What was settled, of which task, and what the store said: who else has it, or None if it would not take it at all."""


def settle_one_by_one(store: Store, turn: SettleAndClaim, refusals: Counter[int]) -> list[SettleAnswer]:
    """Settle each task of a turn by itself.

    Where the store refuses a settlement, it is tried once more without its texts; what was refused in all its forms for
    some turns ends the task in the plainest way there is.

    Args:
        store: Where.
        turn: What.
        refusals: In how many turns the settlement of a task was refused; kept up to date.
    """
    answers: list[SettleAnswer] = []
    answer: list[int] | None = None
    for number, epoch in turn.done:
        answers.append(
            (Kind.DONE, number, _try_settle(store, SettleAndClaim(turn.worker_id, [(number, epoch)], [], [])))
        )
    for settlement in turn.settlements:
        number = settlement.task_id
        forms = (
            [settlement, _without_texts(settlement)] if refusals[number] < _MAX_REFUSALS else [_last_resort(settlement)]
        )
        for form in forms:
            answer = _try_settle(store, SettleAndClaim(turn.worker_id, [], [form], []))
            if answer is not None:
                break
        else:
            refusals[number] += 1
        answers.append((settlement.kind, number, answer))
    return answers


def _last_resort(settlement: Settlement) -> Settlement:
    """Return the settlement that remains when the store takes no other."""
    if settlement.kind is Kind.DONE:
        return settlement._replace(result=None)
    note = _without_texts(settlement).note or Note("Refused", "the store refused its outcome", "unknown", "", "{}")
    return Settlement(settlement.task_id, settlement.epoch, Kind.FAIL, note=note, reason=Reason.EXHAUSTED)


def _try_settle(store: Store, turn: SettleAndClaim) -> list[int] | None:
    try:
        return store.settle_and_claim(turn).refused
    except LeaseLostError:
        raise
    except Exception as error:  # noqa: BLE001  # the others matter as well
        log.error("the store refused a settlement: %s", classify(error).message)
        return None


def _without_texts(settlement: Settlement) -> Settlement:
    """Return a settlement without the texts of its error: one of them is what the store refuses."""
    if settlement.note is None:
        return settlement
    note = settlement.note._replace(
        error_type=settlement.note.error_type.encode("ascii", "replace").decode("ascii"),
        error_message="the store refused the text of this error",
        failure="{}",
        traceback="",
    )
    return settlement._replace(note=note)


_GATHER_SECONDS = 0.003  # seconds for which outcomes are gathered while more are on their way
_STALLED_AFTER = 1.0  # seconds without progress after which what has not begun is given back
_STORE_PAUSES = (0.1, 5.0)  # seconds after the first failure of the store, and at most
_RECONCILE_EVERY = 60.0  # seconds; a database that lost commits may count tasks as ours that we have done with
_DUE_LATER = {Kind.RETRY, Kind.DEFER, Kind.RELEASE, Kind.CRASH}
_STORE_OUTAGE = {
    Category.NETWORK,
    Category.DATABASE_BUSY,
    Category.SYSTEM,
    Category.API_TEMPORARY,
    Category.AUTHENTICATION,
}


class ClaimLoop:
    """Moves tasks between the store and the runners.

    Args:
        store: Where tasks are.
        worker_id: Whose; it changes when a lease was lost.
        definitions: The tasks that are known, by name.
        queues: Where to look.
        runners: Who runs them.
        tray: Where they put outcomes.
        limits: Of resources, across all workers; by name.
    """

    def __init__(
        self,
        store: Store,
        worker_id: str,
        definitions: Mapping[str, TaskDefinition[Any, Any]],
        queues: tuple[str, ...],
        runners: Runners,
        tray: OutcomeQueue,
        limits: Mapping[str, ResourceLimit] | None = None,
    ) -> None:
        """Begin with empty hands."""
        self.store, self.worker_id, self.queues = store, worker_id, queues
        self.runners, self.tray = runners, tray
        self.admitting = Admission(store, definitions, {} if limits is None else limits)
        self.pace = ClaimPace(runners.concurrency, time.monotonic())
        self.pause = ClaimPause()
        self.held: dict[int, Claimed] = {}
        self.may_claim: Callable[[], bool] = lambda: True
        self.stop_requested: Callable[[], bool] = lambda: False
        self.stopping = self.signalled = self.lease_lost = False
        self.suspects = False
        self.outcomes: Counter[Kind] = Counter()
        self._reserve: deque[Claimed] = deque()
        self._ready: deque[Claimed] = deque()
        self._unwritten: list[Settlement] = []
        self._refusals: Counter[int] = Counter()
        self._done: list[tuple[int, int]] = []
        self._running = 0
        self._backlog = True
        self._alone = SuspectTurns()
        self._store_pause = DoublingPause(*_STORE_PAUSES)
        self._unsure = False
        self._worked = True
        self._due_at: float | None = None
        self._moved_at = self._looked_at = self._sure_at = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether nothing is in its hands and nothing was to be had the last time it looked."""
        return not self.held and not self._backlog and not self.signalled and not self.unsettled

    @property
    def unsettled(self) -> int:
        """How many outcomes are not in the store yet."""
        return len(self._done) + len(self._unwritten) + len(self.tray.outcomes)

    def unwritten(self) -> tuple[list[tuple[int, int]], list[Settlement]]:
        """Return the outcomes that are not in the store yet."""
        self._gather()
        return self._done, self._unwritten

    def step(self, patience: float) -> None:
        """Wait for something to do, for so many seconds at most, and do it."""
        self._wait(patience)
        self._gather()
        if time.monotonic() - self._sure_at > _RECONCILE_EVERY:
            self._unsure = True
        if self._unsure and not self._reconcile():
            return
        self._look()
        claim = self._claim()
        start = self._next_to_start()
        self._worked = claim is not None or bool(start or self._done or self._unwritten)
        if not self._worked:
            return
        self._place_retries()
        turn = SettleAndClaim(
            self.worker_id, self._done, self._unwritten, [(each.id, each.epoch) for each in start], claim
        )
        turned = self._turn(turn)
        if turned is not None:
            self._apply_exchange(turn, turned, start)

    def lost(self) -> None:
        """Forget everything: the store has given it to others. What runs already runs on for nothing."""
        self._running -= len(self.runners.take_back())
        self.held.clear()
        self._reserve.clear()
        self._ready.clear()
        self._done, self._unwritten = [], []
        self._refusals.clear()
        self.admitting.forget()
        self._alone.task = None
        self._backlog = True

    def give_back(self) -> None:
        """Give back all that has not begun."""
        taken = self.runners.take_back()
        self._running -= len(taken)
        self._unwritten += [release_settlement(claimed) for claimed in (*taken, *self._reserve, *self._ready)]
        self._reserve.clear()
        self._ready.clear()

    def _wait(self, patience: float) -> None:
        if self._store_pause.seconds:
            self._rest()
        elif not (self._worked and self._can_claim_now()):
            if self._due_at is not None and not self.stopping and not self._backlog:
                patience = min(patience, max(0.0, self._due_at - time.monotonic()))
            self.tray.wake.wait(patience)
        finished = len(self.tray.outcomes)
        if 0 < finished < min(self._running, self.pace.ahead // 2) and not self.stopping:
            self.tray.idle.wait(_GATHER_SECONDS)

    def _rest(self) -> None:
        """Leave a store alone that fails, for as long as was said; not for longer than it takes to be told to stop."""
        end = time.monotonic() + self._store_pause.seconds
        while (left := end - time.monotonic()) > 0 and not self.stopping and not self.stop_requested():
            time.sleep(min(left, 0.1))

    def _can_claim_now(self) -> bool:
        """Tell whether there is room: a batch is fetched while another one runs."""
        running = self._running - len(self.tray.outcomes)
        return self._backlog and not self.stopping and running <= self.pace.concurrency + self.pace.ahead - 1

    def _gather(self) -> None:
        """Take outcomes from the tray."""
        taken = self.tray.take()
        now = time.monotonic()
        if taken:
            self.pace.finished(len(taken), now)
            self._moved_at = now
        self._running -= len(taken)
        cools: dict[str, StartCooldown] = {}
        for outcomes in taken:
            for outcome in outcomes:
                if isinstance(outcome, StartCooldown):
                    cools[outcome.resource] = max(
                        cools.get(outcome.resource, outcome), outcome, key=lambda each: each.seconds
                    )
                else:
                    self._file_outcome(outcome, now)
        for cool in cools.values():
            self._cool(cool)
        if self._done:
            self.pause.succeeded(now)
        waits = len(self._reserve) + len(self._ready) + max(0, self._running - self.pace.concurrency)
        if waits and now - self._moved_at > _STALLED_AFTER:
            self.give_back()
            self.pace.stalled(now)
            self._moved_at = now

    def _file_outcome(self, outcome: tuple[int, int] | Settlement | PauseClaiming, now: float) -> None:
        """Put an outcome where it belongs; what concerns a task that is not ours any more is dropped."""
        match outcome:
            case Settlement():
                if self._is_ours(outcome.task_id, outcome.epoch):
                    self._unwritten.append(outcome)
            case PauseClaiming(reason):
                seconds = self.pause.failed(now, reason)
                log.error("claiming pauses for %.0f s because of a system failure: %s", seconds, reason)
            case (number, epoch):
                if self._is_ours(number, epoch):
                    self._done.append((number, epoch))

    def _is_ours(self, number: int, epoch: int) -> bool:
        """Tell whether a task is in our hands by the same claim: after a lost lease we may have it by another one."""
        claimed = self.held.get(number)
        return claimed is not None and claimed.epoch == epoch

    def _cool(self, cool: StartCooldown) -> None:
        try:
            self.store.start_cooldown(cool.resource, cool.seconds, cool.reason)
        except Exception as error:  # noqa: BLE001  # the task itself is put off all the same
            log.warning("could not start the cooldown of %s: %s", cool.resource, classify(error).message)

    def _look(self) -> None:
        """See whether there is something to claim, when a time has come or nobody has called for a while."""
        now = time.monotonic()
        if self.signalled:
            self.signalled, self._backlog = False, True
            return
        due = self._due_at is not None and now >= self._due_at
        if self._backlog or self.stopping or not (due or now - self._looked_at >= self.store.poll):
            return
        self._looked_at, self._due_at = now, None
        try:
            wait = self.store.next_due(self.queues)
            if wait == 0:
                self._backlog = True
                self.suspects = self.suspects or self.store.suspects_due(self.queues)
            elif wait is not None:
                self._look_again_in(wait)
        except Exception as error:  # noqa: BLE001  # looked for again soon
            self._troubled(error)

    def _look_again_in(self, seconds: float) -> None:
        """Look again in so many seconds, unless there is a reason to do it earlier."""
        at = time.monotonic() + seconds
        if self._due_at is None or at < self._due_at:
            self._due_at = at

    def _claim(self) -> Claim | None:
        if self.stopping or not self._backlog or self._alone.task is not None or self._unsure or not self.may_claim():
            return None
        now = time.monotonic()
        if self._alone.waits(now, due=self.suspects):
            if self.held:
                return None
            if self._suspect_still_due():
                return Claim(self.queues, 1, 1, suspect=True)
            self._alone.ended(now)
        ahead = self.pace.ahead
        unbegun = len(self._reserve) + len(self._ready)
        free = self.pace.concurrency - self._running - unbegun
        in_hand = self._running + unbegun
        if in_hand > self.pace.concurrency + ahead:
            return None
        batch = self.pace.concurrency + ahead + self.pace.held
        limit = self.pause.limit(now, min(batch, batch + ahead - in_hand))
        if limit <= 0:
            return None
        self.queues = (*self.queues[1:], self.queues[0])  # each queue is the first one in turn
        return Claim(self.queues, limit, max(0, min(limit, free + 2 * ahead)))

    def _suspect_still_due(self) -> bool:
        """Tell whether a suspect can still be had: other workers may have begun theirs while our tasks ended."""
        try:
            self.suspects = self.store.suspects_due(self.queues)
        except Exception as error:  # noqa: BLE001  # asked again soon
            self._troubled(error)
            return False
        return self.suspects

    def _next_to_start(self) -> list[Claimed]:
        """Choose from the reserve whose start is marked next."""
        free = self.pace.concurrency - self._running - len(self._ready)
        return [self._reserve[place] for place in range(min(len(self._reserve), max(0, free)))]

    def _turn(self, turn: SettleAndClaim) -> SettleAndClaimResult | None:
        try:
            turned = self.store.settle_and_claim(turn)
        except LeaseLostError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever a database says, the worker goes on
            self._unsure = True  # it may have been done all the same
            self._troubled(error)
            return self._settle_each(turn, error)
        if self._store_pause.seconds:
            log.warning("the store is available again")
            self._store_pause.reset()
        return turned

    def _place_retries(self) -> None:
        """See that retries keep to the budgets of their resources."""
        try:
            self.admitting.place_retries(self._unwritten, self.held)
        except Exception as error:  # noqa: BLE001  # the budget is asked for once more where they start
            self._troubled(error)

    def _reconcile(self) -> bool:
        """Give back what an unanswered turn may have claimed for us."""
        try:
            self.store.reconcile(self.worker_id, list(self.held))
        except Exception as error:  # noqa: BLE001  # tried again soon
            self._troubled(error)
            return False
        self._unsure, self._sure_at = False, time.monotonic()
        return True

    def _troubled(self, error: Exception) -> None:
        failure = classify(error)
        seconds = self._store_pause.grow()
        log.error("the store failed (%s), retrying in %.1f s: %s", failure.category, seconds, failure.message)

    def _settle_each(self, turn: SettleAndClaim, error: Exception) -> SettleAndClaimResult | None:
        """Settle one by one, when something in the batch itself is what the store refuses."""
        if classify(error).category in _STORE_OUTAGE or not (turn.done or turn.settlements):
            return None
        kept: set[int] = set()
        for kind, number, answer in settle_one_by_one(self.store, turn, self._refusals):
            if answer is None:  # tried again, in the end in another form; what is done must not be done twice
                kept.add(number)
                continue
            self.outcomes[kind] += answer == []
            self.held.pop(number, None)
            self.admitting.settled(number, kind)
            self._refusals.pop(number, None)
        self._done = [pair for pair in turn.done if pair[0] in kept]
        self._unwritten = [each for each in turn.settlements if each.task_id in kept]
        self._end_suspect_turn()
        if not kept:
            self._store_pause.reset()
        return None

    def _end_suspect_turn(self) -> None:
        if self._alone.task is not None and self._alone.task not in self.held:
            self._alone.ended(time.monotonic())
            self.suspects = self._backlog = True  # where there was one there may be more; others get their turn as well

    def _apply_exchange(self, turn: SettleAndClaim, turned: SettleAndClaimResult, start: list[Claimed]) -> None:
        """Take in what a turn gave, and hand tasks to the runners."""
        self.admitting.wrote(turn)
        for number, _ in turn.done:
            self.held.pop(number, None)
        for settlement in turn.settlements:
            self.held.pop(settlement.task_id, None)
            if settlement.kind in _DUE_LATER:
                self._look_again_in(settlement.delay)
        self._end_suspect_turn()
        self._done, self._unwritten = [], []
        gone = set(turned.refused)
        self.outcomes[Kind.DONE] += len(turn.done)
        self.outcomes.update(
            each.kind for each in turn.settlements if each.task_id not in gone and not _is_limit_release(each)
        )
        if gone:
            self.outcomes[Kind.DONE] -= sum(number in gone for number, _ in turn.done)
            log.warning("%d results were refused: other workers have the tasks", len(gone))
        for claimed in start:
            self._reserve.popleft()
            if claimed.id not in gone:
                self._ready.append(claimed)
            else:
                self.held.pop(claimed.id, None)
        if turn.claim is not None:
            self._learn(turn.claim, turned)
        for claimed in turned.claimed:
            self.held[claimed.id] = claimed
            (self._ready if claimed.started else self._reserve).append(claimed)
        self._start_ready()

    def _learn(self, claim: Claim, turned: SettleAndClaimResult) -> None:
        """Draw from what a claim gave whether there is more."""
        self._looked_at = time.monotonic()
        self._backlog = len(turned.claimed) >= claim.limit
        if claim.suspect:
            self.suspects, self._backlog = False, True
            if turned.claimed:
                self._alone.task = turned.claimed[0].id
            else:
                self._alone.ended(self._looked_at)
        elif not turned.claimed:
            self._alone.end_rest()
            self._backlog = self.suspects

    def _start_ready(self) -> None:
        batch, settlements, limited, error = self.admitting.admit_ready(self._ready)
        self._unwritten += settlements
        if error is not None:
            self._troubled(error)
        elif limited:
            self._look_again_in(0.0)  # what comes back does so one by one, and nobody calls
        if self._unwritten:
            self.tray.wake.set()
        self._running += len(batch)
        if batch:
            self._moved_at = time.monotonic()
            self.runners.start(batch)


def _is_limit_release(settlement: Settlement) -> bool:
    """Tell whether a task was given back because of a limit, which is no outcome."""
    return settlement.kind is Kind.RELEASE and settlement.delay > 0
