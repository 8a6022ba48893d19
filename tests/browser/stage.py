"""A lively store, built through Outlast's own interfaces: something of everything that a page can show.

On SQLite what happens is spread over the last hours, for that store asks the clock of the process. On PostgreSQL, which
has a clock of its own, all of it happens now.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import outlast
from browser import texts
from browser.cast import define
from outlast import clock, errors
from outlast.decide.limits import Candidate, ResourceLimit
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import Claim, DeadLetterFilter, NewTask, SettleAndClaim, WorkerRow
from outlast.ports.source_rows import NewAlert, NewSource
from outlast.ports.store import LimitRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

BEYOND = 2**53
"""Numbers above it are rounded by whoever reads them as floating point; the last tasks and dead letters have such."""
_MINUTE = 60.0
_TROUBLES = ("timeout", "unreadable", "denied", "invalid", "quota", "configuration", "integrity")


@dataclass
class Stage:
    """The store and what stands in it.

    Attributes:
        app: Whose store it is.
        source: Numbers of sources, one for each state.
        run: Runs of jobs by how they ended.
        task: Numbers of tasks that a page is opened for.
        workers: Ids of the workers that are alive; the first holds a task.
    """

    app: outlast.App
    source: dict[str, int] = field(default_factory=dict)
    run: dict[str, str] = field(default_factory=dict)
    task: dict[str, int] = field(default_factory=dict)
    workers: tuple[str, ...] = ()

    def enqueue(self, name: str, **arguments: Any) -> int:
        return self.app.tasks_by_name[name].enqueue(**arguments).id

    def drain(self, *queues: str) -> int:
        """Work through what is due, as a worker that comes and goes."""
        worker = self.app.worker(queues or ["default", "mail"], concurrency=4, name="comes-and-goes")
        with _unheard(), ThreadPoolExecutor(1) as thread:  # the browser has a loop in this one
            return thread.submit(worker.drain).result()

    def fail(self, name: str = "fetch_page", count: int = 1, **arguments: Any) -> list[int]:
        """Have tasks fail for good now; return their numbers."""
        given = arguments or {"url": "https://shop.test/gone"}
        numbers = [self.enqueue(name, **given) for _ in range(count)]
        self.drain()
        return numbers

    def letter_of(self, task: int) -> int:
        """Return the number of a task's dead letter."""
        letters = self.app.store.dead_letters(DeadLetterFilter())
        return next(each.id for each in letters if each.original_task_id == task)

    def close(self) -> None:
        for worker in self.workers:
            with suppress(Exception):
                self.app.store.leave(worker)
        self.app.close()


class _Past:
    """The system's clock, so many seconds ago; waits are real ones."""

    def __init__(self, ago: float) -> None:
        self.ago = ago

    def now(self) -> float:
        return time.time() - self.ago

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    sleep_async = staticmethod(clock.sleep_async)
    chance = staticmethod(lambda: 0.5)


@contextmanager
def _minutes_ago(minutes: float) -> Iterator[None]:
    before = clock.use(_Past(minutes * _MINUTE))
    try:
        yield
    finally:
        clock.use(before)


