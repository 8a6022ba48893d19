"""Settings of single calls and computed resources, on every store: stored with the row, honoured by the worker."""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest

import child_tasks
import outlast
from conformance.acting import LATER, NAMES, add, claim, die, register, task
from outlast.errors import ConfigError, NetworkError, PayloadError, PermanentError
from outlast.ports.rows import DeadLetterFilter, Reason, Status, TaskFilter

NOW = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0)
URLS = [{"url": f"https://host{n}.example/{n}"} for n in range(40)]


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool", lease=2, heartbeat=0.2)


def host_of(url: str) -> str:
    return url.split("/")[2]


def scraping(app, **settings):
    ran = []

    @app.task(resource=host_of, **settings)
    def scrape(url: str, depth: int = 1):
        ran.append(url)

    return scrape, ran


def failing(app, **settings):
    @app.task(**settings)
    def call():
        raise NetworkError("the line is down")

    return call


def resources(app):
    return [each.resource for each in reversed(app.store.find(TaskFilter(limit=1000)))]


def test_what_is_stored_comes_back_with_the_claim(store):
    texts = ['{"max_attempts":1}', '{"note":"tab\\t, quote \\" and \\\\"}', None]
    for many in (1, 3, 1500):  # one row, several, and what is added in bulk
        add(store, *(task(options=texts[n % 3], resource=NAMES[n % 3]) for n in range(many)))
    add(store, task(options=texts[0], unique_key="k"), task(options=texts[0], expires=LATER))
    register(store)
    claimed = claim(store, limit=2000)
    assert len(claimed) == 1506
    assert [each.options for each in claimed[4:1504]] == [texts[n % 3] for n in range(1500)]
    assert [each.resource for each in claimed[4:1504]] == [NAMES[n % 3] for n in range(1500)]
    assert {each.options for each in claimed[1504:]} == {texts[0]}
    assert store.get(claimed[0].id).options == texts[0]


def test_a_raw_row_has_no_options(store, database):
    connection = database.connect()
    connection.execute("INSERT INTO task_queue (task_type) VALUES ('scrape')")
    connection.commit()
    connection.close()
    register(store)
    (claimed,) = claim(store)
    assert claimed.options is None


@pytest.mark.parametrize(("options", "attempts"), [({}, 3), ({"max_attempts": 1}, 1), ({"max_attempts": 5}, 5)])
def test_attempts_of_one_call(app, options, attempts):
    call = failing(app)
    number = call.options(**options).enqueue().id
    app.worker().drain()
    assert app.store.get(number).retry_count == attempts
    assert app.store.dead_letters(DeadLetterFilter())[0].reason is Reason.EXHAUSTED


def test_settings_of_a_task_need_no_policy_object(app):
    call = failing(app, max_attempts=2, base_delay=0, backoff="fixed")
    assert call.policy == NOW.replace(max_attempts=2, backoff="fixed")
    call.enqueue()
    app.worker().drain()
    assert app.store.dead_letters(DeadLetterFilter())[0].retry_count == 2


def test_delays_of_one_call(app):
    call = failing(app)
    options = {"base_delay": timedelta(hours=1), "max_delay": 7200, "backoff": "fixed", "jitter": "none"}
    number = call.options(**options).enqueue().id
    before = datetime.now(UTC)
    assert app.worker().drain() == 1
    wait = app.store.get(number).next_run_after - before
    assert timedelta(minutes=59) < wait < timedelta(minutes=61)


def test_a_timeout_of_one_call(app):
    @app.task(max_attempts=1)
    async def slow():
        await asyncio.sleep(60)

    slow.options(timeout=0.05).enqueue()
    begun_at = time.monotonic()
    assert app.worker().drain() == 1
    assert time.monotonic() - begun_at < 30
    assert "cancelled after 0.05 s" in app.store.dead_letters(DeadLetterFilter())[0].error_message


def test_a_timeout_of_one_call_runs_a_function_in_a_child_process(app):
    sleep = app.task(max_attempts=1)(child_tasks.sleep)
    sleep.options(timeout=1.5).enqueue(60)
    assert app.worker().drain() == 1
    assert "killed after 1.5 s" in app.store.dead_letters(DeadLetterFilter())[0].error_message


def test_a_dead_letter_keeps_the_options_and_a_replay_honours_them(app):
    call = failing(app)
    number = call.options(max_attempts=2, resource="special").enqueue().id
    app.worker().drain()
    (letter,) = app.store.dead_letters(DeadLetterFilter())
    assert (letter.options, letter.resource, letter.retry_count) == ('{"max_attempts":2}', "special", 2)
    assert app.dead_letters.replay(ids=[letter.id])
    app.worker().drain()
    (again,) = app.store.dead_letters(DeadLetterFilter())
    assert (again.options, again.resource, again.retry_count) == ('{"max_attempts":2}', "special", 2)
    assert app.store.get(number).replays == 1


