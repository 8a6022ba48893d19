"""The loopback server that fails on purpose, asked over real connections and started as its reader would."""

import functools
import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import outlast
from outlast.http import RetryTransport
from outlast.testing import fake_clock
from outlast.testing import server as module
from outlast.testing.server import serve


@pytest.fixture(scope="module")
def base():
    with serve() as url:
        yield url


def statuses(url, count, **options):
    return [httpx.get(url, trust_env=False, **options).status_code for _ in range(count)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("well", [200, 200]),
        ("items", [503, 503, 200, 503]),
        ("orders", [503, 200, 503]),
        ("private", [403, 403, 200, 403]),
        ("limited", [429, 200, 429]),
        ("throttled", [429, 200, 429]),
        ("busy", [429, 429]),
        ("gone", [404, 404]),
        ("nothing", [404]),
        ("error", [500, 500]),
        ("down", [503, 503]),
    ],
)
def test_a_path_answers_in_turn_and_starts_over(base, path, expected):
    assert statuses(f"{base}/{path}/in-turn", len(expected)) == expected


def test_each_name_counts_its_own_requests(base):
    assert statuses(f"{base}/items/a?page=1", 2) == [503, 503]
    assert statuses(f"{base}/items/b", 1) == [503]
    assert statuses(f"{base}/items/a?page=2", 1) == [200]


def test_the_hint_of_a_rate_limit(base):
    answers = {path: httpx.get(f"{base}/{path}/hint", trust_env=False) for path in ("limited", "throttled", "busy")}

    assert {path: answer.headers.get("Retry-After") for path, answer in answers.items()} == {
        "limited": "7",
        "throttled": None,
        "busy": "120",
    }


def test_a_transport_gets_over_it(base):
    with fake_clock() as clock, httpx.Client(transport=RetryTransport()) as client:
        assert client.get(f"{base}/items/transport").json() == [1, 2, 3]
        assert client.get(f"{base}/limited/transport").text == "fine"
        assert client.post(f"{base}/orders/t", headers={"Idempotency-Key": "1"}).json() == {"accepted": True}

    assert len(clock.waits) == 4
    assert max(clock.waits) >= 7


def test_a_slow_path_answers_late(base, monkeypatch):
    monkeypatch.setattr(module, "_SLOW_SECONDS", 0.3)
    before = time.monotonic()
    assert statuses(f"{base}/slow", 1) == [200]
    assert time.monotonic() - before >= 0.3
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{base}/slow", timeout=0.05, trust_env=False)


def test_the_end_of_the_block_does_not_wait_for_a_slow_path():
    before = time.monotonic()
    with serve() as base, pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{base}/slow", timeout=0.05, trust_env=False)
    assert time.monotonic() - before < module._SLOW_SECONDS


def test_a_monitor_sees_a_new_entry_once_and_saves_the_rest_by_its_validator():
    """Not asked again in full: the second poll is a 304."""
    titles = []
    with serve() as base:
        app = outlast.App("memory://")
        monitor = app.monitor("feed", on_change=lambda news: titles.extend(each.title for each in news.fetched.entries))
        app.sources.add(f"{base}/feed.xml")
        monitor.cycle()
        monitor.cycle()
        httpx.post(f"{base}/feed.xml", content="Bread & <butter>", trust_env=False)
        monitor.cycle()
        polls = [(poll.outcome, poll.http_status) for poll in app.sources.history(1, limit=10)]
        app.close()

    assert titles == ["Tea", "Bread & <butter>"]
    assert polls[::-1] == [("changed", 200), ("unchanged", 304), ("changed", 200)]


