"""The worker's error handler (W4, W7, C16, C17) on every store and on raw connections; each defect of the seed is a test."""

import errno
import logging
import sqlite3
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import outlast
from integration.seed_places import KINDS, opened
from outlast.errors import (
    AuthenticationError,
    ConfigError,
    ConfigurationError,
    InvalidParametersError,
    NetworkError,
    QuotaExhaustedError,
    RateLimitError,
    ResourceNotFoundError,
    TemporaryAPIError,
)
from outlast.ports.rows import Reason, Status
from outlast.record.events import TaskDeferred, TaskFailed, TaskRetrying
from outlast.testing import fake_clock
from outlast.worker import ErrorClassifier, ErrorHandler, ExponentialBackoffStrategy, LinearBackoffStrategy


@pytest.fixture(params=KINDS)
def queue(request, tmp_path):
    found = opened(request.param, tmp_path, request)
    yield found
    if "connection" in found.kind:
        found.db.close()
    found.place.close()


@pytest.fixture
def handler(queue):
    return ErrorHandler(queue.db, ExponentialBackoffStrategy(max_retries=3, jitter=False))


def seen_from(queue, number):
    """Return status, retry count and number of dead letters."""
    task = queue.task(number)
    return task.status, task.retry_count, len(queue.letters())


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_retry(queue, handler):
    number, before = queue.add(), datetime.now(UTC)

    result = handler.handle_error(number, NetworkError("connection lost, token=abc"), attempt=1)

    assert result["retry"] is True
    assert result["changed"] is True
    assert result["deferred"] is False
    assert result["delay"] == 2.0
    assert result["category"] == "network"
    assert result["metadata"]["error_type"] == "NetworkError"
    assert "why" not in result
    task = queue.task(number)
    assert (task.status, task.retry_count, task.attempt) == (Status.QUEUED, 1, 1)
    assert task.last_error == "connection lost, token=***"
    assert timedelta(seconds=1.5) < task.next_run_after - before < timedelta(seconds=12)
    (attempt,) = queue.store.attempts(number)
    assert (attempt.attempt, attempt.outcome, attempt.delay, attempt.worker_id) == (1, "retry", 2.0, "ErrorHandler")
    assert queue.letters() == []


def test_a_permanent_error_is_a_dead_letter(queue, handler):
    number = queue.add()

    result = handler.handle_error(number, raised(ResourceNotFoundError("video gone")), attempt=1)

    assert (result["retry"], result["delay"], result["category"]) == (False, 0.0, "not_found")
    assert seen_from(queue, number) == (Status.FAILED, 1, 1)
    assert queue.task(number).failed_at is not None
    (letter,) = queue.letters()
    assert (letter.original_task_id, letter.task_type) == (number, "scrape")
    assert letter.parameters == '{"url": "https://example.org/v/1"}'
    assert (letter.error_type, letter.error_message) == ("ResourceNotFoundError", "video gone")
    assert (letter.error_category, letter.reason, letter.retry_count) == ("not_found", Reason.PERMANENT, 1)
    assert "raise error" in letter.traceback
    assert letter.created_at <= letter.moved_to_dlq_at
    assert [each.outcome for each in queue.store.attempts(number)] == ["fail"]


def test_defect_an_exhausted_task_has_a_dead_letter(queue, handler):
    number = queue.add()

    retried = [handler.handle_error(number, NetworkError("down"), attempt)["retry"] for attempt in (1, 2, 3)]

    assert retried == [True, True, False]
    assert seen_from(queue, number) == (Status.FAILED, 3, 1)
    assert queue.letters()[0].reason is Reason.EXHAUSTED
    assert [each.attempt for each in queue.store.attempts(number)] == [1, 2, 3]
    assert [each.outcome for each in queue.store.attempts(number)] == ["retry", "retry", "fail"]


@pytest.mark.parametrize("asked", [0, 0.0, 7.5, 4000])
def test_defect_retry_after_of_our_errors_is_used_and_0_is_not_dropped(queue, handler, asked):
    number = queue.add()

    result = handler.handle_error(number, RateLimitError("slow down", retry_after=asked), attempt=1)

    assert (result["retry"], result["delay"], result["metadata"]["retry_after"]) == (True, asked, asked)
    assert seen_from(queue, number)[:2] == (Status.QUEUED, 1)
    if asked == 0:
        assert queue.store.next_due(["default"]) == 0


def test_a_known_reset_of_a_quota_defers_and_spends_nothing(queue, handler):
    """C12."""
    number = queue.add()

    result = handler.handle_error(number, QuotaExhaustedError("used up", retry_after=3600), attempt=1)

    assert (result["retry"], result["deferred"], result["delay"]) == (True, True, 3600)
    task = queue.task(number)
    assert (task.status, task.retry_count, task.attempt, task.deferrals) == (Status.QUEUED, 0, 0, 1)
    assert handler.handle_error(number, QuotaExhaustedError("used up"), attempt=1)["retry"] is False
    assert seen_from(queue, number) == (Status.FAILED, 1, 1)


