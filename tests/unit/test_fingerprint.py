"""The same failure has the same fingerprint; another cause has another."""

import time
from itertools import combinations

import pytest

from outlast import Category, Failure, classify
from unit.fingerprint_table import DIFFERENT, SAME


def fingerprint(message, name="Error", **fields):
    return Failure(Category.UNKNOWN, retryable=False, exception_name=name, message=message, **fields).fingerprint


@pytest.mark.parametrize(("one", "other"), [(row[0], other) for row in SAME for other in row[1:]])
def test_ids_hosts_dates_numbers_and_values_do_not_count(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), [pair for row in DIFFERENT for pair in combinations(row, 2)])
def test_another_cause_counts(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_the_table_has_at_least_240_pairs():
    assert sum(len(row) - 1 for row in SAME + DIFFERENT) >= 240


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "1",
        "a-",
        "1.",
        "'",
        "a: '",
        "invalid ",
        "f: ",
        ":",
        "nov 1",
        "1 nov ",
        "date(",
        "a/",
        "/a",
        "0a:",
        "host=",
        "=(",
    ],
)
def test_no_text_takes_long(part):
    text = part * 4096
    start = time.thread_time()
    fingerprint(text[:4096])

    assert time.thread_time() - start < 0.25


def test_type_status_code_and_place_count():
    seen = {
        fingerprint("x"),
        fingerprint("x", name="Other"),
        fingerprint("x", http_status=404),
        fingerprint("x", http_status=503),
        fingerprint("x", code="40001"),
        fingerprint("x", location="app/a.py:fetch"),
        fingerprint("x", location="app/a.py:save"),
    }
    assert len(seen) == 7


def test_the_line_does_not_count():
    def fetch(flag):
        if flag:
            raise ValueError("bad")
        raise ValueError("bad")

    def judged(flag):
        try:
            fetch(flag)
        except ValueError as error:
            return classify(error)

    one, other = judged(flag=True), judged(flag=False)

    assert one.fingerprint == other.fingerprint
    assert one.location.endswith("unit/test_fingerprint.py:test_the_line_does_not_count.<locals>.fetch")


def test_the_innermost_frame_of_the_users_code_is_the_place():
    import json

    def parse():
        return json.loads("{")

    try:
        parse()
    except ValueError as error:
        assert classify(error).location.endswith(
            "test_fingerprint.py:test_the_innermost_frame_of_the_users_code_is_the_place.<locals>.parse"
        )
