"""Logs as JSON and with structlog: E9's keys, those of a task and an error, and no secrets."""

import io
import json
import logging
import sys

import pytest
import structlog

import outlast
from doc_pages import read, table
from outlast.errors import NetworkError
from outlast.observe.json_logs import JsonFormatter, record_message
from outlast.observe.log_keys import error_from_exc_info, outlast_keys, redacted_exception
from outlast.testing import failing, fake_clock

SECRET = "https://ada:hunter2@shop.example refused"
OF_A_FAILURE = {"error_category", "origin", "http_status", "exception_name", "failure_message"}
E9 = {"job_id", "run_id", "env", "job_start_at", "entity", "source_id", "attempt", "max_attempts"} | OF_A_FAILURE


class Written:
    """A handler of the root logger, and its lines."""

    def __init__(self, formatter):
        self._stream = io.StringIO()
        self.handler = logging.StreamHandler(self._stream)
        self.handler.setFormatter(formatter)

    @property
    def lines(self):
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    @property
    def text(self):
        return self._stream.getvalue()


@pytest.fixture
def root():
    """The root logger, put back as it was."""
    logger = logging.getLogger()
    level, handlers = logger.level, logger.handlers[:]
    logger.setLevel(logging.INFO)
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.fixture
def written(root):
    made = Written(JsonFormatter())
    root.addHandler(made.handler)
    return made


def fail():
    try:
        try:
            raise ValueError("password=hunter2hunter2")
        except ValueError as error:
            raise ConnectionError(SECRET) from error
    except ConnectionError:
        return sys.exc_info()


class TestJson:
    def test_an_error_has_its_keys_and_its_traceback_no_secrets(self, written):
        logging.getLogger("shop").error("no order", exc_info=fail(), extra={"order": 17})
        (line,) = written.lines

        assert (line["message"], line["level"], line["logger"], line["order"]) == ("no order", "error", "shop", 17)
        assert line["time"].endswith("+00:00")
        assert line.keys() >= OF_A_FAILURE
        assert (line["error_category"], line["exception_name"]) == ("network", "ConnectionError")
        assert line["failure_message"] == "https://***@shop.example refused"
        assert "direct cause" in line["exception"]
        assert line["exception"].endswith("ConnectionError: https://***@shop.example refused")
        assert "hunter2" not in written.text

    def test_what_was_given_stays(self, written):
        logging.getLogger("shop").error("x", exc_info=fail(), extra={"error_category": "mine"})
        (line,) = written.lines

        assert line["error_category"] == "mine"
        assert "exception_name" not in line

    def test_a_text_that_another_handler_has_made_is_redacted_too(self):
        record = logging.makeLogRecord({"msg": "x", "exc_text": f"ConnectionError: {SECRET}", "stack_info": SECRET})
        line = json.loads(JsonFormatter().format(record))

        assert line["exception"] == "ConnectionError: https://***@shop.example refused"
        assert line["stack"] == "https://***@shop.example refused"

    def test_within_a_task_every_line_says_which(self, written):
        app = outlast.App("memory://", policy=outlast.RetryPolicy(max_attempts=2, base_delay=0))

        @app.task
        def greet():
            logging.getLogger("shop").info("hello")
            raise ConnectionError("refused")

        number = greet.enqueue().id
        app.worker().drain()
        own = [line for line in written.lines if line["logger"] == "shop"]
        last = [line for line in written.lines if line["logger"] == "outlast.worker"][-1]

        assert [(line["task_id"], line["task_type"], line["attempt"]) for line in own] == [
            (number, "greet", 1),
            (number, "greet", 2),
        ]
        assert (last["task_id"], last["attempt"], last["reason"]) == (number, 2, "exhausted")
        logging.getLogger("shop").info("outside")
        assert "task_id" not in written.lines[-1]

    def test_e9_a_failed_target_of_a_job(self, written):
        app = outlast.App("memory://")

        @app.job("items", entity="item", policy=outlast.RetryPolicy(max_attempts=1))
        def items(context, target):
            raise ConnectionError(SECRET)

        items.run(["a"])
        failed = [line for line in written.lines if line.get("error_category")]

        assert failed
        assert failed[0].keys() >= E9 | {"message"}
        assert (failed[0]["job_id"], failed[0]["entity"], failed[0]["source_id"]) == ("items", "item", "a")
        assert "hunter2" not in written.text

    def test_every_key_of_a_call_is_known(self, written):
        with fake_clock(), pytest.raises(NetworkError):
            outlast.call(failing(lambda: 1, [NetworkError(SECRET)] * 3), policy=outlast.RetryPolicy())
        keys = {key for line in written.lines for key in line}

        assert (
            keys - {"time", "level", "logger", "message"}
            == {"call", "delay", "reason", "attempt", "max_attempts"} | OF_A_FAILURE
        )
        documented = {row[0].strip("`") for row in table(read("reference/telemetry.md"), "Log keys")}
        assert keys - {"time", "level", "logger", "message"} <= documented

    def test_an_error_that_cannot_be_looked_at(self):
        class Odd(Exception):
            def __str__(self):
                raise OSError("no text")

        record = logging.makeLogRecord({"msg": "x", "exc_info": (Odd, Odd(), None)})
        assert "Odd" in json.loads(JsonFormatter().format(record))["exception"]

    def test_a_message_whose_arguments_do_not_fit(self):
        assert "its arguments do not fit" in record_message(logging.makeLogRecord({"msg": "%d", "args": ("x",)}))


