"""A SQLite file as months of use leave it: every state that there is, made by workers, monitors, jobs and people."""

from __future__ import annotations

import shutil
import sqlite3
from itertools import count
from pathlib import Path

import pytest

import outlast
from conformance.acting import NAMES, claim, register
from outlast.decide.limits import Candidate, ResourceLimit
from outlast.errors import NetworkError, PermanentError, RateLimitError, ResourceNotFoundError
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import DeadLetterFilter, NewTask, TaskFilter
from outlast.ports.source_rows import AlertResult, NewAlert, NewSource, SourceFilter
from outlast.ports.store import LimitRequest
from outlast.queue.replay import Replayer
from outlast.stores.move.move import MoveNames, cancel_move, move, open_source, open_target
from outlast.stores.sqlite.store import SqliteStore

LATER = 3600.0
QUICK = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0.01, jitter="none")
LATE = outlast.RetryPolicy(max_attempts=4, retry_on=outlast.RETRYABLE, base_delay=LATER, max_delay=LATER, jitter="none")
ODD = "\\N tab\t cr\r nl\n \\. \\ \\\\ '\" {a,b} \x01 🦊 日本語"
"""What COPY would take for something else."""
NAMES_OF_BOTH = MoveNames("sqlite:///here", "postgresql://there")
_numbers = count(1)
_used = []


def new_database(server):
    """Return the URL of an empty database."""
    name = f"moved{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return f"{server.url.rpartition('/')[0]}/{name}"


def build(url, folder):  # noqa: C901  # a list of tasks
    """Return the app. A file named ``fixed`` has what was broken succeed, and ``ran`` has a line for each run."""
    app = outlast.App(url, policy=QUICK)
    folder = Path(folder)

    def ran(name, n):
        with (folder / "ran").open("a", encoding="utf-8") as file:
            file.write(f"{name} {n}\n")

    @app.task(keep_result=LATER)
    def fine(n: int, text: str = "") -> str:
        ran("fine", n)
        return f"{n} {text}"

    @app.task(policy=LATE)
    def flaky(n: int) -> None:
        ran("flaky", n)
        if outlast.current_task().retry_count < 1:
            raise NetworkError("the line is down")

    @app.task
    def broken(n: int) -> None:
        ran("broken", n)
        if not (folder / "fixed").exists():
            raise PermanentError(f"no such thing {ODD}")

    @app.task(resource="api.test")
    def limited(n: int) -> None:
        ran("limited", n)
        raise RateLimitError("slow down", retry_after=LATER)

    @app.job("items", entity="item", policy=QUICK, max_failure_rate=1.0)
    def items(context, target):
        ran("items", target)
        if target % 4 == 3 and not (folder / "fixed").exists():
            raise PermanentError("no such item")

    @app.periodic(every=LATER)
    def hourly() -> None:
        ran("hourly", 0)

    app.items = items
    return app


def fetch(source):
    """Feeds of which every second one is gone."""
    if source.url.endswith(("1", "3", "5", "7", "9")):
        raise ResourceNotFoundError("gone")
    return "entry"


def poll(app, times=1):
    """Have a monitor poll all sources."""
    for _ in range(times):
        app.monitor("feed", fetch=fetch).cycle()


def fill(app):
    """Use an app for all that it can do; at the end nobody is alive."""
    fine, flaky, broken = (app.tasks_by_name[name] for name in ("fine", "flaky", "broken"))
    for n, text in enumerate([*NAMES, ODD]):
        fine.enqueue(n, text)
    for n in range(12):
        broken.enqueue(n)
    broken.enqueue(99, unique_key="dead")
    app.tasks_by_name["limited"].enqueue(1)
    app.store.enqueue([NewTask("nobody.knows", "{}", unique_key="parked")])
    app.worker(concurrency=4).drain()
    flaky.enqueue(1)
    app.tasks.cancel(fine.enqueue(50, delay=LATER).id)
    fine.enqueue(51, delay=LATER, unique_key="live", priority=2)
    app.worker().drain()
    _triage(app)
    _poll_and_tell(app)
    app.items.run(range(8))
    app.store.pause("mail")
    app.store.start_cooldown("slow.test", LATER, "asked us to")
    app.store.order_breaker("api.test", "open", LATER)
    app.store.order_breaker("other.test", "closed")
    limit = ResourceLimit(f"limited {ODD}", rate=0.3, burst=2, concurrency=3, retries=0.7)
    app.store.admit([LimitRequest(limit, tuple(Candidate(n, 1) for n in range(1000, 1004)), mean=0.1)])
    app.store.reserve_retries(limit, 3)
    app.store.reserve_retries(ResourceLimit("retried", retries=1 / 3), 1)
    _age(app)
    fine.enqueue(52, delay=LATER)  # in no book yet
    _lose_a_worker(app)


def _triage(app):
    """Replay one, discard one, edit one, leave a replay with a canary half-way, and one that was resumed."""
    box = app.dead_letters
    letters = [each for each in box.list() if each.unique_key is None]
    box.discard(letters[-1].id)
    box.edit(
        letters[-2].id,
        [{"op": "replace", "path": "/n", "value": 77}],
        definition=app.tasks_by_name["broken"],
    )
    group = box.groups()[0].fingerprint
    box.note(group, "see the ticket")
    box.acknowledge(group)
    app.store.add_chart_mark("deploy", "v1.2", "ada")
    replayer = Replayer(app.store, lambda: "r1")
    first = box.replay_later(ids=[each.id for each in letters[2:6]])
    replayer.advance_replays()
    app.worker(concurrency=1).drain()  # the canary fails, which stops it
    replayer.advance_replays()
    box.resume_replay(first.id)
    replayer.advance_replays()  # its next canary is queued


