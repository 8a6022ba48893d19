"""``outlast web`` as a process, and a site of one's own with the dashboard in it."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from web_streaming import Address, Stream, ask, running

TOKEN = "the-operators-secret-for-tests-0123456789"


class Port:
    def __init__(self, port):
        self.port = port


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_shows_a_link_and_ends_when_it_is_told_to(tmp_path, ending):
    with running(tmp_path, "jobs:app", "--port", "0", "--log-level", "debug") as (process, said):
        server = Address(said)
        path = server.link.partition(str(server.port))[2]
        entered, _ = ask(server, "GET", path)
        assert entered.status == 303
        stream = Stream(server, entered.getheader("Set-Cookie").partition(";")[0])
        process.send_signal(ending)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert stream.ended.wait(20)
        assert "Cancel" not in err  # the stream ended by itself, nobody had to break it off
        following = re.search(r"The next link: (\S+)", out)[1]
        assert following != server.link
        assert path not in out + err  # the first line had it
        assert "once=" not in err
        assert "Traceback" not in err


def test_the_link_stands_on_no_command_line(tmp_path):
    """What a browser is started with can be read by everybody on the machine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / "xdg-open"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$*" > "$STARTED.new" && mv "$STARTED.new" "$STARTED"\n', "utf-8")
    fake.chmod(0o755)
    started = tmp_path / "started"
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    with running(tmp_path, "jobs:app", "--port", "0", "--open", PATH=path, STARTED=str(started)) as (process, said):
        server = Address(said)
        soon(started.exists)
        given = started.read_text("utf-8").strip()
        assert "once=" not in given
        file = Path(unquote(urlsplit(given).path))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        link = re.search(r'content="0; url=([^"]+)"', file.read_text("utf-8"))[1]
        assert link == server.link
        assert ask(server, "GET", link.partition(str(server.port))[2])[0].status == 303
        soon(lambda: not file.parent.exists())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_signal_shows_a_fresh_link(tmp_path):
    with running(tmp_path, "jobs:app", "--port", "0") as (process, said):
        server = Address(said)
        assert ask(server, "GET", "/sign-in")[0].status == 200  # it answers, so signals are listened to
        assert "Ctrl-C" in process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        fresh = re.search(r"A new link: http://\S+?(/enter\S+)", process.stdout.readline())[1]
        assert fresh not in said
        assert ask(server, "GET", fresh)[0].status == 303
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def soon(condition):
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < 30, "it did not come about"
        time.sleep(0.01)


def test_the_command_with_a_token(tmp_path):
    with running(tmp_path, "jobs:app", "--port", "0", OUTLAST_WEB_TOKEN=TOKEN) as (process, said):
        server = Address(said)
        assert "enter" not in server.link
        assert ask(server, "GET", "/api/tasks", Authorization=f"Bearer {TOKEN}")[0].status == 200
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert TOKEN not in said + out + err


@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        (["jobs:app", "--host", "0.0.0.0"], {}, "OUTLAST_WEB_TOKEN"),
        (
            ["jobs:app", "--host", "0.0.0.0"],
            {"OUTLAST_WEB_TOKEN": "hunter2" * 4 + "hun"},
            "shorter than 32 characters\n  make a longer one: python",
        ),
        (["jobs:app", "--host", "0.0.0.0"], {"OUTLAST_WEB_TOKEN": ""}, "OUTLAST_WEB_TOKEN"),
        (["jobs:app", "--allow-host", "https://x"], {}, "not a valid host name"),
        (["jobs:app", "--proxy", "proxy.example.com"], {}, "not a valid proxy address"),
        (["--url", "sqlite:///nowhere.db"], {}, "nowhere.db does not exist"),
        (["jobs:app", "--url", "sqlite:///x.db"], {}, "not both"),
        (["jobs:app", "--token", "x"], {}, "No such option"),
    ],
)
def test_what_the_command_does_not_do(tmp_path, words, variables, told):
    with running(tmp_path, *words, **variables) as (process, said):
        out, err = process.communicate(timeout=30)
        assert process.returncode == 2, (said, out, err)
        assert told in err
        assert "hunter2" not in err
        assert "Traceback" not in err


MOUNTED = """
import socket
import uvicorn
import outlast
from outlast.web import dashboard
from starlette.applications import Starlette
from starlette.routing import Mount

app = outlast.App("sqlite:///outlast.db")
site = Starlette(routes=[Mount("/outlast", dashboard(app, auth=lambda request: "reader"))])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(site, log_level="error")).run([listener])
"""


def test_a_server_around_it_can_stop_while_somebody_looks(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", MOUNTED], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            server = Port(int(process.stdout.readline()))
            stream = Stream(server, "x=y", "/outlast/events?view=tasks")
            process.terminate()
            assert stream.ended.wait(30)
            process.wait(30)
        finally:
            process.kill()


def test_the_command_says_what_is_missing(tmp_path):
    (tmp_path / "starlette.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'starlette'\", name='starlette')\n"
    )
    with running(tmp_path, "jobs:app", PYTHONPATH=str(tmp_path)) as (process, _):
        _, err = process.communicate(timeout=30)
        assert process.returncode == 2
        assert "pip install 'outlast[web]'" in err
