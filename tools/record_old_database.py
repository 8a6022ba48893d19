"""Record what the tests compare later versions with: two databases in use, and the schema of two empty ones.

Usage: python tools/record_old_database.py

Writes tests/data/old_*.sql, old_databases.json and schema_*.txt. Run it on purpose only: the data is worth something
because an earlier version wrote it. tests/data/README.md says which. Needs the tests' packages.
"""

from __future__ import annotations

import getpass
import gzip
import json
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cli_world import World  # noqa: E402  # the tests are no package that is installed
from conformance.acting import claim, die, register  # noqa: E402
from integration import old_databases as old  # noqa: E402
from integration.schema_listing import postgres_schema, sqlite_schema  # noqa: E402
from outlast.decide.limits import Candidate, ResourceLimit  # noqa: E402
from outlast.ports.rows import NewTask  # noqa: E402
from outlast.ports.source_rows import AlertResult, NewAlert, NewSource  # noqa: E402
from outlast.ports.store import LimitRequest  # noqa: E402
from outlast.queue.replay import Replayer  # noqa: E402
from servers.postgres import PostgresServer  # noqa: E402

if TYPE_CHECKING:
    from outlast import App

PERSON = "maria@office"
HOST = "old-host"
_REAL_HOST, _REAL_USER = socket.gethostname(), getpass.getuser()
UNTIL_FAR = (old.FAR - datetime.now(UTC)).total_seconds()
_REST = 3.0  # seconds after which leases, retries and cooldowns of the data are over
_DELTAS = 11.0  # seconds after which what happened is added up
_PATHS = {str(ROOT): "/srv/shop", sys.prefix: "/srv/venv", f"{sys.base_prefix}/lib": "/srv/python/lib"}


def main() -> None:
    """Record all files."""
    socket.gethostname = lambda: HOST
    os.environ["LOGNAME"] = PERSON.partition("@")[0]
    logging.getLogger("outlast").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        server = PostgresServer(Path(folder, "postgres"), max_connections=50)
        server.start()
        try:
            _record(Path(folder), server)
        finally:
            server.stop()


def _record(folder: Path, server: PostgresServer) -> None:
    _write("schema_sqlite.txt", "\n".join(sqlite_schema(folder / "empty.db")) + "\n")
    _write("schema_postgres.txt", "\n".join(postgres_schema(server, "empty")) + "\n")
    server.execute("CREATE DATABASE used")
    for url in (f"sqlite:///{folder}/used.db", f"{server.url.rpartition('/')[0]}/used"):
        app = old.build(url, newer=False)
        app.create_schema()
        fill(app)
        app.close()
    time.sleep(_REST)
    with closing(sqlite3.connect(folder / "used.db")) as connection:
        _write(old.DUMPS["sqlite"].name, _scrubbed("\n".join(connection.iterdump())))
    _write(old.DUMPS["postgres"].name, _scrubbed(_dumped(server)))
    world = World(folder)
    counts = {
        "sqlite": _counts(world, lambda name: old.load("sqlite", path=folder / f"{name}.db")),
        "postgres": _counts(world, lambda name: old.load("postgres", server=server, name=name)),
    }
    _write(old.COUNTS.name, json.dumps(counts, indent=1, ensure_ascii=False) + "\n")


def _counts(world: World, load: Any) -> dict[str, Any]:
    """Read one copy, and run another to its end: what this version makes of the data is what a later one must."""
    read, worked = load("read"), load("worked")
    return {
        "failing checks": old.failing_checks(read),
        "lists": old.lists(world, read),
        "tables": old.tables(read),
        "rows": old.rows(read),
        "outcomes": old.outcomes(worked),
    }


def fill(app: App) -> None:
    """Use an app for all that it can do; at the end no worker is alive."""
    _end_tasks(app)
    _triage(app)
    time.sleep(_DELTAS)
    app.store.roll_up()
    _watch_sources(app)
    app.items.run(range(8))
    app.store.add_run("20260101T000000-0dead0", "exports", "item", "production", None)
    _operate(app)
    _fail_once(app)
    _leave_waiting(app)
    _lose_workers(app)


def _work(app: App) -> None:
    app.worker(concurrency=2, name="old-worker").drain()


