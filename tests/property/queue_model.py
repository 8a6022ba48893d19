"""A small model of the queue, written from what the port promises and from no store."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st

from holdfast.ports.rows import NewTask

LIVE = {"QUEUED", "RUNNING", "PARKED"}
LOST = "lost"
LATER = 3600.0

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
    replays: int = 0
    suspect: bool = False
    alone: bool = False
    started: bool = False
    worker: str | None = None
    handle: object = None  # what the last claim gave out; nobody else may settle
    cause: str = ""  # of its dead letter
    history: list[tuple[int, str]] = field(default_factory=list)


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

    def settle(self, number, kind, delay, cause=None):
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
            task.history.append((task.attempt, "retry"))
            self.failed("retried", cause)
        elif kind == "defer":
            task.status, task.deferrals = "QUEUED", task.deferrals + 1
            task.due = max(self.now + delay, self.cooling.get(task.resource, 0))
            self.failed("deferred", cause)
        elif kind == "fail":
            task.status, task.retries = "FAILED", task.retries + 1
            task.history.append((task.attempt, "fail"))
            self.bury(number, cause)
        elif kind == "release":
            task.status = "QUEUED"
        elif kind == "park":
            task.status = "PARKED"

    def failed(self, event, cause):
        self.books[event] += 1
        if cause is not None:
            self.failures[cause] += 1

    def bury(self, number, cause):
        self.letters.add(number)
        self.tasks[number].cause = cause
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
        task.crashes += task.suspect and task.alone
        task.suspect, task.alone = task.crashes < limit, False
        if task.suspect:
            self.failed("lost", LOST)
            return "suspect"
        task.status = "FAILED"
        self.bury(number, LOST)
        return "dead"

    def replay(self, number):
        task = self.tasks[number]
        if self.key_holder(task.task_type, task.key) is not None:
            return "conflict"
        self.letters.remove(number)
        self.books["replayed"] += 1
        task.status, task.due, task.replays = "QUEUED", self.now, task.replays + 1
        task.retries, task.crashes, task.suspect = 0, 0, False
        return "replayed"

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
        return len(over)

    def warm(self, resource):
        until = self.cooling.pop(resource, 0)
        for task in self.tasks.values():
            if task.status == "QUEUED" and task.resource == resource and self.now < task.due == until:
                task.due = self.now
