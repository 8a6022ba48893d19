"""The worker on every store: what becomes of tasks that succeed, fail, wait, and cannot even be run."""

import asyncio
import errno
import json
import pickle
import re
import threading
import time

import httpx
import pytest

import outlast
from outlast.observe.json_logs import JsonFormatter
from outlast.ports.rows import NewTask, Status
from outlast.ports.source_rows import NewAlert
from outlast.queue.worker import Worker
from outlast.testing import fake_clock

NOW = outlast.RetryPolicy(max_attempts=3, retry_on=outlast.RETRYABLE, base_delay=0)


@pytest.fixture
def app(store, tmp_path):
    return outlast.App(store, policy=NOW, spool=tmp_path / "spool")


def limited(seconds: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://api.test/")
    response = httpx.Response(429, headers={"Retry-After": seconds}, request=request)
    return httpx.HTTPStatusError("429", request=request, response=response)


def test_sync_and_async_tasks_run_with_their_arguments(app):
    seen = []

    @app.task
    def plain(x: int, *, y: str = "b") -> None:
        seen.append((x, y, threading.current_thread() is threading.main_thread()))

    @app.task
    async def later(x: int) -> None:
        await asyncio.sleep(0)
        seen.append(x)

    assert plain.enqueue(1).created
    plain.enqueue(x=2, y="c")
    later.enqueue_many([{"x": number} for number in range(10, 40)])
    assert app.worker().drain() == 32
    assert {(1, "b", False), (2, "c", False)} == {each for each in seen if isinstance(each, tuple)}
    assert sorted(each for each in seen if isinstance(each, int)) == list(range(10, 40))
    assert app.tasks.counts()[Status.DONE] == 32
    assert plain(3) is None  # called, it runs at once
    assert seen[-1] == (3, "b", True)


def test_a_task_knows_itself(app):
    seen = []

    @app.task
    async def look() -> None:
        seen.append(outlast.current_task())

    number = look.enqueue().id
    app.worker().drain()
    assert [(each.id, each.attempt, each.epoch) for each in seen] == [(number, 1, 1)]
    assert outlast.current_task() is None


def test_results_are_kept_when_asked_for(app):
    @app.task(keep_result=60)
    def double(x: int) -> dict[str, int]:
        return {"x": 2 * x}

    @app.task
    def silent() -> int:
        return 1

    @app.task(keep_result=60)
    def odd():
        return object()  # has no form in JSON: its work is done all the same

    kept, none, strange = double.enqueue(4), silent.enqueue(), odd.enqueue()
    with pytest.raises(LookupError):
        double.result(kept)
    app.worker().drain()
    assert double.result(kept) == {"x": 8}
    for task, ticket in ((silent, none), (odd, strange)):
        with pytest.raises(LookupError):
            task.result(ticket)
    assert app.tasks.counts()[Status.DONE] == 3


@pytest.mark.parametrize("asynchronous", [False, True])
def test_retried_until_it_succeeds(app, asynchronous):
    calls = []

    def body():
        calls.append(outlast.current_task().attempt)
        if len(calls) < 3:
            raise ConnectionError("refused")

    async def body_async():
        body()

    task = app.task(name="flaky")(body_async if asynchronous else body)
    number = task.enqueue().id
    app.worker().drain()
    row, attempts = app.tasks.show(number)
    assert calls == [1, 2, 3]
    assert (row.status, row.attempt, row.retry_count) == (Status.DONE, 3, 2)
    assert [(each.attempt, each.outcome, each.error_category, each.delay) for each in attempts] == [
        (1, "retry", "network", 0.0),
        (2, "retry", "network", 0.0),
    ]


def test_every_end_leaves_a_dead_letter_with_reason_and_history(app):
    """Pitfall 55."""

    @app.task
    def tired():
        raise ConnectionError("refused")

    @app.task
    def wrong():
        raise ValueError("password=hunter2 is wrong")

    @app.task
    def shaped(x: int):
        raise AssertionError("never runs")

    @app.task(expires=0.001)
    def stale():
        raise AssertionError("never runs")

    ids = {each.name: each.enqueue().id for each in (tired, wrong, stale)}
    ids["shaped"] = app.store.enqueue([NewTask("shaped", '{"y": [')])[0].id
    time.sleep(0.01)
    app.worker().drain()
    letters = {each.task_type: each for each in app.dead_letters.list()}
    assert {name: str(each.reason) for name, each in letters.items()} == {
        "tired": "exhausted",
        "wrong": "permanent",
        "shaped": "undecodable",
        "stale": "expired",
    }
    assert [each.outcome for each in app.dead_letters.show(letters["tired"].id).attempts] == ["retry", "retry", "fail"]
    letter, attempts = app.dead_letters.show(letters["wrong"].id)
    assert letter.original_task_id == ids["wrong"]
    assert "hunter2" not in str(letter) + str(attempts)  # pitfall 35
    assert "test_worker.py" in letter.traceback
    assert letter.traceback.endswith("is wrong")
    assert app.tasks.show(ids["wrong"]).task.status == Status.FAILED
    assert len(app.dead_letters.groups()) == 4


def test_a_replayed_task_runs_again(app):
    broken = [True]

    @app.task
    def fixed_later():
        if broken:
            raise ValueError("bug")

    number = fixed_later.enqueue().id
    app.worker().drain()
    broken.clear()
    assert [each.outcome for each in app.dead_letters.replay(all=True)] == ["replayed"]
    app.worker().drain()
    row, attempts = app.tasks.show(number)
    assert (row.status, row.replays, len(attempts)) == (Status.DONE, 1, 1)
    assert app.dead_letters.count() == 0
    with pytest.raises(ValueError, match="all=True"):
        app.dead_letters.replay()


def test_a_hint_defers_the_task_and_cools_its_resource(app):
    calls = []

    @app.task(resource="api.test")
    def ask(x: int):
        calls.append(x)
        raise limited("120")

    @app.task
    def other():
        calls.append("other")

    first, second = ask.enqueue(1), ask.enqueue(2)
    app.worker(concurrency=1).drain()
    other.enqueue()
    late = ask.enqueue(3)
    app.worker(concurrency=1).drain()
    assert calls == [1, "other"]
    rows = [app.tasks.show(each.id).task for each in (first, second, late)]
    assert [(each.status, each.attempt, each.retry_count) for each in rows] == [(Status.QUEUED, 0, 0)] * 3
    assert rows[0].deferrals == 1
    [cooldown] = app.tasks.cooldowns()
    assert cooldown.resource == "api.test"
    assert all((each.next_run_after - rows[0].created_at).total_seconds() >= 119 for each in rows)
    assert app.dead_letters.count() == 0


def test_an_open_breaker_holds_tasks_back_and_spends_no_attempt(app):
    outlast.resource(f"breaker.{id(app)}", breaker=outlast.BreakerSettings(consecutive=2, open_for=60))
    calls = []

    @app.task(resource=f"breaker.{id(app)}", policy=NOW.replace(max_attempts=10))
    async def call():
        calls.append(1)
        raise ConnectionError("refused")

    for _ in range(5):
        call.enqueue()
    app.worker(concurrency=1).drain()
    assert len(calls) == 2
    assert [each.resource for each in app.tasks.cooldowns()] == [f"breaker.{id(app)}"]
    assert app.tasks.counts()[Status.QUEUED] == 5
    assert sum(each.retry_count for each in app.tasks.list()) == 2


def test_unknown_names_are_parked_and_released(app, store, tmp_path, caplog):
    """Pitfalls 42 and 67: a name from the store is text, never imported."""
    store.enqueue([NewTask("os.system", '{"command": "true"}')])

    @app.task
    def known():
        pass

    known.enqueue()
    app.worker().drain()
    assert app.tasks.counts()[Status.PARKED] == 1
    assert app.tasks.counts()[Status.DONE] == 1
    assert "this worker has no task of that name (it has: known)" in caplog.text
    other = outlast.App(store, spool=tmp_path / "spool")
    seen = []
    other.task(name="os.system")(lambda command: seen.extend([command]))
    other.worker().drain()
    assert seen == ["true"]
    assert app.tasks.list(task="os.system")[0].attempt == 1


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError(), asyncio.CancelledError()])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_nothing_a_task_raises_ends_the_worker(app, error, asynchronous):
    def body():
        raise error

    async def body_async():
        raise error

    task = app.task(name="deadly", policy=NOW.replace(max_attempts=1))(body_async if asynchronous else body)

    @app.task
    def harmless():
        pass

    task.enqueue()
    app.worker().drain()
    harmless.enqueue()
    app.worker().drain()
    counts = app.tasks.counts()
    assert (counts[Status.DONE], counts["dead_letters"]) == (1, 1)


