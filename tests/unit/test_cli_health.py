"""--health-port of worker and monitor."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast import clock
from outlast.cli.health_endpoints import ProcessState, serve_health
from servers.feeds import Answer, FeedServer

LIMIT = 30.0
TOKEN = "let-me-in"
ADDRESS = re.compile(r"health: (http://\S+)/health and /ready")


class Running:
    """A process of ours, and what it answers."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(process.stderr), daemon=True)
        self._reader.start()

    @property
    def address(self):
        wait_for(lambda: any(ADDRESS.search(line) for line in list(self.lines)) or self.process.poll() is not None)
        return next(found[1] for line in list(self.lines) if (found := ADDRESS.search(line)))

    def ask(self, path, token=None):
        return ask(self.address + path, token)


def ask(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def wait_for(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def start(world):
    begun = []

    def start(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "outlast", *map(str, words), "--health-port", "0"], cwd=world.folder,
            env={**environment, "OUTLAST_HEALTH_TOKEN": TOKEN}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun.append(process)
        return Running(process)

    yield start
    for process in begun:
        process.kill()
        process.wait()


def test_a_worker(world, start):
    world.enqueue("slow", "seconds=3")
    worker = start("worker", "jobs:app")
    wait_for((world.folder / "begun").exists)
    status, body = worker.ask("/health")
    assert (status, body["status"]) == (200, "healthy")
    assert body["checks"].keys() == {"database", "loop", "heartbeat", "oldest_ready", "dead_letters", "disk"}
    assert all(value is True for value in body["checks"].values())
    details = worker.ask("/health", TOKEN)[1]["checks"]
    assert "the lease is 20 s" in details["heartbeat"]["detail"]
    assert "last iteration" in details["loop"]["detail"]
    assert worker.ask("/health", "wrong")[1] == body
    assert worker.ask("/ready") == (200, {"status": "healthy", "checks": {"database": True, "loop": True}})
    worker.process.send_signal(signal.SIGTERM)
    wait_for(lambda: worker.ask("/ready")[0] == 503)
    assert worker.ask("/ready")[1]["checks"]["accepting"] is False
    assert worker.ask("/health")[0] == 200  # the task may end in peace
    assert worker.process.wait(LIMIT) == 0
    assert (world.folder / "finished").exists()


def test_a_monitor(world, start):
    (world.folder / "feeds.py").write_text(
        "import outlast\napp = outlast.App('sqlite:///outlast.db')\nmonitor = app.monitor(grace=60)\n"
    )
    gate = threading.Event()
    with FeedServer() as server:
        world.run("sources", "add", server.script("/a", Answer(gate=gate)), "--app", "jobs:app")
        monitor = start("monitor", "feeds:app")
        wait_for(lambda: server.count("/a"))
        assert monitor.ask("/health")[1]["checks"]["loop"] is True
        assert monitor.ask("/ready")[0] == 200
        monitor.process.send_signal(signal.SIGTERM)
        wait_for(lambda: monitor.ask("/ready")[0] == 503)
        assert monitor.ask("/health")[0] == 200
        gate.set()
        assert monitor.process.wait(LIMIT) == 0


@pytest.mark.parametrize(("age", "status"), [(1.0, 200), (31.0, 503)])
def test_a_loop_that_is_stuck(world, caplog, age, status):
    world.run("db", "init", "--app", "jobs:app")
    caplog.set_level("INFO")
    with serve_health(world.app(), ProcessState(lambda: clock.monotonic() - age, lambda: False), 0, "127.0.0.1"):
        address = ADDRESS.search(caplog.text)[1]
        found = ask(f"{address}/health")
        ready = ask(f"{address}/ready")

    assert (found[0], found[1]["checks"]["loop"]) == (status, status == 200)
    assert ready[0] == status
    with pytest.raises(OSError, match="refused"):
        ask(f"{address}/health")


def test_a_stop_is_told_at_once_though_answers_are_kept_for_a_second(world, caplog):
    world.run("db", "init", "--app", "jobs:app")
    caplog.set_level("INFO")
    told = threading.Event()
    with serve_health(world.app(), ProcessState(clock.monotonic, told.is_set), 0, "127.0.0.1"):
        address = ADDRESS.search(caplog.text)[1]
        assert ask(f"{address}/ready")[0] == 200
        told.set()
        assert ask(f"{address}/ready")[0] == 503


@pytest.mark.parametrize("words", [["worker", "jobs:app", "--drain"], ["monitor", "jobs:app", "--once"]])
class TestMistakes:
    def test_a_port_that_is_taken(self, world, words):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = world.run(*words, "--health-port", port, code=2)

        assert f"the health server cannot listen on port {port} of 127.0.0.1" in result.stderr

    def test_no_port(self, world, words):
        assert "--health-port" in world.run(*words, "--health-port", "65536", code=2).stderr

    def test_an_empty_token(self, world, words, monkeypatch):
        monkeypatch.setenv("OUTLAST_HEALTH_TOKEN", "")
        result = world.run(*words, "--health-port", 0, code=2)

        assert "(OUTLAST_HEALTH_TOKEN)" in result.stderr

    def test_without_the_option_nothing_listens(self, world, words):
        assert "health:" not in world.run(*words).stderr
