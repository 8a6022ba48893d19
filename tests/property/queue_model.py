"""A small model of the queue, written from what the port promises and from no store."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st

from outlast.ports.rows import NewTask

LIVE = {"QUEUED", "RUNNING", "PARKED"}
LOST = "lost"
LATER = 3600.0
GROUPS_KEPT = 90 * 86400.0
COOLDOWN_TAIL = 60.0

names = st.sampled_from
tasks = st.builds(
    NewTask,
    task_type=names(["x", "y"]),
    parameters=st.just("{}"),
    queue=names(["a", "b"]),
    priority=names([0, 5, 9]),
    delay=names([0.0, 0.0, 0.0, LATER]),
    run_at=st.none(),
    expires=st.none(),
    unique_key=names([None, None, "k1", "k2"]),
    resource=names([None, None, "r1", "r2"]),
    options=names([None, None, '{"max_attempts":2}']),
)


@dataclass
class ModelTask:
    task_type: str
    queue: str
    priority: int
    key: str | None
    resource: str | None
    due: float
    status: str = "QUEUED"
    attempt: int = 0
    retries: int = 0
    crashes: int = 0
    deferrals: int = 0
    deferred: bool = False  # since its last retry or replay: it waits for its resource
    replays: int = 0
    suspect: bool = False
    alone: bool = False
    started: bool = False
    worker: str | None = None
    handle: object = None  # what the last claim gave out; nobody else may settle
    cause: str = ""  # of its dead letter
    letter: int = 0  # number among the dead letters, in the order in which they came
    replay: "ModelReplay | None" = None  # that queued it
    canary: bool = False
    history: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class ModelReplay:
    number: int  # in the store
    meant: list[tuple[int, int]]  # tasks that are left to queue, with their dead letters, in the order of those
    total: int
    newest: int  # of the dead letters that are meant
    state: str = "running"
    replayed: int = 0
    conflicts: int = 0
    forgiven: int = 0  # dead letters up to this one stop it no more


class Model:
    """What should be so."""

    def __init__(self):
        self.now = 0.0
        self.tasks: dict[int, ModelTask] = {}
        self.letters: set[int] = set()  # by the numbers of their tasks
        self.workers: set[str] = set()
        self.expired: set[str] = set()
        self.paused: set[str] = set()
        self.cooling: dict[str, float] = {}
        self.books: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()  # by cause
        self.last_seen: dict[str, float] = {}  # by cause
        self.buried = 0
        self.replays: list[ModelReplay] = []

    def key_holder(self, task_type, key):
        for number, task in self.tasks.items():
            if key is not None and (task.task_type, task.key) == (task_type, key) and task.status in LIVE:
                return number
        return None

    def add(self, number, new):
        due = self.now + new.delay
        if due <= self.now:
            due = max(due, self.cooling.get(new.resource, 0))
        self.tasks[number] = ModelTask(new.task_type, new.queue, new.priority, new.unique_key, new.resource, due)
        self.books["enqueued"] += 1

    def is_cooling(self, task):
        return self.cooling.get(task.resource, 0) > self.now

    def move_cooling(self):
        for task in self.tasks.values():
            if task.status == "QUEUED" and task.due <= self.now and self.is_cooling(task):
                task.due = self.cooling[task.resource]

    def claimable(self, queues, limit, suspect):
        """Return the numbers that a claim should give, in order."""
        self.move_cooling()
        places = {queue: place for place, queue in enumerate(queues) if queue not in self.paused}
        ready = [
            (0 if suspect else task.priority, places[task.queue], task.due, number)
            for number, task in self.tasks.items()
            if task.status == "QUEUED" and task.suspect == suspect and task.queue in places and task.due <= self.now
        ]
        return [number for *_, number in sorted(ready)][:limit]

    def take(self, number, handle, worker, *, started, suspect):
        task = self.tasks[number]
        task.status, task.worker, task.handle, task.started = "RUNNING", worker, handle, started
        task.attempt += started
        task.alone = started and suspect

    def accepts(self, number, handle):
        return number in self.tasks and self.tasks[number].handle is handle

    def settle(self, number, kind, delay, cause=None):  # noqa: C901  # a case for each kind
        task = self.tasks[number]
        if task.status != "RUNNING":
            return
        task.alone = False
        if kind in {"done", "retry", "defer", "fail"}:
            task.suspect = False
        if kind in {"defer", "release", "park"} and task.started:
            task.attempt -= 1
        if kind == "done":
            task.status = "DONE"
            self.books["done"] += 1
        elif kind == "retry":
            task.status, task.due, task.retries = "QUEUED", self.now + delay, task.retries + 1
            task.deferred = False
            task.history.append((task.attempt, "retry"))
            self.failed("retried", cause)
        elif kind == "defer":
            task.status, task.deferrals, task.deferred = "QUEUED", task.deferrals + 1, True
            task.due = max(self.now + delay, self.cooling.get(task.resource, 0))
            self.failed("deferred", cause)
        elif kind == "fail":
            task.status, task.retries = "FAILED", task.retries + 1
            task.history.append((task.attempt, "fail"))
            self.bury(number, cause)
        elif kind == "crash":
            task.status, task.crashes, task.suspect = "QUEUED", task.crashes + 1, not delay
            task.history.append((task.attempt, "lost"))
            if delay:  # stands for a reason: it was the last one
                task.status = "FAILED"
                self.bury(number, cause)
            else:
                task.due = self.now
                self.failed("lost", cause)
        elif kind == "release":
            task.status = "QUEUED"
            task.due = self.now + delay if delay else task.due
        elif kind == "park":
            task.status = "PARKED"

    def failed(self, event, cause):
        self.books[event] += 1
        if cause is not None:
            self.failures[cause] += 1
            self.last_seen[cause] = self.now

    def bury(self, number, cause):
        self.letters.add(number)
        self.buried += 1
        self.tasks[number].cause, self.tasks[number].letter = cause, self.buried
        self.failed("failed", cause)

    def dead_by(self, cause):
        return sum(self.tasks[number].cause == cause for number in self.letters)

    def start(self, number):
        task = self.tasks[number]
        if task.status == "RUNNING" and not task.started:
            task.started, task.attempt = True, task.attempt + 1

    def give_back(self, worker, kept=()):
        """Return how many tasks come back as if they had never been claimed."""
        back = [task for number, task in self.held_by(worker) if number not in kept]
        for task in back:
            task.attempt -= task.started
            task.status, task.handle, task.alone = "QUEUED", None, False
        return len(back)

    def held_by(self, worker):
        return [(n, task) for n, task in self.tasks.items() if task.status == "RUNNING" and task.worker == worker]

    def rescue(self, limit):
        """Return what becomes of the tasks of the dead."""
        outcomes = {}
        for worker in self.expired:
            for number, task in self.held_by(worker):
                outcomes[number] = self.lose(number, task, limit)
        self.workers -= self.expired
        self.expired = set()
        return outcomes

    def lose(self, number, task, limit):
        task.status, task.handle = "QUEUED", None
        if not task.started:
            return "unspent"
        task.history.append((task.attempt, "lost"))
        counted = task.suspect and task.alone
        task.crashes += counted
        task.suspect, task.alone = task.crashes < limit and not (counted and task.canary), False
        if task.suspect:
            self.failed("lost", LOST)
            return "suspect"
        task.status = "FAILED"
        self.bury(number, LOST)
        return "dead"

    def replay(self, number, run=None, *, canary=False):
        task = self.tasks[number]
        if self.key_holder(task.task_type, task.key) is not None:
            return "conflict"
        self.letters.remove(number)
        self.books["replayed"] += 1
        task.status, task.due, task.replays = "QUEUED", self.now, task.replays + 1
        task.retries, task.crashes, task.suspect, task.deferred = 0, 0, False, False
        task.replay, task.canary = run, canary
        return "replayed"

    def begin_replay(self, number, task_type, limit):
        """Note which are meant: the newest so many, from the oldest of them on."""
        fitting = [n for n in self.letters if task_type in {None, self.tasks[n].task_type}]
        fitting.sort(key=lambda n: self.tasks[n].letter)
        meant = fitting if limit is None else fitting[max(0, len(fitting) - limit) :]
        letters = [(n, self.tasks[n].letter) for n in meant]
        run = ModelReplay(number, letters, len(meant), letters[-1][1] if letters else 0)
        self.replays.append(run)
        return run

    def step(self, run, limit, *, canary):
        """Return how many are queued again, how many stay, and whether some are left."""
        left = [(n, letter) for n, letter in run.meant if n in self.letters and self.tasks[n].letter == letter]
        run.meant, outcomes = left[limit:], [self.replay(n, run, canary=canary) for n, _ in left[:limit]]
        run.replayed += outcomes.count("replayed")
        run.conflicts += outcomes.count("conflict")
        return outcomes.count("replayed"), outcomes.count("conflict")

    def resume(self, run):
        """What of it failed since is taken again at the end, and stops it no more."""
        own = [(n, self.tasks[n].letter) for n in self.letters if self.tasks[n].replay is run]
        own = sorted((each for each in own if each[1] > run.newest), key=lambda each: each[1])
        run.meant, run.total, run.newest = (
            run.meant + own,
            run.total + len(own),
            max([run.newest, *(n for _, n in own)]),
        )
        run.state, run.forgiven = "running", self.buried
        for task in self.tasks.values():
            if task.replay is run and task.status not in LIVE:
                task.canary = False

    def canaries(self, run):
        """Return how many live, how many are done, and the task that stops it."""
        mine = {n: task for n, task in self.tasks.items() if task.canary and task.replay is run}
        dead = [n for n in self.letters if self.tasks[n].replay is run and self.tasks[n].letter > run.forgiven]
        dead.sort(key=lambda n: self.tasks[n].letter)
        dead += sorted(n for n, task in mine.items() if task.status in {"CANCELLED", "DISCARDED"})
        statuses = [task.status for task in mine.values()]
        return sum(each in LIVE for each in statuses), statuses.count("DONE"), dead[0] if dead else None

    def discard(self, number):
        self.letters.remove(number)
        self.books["discarded"] += 1
        self.tasks[number].status = "DISCARDED"

    def cancel(self, number):
        self.tasks[number].status = "CANCELLED"
        self.books["cancelled"] += 1

    def prune(self):
        """Return how many had ended, which are gone now."""
        over = [number for number, task in self.tasks.items() if task.status in {"DONE", "CANCELLED", "DISCARDED"}]
        for number in over:
            self.books[f"pruned_{self.tasks.pop(number).status.lower()}"] += 1
        for cause, seen in self.last_seen.items():
            if seen < self.now - GROUPS_KEPT and not self.dead_by(cause):
                self.failures[cause] = 0
        return len(over)

    def end_cooldown(self, resource):
        """Make due now what waits for the end: tasks moved to it, and tasks deferred until shortly after it."""
        until = self.cooling.pop(resource, 0)
        for task in self.tasks.values():
            waits = task.due == until or (task.deferred and task.due <= until + COOLDOWN_TAIL)
            if task.status == "QUEUED" and task.resource == resource and self.now < task.due and waits:
                task.due = self.now
