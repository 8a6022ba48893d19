"""What a container's HEALTHCHECK runs, against a real server, and the files that say so."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from outlast.health import HealthChecker, HealthServer

CONTAINER = Path(__file__).resolve().parents[2] / "examples" / "container"


@pytest.fixture
def serve():
    servers = []

    def begin(checker=None):
        server = HealthServer(checker or HealthChecker(checks={"database": lambda: True}), 0).start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.stop()


def run(*arguments, **variables):
    command = [sys.executable, "-m", "outlast.health", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **variables}, check=False
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def test_the_command_for_a_healthcheck(serve):
    well, ill = serve(), serve(HealthChecker(checks={"database": lambda: False, "disk": lambda: True}))
    assert run(f"http://127.0.0.1:{well.port}/health") == (0, "")
    assert run(f"http://127.0.0.1:{ill.port}/health") == (1, "answered 503: failed checks: database")
    assert run(f"http://127.0.0.1:{well.port}/elsewhere") == (1, "answered 404")


def test_the_command_knows_what_people_leave_out(serve):
    port = serve().port
    assert run(f"127.0.0.1:{port}") == (0, "")
    assert run(f"localhost:{port}/health") == (0, "")
    assert run(f"http://127.0.0.1:{port}") == (0, "")
    assert run(f"127.0.0.1:{port}/") == (1, "answered 404")


def test_the_first_question_names_the_check_that_hangs(serve):
    """With the times as they are: the checks have less than whoever asks."""
    release = threading.Event()
    server = serve(HealthChecker(checks={"database": lambda: release.wait(30), "disk": lambda: True}))
    try:
        assert run(f"http://127.0.0.1:{server.port}/health") == (1, "answered 503: failed checks: database")
    finally:
        release.set()


def test_the_command_goes_through_no_proxy(serve):
    url = f"http://127.0.0.1:{serve().port}/health"
    assert run(url, http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9") == (0, "")


def test_the_command_says_in_one_line_that_nobody_answers():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    code, said = run(f"http://127.0.0.1:{port}/health")
    assert (code, said.count("\n")) == (1, 0)
    assert said.startswith("no answer: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["file:///etc/passwd"],
        ["http://u:hunter2@127.0.0.1/"],
        ["u:hunter2@127.0.0.1"],
        ["/health"],
        ["a", "b"],
        ["http://["],
    ],
)
def test_the_command_takes_an_address_alone(arguments):
    code, said = run(*arguments)
    assert code == 1
    assert said.startswith("give one http or https URL")
    assert "hunter2" not in said


def test_the_command_waits_for_three_seconds_and_follows_nobody(monkeypatch):
    from outlast.health import __main__ as command

    assert (command.TIMEOUT, command.DEFAULT_URL) == (3.0, "http://127.0.0.1:8787/health")
    monkeypatch.setattr(command, "TIMEOUT", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        assert command.main([f"http://127.0.0.1:{silent.getsockname()[1]}/"]) == "no answer: timed out"
    with closing(socket.create_server(("127.0.0.1", 0))) as redirecting:
        monkeypatch.setattr(command, "TIMEOUT", 10)

        def redirect():
            client, _ = redirecting.accept()
            client.recv(4096)
            client.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n")
            client.close()

        thread = threading.Thread(target=redirect)
        thread.start()
        assert command.main([f"http://127.0.0.1:{redirecting.getsockname()[1]}/"]) == "answered 302"
        thread.join()


def test_the_healthcheck_of_the_image_asks_the_port_of_its_worker(serve):
    """What stands in the Dockerfile is what is run here, on a port that is free."""
    text = (CONTAINER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    command = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.MULTILINE)[1])
    worker = json.loads(re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)[1])
    port = worker[worker.index("--health-port") + 1]
    assert command == ["python", "-m", "outlast.health", f"http://127.0.0.1:{port}/health"]
    assert run(command[-1].replace(port, str(serve().port))) == (0, "")


@pytest.mark.parametrize("unit", ["outlast-worker.service", "outlast-monitor.service"])
@pytest.mark.needs("systemd-analyze")
def test_the_units_are_what_systemd_understands(unit, tmp_path):
    text = (CONTAINER / unit).read_text("utf-8")
    program = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)[1]
    here = tmp_path / unit
    here.write_text(text.replace(program, sys.executable), "utf-8")  # the path of an installation, which is not here
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(here)], capture_output=True, text=True, check=False
    )
    assert unit not in done.stderr, done.stderr
