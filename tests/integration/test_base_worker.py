"""The worker to derive from (W6): it claims, works, reports, and ends when it is told to."""

import sqlite3
import threading
import time
from types import SimpleNamespace

import pytest

import outlast
from hostile_errors import TABLE, hostile
from integration.seed_places import Worker, fails, opened
from outlast.errors import ConfigError, NetworkError, QuotaExhaustedError, ResourceNotFoundError
from outlast.ports.rows import Reason, Status
from outlast.worker import BaseWorker, WorkerTask

KINDS = ["sqlite store", "sqlite connection", "postgres app", "postgres connection"]


@pytest.fixture(params=KINDS)
def queue(request, tmp_path):
    found = opened(request.param, tmp_path, request)
    yield found
    if "connection" in found.kind:
        found.db.close()
    found.place.close()


@pytest.fixture
def memory(tmp_path, request):
    return opened("memory app", tmp_path, request)


def test_success(queue):
    number, saved, counted = queue.add(), [], []
    worker = Worker(
        queue, fails(), results_db=lambda task, result: saved.append((task.id, result)), metrics=counted.append
    )

    worker.run()

    (task,) = worker.tasks
    assert isinstance(task, WorkerTask)
    assert (task.id, task.task_type, task.parameters) == (number, "scrape", {"url": "https://example.org/v/1"})
    assert (task.retry_count, task.attempt) == (0, 1)
    assert queue.task(number).status is Status.DONE
    assert queue.store.result(number) == f'{{"n":{number}}}'
    assert saved == [(number, {"n": number})]
    assert counted == ["tasks_done"]
    assert queue.store.workers() == []


def test_errors_in_tasks_never_end_the_loop(queue):
    numbers, counted = [queue.add() for _ in range(4)], []
    worker = Worker(queue, fails(NetworkError("x"), ResourceNotFoundError("x"), SystemExit(3)), metrics=counted.append)

    worker.run()

    states = [queue.task(number).status for number in numbers]
    assert states == [Status.DONE, Status.FAILED, Status.FAILED, Status.DONE]
    assert sorted(counted) == ["tasks_done", "tasks_done", "tasks_failed", "tasks_failed", "tasks_retried"]
    assert {each.original_task_id for each in queue.letters()} == set(numbers[1:3])
    assert queue.letters()[0].worker_id.startswith("w1:")


def test_errors_that_raise_while_they_are_read_are_dead_letters(queue):
    """In another thread: in the main thread the interrupts among them end the loop, as Ctrl-C does."""
    expected = {queue.add(): each for each in TABLE}
    worker = Worker(queue, fails(*(hostile(*each) for each in TABLE)))

    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(120)

    assert not thread.is_alive()
    for letter in queue.letters():
        each = expected.pop(letter.original_task_id)
        assert letter.reason in each.reasons, each
    assert not expected


def test_an_interrupt_of_the_error_ends_the_loop_after_the_attempt_is_recorded(memory):
    number = memory.add()
    with pytest.raises(KeyboardInterrupt):
        Worker(memory, fails(hostile("__str__", "KeyboardInterrupt"))).run()
    assert (memory.task(number).status, memory.letters()[0].reason) == (Status.FAILED, Reason.UNREADABLE)


def test_attempts_run_out(queue):
    number = queue.add()
    worker = Worker(queue, fails(*[NetworkError("x")] * 9))
    worker.run()
    assert [task.attempt for task in worker.tasks] == [1, 2, 3]
    assert (queue.task(number).status, queue.letters()[0].reason) == (Status.FAILED, Reason.EXHAUSTED)


def test_what_cannot_be_read_or_is_too_late_is_a_dead_letter(queue):
    queue.add("[1]")
    queue.add("{")
    queue.add(expires=0.001)
    time.sleep(0.01)
    good = queue.add()
    worker = Worker(queue, fails())
    worker.run()
    assert [task.id for task in worker.tasks] == [good]
    assert sorted(each.reason for each in queue.letters()) == ["expired", "undecodable", "undecodable"]