def test_a_rescued_task_keeps_its_options(store):
    (number,) = add(store, task(options='{"max_attempts":1}', resource="api"))
    register(store)
    claim(store)
    die(store)
    store.rescue(crash_limit=3)
    register(store, "w2")
    (suspect,) = claim(store, "w2", suspect=True)
    assert (suspect.id, suspect.options, suspect.crash_count) == (number, '{"max_attempts":1}', 0)
    die(store, "w2")
    store.rescue(crash_limit=1)
    assert store.dead_letters(DeadLetterFilter())[0].options == '{"max_attempts":1}'


@pytest.mark.parametrize(
    ("stored", "attempts"),
    [
        ('{"max_attempts":2,"from_the_future":true}', 2),
        ('{"max_attempts":"many"}', 3),
        ('{"backoff":["x"],"max_attempts":1}', 1),
        ('{"timeout":5}', 3),  # its function cannot be imported by another process
        ("[1,2]", 3),
        ("not JSON", 3),
        ("null", 3),
    ],
)
def test_what_a_worker_does_not_understand_is_logged_and_ignored(app, stored, attempts, caplog):
    failing(app)
    (number,) = add(app.store, task("call", options=stored))
    with caplog.at_level(logging.WARNING):
        app.worker().drain()
    assert app.store.get(number).retry_count == attempts
    assert "is ignored" in caplog.text


def test_every_way_to_enqueue_computes_the_resource(app, database):
    scrape, ran = scraping(app)
    scrape.enqueue("https://a.example/1")
    scrape.enqueue(url="https://b.example/1")
    scrape.enqueue("https://c.example/1", 2, delay=LATER)
    scrape.enqueue(url="https://d.example/1", unique_key="d")
    asyncio.run(scrape.enqueue_async("https://e.example/1"))
    scrape.options(max_attempts=9).enqueue("https://f.example/1")
    scrape.options(resource="mine").enqueue("https://f.example/1")
    connection = database.connect()
    scrape.enqueue("https://g.example/1", connection=connection)
    scrape.options(connection=connection).enqueue("https://h.example/1")
    scrape.enqueue_many([{"url": "https://i.example/1"}, {"url": "https://j.example/1"}], connection=connection)
    connection.commit()
    connection.close()
    scrape.enqueue_many([{"url": "https://k.example/1", "unique_key": "k"}, {"url": "https://l.example/1"}])
    expected = ["a", "b", "c", "d", "e", "f", "mine", *"ghijkl"]
    assert [(each or "").removesuffix(".example") for each in resources(app)] == expected
    app.worker().drain()
    assert len(ran) == len(expected) - 1


def test_many_at_once_have_their_own_resources_and_the_options_of_all(app):
    scrape, _ = scraping(app)
    calls = [{"url": f"https://host{n}.example/"} for n in range(2500)]
    added = scrape.options(max_attempts=7).enqueue_many(calls)
    assert len(added) == 2500
    tasks = [app.store.get(added[n].id) for n in (0, 1, 999, 1000, 2499)]
    assert [each.resource for each in tasks] == [f"host{n}.example" for n in (0, 1, 999, 1000, 2499)]
    assert {each.options for each in tasks} == {'{"max_attempts":7}'}
    assert app.store.counts()["QUEUED"] == 2500


@pytest.mark.parametrize("many", [1, 2, 30])
def test_a_computed_resource_that_cools_down_holds_up_its_tasks_alone(app, many):
    scrape, ran = scraping(app)
    app.store.start_cooldown("host0.example", 600, "asked to wait")
    later = scrape.enqueue(URLS[0]["url"], run_at=datetime.now(UTC) + timedelta(days=2)).id
    scrape.enqueue_many(URLS[:many])
    soon = datetime.now(UTC) + timedelta(minutes=1)
    waiting = [each for each in app.store.find(TaskFilter(limit=100)) if each.next_run_after > soon]
    assert sorted(each.resource for each in waiting) == ["host0.example"] * 2
    assert app.store.get(later).next_run_after > datetime.now(UTC) + timedelta(days=1)
    app.worker().drain()
    assert sorted(ran) == sorted(each["url"] for each in URLS[1:many])


def test_a_server_that_asks_for_a_wait_holds_up_its_own_host_alone(app):
    ran = []

    @app.task(resource=host_of)
    def scrape(url: str):
        ran.append(url)
        if "host1" in url:
            raise outlast.errors.RateLimitError("slow down", retry_after=600)

    for call in URLS[:3] + URLS[:3]:
        scrape.enqueue(**call)
    app.worker(concurrency=1).drain()
    assert [each.resource for each in app.store.cooldowns()] == ["host1.example"]
    assert len([url for url in ran if "host1" not in url]) == 4


