"""The health server on real sockets: what it tells, and what it does with clients that mean no good."""

import json
import logging
import socket
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import outlast
from outlast.errors import ConfigError
from outlast.health import HealthChecker, HealthServer, Heartbeat
from outlast.health import server as module
from outlast.testing import fake_clock

TOKEN = "s3cret-of-the-house"


@pytest.fixture
def serve():
    servers = []

    def begin(checker=None, **settings):
        server = HealthServer(checker or HealthChecker(checks={"database": lambda: True}), 0, **settings).start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.stop()


def connect(server):
    return socket.create_connection((server.host, server.port), timeout=10)


def talk(server, sent):
    """Send bytes and return all that comes back, until the server hangs up."""
    with connect(server) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(4096), b""))


def ask(server, target="/health", method="GET", headers=""):
    answer = talk(server, f"{method} {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    return int(line.split()[1]), dict(field.split(": ", 1) for field in fields), body


def test_health_and_ready_over_a_socket(serve):
    server = serve()
    status, headers, body = ask(server)
    assert (status, json.loads(body)) == (200, {"status": "healthy", "checks": {"database": True}})
    assert headers == {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
    }  # and nothing about who serves it
    assert ask(server, "/ready?verbose=1")[0] == 200
    assert ask(server, "http://localhost/health")[0] == 200


def test_the_usual_clients_can_read_it(serve):
    server = serve()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health") as response:
        assert json.load(response)["status"] == "healthy"


def test_a_broken_database_is_a_503_and_its_error_stays_inside(serve, tmp_path, caplog):
    file = tmp_path / "jobs.db"
    file.write_bytes(b"not a database" * 1000)
    app = outlast.App(f"sqlite:///{file}")
    server = serve(HealthChecker.for_app(app, loop=Heartbeat()), token=TOKEN)
    for headers in ("", f"Authorization: Bearer {TOKEN}\r\n"):
        status, _, body = ask(server, headers=headers)
        told = json.loads(body)
        assert (status, told["status"]) == (503, "unhealthy")
        assert b"not a database" not in body
        assert str(tmp_path).encode() not in body
    assert told["checks"]["database"]["ok"] is False
    assert told["checks"]["loop"]["ok"] is told["checks"]["disk"]["ok"] is True
    assert f"{file} is not a SQLite database" in caplog.text
    app.close()


def test_a_connection_that_is_closed_while_the_server_runs(serve):
    connection = sqlite3.connect(":memory:")
    server = serve(HealthChecker(db=connection, cache=0))
    assert ask(server)[0] == 200
    connection.close()
    assert ask(server)[0] == 503


def test_secrets_of_an_error_reach_nobody(serve, caplog):
    caplog.set_level(logging.DEBUG)

    def check():
        raise ConnectionError("cannot reach postgresql://admin:hunter2@db/shop with password=hunter2")

    server = serve(HealthChecker(checks={"database": check}), token=TOKEN)
    for headers in ("", f"Authorization: Bearer {TOKEN}\r\n"):
        assert b"hunter2" not in ask(server, headers=headers)[2]
    assert "hunter2" not in caplog.text
    assert "cannot reach" in caplog.text


def test_details_are_for_the_token_alone(serve):
    server = serve(token=TOKEN)
    detailed = {"status": "healthy", "checks": {"database": {"ok": True, "degraded": False, "detail": "ok"}}}
    public = {"status": "healthy", "checks": {"database": True}}
    right = f"Authorization: Bearer {TOKEN}\r\n"
    assert json.loads(ask(server, headers=right)[2]) == detailed
    assert json.loads(ask(server, headers=right.replace(TOKEN, "other"))[2]) == public
    assert json.loads(ask(server, headers=right + right.replace(TOKEN, "other"))[2]) == public
    assert json.loads(ask(serve(), headers=right)[2]) == public


def test_stopping_ends_ready_and_leaves_health(serve):
    checker = HealthChecker(checks={"database": lambda: True})
    server = serve(checker)
    checker.stopping()
    assert (ask(server, "/ready")[0], ask(server, "/health")[0]) == (503, 200)


def test_head_other_methods_and_other_paths(serve):
    server = serve()
    status, headers, body = ask(server, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(ask(server)[2])))
    status, headers, _ = ask(server, method="DELETE")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert ask(server, "/metrics")[0] == 404


