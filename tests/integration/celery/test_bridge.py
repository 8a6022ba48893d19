"""How rows come to the broker, and what happens while broker or store are down; Celery runs in this process."""

import sqlite3
import time

import pytest
from kombu.exceptions import OperationalError

from crash.processes import until
from integration.celery.scene import LONG
from outlast.engines.celery import engine
from outlast.engines.celery.message_codec import HEADER
from outlast.ports.rows import DeadLetterFilter, Reason, Status


def test_a_due_row_is_sent_once_and_then_waits_for_its_message(shop, waiting):
    number = shop.row()
    assert shop.engine.forward() == 1
    assert shop.engine.forward() == 0
    (message,) = waiting("slow")
    assert message["headers"][HEADER] == {"task": number, "attempt": 1, "retries": 0}
    assert (message["headers"]["id"], message["headers"]["ignore_result"]) == ("abc", False)
    row = shop.store.get(number)
    assert (row.status, row.attempt, row.deferrals) == (Status.QUEUED, 0, 0)
    assert row.next_run_after.timestamp() > time.time() + 3000
    assert shop.store.workers() == []


@pytest.mark.parametrize(
    ("change", "reason"), [({"parameters": "{}"}, Reason.UNDECODABLE), ({"expires": 0.0}, Reason.EXPIRED)]
)
def test_what_cannot_be_sent_is_a_dead_letter(shop, waiting, change, reason):
    shop.row(**change)
    assert shop.engine.forward() == 1
    assert waiting("slow") == []
    (letter,) = shop.store.dead_letters(DeadLetterFilter())
    assert letter.reason is reason
    assert shop.is_well()


def test_a_broker_that_is_down_costs_nothing(shop, waiting, monkeypatch):
    numbers = [shop.row(unique_key=None) for _ in range(3)]
    send, asked = shop.celery.send_task, []

    def down(*args, **kwargs):
        asked.append(args)
        if len(asked) == 2:
            message = "connection refused"
            raise OperationalError(message)
        return send(*args, **kwargs)

    monkeypatch.setattr(shop.celery, "send_task", down)
    with pytest.raises(OperationalError):
        shop.engine.forward()
    rows = [shop.store.get(number) for number in numbers]
    assert {(row.status, row.attempt, row.retry_count) for row in rows} == {(Status.QUEUED, 0, 0)}
    assert shop.engine.forward() == 2, "one was sent before it went down"
    assert len(waiting("slow")) == 3


def test_a_paused_queue_holds_everything_back(shop, waiting):
    shop.row()
    shop.store.pause("celery")
    assert shop.engine.forward() == 0
    assert waiting("slow") == []
    shop.store.resume("celery")
    assert shop.engine.forward() == 1


def test_while_the_store_is_down_the_message_waits_in_the_broker(shop, working, monkeypatch):
    monkeypatch.setattr(engine, "_PAUSES", ())
    enqueue, asked = shop.store.enqueue, []

    def down(tasks, connection=None):
        asked.append(tasks)
        if len(asked) == 1:
            message = "disk I/O error"
            raise sqlite3.OperationalError(message)
        return enqueue(tasks, connection)

    monkeypatch.setattr(shop.store, "enqueue", down)
    result = shop.flaky.delay(3)
    assert result.get(timeout=LONG) == 3
    until(lambda: [each.status for each in shop.rows()] == [Status.DONE], LONG, shop.rows)
    assert shop.rows()[0].retry_count == 1, "the first failure could not be written, and the task is not lost"
    assert shop.is_well()


def test_an_attempt_whose_end_could_not_be_written_is_given_back(shop, working, monkeypatch):
    monkeypatch.setattr(engine, "_PAUSES", ())
    settle, asked = shop.engine.lending.settle_attempt, []

    def down(settlement, attempt, **more):
        asked.append(settlement)
        if len(asked) == 2:
            message = "disk I/O error"
            raise sqlite3.OperationalError(message)
        return settle(settlement, attempt, **more)

    monkeypatch.setattr(shop.engine.lending, "settle_attempt", down)
    shop.flaky.delay(2)
    until(lambda: [each.status for each in shop.rows()] == [Status.DONE], LONG, shop.rows)
    assert len(shop.runs) == 3, "its success could not be written, so it ran once more"
    assert shop.rows()[0].retry_count == 1
    assert shop.is_well()


def test_a_store_that_cannot_be_asked_does_not_keep_a_task_from_running(shop, working, monkeypatch):
    begin, asked = shop.engine.lending.begin, []

    def down(*given):
        asked.append(given)
        if len(asked) == 1:
            message = "disk I/O error"
            raise sqlite3.OperationalError(message)
        return begin(*given)

    monkeypatch.setattr(shop.engine.lending, "begin", down)
    assert shop.flaky.delay(3).get(timeout=LONG) == 3
    until(lambda: [each.status for each in shop.rows()] == [Status.DONE], LONG, shop.rows)
    assert shop.rows()[0].retry_count == 2
    assert shop.is_well()
