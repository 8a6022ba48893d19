"""Every case of the corpus is judged as a person would judge it."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import corpus
import outlast
from corpus.case import Case, World
from doc_pages import DOCS, FENCE
from outlast import classify


def _all_cases() -> list[Case]:
    cases: list[Case] = []
    for module in pkgutil.iter_modules(corpus.__path__):
        if module.name.startswith("cases_"):
            cases += importlib.import_module(f"corpus.{module.name}").CASES
    return cases


CASES = _all_cases()
pytestmark = pytest.mark.xdist_group("libraries")  # which take their time to be imported, and servers to start: once

# What a server needs that no wheel brings, by the name in `Case.needs`.
PROGRAMS = {"redis": "redis-server"}


def _params():
    for case in CASES:
        marks = [pytest.mark.needs(PROGRAMS[case.needs])] if case.needs in PROGRAMS else []
        yield pytest.param(case, id=case.id, marks=marks)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()


@pytest.mark.parametrize("case", _params())
def test_verdict(case, world):
    failure = classify(case.produce(world))

    assert (failure.category, failure.retryable) == (case.category, case.retryable), failure
    if case.retry_after is None:
        assert failure.retry_after is None, failure
    else:
        assert failure.retry_after == pytest.approx(case.retry_after, abs=1.5), failure
    assert failure.capped is case.capped
    if case.http_status is not None:
        assert failure.http_status == case.http_status
    if case.code is not None:
        assert failure.code == case.code
    if case.origin is not None:
        assert failure.origin is case.origin


def test_the_corpus_is_large_and_has_no_doubles():
    ids = [case.id for case in CASES]

    assert len(ids) == len(set(ids))
    assert len([case for case in CASES if not case.constructed]) >= 200


# The errors of docs/explanation/real-errors.md, in their order.
EXPLAINED = (
    "httpx/403-query-api_key",
    "googleapiclient/quotaExceeded",
    "psycopg/deadlock",
    "psycopg/wrong password",
    "sqlite3/locked",
    "requests/broken-gzip",
)


def test_the_page_of_real_errors_shows_what_is_said_about_them(world):
    page = (DOCS / "explanation" / "real-errors.md").read_text("utf-8")
    cases = {case.id: case for case in CASES}

    def without_numbers(text):  # a longer number leaves fewer characters for the details
        return re.sub(r"(?<=127\.0\.0\.1:)\d+|(?<=/base/)\d+|(?<=port )\d+|(?<=Details: ).*", "0", text)

    said = [str(outlast.explain(cases[each].produce(world))) for each in EXPLAINED]

    assert [without_numbers(block[2].rstrip()) for block in FENCE.finditer(page)] == [
        without_numbers(each) for each in said
    ]