def _end_tasks(app: App) -> None:
    """Have tasks end in every way that there is, except by a crash."""
    tasks = app.tasks_by_name
    for n in range(6):
        tasks["fetch_page"].enqueue(n)
    for n in range(8):
        tasks["charge_card"].enqueue(n)
    for n in range(5):
        tasks["send_invoice"].enqueue(n)
    tasks["charge_card"].enqueue(8, unique_key="order-8")
    tasks["import_feed"].enqueue(1)
    tasks["sync_order"].enqueue(1)
    tasks["fetch_page"].enqueue(20, expires=0.01)
    app.store.enqueue([NewTask("fetch_page", '{"pages":1}')])
    time.sleep(0.1)
    for _ in range(3):  # retries of import_feed come after a second
        _work(app)
        time.sleep(1.1)
    app.tasks.cancel(tasks["fetch_page"].enqueue(21, delay=3600.0).id)


def _triage(app: App) -> None:
    """Discard, edit and acknowledge; leave a replay that is done and one that was stopped."""
    box = app.dead_letters
    refused = [letter for letter in box.list(task_type="charge_card") if letter.unique_key is None]
    box.discard(refused[0].id, who=PERSON, why="paid in cash")
    box.edit(
        refused[1].id, [{"op": "replace", "path": "/n", "value": 77}],
        definition=app.tasks_by_name["charge_card"], who=PERSON, why="wrong card",
    )  # fmt: skip
    box.acknowledge(refused[0].fingerprint, who=PERSON)
    box.note(refused[0].fingerprint, "see the ticket", who=PERSON)
    box.snooze(box.list(task_type="import_feed")[0].fingerprint, 3600.0, who=PERSON)
    replayer = Replayer(app.store, lambda: "old-worker-replays")
    app.tasks_by_name["charge_card"].enqueue(9, unique_key="order-8", run_at=old.FAR)
    taken = [letter.id for letter in box.list(task_type="charge_card") if letter.unique_key == "order-8"]
    box.replay_later(ids=[*taken, refused[2].id], canary=False, who=PERSON, why="try again")
    replayer.advance_replays()
    _work(app)
    box.replay_later(ids=[letter.id for letter in refused[3:6]], who=PERSON, why="once more")
    replayer.advance_replays()
    _work(app)
    replayer.advance_replays()  # its canary has failed, which stops it


def _watch_sources(app: App) -> None:
    """Poll feeds to every health, and leave a cycle that nobody ends."""
    monitor = app.monitor("feed", fetch=old.fetch, name="old-monitor")
    app.sources.add_many([NewSource(f"https://feeds.test/{n}", "feed", f"feed {n}") for n in range(4)])
    for _ in range(5):
        monitor.cycle()
    app.sources.add_many([NewSource(f"https://feeds.test/{n}", "feed", f"feed {n}") for n in range(4, 8)])
    monitor.cycle()
    app.sources.enable("https://feeds.test/1")
    app.store.add_sources([NewSource("https://blogs.test/8", "blog", selector="h1")])
    cycle = app.store.open_cycle("blog")
    assert cycle is not None
    app.store.claim_sources(cycle.id, "old-monitor", 1, 1.0)
    app.store.raise_alerts([NewAlert(f"matter:{n}", "bad", f"title {n}", "more about it") for n in range(3)])
    first, second = [alert for alert in app.store.claim_alerts(100, 1.0) if alert.key in {"matter:0", "matter:1"}]
    app.store.settle_alerts([AlertResult(first.id, first.epoch, ("chat",), None)])
    app.store.settle_alerts([AlertResult(second.id, second.epoch, ("chat",), 1.0, "mail is down")])


def _operate(app: App) -> None:
    """Pause, cool, limit and order, as people and workers do."""
    app.store.pause("mail")
    app.store.report_breakers(
        "old-process", [("api.test", "open", 3600.0, "5 failures"), ("other.test", "closed", None, "")]
    )
    app.store.order_breaker("billing.test", "open")
    app.store.order_breaker("other.test", "closed")
    limit = ResourceLimit("limited.test", rate=0.3, burst=2, concurrency=3, retries=0.7)
    app.store.admit([LimitRequest(limit, tuple(Candidate(n, 1) for n in range(1000, 1004)), mean=0.1)])
    app.store.reserve_retries(limit, 3)
    app.store.audit(PERSON, "pause_queue", "queue:mail", {"tasks": 2}, "the mail server moves")


