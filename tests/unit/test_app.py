"""The app and its tasks: what may be said of them, and what is refused with a reason."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import outlast
from outlast.errors import ConfigError, PayloadError
from outlast.queue.periodic_tasks import next_time_function
from outlast.stores.urls import spool_folder


@pytest.fixture
def app(tmp_path):
    return outlast.App("memory://", spool=tmp_path)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://localhost/x", "use sqlite:///file.db, postgresql://"),
        ("tasks.db", "use sqlite:///tasks.db"),
        ("/var/tasks.db", "use sqlite:////var/tasks.db"),
        ("sqlite://", "has no file name"),
        ("sqlite://host/x.db", "has no file name"),
    ],
)
def test_urls_that_name_no_store(url, said):
    with pytest.raises(ConfigError, match=said):
        outlast.App(url)


def test_a_spool_stays_where_it_is_when_the_password_changes():
    def folder(url):
        return spool_folder(url, None)

    here = folder("postgresql://ada:old@db:5432/shop?sslmode=require")
    assert folder("postgresql://ada:new@db:5432/shop?sslmode=require&password=x") == here
    others = ["bob:old@db:5432/shop", "ada:old@two:5432/shop", "ada:old@db:5433/shop", "ada:old@db:5432/other"]
    others.append("ada:old@db:5432/shop?options=-csearch_path%3Dother")
    assert len({here, *(folder(f"postgresql://{each}") for each in others)}) == 6


def test_sqlite_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert outlast.App("sqlite:///a/b.db").store.db.path == tmp_path / "a" / "b.db"
    assert str(outlast.App(f"sqlite:///{tmp_path}/c.db").store.db.path) == f"{tmp_path}/c.db"
    assert outlast.App().store.db.path == tmp_path / "outlast.db"
    assert list(tmp_path.iterdir()) == []  # nothing is opened yet


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lease": 0}, "lease is 0"),
        ({"lease": None}, "lease is None"),
        ({"lease": 4, "heartbeat": 3}, "must be at least two heartbeats long"),
        ({"crash_limit": 0}, "crash_limit is 0"),
        ({"suspect_memory": 0}, "suspect_memory is 0"),
        ({"suspect_memory": 1000}, "suspect_memory is 1000; give bytes, 1048576 or more"),
        ({"suspect_memory": True}, "suspect_memory is True"),
        ({"suspect_timeout": 0}, "suspect_timeout is 0"),
        ({"grace": -1}, "grace is -1"),
        ({"keep_dead": float("nan")}, "keep_dead is nan"),
        ({"keep_done": "1d"}, "keep_done is '1d'"),
    ],
)
def test_settings_that_cannot_be_used(settings, said):
    with pytest.raises(ConfigError, match=said):
        outlast.App("memory://", **settings)


def test_retention_is_explicit():
    """Pitfall 58: dead letters are kept for ever unless somebody says otherwise."""
    settings = outlast.App("memory://").settings
    assert settings.keep_dead is None
    assert settings.keep_done == 7 * 86400
    assert outlast.App("memory://", keep_done=None).settings.keep_done is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"priority": 10}, r"from 0 \(first\) to 9 \(last\)"),
        ({"priority": -1}, "priority is -1"),
        ({"priority": True}, "priority is True"),
        ({"queue": ""}, "queue is ''"),
        ({"queue": "a\x00b"}, "queue is"),
        ({"queue": "\ud800"}, "queue is"),
        ({"name": "x" * 201}, "name is"),
        ({"timeout": 0}, "timeout is 0"),
        ({"expires": -1}, "expires is -1"),
        ({"resource": 5}, "resource is 5"),
        ({"policy": 5}, "policy is 5"),
        ({"retries": 5}, "'retries' is not a setting of a task; choose from: backoff, base_delay, expires"),
    ],
)
def test_task_settings_that_cannot_be_used(app, settings, said):
    with pytest.raises(ConfigError, match=said):

        @app.task(**settings)
        def task():
            pass


def test_functions_that_cannot_be_tasks(app):
    def generator():
        yield 1

    async def async_generator():
        yield 1

    def reserved(delay: int):
        pass

    for thing, said in (
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (reserved, "'delay' is also an option of enqueue"),
        (int, "cannot be a task"),
        (5, "cannot be a task"),
    ):
        with pytest.raises(ConfigError, match=said):
            app.task(thing)

    @app.task
    def twice():
        pass

    with pytest.raises(ConfigError, match="another name="):
        app.task(twice.function)
    with pytest.raises(ConfigError, match="cannot be a task"):
        app.task(twice)


def test_a_sync_task_with_a_timeout_must_be_found_by_name(app):
    with pytest.raises((ConfigError, outlast.errors.ConfigurationError), match="another process cannot import it"):

        @app.task(timeout=1)
        def local():
            pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": -1}, "delay is -1"),
        ({"delay": 1, "run_at": datetime.now(UTC)}, "not both"),
        ({"run_at": datetime(2026, 1, 1)}, "aware datetime"),  # noqa: DTZ001  # pitfall 45
        ({"run_at": 5}, "aware datetime"),
        ({"run_at": datetime.max.replace(tzinfo=UTC)}, "at most a hundred years"),
        ({"run_at": datetime(1, 1, 2, tzinfo=UTC)}, "after 1970"),
        ({"unique_key": ""}, "unique_key is ''"),
        ({"priority": 99}, "priority is 99"),
        ({"expires": "soon"}, "expires is 'soon'"),
    ],
)
def test_enqueue_options_that_cannot_be_used(app, options, said):
    @app.task
    def task():
        pass

    with pytest.raises(ConfigError, match=said):
        task.enqueue(**options)
    with pytest.raises(ConfigError, match=said):
        task.enqueue_many([{}], **options)
    with pytest.raises(ConfigError, match="'retries' is not an option of a call"):
        task.enqueue_many([{}], retries=1)
    assert app.tasks.counts()["QUEUED"] == 0


def test_enqueue_checks_the_arguments(app):
    @app.task
    def task(x: int):
        pass

    for arguments in ({}, {"y": 1}, {"x": object()}, {"x": "5"}, {"x": 1.5}, {"x": None}):
        with pytest.raises(PayloadError):
            task.enqueue(**arguments)
    task.enqueue(True)  # is a number, in Python
    with pytest.raises(PayloadError, match="the limit is 100"):
        outlast.App("memory://", payload_limit=100).task(
            lambda text: None,
        ).enqueue("x" * 200)
    for calls in ([("x", 1)], [5]):
        with pytest.raises(ConfigError, match="mappings"):
            task.enqueue_many(calls)


def test_words_that_mean_nothing_are_refused(app):
    with pytest.raises(ConfigError, match="choose one of: QUEUED"):
        app.tasks.list(status="bogus")
    for which in ({"category": "netwrk"}, {"reason": "tired"}):
        for verb in (app.dead_letters.list, app.dead_letters.count, app.dead_letters.groups, app.dead_letters.replay):
            with pytest.raises(ConfigError, match="choose one of"):
                verb(**which)


def test_files_that_are_not_ours(tmp_path):
    with pytest.raises(ConfigError, match="folder of the database does not exist"):
        outlast.App(f"sqlite:///{tmp_path}/nowhere/x.db").tasks.counts()
    for number, table in enumerate(("schema_version (version INTEGER)", "task_queue (id INTEGER)")):
        file = tmp_path / f"{number}.db"
        with sqlite3.connect(file) as own:
            own.execute(f"CREATE TABLE {table}")
        own.close()
        with pytest.raises(ConfigError, match="Outlast did not create"):
            outlast.App(f"sqlite:///{file}").tasks.counts()


def test_enqueue_options(app):
    @app.task(queue="a", priority=3, expires=timedelta(hours=1))
    def task(x: int):
        pass

    plain = app.tasks.show(task.enqueue(1).id).task
    assert (plain.queue, plain.priority) == ("a", 3)
    assert (plain.expires_at - plain.created_at).total_seconds() == 3600
    at = datetime.now(UTC) + timedelta(days=400)
    other = app.tasks.show(task.enqueue(1, run_at=at, queue="b", priority=0, unique_key="k").id).task
    assert (other.queue, other.priority, other.unique_key) == ("b", 0, "k")
    assert abs(other.next_run_after - at) < timedelta(milliseconds=2)
    assert task.enqueue(2, unique_key="k") == (other.id, False)
    many = task.enqueue_many([{"x": 1, "unique_key": "k"}, {"x": 2, "delay": timedelta(minutes=1)}], priority=1)
    assert [each.created for each in many] == [False, True]
    assert app.tasks.show(many[1].id).task.priority == 1
    assert task.enqueue_many([]) == []


def test_cancel_and_hurry(app):
    @app.task
    def task():
        pass

    first, second = task.enqueue(delay=3600), task.enqueue(delay=3600)
    assert app.tasks.cancel(first.id, 999) == [first.id]
    assert app.tasks.run_now(first.id, second.id) == [second.id]
    app.worker().drain()
    assert [each.status for each in app.tasks.list()] == ["DONE", "CANCELLED"]
    with pytest.raises(LookupError):
        app.tasks.show(999)
    with pytest.raises(LookupError):
        app.dead_letters.show(999)


def test_pausing_a_queue(app):
    seen = []
    task = app.task(name="t")(lambda: seen.append(1))
    app.tasks.pause("default")
    task.enqueue()
    app.worker().drain()
    assert seen == []
    assert app.tasks.queues()[0].paused
    app.tasks.resume("default")
    app.worker().drain()
    assert seen == [1]


def test_worker_looks_in_all_queues_of_its_tasks(app):
    app.task(name="a", queue="mail")(lambda: None)
    app.task(name="b")(lambda: None)
    assert app.worker().queues == ("default", "mail")
    assert app.worker("mail").queues == ("mail",)


class TestRecurrence:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({}, "give either every"),
            ({"every": 5, "cron": "* * * * *"}, "give either every"),
            ({"every": 0.5}, "every is 0.5"),
            ({"cron": "61 * * * *"}, "which has no next time"),
            ({"cron": "never"}, "give five fields"),
            ({"cron": "* * * * * *"}, "give five fields"),
            ({"cron": "0 0 30 2 *"}, "which has no next time"),
        ],
    )
    def test_bad_ones_are_refused_at_once(self, app, settings, said):
        with pytest.raises(ConfigError, match=said):
            app.periodic(**settings)

    def test_nobody_gives_arguments(self, app):
        with pytest.raises(ConfigError, match="must not have required parameters"):

            @app.periodic(every=5)
            def tick(x: int):
                pass

    def test_next_times(self):
        noon = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
        assert next_time_function(90, None)(noon) == noon + timedelta(seconds=90)
        assert next_time_function(None, "30 2 * * *")(noon) == datetime(2026, 6, 2, 2, 30, tzinfo=UTC)
        tokyo = next_time_function(None, "0 9 * * *", ZoneInfo("Asia/Tokyo"))
        assert tokyo(noon) == datetime(2026, 6, 2, 0, 0, tzinfo=UTC)

    def test_a_change_of_the_clock_changes_no_interval(self):
        """Pitfall 45: 02:30 does not exist on that day; what is meant runs once."""
        berlin = next_time_function(None, "30 2 * * *", ZoneInfo("Europe/Berlin"))
        before = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
        first = berlin(before)
        assert first.date() == datetime(2026, 3, 29, tzinfo=UTC).date()
        assert berlin(first).date() == datetime(2026, 3, 30, tzinfo=UTC).date()


def test_the_callers_own_transaction_on_a_new_file(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path}/new.db")

    @app.task
    def task():
        pass

    own = sqlite3.connect(tmp_path / "new.db")
    own.execute("CREATE TABLE orders (id INTEGER)")
    own.execute("INSERT INTO orders VALUES (1)")
    task.enqueue(connection=own)
    own.commit()
    app.worker().drain()
    assert app.tasks.counts()["DONE"] == 1


def test_on_change_must_be_a_function():
    app = outlast.App("memory://")
    with pytest.raises(ConfigError, match="on_change is 3; give a function that takes a Changed, or None"):
        app.monitor(on_change=3)
    app.close()


@pytest.mark.parametrize("policy", ["patient", 3])
def test_a_policy_that_is_not_one_is_refused_with_the_ways_to_get_one(policy):
    name = policy if isinstance(policy, str) else "NAME"
    way = rf"outlast\.preset\('etl'\), or a policy of outlast\.toml: outlast\.configure\(\)\.policies\['{name}'\]"
    with pytest.raises(outlast.errors.ConfigError, match=way):
        outlast.App("memory://", policy=policy)
    with pytest.raises(outlast.errors.ConfigError, match=way):
        outlast.App("memory://").task(policy=policy)(print)


@pytest.mark.parametrize(
    ("start", "instead"),
    [
        (lambda app: app.worker().run(), r"worker\.run_async\(\)"),
        (lambda app: app.worker().drain(), r"worker\.drain_async\(\)"),
        (lambda app: app.monitor().run(), r"monitor\.run_async\(\)"),
        (lambda app: app.monitor().cycle(), r"monitor\.cycle_async\(\)"),
    ],
)
def test_a_running_event_loop_is_refused_with_what_to_write(app, start, instead):
    async def main():
        start(app)

    with pytest.raises(ConfigError, match=rf"an event loop is already running; use: await {instead}"):
        asyncio.run(main())
