"""What keeps pages live is read again when it is out of date, whatever fails on the way."""

import sqlite3

import pytest

import outlast
from outlast.web import live
from outlast.web.live import EventLog, LiveReader
from outlast.web.pages.overview import board_steps, read_board


class Clock:
    """A clock that goes on by a tick with every read."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(live, "monotonic", made)
    return made


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    made.create_schema()
    yield made
    made.close()


def beat(read, clock, times=1):
    for _ in range(times):
        clock.now += 2.0
        read.read({"overview"})


def locked(*_args, **_more):
    raise sqlite3.OperationalError("database is locked")


def test_tasks_that_wait_are_counted_again_though_nothing_in_the_pulse_changed(app, clock):
    @app.task(resource="bank.example.com")
    def pay():
        pass

    app.store.start_cooldown("bank.example.com", 3600, "429")
    read = LiveReader(app)
    beat(read, clock, 20)
    assert [wait.tasks for wait in read.board.waits] == [0]
    for _ in range(3):
        pay.enqueue()
    beat(read, clock, 40)
    assert [wait.tasks for wait in read.board.waits] == [3]


def test_a_board_of_long_ago_is_not_shown_to_whoever_comes_back(app, clock):
    app.store.start_cooldown("bank.example.com", 3600, "429")
    read = LiveReader(app)
    beat(read, clock, 20)
    assert read.board is not None
    app.store.end_cooldown("bank.example.com")
    app.store.start_cooldown("other.example.com", 3600, "429")  # as many as before
    clock.now += 7200
    assert read.stale()
    read.forget()
    beat(read, clock)
    assert read.board is None
    beat(read, clock, 20)
    assert [wait.resource for wait in read.board.waits] == ["other.example.com"]


@pytest.mark.parametrize("step", ["failures", "failure_flow", "cooldowns", "breakers", "waiting_for"])
def test_a_statement_that_fails_is_tried_again_and_nothing_is_left_out(app, clock, monkeypatch, step):
    @app.task
    def scrape():
        raise ValueError("no")

    scrape.enqueue()
    app.worker(concurrency=1).drain()
    app.store.start_cooldown("bank.example.com", 3600, "429")
    read, failed = LiveReader(app), 0
    with monkeypatch.context() as patch:
        patch.setattr(type(app.store), step, locked)
        for _ in range(40):
            try:
                beat(read, clock)
            except sqlite3.OperationalError:
                failed += 1
    assert failed > 1
    assert read.board is None
    assert clock.now - read._pulse_at < 5, "the pulse is read in between"
    beat(read, clock, 30)
    assert [group.task_type for group in read.board.groups] == ["scrape"]
    assert [wait.resource for wait in read.board.waits] == ["bank.example.com"]
    assert read.board == read_board(app.store, read.pulse.at)


def test_a_store_that_may_only_be_read_is_no_outage(app, clock, monkeypatch, caplog):
    tries, pulse = [], app.store.pulse

    def forbidden(*_):
        tries.append(1)
        locked()

    monkeypatch.setattr(type(app.store), "roll_up", forbidden)
    monkeypatch.setattr(type(app.store), "pulse", lambda _, **how: pulse(**how)._replace(not_rolled_up=3600.0))
    read = LiveReader(app)
    beat(read, clock, 300)
    assert len(tries) == 1
    beat(read, clock, 300)
    assert len(tries) == 2
    assert caplog.text.count("cannot roll up") == 1


def test_tasks_whose_pages_are_open_are_looked_at_in_turn(app, clock, monkeypatch):
    @app.task
    def scrape():
        pass

    numbers = [scrape.enqueue().id for _ in range(3)]
    views = {"page", "overview", "replays", *(f"task-{number}" for number in numbers), "task-99", "task-0", "task-x"}
    read, asked = LiveReader(app), []
    for name in ("pulse", "get", "replay_runs", "failures", "cooldowns"):
        real = getattr(type(app.store), name)
        monkeypatch.setattr(type(app.store), name, lambda *a, _r=real, _n=name, **k: asked.append(_n) or _r(*a, **k))
    for _ in range(40):
        clock.now += 2.0
        before = len(asked)
        read.read(views)
        assert len(asked) - before <= 1, "one statement a tick"
    assert {"pulse", "get", "replay_runs", "failures", "cooldowns"} == set(asked), "each has its turn"
    assert set(read.marks) == {*numbers, 99}
    assert read.marks[99] == "gone"
    before = dict(read.marks)
    app.tasks.cancel(numbers[0])
    for _ in range(60):
        clock.now += 2.0
        read.read(views)
    assert {each for each in numbers if read.marks[each] != before[each]} == {numbers[0]}
    for _ in range(4):
        clock.now += 2.0
        read.read({f"task-{numbers[1]}"})
    assert set(read.marks) == {numbers[1]}


def test_a_breaker_of_a_process_that_died_is_not_open(app):
    app.store.report_breakers("host:1:x", [("bank.example.com", "open", 1800.0, "5 of 5 failed")])
    app.store.report_breakers("host:2:x", [("mail.example.com", "open", 1800.0, "5 of 5 failed")])
    app.store.order_breaker("ordered.example.com", "open")  # which no process has
    assert app.store.pulse().open_breakers == 2
    with sqlite3.connect(app.store.db.path) as database:
        database.execute("UPDATE breakers SET updated_at = updated_at - 1800000 WHERE resource LIKE 'bank%'")
    assert app.store.pulse().open_breakers == 1
    board = read_board(app.store, app.store.now())
    assert [(wait.resource, wait.how) for wait in board.waits] == [("mail.example.com", "breaker")]


def test_a_board_is_read_one_statement_at_a_time(app):
    app.store.start_cooldown("bank.example.com", 3600, "429")
    steps = list(board_steps(app.store, app.store.now()))
    assert len(steps) == 6  # groups, flows, tasks, cooldowns, breakers, and one that waits


def test_fragments_of_pages_that_nobody_looks_at_are_dropped():
    news = EventLog()
    for number in range(300):
        news.publish_parts(f"overview/{number}", "a<!-- part -->b")
    news.publish_for_all("pulse", {"x": 1})
    news.keep({"overview/7"})
    assert set(news._events) == {"pulse", "overview/7 0", "overview/7 1"}
    assert len(list(news.since({}, "overview/7"))) == 3
