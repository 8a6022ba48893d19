"""What the tests do again and again, in few words."""

from datetime import UTC, datetime

from outlast.ports.rows import (
    Claim,
    DeadLetterFilter,
    Kind,
    NewTask,
    Note,
    Reason,
    SettleAndClaim,
    Settlement,
    WorkerRow,
)

NOTE = Note(
    error_type="TimeoutError",
    error_message="timed out after 30 s",
    error_category="network",
    fingerprint="f1",
    failure='{"category": "network", "n": 9007199254740993}',
    traceback="Traceback (most recent call last): …",
)
LATER = 3600.0
NAMES = [
    "it's",
    'say "hi"',
    "a; b -- c",
    "100%_sure",
    "back\\slash",
    "'); DROP TABLE task_queue; --",
    "日本語",
    "🦊",
    " spaced ",
    "{a,b}",
    "null",
    "",
]


def task(name="scrape", parameters="{}", **more):
    return NewTask(name, parameters, **more)


def add(store, *tasks):
    """Enqueue and return the numbers."""
    return [each.id for each in store.enqueue(tasks or (task(),))]


def register(store, worker_id="w1", lease=60.0, **more):
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    worker = WorkerRow(worker_id, "name", "host", 42, ("default",), 10, "running", 0, True, moment, moment)
    store.register(worker._replace(**more), lease)


def turn(store, worker_id="w1", *, done=(), settlements=(), start=(), claim=None):
    return store.settle_and_claim(SettleAndClaim(worker_id, list(done), list(settlements), list(start), claim))


def claim(store, worker_id="w1", limit=10, start=None, queues=("default",), suspect=False):
    asked = Claim(tuple(queues), limit, limit if start is None else start, suspect)
    return turn(store, worker_id, claim=asked).claimed


def hold(store, worker_id="w1", limit=10, queues=("default",)):
    """Claim without starting."""
    return claim(store, worker_id, limit, 0, queues)


def settle(store, claimed, kind, worker_id="w1", **more):
    """Settle one task and return what was refused."""
    return turn(store, worker_id, settlements=[Settlement(claimed.id, claimed.epoch, kind, **more)]).refused


def retry(store, claimed, worker_id="w1", delay=0.0, note=NOTE):
    return settle(store, claimed, Kind.RETRY, worker_id, delay=delay, note=note)


def fail(store, claimed, worker_id="w1", note=NOTE, reason=Reason.EXHAUSTED):
    return settle(store, claimed, Kind.FAIL, worker_id, note=note, reason=reason)


def die(store, worker_id="w1"):
    """Let a worker's lease run out."""
    store.heartbeat(worker_id, -1, "running")


def bury(store, new=None, note=NOTE, reason=Reason.EXHAUSTED):
    """Enqueue a task and let it fail; return its dead letter."""
    new = new or task()
    (number,) = add(store, new)
    register(store, "undertaker")
    (claimed,) = claim(store, "undertaker", 1, queues=(new.queue,))
    assert claimed.id == number
    assert fail(store, claimed, "undertaker", note, reason) == []
    store.leave("undertaker")
    return store.dead_letters(DeadLetterFilter())[0]


def ids(rows):
    return [row.id for row in rows]


def live_counts(store):
    """Return the counts that are not 0."""
    return {name: number for name, number in store.counts().items() if number}
