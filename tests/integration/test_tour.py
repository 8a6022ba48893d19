"""The live tour, run as its reader does: the link lets in, the dashboard shows the figures, and the end adds up."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 60.0
STEP = 0.05
PAGES = ("/", "/tasks", "/failures", "/dead-letters", "/queues", "/sources", "/jobs", "/waits", "/health-checks")
LINK = re.compile(r"Dashboard: (http://127\.0\.0\.1:\d+)(/enter\?once=\S+)")
TASKS = re.compile(r"(\d+) enqueued = (\d+) done \+ (\d+) dead \+ (\d+) cancelled \+ (\d+) not done yet")
TARGETS = re.compile(r"(\d+) targets = (\d+) success \+ (\d+) failed \+ (\d+) deferred \+ (\d+) not attempted")

pytestmark = pytest.mark.xdist_group("tour")  # one at a time: each has four processes


class Tour:
    """A tour in a process of its own, its terminal a pipe."""

    def __init__(self, *words):
        environment = {
            **os.environ,
            "http_proxy": "http://127.0.0.1:1",
            "HTTP_PROXY": "http://127.0.0.1:1",
        }  # none is asked
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.tour", *words], cwd=ROOT, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_hearing_interrupts,  # noqa: PLW1509  # as above
        )  # fmt: skip

    def line(self, wanted):
        """Read until a line holds something; return what was found."""
        while text := self.process.stdout.readline():
            if found := re.search(wanted, text):
                return found
        message = self.process.stderr.read()
        raise AssertionError(message)

    def children(self):
        """Return the numbers of its processes."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _parent(path) == self.process.pid]

    def ended(self):
        """Wait for the end; return what was printed since the last line that was read."""
        text, errors = self.process.communicate(timeout=LIMIT)
        assert (self.process.returncode, errors) == (0, "")
        return text


def _hearing_interrupts():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore them


def _parent(path):
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has just ended
        return 0


def eventually(condition):
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(STEP)
    return found


@pytest.fixture
def tour():
    begun = []

    def start(*words):
        begun.append(Tour(*words))
        return begun[-1]

    yield start
    for each in begun:
        each.process.kill()
        each.process.communicate()


def adds_up(numbers):
    total, *parts = map(int, numbers)
    return total == sum(parts)


def entered(shown):
    """Return a browser that came in by the link, and where the dashboard is."""
    base, path = shown.line(LINK).groups()
    browser = httpx.Client(base_url=base, follow_redirects=True, trust_env=False, timeout=30)
    page = browser.get(path)
    assert (page.status_code, page.url.path, page.url.query) == (200, "/", b"")  # no token in the URL any more
    return browser, base


def test_a_few_seconds_of_it(tour):
    shown = tour("--for", "6s")
    browser, _ = entered(shown)
    with closing(browser):
        assert {"DONE", "dead_letters"} < browser.get("/api/").json()["counts"].keys()
    text = shown.ended()

    assert "What happened in " in text
    numbers = TASKS.search(text).groups()
    assert adds_up(numbers)
    assert int(numbers[0]) >= 9  # one of each kind
    assert re.search(r"\d+ attempts retried, \d+ deferred, \d+ lost; workers that died: \d+", text)
    assert re.search(r"sources  \d+ of 12 disabled", text)
    assert re.search(r"hosts    \d+ cooled down", text)
    targets = TARGETS.search(text)
    assert adds_up(targets.groups()) if targets else "none has ended" in text


def test_the_pages_are_alive_and_ctrl_c_ends_it_with_the_summary(tour):
    shown = tour()
    browser, base = entered(shown)
    with closing(browser):
        done = eventually(lambda: browser.get("/api/").json()["counts"]["DONE"])
        eventually(lambda: browser.get("/api/").json()["counts"]["DONE"] > done)  # it goes on
        eventually(lambda: browser.get("/api/").json()["counts"]["dead_letters"])
        assert browser.get("/api/tasks", params={"status": "DONE"}).json()["rows"]
        for page in PAGES:
            assert browser.get(page).status_code == 200, page
    assert httpx.get(f"{base}/", trust_env=False).status_code in {401, 403}  # who has no session sees nothing
    left = shown.children()
    shown.process.send_signal(signal.SIGINT)
    text = shown.ended()

    assert re.search(rf"^ +\d+ s  \d\. {re.escape(base)}/\n +tasks come in, run and fail; [1-9]", text, re.MULTILINE)
    assert len(left) == 3
    assert adds_up(TASKS.search(text).groups())
    assert not any(Path(f"/proc/{number}").exists() for number in left)


def test_its_processes_end_with_it_however_it_ends(tour):
    shown = tour("--for", "60s")
    shown.line(r" 1\. http")
    left = shown.children()
    shown.process.kill()

    assert len(left) == 3
    eventually(lambda: not any(_is_alive(number) for number in left))


def _is_alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = subprocess.run(
            [sys.executable, "-m", "examples.tour", "--port", str(taken.getsockname()[1])], cwd=ROOT, capture_output=True,
            text=True, timeout=LIMIT, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (2, "")
    assert "cannot listen on port" in done.stdout


def test_the_help_teaches():
    done = subprocess.run(
        [sys.executable, "-m", "examples.tour", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    for word in ("--for", "--port", "--no-browser", "--text", 'make run ARGS="--for 30s"', "Nothing leaves it"):
        assert word in done.stdout
