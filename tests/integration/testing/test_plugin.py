"""The plugin in a real pytest, on small projects of users."""

import inspect
import os
import re
import subprocess
import sys

import pytest

from integration.testing.projects import ROOT, Project, declared, installed, is_outdated, names

SHOP = """
import outlast

def ask(url):
    return f"page of {url}"

@outlast.retry
def fetch(url):
    return ask(url)
"""


# Python 3.12.0 to 3.12.3 warn of every numbered parameter of SQLite (`?1`); 3.12.4 took the warning back.
STRICT_WARNINGS = """
filterwarnings =
    error
    ignore:Binding .* is a named parameter:DeprecationWarning
"""


@pytest.fixture
def project(tmp_path, environment):
    project = Project(tmp_path, environment)
    project.write("shop.py", SHOP)
    project.write("pytest.ini", "[pytest]\npythonpath = .\naddopts = --strict-markers\n" + STRICT_WARNINGS)
    return project


def test_pytest_finds_it_by_its_entry_point():
    """The installed one; the others go by a stand-in where the project has changed since it was installed."""
    if not installed() and is_outdated():
        reason = "Outlast is installed as it was before pyproject.toml changed; make test installs it anew"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    assert installed() == declared() == {"outlast": "outlast.testing.plugin"}


def test_fixtures_that_pass(project):
    project.write(
        "test_shop.py",
        """
import asyncio
import pytest
import outlast
import shop
from outlast import clock
from outlast.testing import drain, drain_async

def test_faults_and_clock(outlast_clock, outlast_faults, outlast_decisions):
    outlast_faults.fail("shop.ask", outlast.Category.NETWORK, times=2)
    assert shop.fetch("a") == "page of a"
    assert outlast_clock.waits == outlast_decisions.waits("fetch") == [0.5, 1.0]

def test_the_fault_is_gone():
    assert shop.ask.__name__ == "ask" and not hasattr(shop.ask, "__wrapped__")
    assert clock._in_use is None

def test_the_same_function_is_patched(monkeypatch, outlast_faults):
    outlast_faults.fail("shop.ask", outlast.Category.NETWORK, optional=True)
    monkeypatch.setattr(shop, "ask", str.upper)
    assert shop.fetch("a") == "A"

def test_and_its_fault_is_gone_too():
    assert shop.fetch("a") == "page of a"

def test_a_new_app(outlast_app, outlast_url):
    app = outlast_app(lease=5)
    assert app.settings.lease == 5
    app.task(note).enqueue(n=1)
    assert drain(app).done == 1
    assert outlast_url.startswith("sqlite:////")

def note(n: int) -> None: ...

mine = outlast.App("memory://")

@mine.task
def scrape(n: int) -> None: ...

def test_my_own_app(outlast_app):
    before = mine.store
    app = outlast_app(mine)
    assert app is mine and app.store is not before
    scrape.enqueue(n=1)
    assert asyncio.run(drain_async(app)).done == 1

def test_which_is_back(request):
    assert type(mine.store).__name__ == "MemoryStore"

@pytest.mark.anyio
async def test_on_a_running_loop(outlast_app, anyio_backend):
    app = outlast_app(mine)
    scrape.enqueue(n=1)
    assert (await drain_async(app)).done == 1

@pytest.fixture
def anyio_backend():
    return "asyncio"
""",
    )
    text, code = project.run()
    assert code == 0, text
    assert "8 passed" in text
    assert "Outlast decisions" not in text
    assert re.search(r"^plugins: .*\boutlast-", text, re.MULTILINE), "loaded by its entry point"