def test_a_question_with_a_body_is_answered_and_not_reset(serve):
    answer = talk(serve(), b"POST /health HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000)
    assert answer.startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/2.0\r\n\r\n",
        b"GET  /health HTTP/1.1\r\n\r\n",
        b"GET /hea\0lth HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\n\n",
        b"G" * 5000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_a_400(serve, sent):
    assert talk(serve(), sent).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 100_000,
        b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 10_000,
        b"GET /health HTTP/1.1\r\nX: " + b"y" * 9_000 + b"\r\n\r\n",
    ],
)
def test_what_is_too_long_is_a_431(serve, sent):
    server = serve()
    assert talk(server, sent).startswith(b"HTTP/1.1 431 ")
    assert ask(server)[0] == 200


def test_line_ends_as_people_type_them(serve):
    assert talk(serve(), b"GET /health HTTP/1.0\n\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_slow_clients_are_sent_away_and_the_next_are_served(serve, monkeypatch):
    assert module.HEAD_TIMEOUT == 1.0
    monkeypatch.setattr(module, "HEAD_TIMEOUT", 0.2)
    monkeypatch.setattr(module, "CLIENT_TIMEOUT", 600)
    server = serve()
    slow = [connect(server) for _ in range(module.CONNECTIONS)]
    slow[0].sendall(b"GET /hea")
    assert ask(server)[0] == 200
    for client in slow:
        with client:
            assert client.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_silent_clients_make_room_for_those_who_ask(serve, monkeypatch):
    """However many there are, and however long they may be silent where nobody else comes."""
    monkeypatch.setattr(module, "HEAD_TIMEOUT", 600)
    server = serve()
    silent = [connect(server) for _ in range(3 * module.CONNECTIONS)]
    for _ in range(3):
        assert ask(server)[0] == 200
    assert silent[0].recv(4096).startswith(b"HTTP/1.1 408 "), "the oldest goes first"
    silent[-1].setblocking(False)
    with pytest.raises(BlockingIOError):  # there is room for the youngest
        silent[-1].recv(4096)
    [client.close() for client in silent]


def test_who_has_asked_is_not_sent_away_for_others(serve, monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 600)
    release, asked = threading.Event(), threading.Semaphore(0)

    class Checker(HealthChecker):
        def report(self):
            asked.release()
            release.wait(30)
            return super().report()

    server = serve(Checker())
    with ThreadPoolExecutor(2 * module.CONNECTIONS) as pool:
        answers = [pool.submit(ask, server) for _ in range(2 * module.CONNECTIONS)]
        assert all(asked.acquire(timeout=30) for _ in range(module.CONNECTIONS))
        monkeypatch.setattr(module, "_GRACE", 0.0)
        time.sleep(10 * module._ROOM_POLL)  # for some looks for room
        monkeypatch.setattr(module, "_GRACE", 600)
        release.set()
        assert [answer.result()[0] for answer in answers] == [200] * len(answers)


def test_a_client_that_sends_a_byte_now_and_then_gains_no_time(serve, monkeypatch):
    monkeypatch.setattr(module, "HEAD_TIMEOUT", 0.3)
    server = serve()
    with connect(server) as client:
        client.settimeout(0.05)
        answer = b""
        for _ in range(1000):
            try:
                client.sendall(b"G")
                answer += client.recv(4096)
            except TimeoutError:
                continue
            break
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_clients_that_vanish_leave_no_trace(serve, caplog):
    server = serve()
    for _ in range(3 * module.CONNECTIONS):
        client = connect(server)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not closed
        client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        client.close()
    assert ask(server)[0] == 200
    assert caplog.records == []


def test_only_a_handful_of_clients_are_served_at_once(serve):
    release = threading.Event()
    most, now, lock = [0], [0], threading.Lock()

    class Checker(HealthChecker):
        def report(self):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            release.wait(10)
            with lock:
                now[0] -= 1
            return super().report()

    server = serve(Checker())
    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(ask, server) for _ in range(40)]
        while now[0] < module.CONNECTIONS:
            time.sleep(0.01)
        release.set()
        assert {answer.result()[0] for answer in answers} == {200}
    assert most == [module.CONNECTIONS]


