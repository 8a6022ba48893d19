"""Whatever a task, the handler, the database or the machine do, a worker's loop goes on (W6) and no task is lost."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import pytest

from conformance.places import drop_table
from integration.seed_places import AT_ONCE, Queue, Worker, fails, opened
from outlast.errors import ConfigError, LeaseLostError, NetworkError, ResourceNotFoundError, SchemaError
from outlast.ports.rows import Reason, Status
from outlast.queue.definition import current_task
from outlast.worker import ErrorHandler

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


@pytest.fixture(autouse=True)
def quick_pause(monkeypatch):
    """A worker whose database fails tries again soon."""
    monkeypatch.setattr("outlast.queue.admission._PAUSES", (0.01, 300.0))


@pytest.mark.parametrize("does", [fails(), fails(ResourceNotFoundError("x"))])
def test_defect_a_failing_write_does_not_end_the_worker(queue, monkeypatch, does):
    """What could not be written is written later, and nothing else is claimed until then."""
    first, second = queue.add(), queue.add()
    worker, failed = Worker(queue, does), []
    handling = worker.error_handler._tasks

    def failing(original):
        def call(*args, **more):
            if len(worker.tasks) == 1 and len(failed) < 3:
                failed.append(original)
                raise sqlite3.OperationalError("database or disk is full")
            return original(*args, **more)

        return call

    monkeypatch.setattr(worker.store, "settle_and_claim", failing(worker.store.settle_and_claim))
    monkeypatch.setattr(handling, "settle_attempt", failing(handling.settle_attempt), raising=False)
    worker.run()
    assert len(failed) == 3
    assert [task.id for task in worker.tasks] == [first, second]
    assert queue.task(first).status in {Status.DONE, Status.FAILED}
    assert queue.task(second).status is Status.DONE


def test_a_handler_of_ones_own_that_raises_does_not_end_the_worker(memory, caplog):
    class Broken(ErrorHandler):
        def handle_error(self, task_id, error, attempt):
            raise ZeroDivisionError("my mistake")

    number, worker = memory.add(), Worker(memory, fails(NetworkError("x")))
    worker.error_handler = Broken(memory.db)
    worker.run()
    assert memory.task(number).status is Status.DONE
    assert "error_handler raised: ZeroDivisionError: my mistake" in caplog.text


def test_a_queue_that_fails_at_the_start_is_tried_again(memory, monkeypatch, caplog):
    number, worker, calls = memory.add(), Worker(memory, fails()), []
    original = memory.store.check_schema

    def check():
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionRefusedError("not yet")
        original()

    monkeypatch.setattr(memory.store, "check_schema", check)
    worker.run()
    assert memory.task(number).status is Status.DONE
    assert "the queue failed (network)" in caplog.text
    assert "the queue is available again" in caplog.text


def test_pitfall_39_a_worker_taken_for_dead_changes_nothing(queue):
    """Its task runs again elsewhere, with the same number of failed attempts: the claim is what fences."""
    number = queue.add()

    def die_and_fail(task):
        held = current_task()
        (row,) = queue.store.workers()
        queue.store.heartbeat(row.id, -1, "running")
        assert [each.task_id for each in queue.store.rescue(3)] == [number]
        assert held.id == number
        worker.stop()
        raise ResourceNotFoundError("too late")

    worker = Worker(queue, die_and_fail)
    worker.run()
    task = queue.task(number)
    assert (task.status, task.suspect, task.retry_count) == (Status.QUEUED, True, 0)
    assert queue.letters() == []
    Worker(queue, fails()).run()
    assert queue.task(number).status is Status.DONE


def test_a_result_of_a_worker_taken_for_dead_is_refused(queue):
    number = queue.add()

    def die(task):
        (row,) = queue.store.workers()
        queue.store.heartbeat(row.id, -1, "running")
        queue.store.rescue(3)
        worker.stop()

    worker = Worker(queue, die)
    worker.run()
    assert queue.task(number).status is Status.QUEUED


def test_a_worker_taken_for_dead_begins_anew(queue):
    """Its heart notices; what it was doing is dropped and done again, and it goes on with the rest."""
    first, second = queue.add(), queue.add()

    def die_once(task):
        if len(worker.tasks) > 1:
            return
        before = worker._lease.id
        end = time.monotonic() + 10
        while worker._lease.id == before and time.monotonic() < end:
            with suppress(LeaseLostError):
                queue.store.heartbeat(before, -1, "running")  # again: its own heartbeat may come before the rescue
            queue.store.rescue(3)
            time.sleep(0.01)
        assert worker._lease.id != before

    worker = Worker(queue, die_once, AT_ONCE | {"lease": 5.0, "heartbeat": 0.05})
    worker.run()
    assert sorted(task.id for task in worker.tasks) == [first, first, second]
    assert [queue.task(number).status for number in (first, second)] == [Status.DONE, Status.DONE]
    assert queue.store.workers() == []


def test_heartbeats_keep_a_long_task(tmp_path, request):
    """Pitfall 70: a task that takes longer than the lease is not given to another."""
    queue = opened("sqlite store", tmp_path, request)
    number = queue.add()

    def long(task):
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            assert queue.store.rescue(3) == []
            time.sleep(0.05)

    Worker(queue, long, AT_ONCE | {"lease": 2.0, "heartbeat": 0.05}).run()
    assert (queue.task(number).status, queue.task(number).attempt) == (Status.DONE, 1)
    queue.place.close()


def test_pitfall_37_what_a_killed_worker_held_is_rescued(tmp_path, request):
    queue = opened("sqlite store", tmp_path, request)
    number = queue.add()
    program = f"""
        import time, outlast
        from outlast.worker import BaseWorker
        class Sleeper(BaseWorker):
            def process_task(self, task):
                print("begun", flush=True)
                time.sleep(60)
        Sleeper("sleeper", outlast.App("sqlite:///{queue.place.path}"), {{}}, None, None).run()
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()

    queue.store.rescue(3)
    worker = Worker(queue, fails())
    worker.run()
    assert [task.id for task in worker.tasks] == [number]
    assert [each.outcome for each in queue.store.attempts(number)] == ["lost"]
    assert queue.task(number).status is Status.DONE
    queue.place.close()


