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


def test_the_lists_show_what_they_showed(world, url, kind):
    assert old.lists(world, url) == old.expected(kind)["lists"]
    assert old.tables(url) == old.expected(kind)["tables"]


def test_the_doctor_finds_nothing_new(world, url, kind):
    assert old.failing_checks(url) == old.expected(kind)["failing checks"]


def test_live_tasks_end_as_they_did(world, url, kind):
    assert old.rows(url) == old.expected(kind)["rows"]
    assert old.outcomes(url) == old.expected(kind)["outcomes"]
    assert old.failing_checks(url) == old.expected(kind)["failing checks"]


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
    text = old.DUMPS[kind].read_text("utf-8")
    assert len(text.encode()) < 200_000
    assert not re.search(r"/(home|root|tmp|work|Users|usr|opt)/", text)
