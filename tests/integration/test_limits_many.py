"""Two thousand tasks of one limited resource: they fail together, or wait together, and nothing is lost or spins."""

import threading
import time

import pytest

import outlast
from conformance.places import PostgresPlace, need_postgres
from conformance.test_worker_life import working
from crash.processes import until
from outlast.errors import NetworkError
from outlast.ports.rows import TaskFilter

MANY = 2000
LATE = 3.0  # seconds that may pass on a busy machine between a place and its being written


@pytest.fixture
def place(postgres_server):
    need_postgres()
    made = PostgresPlace(postgres_server, "postgres").blank()
    yield made
    made.close()


@pytest.fixture
def app(place, tmp_path):
    made = outlast.App(place.open(), spool=tmp_path / "spool")
    made.create_schema()
    return made


def test_retries_of_all_that_fail_together_keep_to_the_budget(app):
    app.limit("api", retries="50/s", retry_burst=50)
    later = outlast.RetryPolicy(
        max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=600, max_delay=600, jitter="none"
    )

    @app.task(resource="api", policy=later)
    def call(n: int):
        raise NetworkError("all is down")

    call.enqueue_many([{"n": n} for n in range(MANY)])
    assert app.worker(concurrency=50).drain() == MANY
    tasks = app.store.find(TaskFilter(limit=MANY + 1))
    assert len(tasks) == MANY
    assert {(each.status, each.retry_count) for each in tasks} == {("QUEUED", 1)}
    times = sorted(each.next_run_after.timestamp() for each in tasks)
    for seconds in (1, 5, 20):
        allowed, last = 50 + 50 * (seconds + LATE), 0
        for first, begin in enumerate(times):
            while last < MANY and times[last] <= begin + seconds:
                last += 1
            assert last - first <= allowed, f"{last - first} within {seconds} s"
    assert times[-1] - times[0] >= (MANY - 50) / 50, "they are spread out"
    assert app.store.event_totals()["retried"] == MANY
    assert app.store.counter_check()[1] == app.store.counts()
    assert app.store.recount() == {}


def test_all_that_wait_are_claimed_a_few_times_and_are_in_nobodys_way(app, place):
    app.limit("api", rate="20/s", concurrency=5)
    free = threading.Event()

    @app.task(resource="api", priority=0)
    def call(n: int):
        """Do nothing; it is about the starts."""

    @app.task
    def other():
        free.set()

    call.enqueue_many([{"n": n} for n in range(MANY)])
    other.enqueue()
    began = time.monotonic()
    with working(app, concurrency=10), place.connect() as connection:
        connection.autocommit = True

        def claims():
            sql = "SELECT count(*) FILTER (WHERE lease_epoch = 0), sum(lease_epoch) FROM task_queue"
            return connection.execute(sql).fetchone()

        assert free.wait(120), "what has no limit is not held up by what waits for one"
        until(lambda: claims()[0] == 0, 120, lambda: f"all were claimed: {claims()}")
        time.sleep(1.5)  # for whoever would ask again and again
        claimed, seconds = claims()[1], time.monotonic() - began
    tasks = app.store.find(TaskFilter(limit=MANY + 2))
    assert len(tasks) == MANY + 1
    assert claimed <= MANY + 100 + 4 * 20 * seconds, "each is sent to a place of its own, and left alone until then"
    assert all(each.attempt == (each.status == "DONE") for each in tasks), "no attempt is spent"
    assert app.store.counter_check()[1] == app.store.counts()