def test_a_full_disk_stops_the_claiming(memory, monkeypatch):
    monkeypatch.setattr("outlast.queue.admission._PAUSES", (60.0, 300.0))
    number, other = memory.add(), memory.add()
    worker = Worker(memory, fails(OSError(28, "No space left on device")))
    thread = threading.Thread(target=worker.run)
    thread.start()
    while not memory.task(number).retry_count:
        time.sleep(0.01)
    time.sleep(0.1)
    worker.stop()
    thread.join(10)
    assert (memory.task(number).status, memory.task(other).status) == (Status.QUEUED, Status.QUEUED)
    assert memory.letters() == []


def test_a_claim_whose_answer_got_lost_is_given_back(queue, monkeypatch):
    """What was claimed by the books but never arrived is claimed again, by the same worker."""
    number, worker = queue.add(), Worker(queue, fails())
    original, lost = worker.store.settle_and_claim, []

    def turn(asked):
        turned = original(asked)
        if asked.claim is not None and not lost:
            lost.append(turned.claimed[0].id)
            raise ConnectionResetError
        return turned

    monkeypatch.setattr(worker.store, "settle_and_claim", turn)
    worker.run()
    assert lost == [number]
    assert [task.id for task in worker.tasks] == [number]
    assert (queue.task(number).status, queue.task(number).attempt) == (Status.DONE, 1)


def test_nothing_is_claimed_while_something_waits_to_be_written(queue, monkeypatch):
    queue.add("{")
    number = queue.add()
    letters = []

    def does(task):
        letters.extend(each.reason for each in queue.letters())

    worker, failed = Worker(queue, does), []
    original = worker.store.settle_and_claim

    def turn(asked):
        if asked.settlements and len(failed) < 3:
            failed.append(asked)
            raise sqlite3.OperationalError("database or disk is full")
        return original(asked)

    monkeypatch.setattr(worker.store, "settle_and_claim", turn)
    worker.run()
    assert len(failed) == 3
    assert letters == [Reason.UNDECODABLE]
    assert queue.task(number).status is Status.DONE


def test_what_is_left_unwritten_at_the_end_runs_again(memory, monkeypatch):
    """A worker that stops while its database fails has its tasks given back, by itself or by the lease."""
    number, worker = memory.add(), Worker(memory, lambda task: worker.stop())
    handed, original = [], memory.store.settle_and_claim

    def turn(asked):
        if asked.settlements:
            handed.append(asked)
            raise sqlite3.OperationalError("database or disk is full")
        return original(asked)

    monkeypatch.setattr(memory.store, "settle_and_claim", turn)
    worker.run()
    assert 2 < len(handed) < 50, "when it was done, and again and again for some seconds on leaving"
    assert (memory.task(number).status, memory.store.workers()) == (Status.QUEUED, [])


def test_a_store_that_fails_for_a_moment_at_the_end_has_the_outcome(memory, monkeypatch):
    number, worker = memory.add(), Worker(memory, lambda task: worker.stop())
    failing, original = [1, 2], memory.store.settle_and_claim

    def turn(asked):
        if asked.settlements and failing:
            failing.pop()
            raise sqlite3.OperationalError("database is locked")
        return original(asked)

    monkeypatch.setattr(memory.store, "settle_and_claim", turn)
    worker.run()
    assert (memory.task(number).status, failing) == (Status.DONE, [])


@pytest.mark.parametrize("table", ["dead_letter_queue", "task_results"])
def test_a_missing_table_ends_the_worker_at_its_start(queue, table):
    place = queue.place.blank()
    store = place.open()
    store.create_schema()
    db = place.connect() if "connection" in queue.kind else store
    own = Queue(queue.kind, place, store, db)
    number = own.add()
    drop_table(place, table)
    worker = Worker(own, fails())
    with pytest.raises(SchemaError, match=f"the table {table} is missing"):
        worker.run()
    assert (worker.tasks, own.task(number).status) == ([], Status.QUEUED)
    db.close()
    place.close()


def test_dead_letters_that_cannot_be_written_end_the_worker_at_its_start(memory, monkeypatch):
    def refuse():
        raise ConfigError("a dead letter cannot be written")

    monkeypatch.setattr(memory.store, "check_dead_letters", refuse)
    with pytest.raises(ConfigError, match="a dead letter cannot be written"):
        Worker(memory, fails()).run()
