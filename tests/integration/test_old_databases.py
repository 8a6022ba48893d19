"""A database that an earlier version wrote is read, checked and worked through as that version did.

tests/data/README.md says where the data comes from.
"""

import re
from itertools import count

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from integration import old_databases as old

_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request):
    return request.param


@pytest.fixture
def url(kind, request, tmp_path):
    if kind == "sqlite":
        return old.load(kind, path=tmp_path / "old.db")
    server = request.getfixturevalue("postgres_server")
    return old.load(kind, server=server, name=f"old{next(_numbers)}")


@pytest.fixture(params=["as recorded", "years older"])
def of_any_age(request, url):
    """The copy as it is, and as it will be when the test runs years after the recording."""
    if request.param == "years older":
        old.make_older(url, days=2000)
    return url


def test_the_lists_show_what_they_showed(world, of_any_age, kind):
    assert old.lists(world, of_any_age) == old.expected(kind)["lists"]
    migrated = {"schema_version": 8, "workers": 0, "chart_marks": 0}  # a migration ends the leases of older workers
    assert old.tables(of_any_age) == old.expected(kind)["tables"] | migrated


def test_the_doctor_finds_nothing_new(world, of_any_age, kind):
    assert old.failing_checks(of_any_age) == old.expected(kind)["failing checks"]


def test_live_tasks_end_as_they_did(world, of_any_age, kind):
    assert old.rows(of_any_age) == old.expected(kind)["rows"]
    assert old.outcomes(of_any_age) == old.expected(kind)["outcomes"]
    assert old.failing_checks(of_any_age) == old.expected(kind)["failing checks"]


def test_a_unique_key_is_still_taken(url):
    app = old.build(url)
    fetch_page = app.tasks_by_name["fetch_page"]
    assert not fetch_page.enqueue(1, unique_key="order-7").created
    assert fetch_page.enqueue(1, unique_key="order-70").created
    app.close()


def test_the_failed_targets_of_a_run_are_done_again(url, kind):
    app = old.build(url)
    (ended,) = [run.id for run in app.store.runs("items") if run.state == "done"]
    summary = app.items.run(only_failed=ended)
    app.close()
    failed = old.expected(kind)["lists"]["failed targets"]["items"]
    assert failed > 0
    assert (summary.total_targets, summary.success_targets) == (failed, failed)


def test_the_data_is_small_and_has_no_path_of_a_machine(kind):
    text = old.read_dump(kind)
    assert len(text.encode()) < 200_000
    assert not re.search(r"/(home|root|tmp|work|Users|usr|opt)/", text)
