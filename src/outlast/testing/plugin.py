"""The plugin for pytest: the helpers of `outlast.testing` as fixtures, and what was decided in a failed test's report.

Every run of pytest imports this file, so it imports nothing of Outlast until a test asks for a fixture, and has no
hook that is called whenever a test runs.

``outlast_clock``       a `FakeClock` in the system's place
``outlast_faults``      `Faults`, checked and taken back at the end
``outlast_decisions``   `Decisions`, shown when the test fails
``outlast_app``         your app, or a new one, on an empty store; an `AppMaker`
``outlast_url``         the URL of that store: SQLite, or PostgreSQL for a test marked so
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

__all__: list[str] = []

_STORES = ("sqlite", "postgres")
_ENVIRONMENT = "OUTLAST_TEST_POSTGRES"
_faults: "pytest.StashKey[Faults]" = pytest.StashKey()
_decisions: "pytest.StashKey[Decisions]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the server on which tests marked with ``outlast_stores`` make their databases."""
    parser.getgroup("outlast").addoption(
        "--outlast-postgres",
        metavar="URL",
        help=f"PostgreSQL server for tests marked outlast_stores; by default what {_ENVIRONMENT} says",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "outlast_stores(*stores): run the test on each of these stores, 'sqlite' and 'postgres'; by default on both",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a marked test once for each store."""
    if "outlast_url" not in metafunc.fixturenames:  # asked first, as nearly every test ends here
        return
    marker = metafunc.definition.get_closest_marker("outlast_stores")
    if marker is None:
        return
    stores = marker.args or _STORES
    unknown = [each for each in stores if each not in _STORES]
    if unknown:
        message = f"outlast_stores: {unknown[0]!r} is no store; choose from: {', '.join(_STORES)}"
        raise pytest.UsageError(message)
    metafunc.parametrize("outlast_url", stores, indirect=True)


class _Reports:
    """What is done with the report of a test. It joins in with the first test that asks for it: others pay nothing."""

    NAME = "outlast-reports"

    @classmethod
    def join(cls, config: pytest.Config) -> None:
        """Have it called from now on."""
        if not config.pluginmanager.has_plugin(cls.NAME):
            config.pluginmanager.register(cls(), cls.NAME)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: "pytest.CallInfo[Any]") -> "Iterator[None]":
        """Fail a test whose faults were never met; show what was decided in one that failed."""
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
                vars(report).pop("wasxfail", None)  # it passed against expectation, which proves as little
        if report.failed:
            for title, what in (("Outlast decisions", decisions), ("Outlast faults", faults)):
                if what is not None and str(what):
                    report.sections.append((title, str(what)))


@pytest.fixture
def outlast_clock() -> "Iterator[FakeClock]":
    """A clock in the place of the system's: nobody waits, and ``waits`` notes who would have."""
    from outlast.testing.clock import fake_clock  # noqa: PLC0415

    with fake_clock() as clock:
        yield clock


@pytest.fixture
def outlast_faults(request: pytest.FixtureRequest) -> "Iterator[Faults]":
    """Make functions and points fail by category; the test fails if nothing came to a fault."""
    from outlast.testing.faults import Faults  # noqa: PLC0415

    _Reports.join(request.config)
    faults = request.node.stash[_faults] = Faults()
    yield faults
    faults.end()


@pytest.fixture
def outlast_decisions(request: pytest.FixtureRequest) -> "Iterator[Decisions]":
    """What Outlast decides during the test: retries, waits, what was given up; shown when the test fails."""
    from outlast.testing.decisions import record_decisions  # noqa: PLC0415

    _Reports.join(request.config)
    with record_decisions() as decisions:
        request.node.stash[_decisions] = decisions
        yield decisions


@pytest.fixture
def outlast_url(request: pytest.FixtureRequest, tmp_path: "Path") -> "Iterator[str]":
    """URL of an empty store of the test's own: a SQLite file, or a PostgreSQL database that is dropped at the end."""
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
