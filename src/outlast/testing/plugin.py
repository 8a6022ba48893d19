"""The pytest plugin: the helpers of `outlast.testing` as fixtures, and the decisions in the report of a failed test.

Every run of pytest imports this file. So it imports nothing from Outlast until a test uses a fixture, and has no hook
that runs for every test.

``outlast_clock``       a `FakeClock` instead of the system clock
``outlast_faults``      `Faults`, checked and removed at the end
``outlast_decisions``   `Decisions`, shown when the test fails
``outlast_app``         your app, or a new one, on an empty store; an `AppMaker`
``outlast_url``         the URL of that store: SQLite, or PostgreSQL for tests with the marker
"""

import os

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from outlast.app import App
    from outlast.testing.clock import FakeClock
    from outlast.testing.decisions import Decisions
    from outlast.testing.faults import Faults
    from outlast.testing.store_fixtures import AppMaker

_STORES = ("sqlite", "postgres")
_ENVIRONMENT = "OUTLAST_TEST_POSTGRES"
_faults: "pytest.StashKey[Faults]" = pytest.StashKey()
_decisions: "pytest.StashKey[Decisions]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the server where tests marked with ``outlast_stores`` create their databases."""
    parser.getgroup("outlast").addoption(
        "--outlast-postgres",
        metavar="URL",
        help=f"PostgreSQL server for tests marked outlast_stores; default: {_ENVIRONMENT}",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "outlast_stores(*stores): run the test on each of these stores, 'sqlite' and 'postgres'; default: both",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a marked test once for each store."""
    if "outlast_url" not in metafunc.fixturenames:  # checked first, because nearly all tests end here
        return
    marker = metafunc.definition.get_closest_marker("outlast_stores")
    if marker is None:
        return
    stores = marker.args or _STORES
    unknown = [each for each in stores if each not in _STORES]
    if unknown:
        raise pytest.UsageError(
            f"outlast_stores: {unknown[0]!r} is not a valid store; choose from: {', '.join(_STORES)}"
        )
    metafunc.parametrize("outlast_url", stores, indirect=True)


class _Reports:
    """Changes the reports of tests. The first test that needs it registers it, so that others do not pay for it."""

    NAME = "outlast-reports"

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Register it, once."""
        if not config.pluginmanager.has_plugin(cls.NAME):
            config.pluginmanager.register(cls(), cls.NAME)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: "pytest.CallInfo[Any]") -> "Iterator[None]":
        """Fail a test whose faults were not reached; show the decisions of a failed test."""
        outcome: Any = yield
        report: pytest.TestReport = outcome.get_result()
        if call.when != "call":
            return
        faults, decisions = item.stash.get(_faults, None), item.stash.get(_decisions, None)
        if faults is not None and report.passed:
            try:
                faults.check()
            except AssertionError as error:
                report.outcome, report.longrepr = "failed", str(error)
                vars(report).pop("wasxfail", None)  # a test that unexpectedly passed proves nothing either
        if report.failed:
            for title, what in (("Outlast decisions", decisions), ("Outlast faults", faults)):
                if what is not None and str(what):
                    report.sections.append((title, str(what)))


@pytest.fixture
def outlast_clock() -> "Iterator[FakeClock]":
    """A fake clock instead of the system clock: sleeping takes no time, and ``waits`` records it."""
    from outlast.testing.clock import fake_clock  # noqa: PLC0415

    with fake_clock() as clock:
        yield clock


@pytest.fixture
def outlast_faults(request: pytest.FixtureRequest) -> "Iterator[Faults]":
    """Makes functions and points fail by category; the test fails if a fault is never reached."""
    from outlast.testing.faults import Faults  # noqa: PLC0415

    _Reports.register(request.config)
    faults = request.node.stash[_faults] = Faults()
    yield faults
    faults.end()


@pytest.fixture
def outlast_decisions(request: pytest.FixtureRequest) -> "Iterator[Decisions]":
    """The decisions of Outlast during the test: retries, waits, give-ups; shown when the test fails."""
    from outlast.testing.decisions import record_decisions  # noqa: PLC0415

    _Reports.register(request.config)
    with record_decisions() as decisions:
        request.node.stash[_decisions] = decisions
        yield decisions


@pytest.fixture
def outlast_url(request: pytest.FixtureRequest, tmp_path: "Path") -> "Iterator[str]":
    """URL of an empty store for the test: a SQLite file, or a PostgreSQL database that is dropped at the end."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path / 'outlast.db'}"
        return
    server = request.config.getoption("--outlast-postgres") or os.environ.get(_ENVIRONMENT)
    if not server:
        pytest.skip(f"needs a PostgreSQL server: pytest --outlast-postgres URL, or set {_ENVIRONMENT}")
    pytest.importorskip("psycopg", reason="needs the extra: pip install 'outlast[postgres]'")
    from outlast.testing.store_fixtures import fresh_database  # noqa: PLC0415

    with fresh_database(server) as url:
        yield url


@pytest.fixture
def outlast_app(outlast_url: str) -> "Iterator[AppMaker]":
    """Your app on an empty store until the test ends, ``outlast_app(shop.app)``; or a new one, ``outlast_app()``."""
    from contextlib import ExitStack  # noqa: PLC0415

    from outlast.app import App  # noqa: PLC0415
    from outlast.testing.store_fixtures import on_store  # noqa: PLC0415

    with ExitStack() as stack:

        def make(app: "App | None" = None, **settings: "Any") -> "App":
            if app is not None:
                return stack.enter_context(on_store(app, outlast_url))
            made = App(outlast_url, **settings)
            stack.callback(made.close)
            made.create_schema()
            return made

        yield make