def _fail_once(app: App) -> None:
    """Leave tasks that failed and are tried again, one that was deferred, and two whose names nobody knows."""
    tasks = app.tasks_by_name
    tasks["sync_order"].enqueue(2)
    tasks["import_feed"].enqueue(2)
    tasks["call_api"].enqueue(1)
    app.store.enqueue([NewTask("write_report", '{"n":1}'), NewTask("retired_task", "{}", unique_key="retired")])
    _work(app)


def _leave_waiting(app: App) -> None:
    """Leave tasks that no worker has had yet, and a replay whose first task is queued. No worker may run after this."""
    tasks = app.tasks_by_name
    for n in range(2):
        tasks["call_slow_api"].enqueue(n)
    app.store.start_cooldown("slow.test", UNTIL_FAR, "asked us to come back much later")
    for n in range(2):
        tasks["send_mail"].enqueue(n)
    tasks["send_mail"].enqueue(2, expires=1.0)
    tasks["fetch_page"].enqueue(30, priority=2)
    tasks["charge_card"].enqueue(30)
    tasks["fetch_page"].enqueue(31, run_at=old.FAR, unique_key="order-7")
    tasks["fetch_page"].enqueue(32, run_at=old.FAR)
    invoices = [letter.id for letter in app.dead_letters.list(task_type="send_invoice")]
    app.dead_letters.replay_later(ids=invoices, who=PERSON, why="the template is there")
    Replayer(app.store, lambda: "old-worker-replays").advance_replays()


def _lose_workers(app: App) -> None:
    """Have workers die with tasks in their hands, some of them again and again."""
    store = app.store
    store.enqueue([NewTask("resize_image", '{"n":1}', queue="images")])
    _lose(store, ("images",))
    _lose(store, ("images",), suspect=True)  # a suspect that has crashed once
    store.enqueue([NewTask("resize_image", '{"n":2}', priority=0)])
    _lose(store)
    for _ in range(3):
        _lose(store, suspect=True)  # the third crash is its last
    store.enqueue([NewTask("resize_image", '{"n":3}', priority=0)])
    _lose(store)
    for _ in range(2):
        _lose(store, suspect=True)
    store.enqueue([NewTask("fetch_page", f'{{"n":{n}}}', priority=0) for n in (40, 41)])
    register(store, "lost-alone", 1.0)
    assert len(claim(store, "lost-alone", 1, suspect=True)) == 1  # its next crash is its last
    register(store, "lost", 1.0)
    assert len(claim(store, "lost", 1)) == 1  # begun
    assert len(claim(store, "lost", 1, 0)) == 1  # not begun


def _lose(store: Any, queues: tuple[str, ...] = ("default",), *, suspect: bool = False) -> None:
    register(store, "dying")
    assert len(claim(store, "dying", 1, queues=queues, suspect=suspect)) == 1
    die(store, "dying")
    assert len(store.rescue(3)) == 1


def _dumped(server: PostgresServer) -> str:
    options = ["--inserts", "--no-owner", "--no-privileges", "--no-comments"]
    program = server._binaries / "pg_dump"  # noqa: SLF001  # the server brings it
    target = f"{server.url.rpartition('/')[0]}/used"
    text = subprocess.run([program, *options, target], check=True, capture_output=True, text=True).stdout
    # Commands of psql, and a setting that older servers do not know.
    return re.sub(r"^(\\(un)?restrict .*|SET transaction_timeout .*)\n", "", text, flags=re.MULTILINE)


def _scrubbed(text: str) -> str:
    """Return a dump without the paths of this machine; refuse one that names it or its user."""
    for path, shown in _PATHS.items():
        text = text.replace(path, shown)
    for name in (_REAL_HOST, _REAL_USER):
        assert not re.search(rf"\b{re.escape(name)}\b", text), name
    return text


def _write(name: str, text: str) -> None:
    data = text.encode()
    (old.DATA / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    print(f"tests/data/{name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
