"""Numbers, lengths of time, categories and verdicts as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from outlast.failure import RETRYABLE, Category
from outlast.report.classification import stored_judgement
from outlast.report.text_format import CATEGORIES, ago, category_look, count, counted, detail_text
from outlast.units import span

NOW = datetime(2026, 11, 15, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-1, "0 s"),
        (0.42, "0.42 s"),
        (9.99, "10 s"),
        (12.4, "12 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (36_000 + 300, "10 h"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (40 * 86_400 + 5000, "40 d"),
    ],
)
def test_lengths_of_time(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (1, "just now"),
        (2, "2 s ago"),
        (59.6, "1 min ago"),
        (7199, "1 h ago"),
        (-1, "now"),
        (-90, "in 1 min"),
        (90_000, "1 d ago"),
    ],
)
def test_how_long_ago(seconds, text):
    assert ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_counting():
    assert [count(1234567), counted(1, "task"), counted(2, "task"), counted(2, "retry", "retries")] == [
        "1,234,567",
        "1 task",
        "2 tasks",
        "2 retries",
    ]


def test_every_category_has_words():
    looks = [category_look(category) for category in Category]
    assert set(CATEGORIES) == set(Category)
    assert len({look.label for look in looks}) == len({look.meaning for look in looks}) == len(looks)
    assert {category for category in Category if category_look(category).retryable} == RETRYABLE
    assert category_look("of_tomorrow").label == "of tomorrow"


VERDICTS = [
    (
        {"rule": "http 429", "retryable": True, "http_status": 429},
        "Its type or status showed what it is.",
        "outlast explain 429",
    ),
    (
        {"rule": "nothing matched", "exception_name": "KeyError"},
        "Nothing about it was known, so it is not retried.",
        "outlast explain KeyError",
    ),
    ({"rule": "text: database is locked"}, "Only its text showed what it is: the weakest evidence.", ""),
    (
        {"rule": "rule: vendor busy", "code": "a b; rm -rf /"},
        "One of your own rules decided.",
        "outlast explain 'a b; rm -rf /'",
    ),
    ({"rule": "class name: Timeout"}, "The name of its class showed what it is: weak evidence.", ""),
    ({}, "What decided is no longer known.", ""),
]


@pytest.mark.parametrize(("failure", "because", "command"), VERDICTS)
def test_what_decided_is_told_in_words(failure, because, command):
    verdict = stored_judgement("rate_limit", failure)
    assert (verdict.because, verdict.command, verdict.category) == (because, command, "rate_limit")
    assert verdict.retryable is True


def test_what_the_other_side_asked_for():
    asked = [
        stored_judgement("rate_limit", failure).asked
        for failure in (
            {"retry_after": 120.0},
            {"retry_after": 30, "exact": True},
            {"retry_after": 3600.0, "capped": True},
            {"retry_after": None},
            {"retry_after": "soon"},
            {"retry_after": True},
        )
    ]
    assert asked == ["at least 2 min", "exactly 30 s", "at least 1 h; it asked for longer", "", "", ""]


def test_facts_leave_out_what_is_not_known():
    facts = stored_judgement(
        "data", {"origin": "unknown", "http_status": None, "code": "", "location": "a.py:run"}
    ).facts
    assert facts == {"Where": "a.py:run"}


def test_the_details_of_an_audit_entry_are_one_line():
    detail = {"dead_letter_id": [1, 0, 7], "canary": True, "rate": None, "snooze": 7200.0, "filters": {"task": "x"}}
    assert detail_text(detail) == "dead letter id 1 0 7, canary yes, rate none, snooze 2 h, filters …"