@pytest.mark.parametrize("attempt", [0, 2, 3, -1])
def test_an_attempt_that_is_not_the_current_one_changes_nothing(queue, handler, attempt):
    """C17."""
    number = queue.add()
    before = queue.task(number)

    result = handler.handle_error(number, ResourceNotFoundError("gone"), attempt)

    assert (result["changed"], result["retry"]) == (False, False)
    assert "not the current one, which is 1" in result["why"]
    assert queue.task(number) == before
    assert queue.letters() == []


def test_a_repeated_call_changes_nothing(queue, handler):
    number = queue.add()
    assert handler.handle_error(number, NetworkError("x"), 1)["changed"]
    assert not handler.handle_error(number, NetworkError("x"), 1)["changed"]
    assert handler.handle_error(number, InvalidParametersError("x"), 2)["changed"]
    assert (
        handler.handle_error(number, InvalidParametersError("x"), 2)["why"]
        == f"task {number} is FAILED, not waiting or running"
    )
    assert handler.handle_error(10**9, NetworkError("x"), 1)["why"] == f"task {10**9} does not exist"
    assert seen_from(queue, number) == (Status.FAILED, 2, 1)


def test_public_methods_of_the_diagram(queue, handler):
    """C16."""
    first, second, third = queue.add(), queue.add(), queue.add()

    assert handler.update_task_status(first, "QUEUED", NetworkError("x"), 1, delay=60)
    assert not handler.update_task_status(first, "QUEUED", NetworkError("x"), 1)
    assert handler.update_task_status(second, "FAILED", NetworkError("x"), 1)
    assert handler.move_to_dlq(third, ValueError("x"))
    assert not handler.move_to_dlq(third, ValueError("x"))
    assert not handler.move_to_dlq(10**9, ValueError("x"))
    with pytest.raises(ConfigError, match="QUEUED or FAILED"):
        handler.update_task_status(first, "DONE", NetworkError("x"), 2)

    assert queue.task(first).retry_count == 1
    assert {(each.original_task_id, each.reason) for each in queue.letters()} == {
        (second, Reason.EXHAUSTED),
        (third, Reason.PERMANENT),
    }


@pytest.fixture
def broken_letters(queue):
    """A queue whose dead letters cannot be written."""
    queue.execute("ALTER TABLE dead_letter_queue RENAME TO elsewhere")
    yield queue
    queue.execute("ALTER TABLE elsewhere RENAME TO dead_letter_queue")


def test_defect_a_missing_dead_letter_table_does_not_lose_the_task(broken_letters, handler, caplog):
    """Nor does it end the caller; status, history and letter are one transaction."""
    queue = broken_letters
    number = queue.add()
    before = queue.task(number)

    result = handler.handle_error(number, ResourceNotFoundError("gone"), 1)

    assert (result["changed"], result["retry"]) == (False, False)
    assert "dead_letter_queue" in result["why"]
    assert isinstance(result["trouble"], sqlite3.OperationalError | psycopg.errors.UndefinedTable)
    assert queue.task(number) == before
    assert queue.store.attempts(number) == []
    assert any(each.levelno == logging.ERROR and "is unchanged" in each.getMessage() for each in caplog.records)
    if "connection" in queue.kind:
        queue.db.rollback()
    assert handler.handle_error(number, NetworkError("x"), 1)["changed"], "a retry needs no dead letter"


@pytest.mark.parametrize("queue", [kind for kind in KINDS if "sqlite" in kind], indirect=True)
def test_defect_status_and_letter_roll_back_together(queue, handler):
    number = queue.add()
    queue.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON dead_letter_queue BEGIN SELECT RAISE(ABORT, 'no letters today'); END"
    )

    assert "no letters today" in handler.handle_error(number, ConfigurationError("no key"), 1)["why"]
    assert seen_from(queue, number) == (Status.QUEUED, 0, 0)

    queue.execute("DROP TRIGGER refuse")
    assert handler.handle_error(number, ConfigurationError("no key"), 1)["category"] == "configuration"
    assert seen_from(queue, number) == (Status.FAILED, 1, 1)


def test_defect_a_full_disk_dead_letters_nothing(queue, handler):
    number = queue.add()
    result = handler.handle_error(number, OSError(errno.ENOSPC, "No space left on device"), 1)
    assert (result["retry"], result["category"]) == (True, "system")
    assert seen_from(queue, number) == (Status.QUEUED, 1, 0)