def test_a_raising_subscriber_ends_nothing(app):
    def broken(event):
        raise RuntimeError("mine")

    @app.task
    def fails():
        raise ValueError("no")

    fails.enqueue()
    end = outlast.subscribe(broken)
    try:
        app.worker().drain()
    finally:
        end()
    assert app.dead_letters.count() == 1


def test_events(app):
    seen = []

    @app.task
    def flaky():
        raise ConnectionError("refused")

    number = flaky.enqueue().id
    end = outlast.subscribe(seen.append)
    try:
        app.worker().drain()
    finally:
        end()
    kinds = [type(each).__name__ for each in seen]
    again, last = ["TaskStarted", "TaskRetrying", "TaskEnded"], ["TaskStarted", "TaskFailed", "TaskEnded"]
    assert kinds == [*again, *again, *last]
    assert (seen[-2].task, seen[-2].task_id, seen[-2].reason) == ("flaky", number, "exhausted")
    assert [(each.attempt, each.outcome) for each in seen[2::3]] == [(1, "retry"), (2, "retry"), (3, "fail")]
    assert all(each.seconds >= 0 for each in seen[2::3])


def test_a_full_disk_pauses_claiming(app, caplog):
    calls = []

    @app.task(policy=NOW.replace(max_attempts=2))
    def save(x: int):
        calls.append(x)
        raise OSError(errno.ENOSPC, "No space left on device")

    for number in range(5):
        save.enqueue(number)
    worker = app.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    end = time.monotonic() + 30
    while "because of a system failure" not in caplog.text and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.5)
    worker.stop()
    thread.join(30)
    assert len(calls) == 1
    assert "because of a system failure" in caplog.text
    assert app.tasks.counts()[Status.QUEUED] == 5
    assert app.tasks.show(app.tasks.list()[-1].id).task.retry_count == 1  # the attempt is spent


