"""Where the output goes: nobody reads it, it cannot be written, or a package is missing for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import outlast
from cli_world import make_world  # noqa: F401  # a fixture
from outlast.ports.rows import NewTask


@pytest.fixture(params=["buffered", "unbuffered"])
def shell(world, request):
    """Runs a line of the shell in which ``$OUTLAST`` is the command."""
    world.run("db", "init", "--url", "sqlite:///outlast.db")
    world.app().store.enqueue([NewTask("scrape", f'{{"url":"{"x" * 900}{number}"}}') for number in range(500)])

    def shell(line):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        environment["PYTHONUNBUFFERED"] = "1" if request.param == "unbuffered" else ""
        environment["OUTLAST"] = f"{sys.executable} -m outlast"
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=environment, cwd=world.folder, check=False, timeout=60
        )  # fmt: skip

    return shell


@pytest.mark.parametrize("words", ["tasks list --json --limit 500", "tasks list --limit 500", "tasks show 1", "--help"])
def test_whoever_stops_reading_hears_nothing(shell, words):
    told = shell(f"$OUTLAST {words} | head -1; sleep 0.1")

    assert told.stdout.count("\n") == 1
    assert told.stderr == ""


@pytest.mark.parametrize("words", ["tasks list --json --limit 500", "tasks list --json --limit 1", "status"])
def test_a_reader_that_is_gone_before_the_first_word(shell, words):
    assert shell(f"(sleep 1; exec $OUTLAST {words}) | true").stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has such a file")
@pytest.mark.parametrize(
    "words",
    [
        "tasks list --json --limit 500", "tasks list --json --limit 1", "tasks list", "tasks show 1", "status", "queues list",
        "db check", "dlq list", "explain 429", "explain 429 --json", "--help", "tasks --help", "--version",
    ],
)  # fmt: skip
def test_a_full_disk_is_told_in_two_lines(shell, words):
    told = shell(f"$OUTLAST {words} > /dev/full")

    assert told.stderr.count("\n") == 2, told.stderr
    assert told.stderr.endswith("\n  free some disk space, or write elsewhere\n")
    assert "No space left on device" in told.stderr
    assert told.returncode == 1


def test_no_output_at_all(shell):
    told = shell("$OUTLAST tasks list --json >&-")

    assert told.stderr == ""


@pytest.mark.parametrize(("package", "words"), [("click", "--help"), ("rich", "status"), ("rich", "explain 429")])
def test_a_missing_package_is_named(shell, package, words):
    start = f"import sys; sys.modules[{package!r}] = None; from outlast.__main__ import main; main()"
    told = shell(f'{sys.executable} -c "{start}" {words}')

    assert told.stderr == "The command line needs click and rich. Install them: pip install 'outlast[cli]'\n"
    assert told.returncode == 1


def test_the_version_needs_no_package(shell):
    start = "import sys; sys.modules['click'] = None; from outlast.__main__ import main; main()"
    shown = shell(f'{sys.executable} -c "{start}" --version')

    assert (shown.stdout, shown.stderr, shown.returncode) == (f"outlast {outlast.__version__}\n", "", 0)


def test_another_missing_package_is_no_matter_of_ours(shell):
    start = "import sys; sys.modules['json'] = None; from outlast.__main__ import main; main()"

    assert "ModuleNotFoundError" in shell(f'{sys.executable} -c "{start}" status').stderr