def test_a_feed_has_validators_and_keeps_the_last_entries(monkeypatch):
    monkeypatch.setattr(module, "_MAX_ENTRIES", 2)
    with serve() as base:
        first = httpx.get(f"{base}/feed.xml", trust_env=False)
        for title in ("a", "b", "c"):
            httpx.post(f"{base}/feed.xml", content=title, trust_env=False)
        later = httpx.get(f"{base}/feed.xml", headers={"If-None-Match": first.headers["ETag"]}, trust_env=False)
        again = httpx.get(f"{base}/feed.xml", headers={"If-None-Match": later.headers["ETag"]}, trust_env=False)

    assert (first.text.count("<item>"), later.status_code, again.status_code) == (1, 200, 304)
    assert [title for title in ("Tea", "a", "b", "c") if f"<title>{title}<" in later.text] == ["b", "c"]
    assert first.headers["Last-Modified"].endswith("GMT")


def test_the_catalog(base):
    ids = httpx.get(f"{base}/catalog", trust_env=False).json()
    answers = {each: statuses(f"{base}/catalog/{each}", 2) for each in ids}

    assert len(ids) == 20
    assert {each for each, got in answers.items() if got == [503, 200]} == {"5", "10", "15", "20"}
    assert {each for each, got in answers.items() if got == [404, 404]} == {"13"}
    assert sum(got == [200, 200] for got in answers.values()) == 15
    assert httpx.get(f"{base}/catalog/7", trust_env=False).json() == {"id": "7", "name": " Tea 7 ", "price": 700}


@pytest.mark.parametrize("length", ["65537", "-1", "x"])
def test_a_body_that_is_too_long_or_has_no_length_is_refused(base, length):
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"POST /feed.xml HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 413 " in connection.recv(100)


def test_too_many_connections_are_hung_up_on(base, monkeypatch):
    monkeypatch.setattr(module, "_MAX_THREADS", 0)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{base}/well", trust_env=False)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_PATHS", 2)
    with serve() as base:
        got = [statuses(f"{base}/orders/{name}", 1)[0] for name in "abca"]
    assert got == [503, 503, 503, 503]  # the counts began anew with c


def test_the_command_prints_its_urls_and_ends_with_ctrl_c():
    command = [sys.executable, "-m", "outlast.testing.server", "--port", "0"]
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore it
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,  # noqa: PLW1509  # a signal, no lock
    ) as process:
        try:
            lines = [process.stdout.readline() for _ in range(len(module._PATHS) + 1)]
            urls = [re.match(r"http://127\.0\.0\.1:\d+/\S+", line)[0] for line in lines[:-1]]
            got = [httpx.get(url, trust_env=False).status_code for url in urls if not url.endswith("/slow")]
            process.send_signal(signal.SIGINT)
            assert (process.wait(10), process.stderr.read()) == (0, "")
        finally:
            process.kill()
    assert got == [200, 503, 503, 403, 429, 429, 429, 404, 500, 503, 200, 200, 200]
    assert lines[-1] == "Ctrl-C stops the server.\n"


def test_the_list_of_paths_is_the_first_page(base):
    assert f"{base}/catalog " in httpx.get(base, trust_env=False).text


def test_help_lists_every_path():
    command = [sys.executable, "-m", "outlast.testing.server", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert [
        path
        for path in module._PATHS
        if not re.search(rf"^http://127.0.0.1:8808/{re.escape(path)} ", text, re.MULTILINE)
    ] == []
    assert "--port" in text


def test_its_page_lists_every_path():
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "test-your-failure-handling.md").read_text("utf-8")
    section = page.partition("## A server that fails on purpose")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `/([\w.]+)`", section, re.MULTILINE) == list(module._PATHS)


def test_a_port_that_is_taken_is_named(base):
    port = base.rpartition(":")[2]
    command = [sys.executable, "-m", "outlast.testing.server", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"--port {port} cannot be used" in done.stderr
    assert "0 for a free one" in done.stderr


def test_it_needs_nothing_but_the_standard_library():
    code = "import sys, json, outlast.testing.server; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert set(json.loads(done.stdout)) & {"httpx", "httpx2", "requests", "psycopg", "click"} == set()
