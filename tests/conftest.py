"""What all tests share: hypothesis profiles, and programs of the system that a test may need."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# Where it decides whether a change lands, the same examples every time; others are looked for everywhere else.
_CI = os.environ.get("CI") == "true"
settings.register_profile("default", deadline=None, derandomize=_CI, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", deadline=None, max_examples=2_500, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs(program): skipped by name where the program is missing; fails under CI=true"
    )


@pytest.fixture(autouse=True)
def new_second_of_log_lines():
    """Begin each test with a new second for the log lines that are limited to so many a second."""
    if logs := sys.modules.get("outlast.run.logs"):
        logs.flush_line_limits()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep together what shares the fixtures of a module, so that one process of the test run makes them once."""
    for item in items:
        fixtures = getattr(item, "_fixtureinfo", None)
        shares = fixtures is not None and any(
            found[-1].scope in {"module", "package"} for found in fixtures.name2fixturedefs.values()
        )
        if shares and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without looking for garbage, of which there is little, and never look at all those tests again.

    Some tests ask for a collection, which then takes milliseconds and not half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


_TIMEOUT = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item, settings):
    """Repeat the timeout of a test: each of several teardowns may hang."""
    item.stash[_TIMEOUT] = settings
    is_set = yield
    if settings.method == "signal":
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, settings.timeout)
    return is_set


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    """Set the timeout again: a failure of the test has cancelled it."""
    settings = item.stash.get(_TIMEOUT, None)
    if settings is not None:
        hooks = item.config.pluginmanager.hook
        hooks.pytest_timeout_cancel_timer(item=item)
        hooks.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """End this process if a thread that a test left behind keeps it from ending."""
    timeout = config.getoption("timeout") or float(config.getini("timeout"))
    faulthandler.dump_traceback_later(timeout, exit=True, file=sys.__stderr__)


def pytest_terminal_summary(terminalreporter):
    """Print how many examples of the documentation ran, and how many say why they cannot."""
    found = [
        dict(report.user_properties).get("examples", (0, 0)) for report in terminalreporter.stats.get("passed", ())
    ]
    ran, skipped = (sum(column) for column in zip((0, 0), *found, strict=True))
    if ran:
        share = skipped / (ran + skipped)
        terminalreporter.write_line(f"documentation: {ran} examples run, {skipped} skipped ({share:.1%})")


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if shutil.which(program) is None:
                reason = f"{program} is not installed on this machine"
                if os.environ.get("CI") == "true":
                    pytest.fail(reason)
                pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory):
    """A PostgreSQL for this process of the test run, started by the first test that needs one."""
    from servers.postgres import PostgresServer

    server = PostgresServer(tmp_path_factory.mktemp("postgres"), max_connections=80, brief=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _same_subscribers_as_before():
    """Take off the bus what a test has put on it: a figure that was asked for counts on as long as its app lives."""
    from outlast.record import bus

    before = bus.subscribers
    yield
    bus.subscribers = before