@pytest.mark.parametrize("form", ["tuple", "error", "true"])
def test_the_forms_of_an_error(form):
    info = fail()
    try:
        raise info[1]
    except ConnectionError as error:
        given = {"tuple": info, "error": info[1], "true": True}[form]
        assert error_from_exc_info(given) is error


@pytest.mark.parametrize("given", [None, False, (), (None, None, None), ("x",)])
def test_no_error(given):
    assert error_from_exc_info(given) is None


class TestStructlog:
    @pytest.fixture
    def written(self, root):
        shared = [outlast_keys, structlog.stdlib.add_log_level, structlog.processors.TimeStamper(fmt="iso")]
        structlog.configure(
            processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
        formatter = structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                redacted_exception,
                structlog.processors.JSONRenderer(),
            ],
        )
        made = Written(formatter)
        root.handlers[:] = [made.handler]
        yield made
        structlog.reset_defaults()

    def test_an_event_of_the_programs_own(self, written):
        try:
            raise ConnectionError(SECRET)
        except ConnectionError:
            structlog.get_logger("shop").exception("no order", order=17)
        (line,) = written.lines

        assert (line["event"], line["order"], line["level"]) == ("no order", 17, "error")
        assert (line["error_category"], line["failure_message"]) == ("network", "https://***@shop.example refused")
        assert line["exception"].startswith("Traceback")
        assert "hunter2" not in written.text

    def test_what_was_given_stays(self, written):
        structlog.get_logger("shop").error(
            "x", exc_info=ConnectionError("y"), error_category="mine", exception_name="Mine"
        )
        (line,) = written.lines

        assert (line["error_category"], line["exception_name"]) == ("mine", "Mine")

    def test_records_of_outlast_and_lines_within_a_task(self, written):
        app = outlast.App("memory://", policy=outlast.RetryPolicy(max_attempts=1))

        @app.task
        def greet():
            structlog.get_logger("shop").info("hello")
            raise ConnectionError(SECRET)

        number = greet.enqueue().id
        app.worker().drain()
        own = next(line for line in written.lines if line["event"] == "hello")
        last = next(line for line in written.lines if "dead letter" in line["event"])

        assert (own["task_id"], own["task_type"], own["attempt"]) == (number, "greet", 1)
        assert last.keys() >= OF_A_FAILURE | {"task_id", "task_type", "attempt", "max_attempts", "reason"}
        assert "hunter2" not in written.text
