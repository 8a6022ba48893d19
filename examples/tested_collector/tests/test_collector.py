"""The collector survives: rate limits, outages, missing reports, an unreliable network, a full disk and a power cut."""

# ruff: noqa: ANN001, ANN002, ANN201, D103  # fixtures need no annotations, and a test's name is its documentation

import collector
import pytest

import outlast
from outlast.testing import crash_at, drain

DAYS = ["monday", "tuesday", "wednesday"]


@pytest.fixture
def app(outlast_app):
    """The collector's own app, on an empty store."""
    return outlast_app(collector.app)


def enqueue(*days):
    """Order some days."""
    collector.collect.enqueue_many({"day": day} for day in days)


def indexed(shelf):
    """Return the days in the index."""
    return (shelf / "index").read_text("utf-8").split()


@pytest.mark.outlast_stores("sqlite", "postgres")
def test_all_reports_are_collected(app, shelf):
    enqueue(*DAYS)
    assert drain(app, concurrency=1).done == 3
    assert indexed(shelf) == DAYS


def test_a_server_that_asks_to_wait_is_left_alone_for_that_long(app, outlast_faults, outlast_decisions):
    outlast_faults.fail("collector.fetch", outlast.Category.RATE_LIMIT, retry_after=20, times=1)
    enqueue("monday")
    assert drain(app).done == 1
    assert outlast_decisions.waits("fetch") >= [20]
    assert outlast_decisions.gave_up("collect") == 0


def test_an_outage_of_some_hours_costs_nothing(app, outlast_faults, outlast_decisions):
    outlast_faults.fail("collector.fetch", outlast.Category.NETWORK, times=10)
    enqueue("monday")
    drained = drain(app)
    assert (drained.done, drained.dead) == (1, 0)
    assert outlast_decisions.retries("collect") == 3, "three times three attempts, and one"


def test_a_report_that_does_not_exist_is_a_dead_letter_at_once(app, outlast_faults, outlast_decisions):
    outlast_faults.fail("collector.fetch", outlast.Category.NOT_FOUND)
    enqueue("sunday")
    assert drain(app).dead == 1
    assert outlast_decisions.retries() == 0
    assert outlast_decisions.gave_up("collect", category=outlast.Category.NOT_FOUND) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_network_that_drops_every_fifth_call_loses_no_report(app, shelf, outlast_faults, seed):
    outlast_faults.fail("collector.fetch", outlast.Category.NETWORK, rate=0.2, seed=seed)
    enqueue(*DAYS)
    assert drain(app, concurrency=1).dead == 0
    assert indexed(shelf) == DAYS


def test_a_full_disk_leaves_no_half_report(app, shelf, outlast_faults):
    outlast_faults.fail("pathlib.Path.replace", outlast.Category.SYSTEM, times=1)
    enqueue("monday")
    assert drain(app).retried == 1
    assert (shelf / "monday.txt").read_text("utf-8") == "report of monday"


def test_a_power_cut_between_shelf_and_index_loses_and_doubles_nothing(app, shelf, outlast_url):
    enqueue(*DAYS)
    crash_at("after-shelving", collector.work, after=1, env={"COLLECTOR_STORE": outlast_url})
    assert indexed(shelf) == ["monday"], "tuesday is on the shelf and not in the index"

    drained = drain(app)
    assert drained.rescued >= 1
    assert drained.dead == 0
    assert indexed(shelf) == DAYS