def _poll_and_tell(app):
    app.sources.add_many([NewSource(f"https://feeds.test/{n}", "feed", f"feed {n}") for n in range(6)])
    poll(app, 3)
    app.store.add_sources([NewSource("https://feeds.test/8", "blog", selector="h1")])
    cycle = app.store.open_cycle("blog")
    app.store.claim_sources(cycle.id, "m1", 1, 0.0)
    app.store.raise_alerts([NewAlert(f"key {n}", "bad", f"title {n}", ODD) for n in range(3)])
    first, second = app.store.claim_alerts(2, 60)
    app.store.settle_alerts([AlertResult(first.id, first.epoch, ("slack", 'we "b"\\'), None)])
    app.store.settle_alerts([AlertResult(second.id, second.epoch, ("slack",), LATER, "mail is down")])


def _age(app):
    """Have the books rolled up: half of what is in them, as if it had happened a while ago."""
    older = "UPDATE task_flow SET at = at - 20000, seen = seen - 20000 WHERE span = 0"
    execute(app.store.db.path, f"{older} AND event <> 'failed'")
    app.store.roll_up()
    execute(app.store.db.path, older)
    app.store.roll_up()


def _lose_a_worker(app):
    """Have a worker die with a task that it had begun, and one that it had only taken."""
    lost = SqliteStore(app.store.db.path, synchronous="NORMAL")
    lost.enqueue([NewTask("fine", '{"n":60}', queue="lost"), NewTask("fine", '{"n":61}', queue="lost")])
    register(lost, "lost")
    assert len(claim(lost, "lost", 1, queues=("lost",))) == 1
    assert len(claim(lost, "lost", 1, 0, queues=("lost",))) == 1
    lost.close()


def snapshot(store):
    """Return all that a store tells, in a form that is the same for both databases."""
    tasks = store.find(TaskFilter(limit=100_000))
    sources = store.sources(SourceFilter())
    runs = store.runs(limit=1000)
    return {
        "tasks": tasks,
        "attempts": [store.attempts(each.id) for each in tasks],
        "results": [store.result(each.id) for each in tasks],
        "edits": [store.edits(each.id) for each in tasks],
        "letters": store.dead_letters(DeadLetterFilter()),
        "groups": sorted(store.failures(FailureFilter(limit=1000)).rows),
        "replays": store.replay_runs(limit=1000),
        "canaries": [store.canaries(each.id) for each in store.replay_runs(limit=1000)],
        "sources": [each._replace(leased_until=None) for each in sources],
        "polls": [store.polls(each.id, 100) for each in sources],
        "cycles": store.cycles(None, 1000),
        "alerts": store.alerts(limit=1000),
        "runs": runs,
        "targets": [store.targets(each.id) for each in runs],
        "cooldowns": store.cooldowns(),
        "queues": [each[:2] for each in store.queues()],
        "audits": store.audits(limit=1000),
        "books": store.event_totals(),
        "ledger": store.counter_check(),
        "counts": store.dead_letter_counts(),
        "orders": [each[:3] for each in store.breaker_orders(0)],
        "flow": {each.fingerprint: each.failures for each in store.failures(FailureFilter(limit=1000)).rows},
    }


def run_move(source_url, target_url, *, names=NAMES_OF_BOTH, **more):
    """Move without the command line."""
    with open_source(source_url) as source, open_target(target_url) as target:
        return move(source, target, names, **more)


def interrupted(source_url, target_url, point, *, names=NAMES_OF_BOTH):
    """Move until a step, and give a Ctrl-C there."""

    def stop(step):
        if step.doing == point:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_move(source_url, target_url, names=names, batch=5, progress=stop)


def give_up(source_url, target_url, names=NAMES_OF_BOTH):
    """Cancel without the command line."""
    with open_source(source_url) as source, open_target(target_url) as target:
        return cancel_move(source, target, names)


def check_same(source_url, target_url):
    """See that both sides tell the same; what they tell."""
    with open_source(source_url) as source, open_target(target_url) as target:
        there, here = snapshot(target.store), snapshot(source.store)
        for name, rows in here.items():
            assert there[name] == rows, name
        times = "SELECT name, next_run_at, last_run_at FROM periodic"
        ran = [
            [row[0], *(each and round(each.timestamp() * 1000) for each in row[1:])]
            for row in target.connection.execute(times)
        ]
        assert [*map(tuple, ran)] == source.connection.execute(times).fetchall()
        limits = (
            f"SELECT {', '.join(source.columns('resource_limits')[0])} FROM resource_limits ORDER BY mean, resource"
        )
        assert target.connection.execute(limits).fetchall() == source.connection.execute(limits).fetchall()
        return here


def execute(path, sql, *values):
    """Run a statement in a file, beside Outlast."""
    connection = sqlite3.connect(path, timeout=10)
    try:
        with connection:
            return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


@pytest.fixture(scope="session")
def used_file(tmp_path_factory):
    """A file that was used for everything; tests take copies of it. All modules share it."""
    if not _used:
        folder = tmp_path_factory.mktemp("used")
        app = build(f"sqlite:///{folder}/outlast.db", folder)
        fill(app)
        app.close()
        _used.append(folder / "outlast.db")
    return _used[0]


@pytest.fixture
def here(used_file, tmp_path):
    """The URL of a copy; what the tasks leave is beside it."""
    for name in (used_file.name, "ran"):
        shutil.copy(used_file.with_name(name), tmp_path / name)
    workers = used_file.with_name("outlast.db-workers")
    shutil.copytree(workers, tmp_path / workers.name)  # where the lost one has left its lock
    return f"sqlite:///{tmp_path}/outlast.db"


@pytest.fixture
def there(postgres_server):
    return new_database(postgres_server)