def test_an_error_in_the_function_fails_the_enqueue(app):
    scrape, _ = scraping(app)
    said = "task scrape: the resource function failed with IndexError"
    for call in (
        lambda: scrape.enqueue("secret"),
        lambda: scrape.enqueue_many([*URLS, {"url": "secret"}]),
        lambda: scrape.enqueue_many([{"url": "secret", "delay": 1}]),
        lambda: scrape.options(max_attempts=2).enqueue("secret"),
    ):
        with pytest.raises(PayloadError, match=said) as caught:
            call()
        assert "secret" not in str(caught.value)
        assert isinstance(caught.value.__cause__, IndexError)
    assert app.store.counts()["QUEUED"] == 0


@pytest.mark.parametrize("answer", ["", 7, "a\x00b", "x" * 201])
def test_what_is_no_name_fails_the_enqueue(app, answer):
    @app.task(resource=lambda: answer)
    def call():
        pass

    with pytest.raises(ConfigError, match="resource is"):
        call.enqueue()
    assert app.store.counts()["QUEUED"] == 0


def test_a_periodic_task_computes_its_resource(app):
    @app.periodic(every=1, resource=lambda host: host)
    def poll(host: str = "default.example"):
        pass

    app.schedule.begin(app.store)
    time.sleep(1.05)
    assert app.schedule.tick(app.store) == 1
    assert resources(app) == ["default.example"]


def test_failed_targets_are_handed_over_with_their_resource(app):
    scrape, _ = scraping(app)

    @app.job("pages", max_failure_rate=1.0, hand_over=scrape, policy=outlast.RetryPolicy(max_attempts=1))
    def pages(context, target):
        raise PermanentError("gone")

    pages.run([each["url"] for each in URLS[:3]])
    assert sorted(resources(app)) == ["host0.example", "host1.example", "host2.example"]


def test_each_host_of_a_pattern_has_its_own_limit(app):
    scrape, ran = scraping(app)
    app.limit("host*.example", rate="1/h", burst=2)
    app.limit("host1.example", rate="1/h", burst=3)
    scrape.enqueue_many([{"url": f"https://host{n % 3}.example/{n}"} for n in range(15)])
    scrape.enqueue_many([{"url": f"https://other.example/{n}"} for n in range(5)])
    app.worker().drain()
    assert sorted(map(host_of, ran)) == [
        *["host0.example"] * 2, *["host1.example"] * 3, *["host2.example"] * 2, *["other.example"] * 5,
    ]  # fmt: skip
    assert [(each.resource, each.burst) for each in app.store.limits()] == [
        ("host0.example", 2), ("host1.example", 3), ("host2.example", 2),
    ]  # fmt: skip


def test_a_pattern_limits_retries_and_slots_of_each_host(app):
    ran = []
    app.limit("*", concurrency=1, retries="1/h", retry_burst=1)

    @app.task(resource=lambda host: host)
    def call(host: str):
        ran.append(host)
        raise NetworkError("down")

    call.enqueue_many([{"host": host} for host in ("a", "a", "b")])
    app.worker().drain()
    assert set(ran) == {"a", "b"}
    assert app.store.counts()["QUEUED"] == 3
    assert [each.resource for each in app.store.limits()] == ["a", "b"]


def test_idle_limits_and_slots_are_removed(app, database):
    scrape, _ = scraping(app)
    app.limit("*.example", rate="100/s", concurrency=5)
    scrape.enqueue_many(URLS)
    app.worker().drain()
    assert len(app.store.limits()) == len(URLS)
    register(app.store, "busy")
    scrape.enqueue("https://host7.example/held")
    (held,) = claim(app.store, "busy")
    connection = database.connect()
    mark = "?" if database.kind == "sqlite" else "%s"
    connection.execute(
        f"INSERT INTO resource_slots VALUES ({mark}, {mark}, 'host7.example')", (held.id, held.epoch)
    )  # a mark
    old = "asked_at = asked_at - 90000, tat = tat - 90000, slot_spread = 0, spread = 0"
    connection.execute(f"UPDATE resource_limits SET {old} WHERE resource <> 'host5.example'")  # ours
    connection.commit()
    app.store.prune(done_before=3600)
    left = [
        connection.execute(f"SELECT resource FROM {name} ORDER BY resource").fetchall()  # a table
        for name in ("resource_limits", "resource_slots")
    ]
    connection.close()
    assert [[name for (name,) in each] for each in left] == [["host5.example"], ["host7.example"]]


def test_ten_thousand_hosts_with_one_task(app):
    scrape, ran = scraping(app)
    app.limit("*.example", rate="5/s")
    scrape.enqueue_many([{"url": f"https://h{n}.example/"} for n in range(10_000)])
    worker = app.worker(concurrency=20)
    assert worker.drain() == 10_000
    assert len(set(ran)) == 10_000
    assert app.store.counts()["DONE"] == 10_000
    assert {each.status for each in app.store.find(TaskFilter(limit=10))} == {Status.DONE}