def test_defect_times_are_utc_and_aware(queue, handler):
    number = queue.add()
    handler.handle_error(number, NetworkError("x", retry_after=600), 1)
    task = queue.task(number)
    assert task.next_run_after.utcoffset() == timedelta(0)
    assert abs(task.next_run_after - datetime.now(UTC) - timedelta(seconds=600)) < timedelta(seconds=30)
    assert 570 < queue.store.next_due(["default"]) <= 600.1


def test_tells_subscribers(queue, handler):
    seen, number = [], queue.add()
    end = outlast.subscribe(seen.append)
    try:
        for error, attempt in (
            (NetworkError("x"), 1),
            (QuotaExhaustedError("x", retry_after=5), 2),
            (ValueError("x"), 2),
        ):
            handler.handle_error(number, error, attempt)
    finally:
        end()
    assert [type(each) for each in seen] == [TaskRetrying, TaskDeferred, TaskFailed]
    assert {each.task for each in seen} == {"scrape"}


def test_expiry_ends_the_waiting(queue, handler):
    number = queue.add(expires=5.0)
    assert handler.handle_error(number, NetworkError("x", retry_after=60), 1)["retry"] is False
    assert queue.letters()[0].reason is Reason.EXPIRED


@pytest.fixture
def memory():
    app = outlast.App("memory://")

    @app.task
    def scrape(url: str): ...

    return app, scrape.enqueue(url="x").id


def test_defaults(memory):
    handler = ErrorHandler(memory[0])
    assert isinstance(handler.classifier, ErrorClassifier)
    assert isinstance(handler.retry_strategy, ExponentialBackoffStrategy)
    assert handler.queue_db is memory[0]
    with fake_clock(chance=0.5):
        assert handler.handle_error(memory[1], TemporaryAPIError("x"), 1)["delay"] == pytest.approx(2.0)


def test_defect_jitter_never_exceeds_the_cap(memory):
    handler = ErrorHandler(memory[0], ExponentialBackoffStrategy(max_retries=100, max_delay=5.0))
    with fake_clock(chance=1.0):
        delays = [handler.handle_error(memory[1], NetworkError("x"), n)["delay"] for n in range(1, 50)]
    assert max(delays) == 5.0


def test_defect_the_traceback_is_the_errors_own_outside_an_except_block(memory, caplog):
    """W7: a retry warns with the traceback at debug, an end is an error with it."""
    handler, number = ErrorHandler(memory[0], LinearBackoffStrategy()), memory[1]
    with caplog.at_level(logging.DEBUG, "outlast.worker"):
        handler.handle_error(number, raised(NetworkError("first")), 1)
        handler.handle_error(number, raised(AuthenticationError("second")), 2)
    warning, debug, error = caplog.records
    assert (warning.levelno, debug.levelno, error.levelno) == (logging.WARNING, logging.DEBUG, logging.ERROR)
    assert (
        warning.getMessage() == f"task {number}: attempt 1 of 3 failed (network), retrying in 5 s: NetworkError: first"
    )
    assert "Traceback" not in warning.getMessage()
    assert "raise error" in debug.getMessage()
    assert "raise error" in error.getMessage()
    assert "NoneType: None" not in caplog.text
    assert (error.task_id, error.attempt, error.error_category) == (number, 2, "authentication")


def test_a_log_handler_that_raises_changes_nothing(memory, monkeypatch):
    monkeypatch.setattr(logging.getLogger("outlast.worker"), "warning", lambda *_, **__: 1 / 0)
    assert ErrorHandler(memory[0]).handle_error(memory[1], NetworkError("x"), 1)["changed"]


@pytest.mark.parametrize("delay", [-1.0, float("nan"), "soon"])
def test_a_strategy_that_answers_nonsense_retries_nothing(memory, delay, caplog):
    class Odd:
        def should_retry(self, error, attempt):
            return True

        def get_retry_delay(self, attempt):
            return delay

    assert ErrorHandler(memory[0], Odd()).handle_error(memory[1], NetworkError("x"), 1)["retry"] is False
    assert "retry_strategy raised" in caplog.text


def test_another_classifier_is_asked(memory, caplog):
    class Mine(ErrorClassifier):
        def is_retryable(self, error):
            return True

        def get_error_category(self, error):
            return "gremlins"

    class Broken(ErrorClassifier):
        def is_retryable(self, error):
            raise ZeroDivisionError

    handler = ErrorHandler(memory[0])
    handler.classifier = Mine()
    result = handler.handle_error(memory[1], ValueError("x"), 1)
    assert (result["retry"], result["category"]) == (True, "gremlins")
    handler.classifier = Broken()
    assert handler.handle_error(memory[1], NetworkError("x"), 2)["retry"] is True
    assert "classifier raised" in caplog.text


@pytest.mark.parametrize("thing", [None, 5, "sqlite:///x.db", object()])
def test_what_is_no_queue_is_refused(thing):
    with pytest.raises(ConfigError, match="give an App, a store, or a connection"):
        ErrorHandler(thing)