def test_raising_metrics_and_results(memory, caplog):
    """A result that could not be saved is the task's failure; a count is only a count."""

    class Metrics:
        def increment(self, name):
            raise RuntimeError("no metrics today")

    class Results:
        calls = 0

        def save(self, task, result):
            self.calls += 1
            if self.calls == 1:
                raise ConnectionResetError

    number, results = memory.add(), Results()
    Worker(memory, fails(), results_db=results, metrics=Metrics()).run()
    assert (memory.task(number).status, memory.task(number).retry_count, results.calls) == (Status.DONE, 1, 2)
    assert "metrics raised: RuntimeError: no metrics today" in caplog.text


def test_a_connection_as_results_db_is_left_to_the_worker(memory):
    number, connection = memory.add(), sqlite3.connect(":memory:")
    Worker(memory, fails(), results_db=connection, metrics=connection).run()
    assert memory.task(number).status is Status.DONE
    connection.close()


def test_a_result_that_is_no_json_is_not_kept(memory):
    number = memory.add()
    Worker(memory, lambda task: object()).run()
    assert memory.task(number).status is Status.DONE
    assert memory.store.result(number) is None


def test_a_report_of_its_own_need_not_settle(memory):
    class Own(Worker):
        def report_result(self, task, result):
            self.reported = (task.id, result)

    number = memory.add()
    worker = Own(memory, fails())
    worker.run()
    assert worker.reported == (number, {"n": number})
    assert memory.task(number).status is Status.DONE


def test_stop_ends_the_waiting_at_once(memory):
    class Plain(BaseWorker):
        def process_task(self, task): ...

    worker = Plain("w", memory.db, {"poll_interval": 60}, None, None)
    thread = threading.Thread(target=worker.run)
    thread.start()
    worker.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert worker.running is False
    assert worker.poll_interval == 60


def test_ctrl_c_ends_the_worker_and_gives_the_task_back(memory):
    number = memory.add()
    with pytest.raises(KeyboardInterrupt):
        Worker(memory, fails(KeyboardInterrupt())).run()
    assert (memory.task(number).status, memory.task(number).attempt) == (Status.QUEUED, 0)


def test_what_names_a_time_is_left_alone_by_all(memory):
    number = memory.add(resource="api.example.org")
    worker = Worker(memory, fails(QuotaExhaustedError("x", retry_after=600)))
    worker.run()
    assert (memory.task(number).status, memory.task(number).retry_count) == (Status.QUEUED, 0)
    assert [each.resource for each in memory.store.cooldowns()] == ["api.example.org"]


def test_without_run(memory):
    number = memory.add()
    worker = Worker(memory, fails())
    task = worker.claim_task()
    assert memory.task(number).status is Status.RUNNING
    worker.report_result(task, [1])
    assert memory.store.result(number) == "[1]"
    assert worker.claim_task() is None
    worker.close()
    assert memory.store.workers() == []


def test_settings_from_an_object(memory):
    config = SimpleNamespace(queues="slow", lease=8, max_retries=2, api_key="x")
    worker = Worker(memory, fails(), config)
    assert (worker.settings.queues, worker.settings.lease, worker.settings.heartbeat) == (("slow",), 8.0, 2.0)
    assert worker.error_handler.retry_strategy.max_retries == 2
    assert Worker(memory, fails(), None).poll_interval == 1.0


@pytest.mark.parametrize(
    "config",
    [
        {"queues": []},
        {"queues": [1]},
        {"lease": 0},
        {"lease": 1, "heartbeat": 1},
        {"crash_limit": 0},
        {"poll_interval": -1},
    ],
)
def test_bad_settings_are_refused(memory, config):
    with pytest.raises(ConfigError):
        Worker(memory, fails(), config)


def test_it_cannot_share_a_database_in_memory():
    connection = sqlite3.connect(":memory:")
    with pytest.raises(ConfigError, match="a second connection cannot open"):
        Worker(SimpleNamespace(db=connection), fails())
    connection.close()


def test_it_is_abstract():
    with pytest.raises(TypeError, match="process_task"):
        BaseWorker("w", outlast.App("memory://"), {}, None, None)