def test_the_log(app, caplog):
    """W7: a retry is a warning with its traceback at debug, the end is an error with it."""

    @app.task(policy=NOW.replace(max_attempts=2))
    def flaky(secret: str):
        raise ConnectionError("refused")

    flaky.enqueue(secret="argument-of-the-task")
    with caplog.at_level("DEBUG", "outlast.worker"):
        app.worker().drain()
    records = [each for each in caplog.records if each.name == "outlast.worker" and "flaky" in each.getMessage()]
    assert [each.levelname for each in records] == ["WARNING", "DEBUG", "ERROR"]
    assert "Traceback" not in records[0].getMessage()
    assert "Traceback" in records[1].getMessage()
    assert "Traceback" in records[2].getMessage()
    assert records[0].error_category == "network"
    assert (records[2].attempt, records[2].max_attempts, records[2].exception_name) == (2, 2, "ConnectionError")
    assert "argument-of-the-task" not in caplog.text  # pitfall 20


def test_a_worker_needs_queues_and_hands(app):
    for queues, concurrency in (([], 1), (["default"], 0)):
        with pytest.raises(outlast.errors.ConfigError):
            Worker(app.store, {}, queues, concurrency, app.settings, app.schedule)


def test_priorities_and_queues(app):
    order = []

    @app.task(queue="mail")
    def send(x: str):
        order.append(x)

    for name, priority in (("late", 9), ("usual", 5), ("urgent", 0), ("usual too", 5)):
        send.enqueue(name, priority=priority)
    send.enqueue("elsewhere", queue="other")
    app.worker(concurrency=1).drain()
    assert order == ["urgent", "usual", "usual too", "late"]
    app.worker(queues=["other"]).drain()
    assert order[-1] == "elsewhere"