def build(url: str, *, tame: bool = False, **settings: Any) -> Stage:
    """Create the tables and fill them; takes a second or two.

    Args:
        url: Where.
        tame: Whether all names and texts are such as people have; for a picture to show around.
        settings: Of the app.
    """
    with _unheard():
        return _built(url, tame=tame, **settings)


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep the many failures of a stage out of the log; those of a test are the ones to read."""
    log = logging.getLogger("outlast")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _built(url: str, *, tame: bool, **settings: Any) -> Stage:
    app = outlast.App(url, lease=3600, heartbeat=900, notify=[_undelivered], **settings)
    app.store.create_schema()
    define(app, tame=tame)
    stage = Stage(app)
    _sources(stage, tame=tame)
    for act, minutes in enumerate(range(121, 0, -2) if tame else (170, 110, 55, 35, 18, 6, 1)):
        with _minutes_ago(minutes):
            _tame_traffic(stage, act, minutes) if tame else _traffic(stage, act)
    _alone(stage, tame=tame)
    _jobs(stage, tame=tame)
    if not tame:
        _number_beyond(app, url)
    _last_words(stage, tame=tame)
    _workers(stage, tame=tame)
    _waits(stage, tame=tame)
    _people(stage, tame=tame)
    app.store.roll_up()
    return stage


def _undelivered(message: object) -> None:
    raise errors.AuthenticationError("the pager refuses the key")  # permanent, so that no job waits for a retry


def _traffic(stage: Stage, act: int) -> None:
    """Have tasks done, tried again and buried; each act has a trouble of its own."""
    app = stage.app
    app.tasks_by_name["fetch_page"].enqueue_many(
        [{"url": f"https://shop.test/{act}/{n}"} for n in range(6 + 17 * act % 23)]
    )
    app.tasks_by_name["fetch_page"].enqueue_many([{"url": "https://shop.test/gone"}] * (1 + act % 3))
    app.tasks_by_name["fetch_page"].enqueue_many([{"url": "https://shop.test/broken"}] * (2 + 5 * act % 8))
    app.tasks_by_name["send_mail"].enqueue_many([{"to": f"reader{act}{n}@mail.test"} for n in range(4)])
    stage.enqueue("import_rows", trouble=_TROUBLES[act % len(_TROUBLES)], batch=act)
    stage.enqueue("import_rows", trouble="data", batch=act)
    if act == 0:
        stage.task["history"] = stage.enqueue("patient", url=texts.ADDRESS_WITH_SECRET)
    elif act <= 3:  # where all happens at once, its waits are cut short
        app.tasks.run_now(stage.task["history"])
    if act % 8 >= 4:
        app.tasks_by_name["fetch_page"].enqueue_many([{"url": "https://shop.test/refused"}] * 8)
    stage.drain()


def _tame_traffic(stage: Stage, act: int, minutes: int) -> None:
    """Have most of it done, and a host down for a while."""
    fetch = stage.app.tasks_by_name["fetch_page"]
    fetch.enqueue_many(
        [{"url": f"https://shop.test/{act}/{n}"} for n in range(26 + 7 * act % 11 - 12 * (10 < minutes < 26))]
    )
    fetch.enqueue_many([{"url": "https://shop.test/refused"}] * (7 if 10 < minutes < 26 else 0))
    fetch.enqueue_many([{"url": "https://shop.test/broken"}] * (act % 2))
    fetch.enqueue_many([{"url": "https://shop.test/gone"}] * (act % 5 == 0))
    stage.app.tasks_by_name["send_mail"].enqueue_many([{"to": f"reader{act}{n}@mail.test"} for n in range(5)])
    if act == 0:
        stage.task["history"] = stage.enqueue("patient", url="https://shop.test/list")
    if act % 7 == 3:
        stage.enqueue("import_rows", trouble=_TROUBLES[act // 7 % len(_TROUBLES)])
    stage.drain()


def _alone(stage: Stage, *, tame: bool) -> None:
    """Tasks of which each page is opened: one with a long history, ones that wait, one that was cancelled."""
    stage.task["waiting"] = stage.enqueue("fetch_page", url="https://shop.test/later", delay=7200)
    stage.task["cancelled"] = stage.enqueue("fetch_page", url="https://shop.test/never", delay=7200)
    stage.app.tasks.cancel(stage.task["cancelled"])
    if not tame:
        stage.task["hostile"] = stage.enqueue(texts.SCRIPT, text=texts.NASTY, api_key=texts.SECRETS[0], more=texts.LONG)
        stage.drain(texts.QUEUE)
        stage.app.tasks.pause(texts.QUEUE)
    (parked,) = stage.app.store.enqueue([NewTask("retired_task", "{}")])
    stage.task["parked"] = parked.id
    stage.drain("default")
    stage.task["done"] = stage.enqueue("send_mail", to="last@mail.test")
    stage.drain("mail")
    for number in range(3):
        stage.enqueue("send_mail", to=f"later{number}@mail.test", queue=texts.PAUSED)
    stage.app.tasks.pause(texts.PAUSED)


def _sources(stage: Stage, *, tame: bool) -> None:
    """Sources in all five states, with a history; polled by somebody who reports what came of it."""
    book = stage.app.sources
    given = [
        NewSource("https://blog.test/feed.xml", "feed", "A blog that is well"),
        NewSource("https://slow.test/feed.xml", "feed", "Fails now and then"),
        NewSource("https://gone.test/feed.xml", "feed", "Was taken down"),
        NewSource("https://back.test/feed.xml", "feed", "Came back"),
        NewSource("https://stale.test/", "blog", "Nothing but errors"),
        NewSource("https://off.test/feed.xml", "feed", "Switched off by hand"),
        NewSource("https://odd.test/feed", "feed", "An odd one")
        if tame
        else NewSource(texts.ADDRESS_WITH_SECRET, "feed", texts.NASTY),
    ]
    numbers = [each.id for each in book.add_many(given)]
    numbers += [each.id for each in book.add_many(NewSource(f"https://site{n}.test/feed", "feed") for n in range(60))]
    well, warns, gone, back, stale, off, hostile = numbers[:7]
    forbidden, missing = errors.AuthenticationError("403 Forbidden"), errors.ResourceNotFoundError("404 Not Found")
    for minutes in range(150, 0, -15):
        with _minutes_ago(minutes):
            for number in (well, off, *numbers[7:12]):
                book.record_success(number)
            book.record_failure(gone, missing)
            book.record_failure(back, forbidden)
            book.record_failure(stale, errors.ContentError(texts.ERROR_WITH_SECRET))
            if minutes % 45 == 0:
                book.record_success(warns)
            else:
                book.record_failure(warns, missing)
    book.record_success(back)
    book.record_failure(hostile, RuntimeError("odd" if tame else f"{texts.NASTY} {texts.ERROR_WITH_SECRET}"))
    book.disable(off, "moved" if tame else f"moved {texts.SCRIPT}")
    stage.source = {"healthy": well, "warning": warns, "disabled": gone, "probation": back, "error": stale}
    found = {state: book.get(number).state for state, number in stage.source.items()}
    assert found == {state: state for state in found}, found
    stage.source |= {"off": off, "hostile": hostile}


def _jobs(stage: Stage, *, tame: bool) -> None:
    """Runs that passed, failed and were aborted, one that did the rest of another, and one that nobody ended."""
    prices = stage.app.jobs_by_name["prices"]
    items = [f"item-{number:03}" for number in range(30)]
    stage.run["passed"] = prices.run([*items, "gone-1", "skip-1"], concurrency=1).run_id
    failed = [f"gone-{number:02}" for number in range(12)] + [f"late-{number}" for number in range(4)]
    stage.run["failed"] = prices.run([*items, *failed], concurrency=1).run_id
    stage.run["rest"] = prices.run(only_failed=stage.run["failed"], concurrency=1).run_id
    stage.run["aborted"] = prices.run([*items[:9], "stop-here", *items[9:]], concurrency=1).run_id
    if tame:
        return
    stage.run["hostile"] = (
        stage.app.jobs_by_name[texts.SCRIPT].run([texts.NASTY, texts.LONG[:400]], concurrency=1).run_id
    )
    stage.run["running"] = stage.app.store.add_run("20260101T000000-dead", "prices", "item", "local", None).id


def _waits(stage: Stage, *, tame: bool) -> None:
    """Cooldowns, tasks that wait for them, and breakers in all states, as two processes tell of them."""
    store = stage.app.store
    for city in ("Graz", "Linz", texts.JAPANESE):
        stage.enqueue("weather", city=city)
    store.start_cooldown("shop.test", 900, "429 Too Many Requests", capped=True)
    store.start_cooldown("news.test", 300, "by hand" if tame else f"by hand {texts.SCRIPT}")
    first = [("payments", "open", 900.0, "5 failures in a row"), ("search", "closed", None, "")]
    store.report_breakers(stage.workers[0], first, leased=True)
    odd = ("maps", "open", None, "by hand") if tame else (texts.RESOURCE, "open", None, texts.NASTY)
    store.report_breakers(stage.workers[1], [("payments", "half_open", None, ""), odd], leased=True)
    store.order_breaker("ledger", "open", 600)
    for name in ("shop.test", "maps" if tame else texts.RESOURCE):
        limit = ResourceLimit(name, 0.01, 5, 3, 0.5, 1)
        store.admit([LimitRequest(limit, tuple(Candidate(number, 1) for number in range(9)))])
        store.reserve_retries(limit, 500)


def _people(stage: Stage, *, tame: bool) -> None:
    """What people on call have done: a deploy, a snooze, an acknowledgement and a paused periodic task."""
    store, box = stage.app.store, stage.app.dead_letters
    for minutes, text in ((48, "v1.2"), (5, "v1.3" if tame else texts.NASTY[:80])):
        with _minutes_ago(minutes):
            store.add_chart_mark("deploy", text, "ada")
    groups = store.failures(FailureFilter(category="not_found", task_type="fetch_page")).rows
    for group in groups[:1]:
        box.snooze(group.fingerprint, 7200.0, who="ada")
    stage.app.schedule.pause(store, "refresh_prices")


def _number_beyond(app: outlast.App, url: str) -> None:
    """Raise the numbers of tasks and dead letters, as if there had been so many."""
    tables = ("task_queue", "dead_letter_queue")
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(app.store.db.path, timeout=5)
        for table in tables:
            connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (BEYOND, table))
        connection.commit()
        connection.close()
        return
    import psycopg

    with psycopg.connect(url) as connection:
        for table in tables:
            connection.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", (table, BEYOND))


def _last_words(stage: Stage, *, tame: bool) -> None:
    """Have the newest failures be the worst ones, and leave some tasks ready for whoever comes."""
    for trouble in ("bug", "busy") if tame else ("nasty", "long", "japanese", "bug", "busy"):
        stage.task[trouble] = stage.enqueue("import_rows", trouble=trouble)
    stage.enqueue("send_mail", to="bad@mail.test")
    stage.enqueue("weather", city="Wien")
    for name in stage.app.schedule.names():
        stage.app.schedule.run_now(stage.app.store, name)
    stage.drain()
    for number in range(4):
        stage.enqueue("fetch_page", url=f"https://shop.test/ready/{number}")
    odd = "" if tame else texts.NASTY
    stage.app.store.raise_alerts([NewAlert("outage:feed", "outage", f"feed: 12 of 20 failed {odd}", odd)])


def _workers(stage: Stage, *, tame: bool) -> None:
    """Two workers that live, one of which holds a task, and one that fell silent."""
    store, now = stage.app.store, datetime.now(UTC)
    first = WorkerRow("stage-1", "stage-1", "here", 4242, ("default", "mail"), 8, "running", 0, True, now, now)
    others = [
        first._replace(id="stage-2", name="stage-2"),
        first._replace(id="silent-1", name="silent" if tame else f"silent {texts.SCRIPT}"),
    ]
    for worker, lease in zip((first, *others), (3600, 3600, -1), strict=True):
        store.register(worker, lease)
    stage.workers = (first.id, others[0].id)
    stage.task["running"] = stage.enqueue("fetch_page", url="https://shop.test/slow", priority=0)
    turned = store.settle_and_claim(SettleAndClaim(first.id, [], [], [], Claim(("default",), 1, 1)))
    assert [each.id for each in turned.claimed] == [stage.task["running"]]
