"""What a worker logs, and how."""

import json
import logging
import sys

import pytest

from outlast.cli.logs import PlainFormatter, set_up_logs
from outlast.observe.json_logs import JsonFormatter


def record(message, *args, error=None, **extra):
    made = logging.getLogger("outlast.worker").makeRecord(
        "outlast.worker", logging.WARNING, __file__, 1, message, args, error, extra=extra
    )
    made.created = 1_800_000_000.25
    return made


@pytest.fixture
def error():
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        return sys.exc_info()


def test_plain():
    line = PlainFormatter().format(record("task %d", 3))

    assert line == "2027-01-15T08:00:00.250+00:00 WARNING outlast.worker: task 3"


def test_plain_lines_cannot_be_forged():
    assert PlainFormatter().format(record("a\x1b[2Jb")).endswith("a\ufffd[2Jb")


def test_plain_shows_the_traceback(error):
    assert "ZeroDivisionError" in PlainFormatter().format(record("it failed", error=error))


def test_json_has_the_keys_of_the_record():
    line = JsonFormatter().format(record("task %d", 3, task_id=3, odd=object, name_of="雪\n"))
    data = json.loads(line)

    assert "\n" not in line
    assert line.isascii()
    assert data == {
        "time": "2027-01-15T08:00:00.250+00:00",
        "level": "warning",
        "logger": "outlast.worker",
        "message": "task 3",
        "task_id": 3,
        "odd": "<class 'object'>",
        "name_of": "雪\n",
    }


def test_json_has_the_exception(error):
    assert "ZeroDivisionError" in json.loads(JsonFormatter().format(record("it failed", error=error)))["exception"]


class Mute:
    def __str__(self):
        raise OSError

    __repr__ = __str__


RING = {"a": 1}
RING["self"] = RING["other"] = [RING]
DEEP = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ({"a": [float("inf")]}, {"a": ["inf"]}),
        ({(1, 2): 3, None: 4, 5: 6}, {"(1, 2)": 3, "None": 4, "5": 6}),
        (RING, {"a": 1, "self": ["…"], "other": ["…"]}),
        (Mute(), "<a Mute that cannot be converted to text>"),
        ({Mute(): Mute()}, {"<a Mute that cannot be converted to text>": "<a Mute that cannot be converted to text>"}),
        ({(Mute(),): 1}, {"<a tuple that cannot be converted to text>": 1}),
        ([10**5000], [hex(10**5000)]),
        ({3}, [3]),
        ("\udcff", "\udcff"),
        (logging.StrFormatStyle, "<class 'logging.StrFormatStyle'>"),
    ],
)
def test_json_is_valid_whatever_is_logged(value, written):
    def refuse(name):
        raise AssertionError(name)

    line = JsonFormatter().format(record("it is", odd=value))

    assert json.loads(line, parse_constant=refuse)["odd"] == written
    assert "\n" not in line


def test_json_of_any_depth():
    assert "…" in JsonFormatter().format(record("deep", odd=DEEP)).encode().decode("unicode_escape")


def test_json_of_a_message_whose_arguments_do_not_fit():
    for made in (record("%d of %d", 3), record("%s", Mute())):
        assert "its arguments do not fit" in json.loads(JsonFormatter().format(made))["message"]


def test_json_has_the_stack():
    made = record("here")
    made.stack_info = "Stack (most recent call last):\n  File ..."

    assert json.loads(JsonFormatter().format(made))["stack"] == made.stack_info


@pytest.mark.parametrize(
    ("terminal", "as_json", "handler", "formatter"),
    [
        (False, False, "StreamHandler", "PlainFormatter"),
        (False, True, "StreamHandler", "JsonFormatter"),
        (True, True, "StreamHandler", "JsonFormatter"),
        (True, False, "RichHandler", "SafeFormatter"),
    ],
)
def test_the_handler(terminal, as_json, handler, formatter, monkeypatch):
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    try:
        set_up_logs("debug", as_json=as_json)
        made = root.handlers[-1]
        assert (type(made).__name__, type(made.formatter).__name__) == (handler, formatter)
        assert made.formatter.format(record("a\x1b[2J")).isprintable()
        assert root.level == logging.DEBUG
    finally:
        root.handlers[:] = before
        root.setLevel(level)