def test_five_thousand_failures_spread_out(app):
    """Pitfall 52."""

    @app.task(policy=outlast.RetryPolicy(max_attempts=2, base_delay=600, max_delay=3600, backoff="fixed"))
    def down():
        raise ConnectionError("refused")

    count = 5000 if app.store.__class__.__name__ != "PostgresStore" else 500
    down.enqueue_many([{}] * count)
    app.worker().drain()
    due = sorted(each.next_run_after.timestamp() for each in app.tasks.list(limit=count))
    assert len(due) == count
    assert due[-1] - due[0] > 90  # ±10 % of 600 s
    most = max(sum(1 for each in due if start <= each < start + 1) for start in due[:: count // 50])
    assert most < count / 20


def test_a_concurrency_limit_of_a_resource_holds_back_without_cooling_it(app):
    name = f"narrow.{id(app)}"
    outlast.resource(name, max_concurrency=2)
    running, most = set(), []

    @app.task(resource=name)
    async def call(x: int):
        running.add(x)
        most.append(len(running))
        await asyncio.sleep(0.005)
        running.discard(x)

    call.enqueue_many([{"x": number} for number in range(20)])
    limit = time.monotonic() + 20
    while app.tasks.counts()[Status.DONE] < 20 and time.monotonic() < limit:
        app.worker(concurrency=5).drain()
        assert app.tasks.cooldowns() == []
    rows = app.tasks.list()
    assert {each.status for each in rows} == {Status.DONE}
    assert {each.attempt for each in rows} == {1}
    assert max(most) == 2


def test_what_a_policy_says_of_time_and_resource_counts_for_the_task(app):
    @app.task(policy=NOW.replace(max_attempts=1, attempt_timeout=0.05, resource=f"from.policy.{id(app)}"))
    async def slow():
        await asyncio.sleep(5)

    assert slow.resource == f"from.policy.{id(app)}"
    slow.enqueue()
    app.worker().drain()
    [letter] = app.dead_letters.list()
    assert (letter.error_type, letter.error_message) == ("TimeoutError", "cancelled after 0.05 s")


def test_a_rescue_at_the_start_is_told(app, store, caplog):
    from conformance.acting import claim, register

    @app.task
    def once():
        pass

    once.enqueue()
    register(store, "doomed", lease=-1)
    claim(store, "doomed", limit=1)
    seen = []
    end = outlast.subscribe(seen.append, outlast.events.TaskRescued)
    try:
        app.worker().drain()
    finally:
        end()
    assert [(each.worker_id, each.outcome) for each in seen] == [("doomed", "suspect")]
    assert "lost worker doomed" in caplog.text


def test_replay_and_discard_take_a_limit(app):
    @app.task
    def wrong():
        raise ValueError("no")

    wrong.enqueue_many([{}] * 5)
    app.worker().drain()
    assert len(app.dead_letters.replay(all=True, limit=2)) == 2
    assert len(app.dead_letters.discard(category="unknown", limit=1)) == 1
    assert app.dead_letters.count() == 2


def test_a_child_that_cannot_be_started_keeps_no_slot_of_its_resource(app, monkeypatch):
    from child_tasks import echo
    from outlast.queue.child_process import ChildPool

    name = f"child.{id(app)}"
    guard = outlast.resource(name, max_concurrency=1)
    task = app.task(name="echo", resource=name, timeout=5, policy=NOW.replace(max_attempts=1))(echo)

    def refuse(*args, **kwargs):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    task.enqueue(2)
    monkeypatch.setattr(ChildPool, "run", refuse)
    app.worker().drain()
    assert guard.running == 0
    assert app.dead_letters.count() == 1


def done_lines(caplog):
    return [each for each in caplog.records if each.name == "outlast.worker" and each.levelname == "INFO"]


def test_a_finished_task_is_a_line_with_its_duration(app, caplog):
    caplog.set_level("INFO", "outlast.worker")

    @app.task
    def scrape() -> None:
        time.sleep(0.02)

    number = scrape.enqueue().id
    app.worker().drain()
    (line,) = done_lines(caplog)
    assert re.fullmatch(rf"scrape {number} done in [0-9.]+ (ms|s)", line.getMessage())
    assert (line.task_id, line.task_type, line.attempt) == (number, "scrape", 1)
    assert 0.02 <= line.duration < 30
    assert json.loads(JsonFormatter().format(line))["duration"] == line.duration


def test_more_than_ten_lines_a_second_are_summed_up_and_no_error_is_left_out(app, caplog):
    caplog.set_level("INFO", "outlast.worker")

    @app.task
    def fine() -> None: ...

    @app.task
    def broken() -> None:
        raise ConnectionError("refused")

    with fake_clock():  # its time stands still
        fine.enqueue_many([{}] * 40)
        broken.enqueue_many([{}] * 12)
        app.worker().drain()
    texts = [each.getMessage() for each in caplog.records]
    assert len([text for text in texts if text.startswith("fine ")]) == 10
    assert "and 30 more tasks done in the same second" in texts, "at the end of the worker at the latest"
    assert len([text for text in texts if "retrying in" in text]) == 10
    assert "and 14 more retries and deferrals in the same second" in texts
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 12


class TestResults:
    def test_a_ticket_waits_for_the_result(self, app):
        begun = threading.Event()

        @app.task(keep_result=60)
        def add(x: int, y: int) -> int:
            begun.wait(10)
            return x + y

        ticket = add.enqueue(1, y=2)
        number, created = ticket
        assert (number, created, ticket) == (ticket.id, True, outlast.Enqueued(ticket.id, True))
        worker = threading.Thread(target=app.worker().drain)
        worker.start()
        threading.Timer(0.1, begun.set).start()
        assert ticket.result(timeout=30) == 3
        worker.join()
        assert asyncio.run(ticket.result_async(timeout=30)) == 3
        assert [each.result(timeout=0) for each in [ticket]] == [3]

    def test_many_have_a_ticket_each_and_a_ticket_pickles_as_its_id(self, app):
        @app.task(keep_result=60)
        async def double(x: int) -> int:
            return 2 * x

        tickets = double.enqueue_many([{"x": number} for number in range(3)])
        app.worker().drain()
        assert [ticket.result(timeout=0) for ticket in tickets] == [0, 2, 4]
        assert pickle.loads(pickle.dumps(tickets[0])) == tickets[0]

    def test_the_time_is_bounded_and_the_clock_of_a_test_drives_it(self, app):
        @app.task(keep_result=60)
        def wait() -> None: ...

        ticket = wait.enqueue()
        for ask in (ticket.result, lambda timeout: asyncio.run(ticket.result_async(timeout=timeout))):
            with (
                fake_clock() as clock,
                pytest.raises(TimeoutError, match=f"wait {ticket.id} has not ended within 10 s"),
            ):
                ask(timeout=10)
            assert sum(clock.waits) == pytest.approx(10)
            assert clock.waits[:3] == pytest.approx([0.01, 0.02, 0.04])
            assert max(clock.waits) == 1
        assert app.tasks.counts()[Status.QUEUED] == 1, "only the wait is over"

    def test_a_dead_letter_raises_its_failure(self, app):
        @app.task(keep_result=60)
        def broken() -> None:
            raise httpx.ConnectError("refused")

        ticket = broken.enqueue()
        app.worker().drain()
        with pytest.raises(
            outlast.errors.TaskFailedError, match=f"broken {ticket.id} is a dead letter: .*refused"
        ) as said:
            ticket.result(timeout=10)
        assert (said.value.task_id, said.value.failure.category) == (ticket.id, "network")

    def test_what_has_no_result(self, app):
        @app.task(keep_result=60)
        def kept() -> None: ...

        @app.task
        def thrown_away() -> None: ...

        ticket = kept.enqueue()
        app.tasks.cancel(ticket.id)
        with pytest.raises(outlast.errors.TaskFailedError, match="was cancelled") as said:
            ticket.result(timeout=10)
        assert said.value.failure is None
        with pytest.raises(outlast.errors.ConfigError, match="keep_result"):
            thrown_away.enqueue().result(timeout=10)
        with pytest.raises(outlast.errors.ConfigError, match="timeout"):
            ticket.result(timeout=-1)


def test_without_channels_a_worker_logs_alerts_once_and_they_wait_for_nobody(app, store, caplog):
    store.raise_alerts([NewAlert("source:1", "disabled", "Tea shop is disabled")])
    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    end = time.monotonic() + 30
    while store.alerts(waiting=True) and time.monotonic() < end:
        time.sleep(0.01)
    worker.stop()
    thread.join()
    (alert,) = store.alerts()
    assert alert.delivered_to == ("log",)
    assert alert.delivered_at is not None
    told = [each for each in caplog.records if each.name == "outlast.notify"]
    assert [(each.levelname, each.getMessage()) for each in told] == [("WARNING", "alert: Tea shop is disabled")]