def test_a_hundred_parallel_requests_cause_one_run_per_second(serve):
    asked, lock = [], threading.Lock()

    def check():
        with lock:
            asked.append(1)
        return True

    with fake_clock() as clock:
        server = serve(HealthChecker(checks={"a": check}))
        with ThreadPoolExecutor(25) as pool:
            for second in (1, 2, 3):
                statuses = list(pool.map(lambda _: ask(server)[0], range(100)))
                assert (statuses, len(asked)) == ([200] * 100, second)
                clock.advance(1)


def test_a_hanging_check_holds_the_answer_up_no_longer_than_its_time(serve):
    release = threading.Event()
    server = serve(HealthChecker(checks={"a": release.wait, "b": lambda: True}, timeout=0.1))
    status, _, body = ask(server)
    assert (status, json.loads(body)["checks"]) == (503, {"a": False, "b": True})
    release.set()


def test_trouble_with_one_question_does_not_end_the_server(serve, caplog, monkeypatch):
    class Checker(HealthChecker):
        def report(self):
            raise RuntimeError("a bug of ours, password=hunter2")

    server = serve(Checker())
    for _ in range(2 * module.CONNECTIONS):
        assert talk(server, b"GET /health HTTP/1.1\r\n\r\n") == b""
    assert ask(server, "/elsewhere")[0] == 404
    assert "a bug of ours" in caplog.text
    assert "hunter2" not in caplog.text
    begin, refused = threading.Thread.start, []

    def start(self):
        if self.name == "outlast-health-client" and not refused:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        begin(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    with connect(server) as client:
        assert client.recv(100) == b""
    assert ask(server, "/elsewhere")[0] == 404


def test_it_listens_on_this_machine_alone_unless_told_otherwise(serve):
    assert serve().host == "127.0.0.1"
    open_to_all = serve(host="0.0.0.0")
    with socket.create_connection(("127.0.0.1", open_to_all.port)) as client:
        assert client.getpeername()[1] == open_to_all.port


needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_address_of_ipv6(serve, host):
    server = serve(host=host)
    with socket.create_connection(("::1", server.port), timeout=10) as client:
        client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


@needs_ipv6
def test_all_addresses_of_both_kinds(serve):
    server = serve(host="::")
    for address in ("::1", "127.0.0.1"):
        with socket.create_connection((address, server.port), timeout=10) as client:
            client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_used_port_is_said_so(serve):
    first = serve()
    second = HealthServer(HealthChecker(), first.port)
    with pytest.raises(ConfigError, match=rf"port {first.port} of 127\.0\.0\.1: .*[Aa]ddress already in use"):
        second.start()
    first.stop()
    with second:
        assert ask(second)[0] == 200


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"port": -1}, "port is -1"),
        ({"port": 65536}, "port is 65536"),
        ({"port": "8787"}, "port is '8787'"),
        ({"port": 0, "token": ""}, "token is empty"),
    ],
)
def test_settings_that_cannot_be_used(settings, said):
    with pytest.raises(ConfigError, match=said):
        HealthServer(HealthChecker(), **settings)


def test_a_host_that_is_none_of_ours():
    with pytest.raises(ConfigError, match=r"port 0 of 192\.0\.2\.1"):
        HealthServer(HealthChecker(), 0, host="192.0.2.1").start()


def test_it_stops_starts_again_and_leaves_nothing_open(serve):
    server = serve()
    port = server.port
    assert server.start() is server
    assert server.port == port
    server.stop()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        connect(server)
    with server:
        assert (ask(server)[0], server.port) == (200, port)
    assert not [thread for thread in threading.enumerate() if thread.name == "outlast-health-server"]