def test_a_test_that_fails_shows_what_was_decided(project):
    project.write(
        "test_shop.py",
        """
import outlast
import pytest
import shop

def test_too_many_failures(outlast_clock, outlast_faults, outlast_decisions):
    outlast_faults.fail("shop.ask", "network", times=1)
    outlast_faults.fail("shop.ask", "not_found")
    with pytest.raises(Exception):
        shop.fetch("a")
    assert outlast_decisions.retries("fetch") == 2

def test_a_fault_that_nothing_meets(outlast_faults):
    outlast_faults.fail("shop.fetch", "network")
    outlast_faults.fail("after-uplaod", "network", optional=True)

def test_an_error_goes_before_that(outlast_faults):
    outlast_faults.fail("shop.fetch", "network")
    assert shop is None

@pytest.mark.xfail(strict=False)
def test_a_fault_that_nothing_meets_in_a_test_that_passes_against_expectation(outlast_faults):
    outlast_faults.fail("shop.fetch", "network")

@pytest.mark.xfail(strict=False)
def test_against_expectation(outlast_faults): ...

@pytest.mark.xfail
def test_expected(outlast_faults):
    outlast_faults.fail("shop.fetch", "network")
    assert shop is None

def test_skipped(outlast_faults):
    outlast_faults.fail("shop.fetch", "network")
    pytest.skip("not today")
""",
    )
    text, code = project.run("-n", "1")  # so that the reports go to another process
    assert code == 1
    assert names(text, "FAILED") == {
        "test_too_many_failures",
        "test_a_fault_that_nothing_meets",
        "test_an_error_goes_before_that",
        "test_a_fault_that_nothing_meets_in_a_test_that_passes_against_expectation",
    }
    assert "4 failed, 1 skipped, 1 xfailed, 1 xpassed" in text
    assert "- Outlast decisions -----" in text
    assert "\nfetch: attempt 1 failed, retrying in 0.5 s (network: [Errno 104] Connection reset by peer)\n" in text
    assert "\nfetch: given up after 2 attempts (permanent) (not_found: HTTP Error 404: Not Found)\n" in text
    assert "where 1 = retries('fetch')" in text
    assert "retries = Decisions(2: fetch: attempt 1 failed" in text
    assert "Fault('shop.ask', ConnectionResetError, calls=2, failed=1)" in text
    assert "no call reached the fault at 'shop.fetch', so this test proves nothing about it" in text
    assert "test_an_error_goes_before_that - assert shop is None" in text


STORES = """
import os
import pytest
import outlast
from outlast.testing import drain

@pytest.mark.outlast_stores
def test_both(outlast_app, outlast_url):
    app = outlast_app()
    with open("urls", "a") as file:
        file.write(outlast_url + "\\n")

    @app.task
    def note(n: int) -> None: ...

    note.enqueue(n=1, delay=3600)
    assert drain(app).done == 1

@pytest.mark.outlast_stores("postgres")
def test_one(outlast_url):
    assert outlast_url.startswith("postgresql://")

def test_neither(outlast_url):
    assert outlast_url.startswith("sqlite://")
"""


def test_stores_without_a_server(project):
    project.write("test_stores.py", STORES)
    text, code = project.run()
    assert code == 0, text
    assert names(text, "PASSED") == {"test_both[sqlite]", "test_neither"}
    assert "2 passed, 2 skipped" in text
    assert "needs a PostgreSQL server: pytest --outlast-postgres URL, or set OUTLAST_TEST_POSTGRES" in text


def test_stores_with_a_server(project, postgres_server):
    project.write("test_stores.py", STORES)
    text, code = project.run("--outlast-postgres", postgres_server.url)
    assert code == 0, text
    assert "4 passed" in text
    assert {"test_both[sqlite]", "test_both[postgres]"} <= names(text, "PASSED")
    (made,) = re.findall(r"/(outlast_test_\w+)$", (project.folder / "urls").read_text(), re.MULTILINE)
    with postgres_server.connect() as connection:
        left = connection.execute("SELECT count(*) FROM pg_database WHERE datname = %s", (made,)).fetchone()
    assert left == (0,), "dropped"


def test_a_store_that_there_is_not(project):
    project.write(
        "test_stores.py",
        "import pytest\n\n@pytest.mark.outlast_stores('mysql')\ndef test_it(outlast_url): ...\n",
    )
    text, code = project.run()
    assert code != 0
    assert "outlast_stores: 'mysql' is not a valid store; choose from: sqlite, postgres" in text


def test_the_marker_is_explained(project):
    text, _ = project.run("--markers")
    assert "@pytest.mark.outlast_stores(*stores): run the test on each of these stores" in text


def test_pytest_starts_without_loading_the_rest_of_outlast():
    program = "import sys; import outlast.testing.plugin; print(sorted(n for n in sys.modules if 'outlast' in n))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['outlast', 'outlast.testing', 'outlast.testing.plugin']"


def test_tests_without_its_fixtures_do_not_pay_for_it():
    """No fixture for all, and no hook that is called for every run of a test."""
    from outlast.testing import plugin

    hooks = {name for name in vars(plugin) if name.startswith("pytest_")}
    assert hooks == {"pytest_addoption", "pytest_configure", "pytest_generate_tests"}
    source = inspect.getsource(plugin)
    assert source.count("@pytest.fixture\n") == 5 == source.count("@pytest.fixture")


def test_the_example(postgres_server, tmp_path, environment):
    """examples/tested_collector, as a reader runs it, on both stores."""
    text, code = Project(ROOT / "examples" / "tested_collector", environment).run(
        "--basetemp", tmp_path / "base", OUTLAST_TEST_POSTGRES=postgres_server.url, PYTHONDONTWRITEBYTECODE="1"
    )
    assert code == 0, text
    assert "12 passed" in text
