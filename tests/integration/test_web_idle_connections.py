"""Clients that connect to the dashboard and send nothing, or half of a request, or take half of a response."""

import contextlib
import re
import resource
import socket
import threading
import time

import pytest

import outlast
from outlast.web import server as web_server
from outlast.web.server import serve
from web_streaming import Address, Stream, ask, running

TOKEN = "the-operators-secret-for-tests-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
HALF_HEAD = b"GET /tasks HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
HALF_BODY = (
    b"POST /sign-in HTTP/1.1\r\nHost: localhost:%d\r\nOrigin: http://localhost:%d\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken=x"
)


@pytest.fixture(autouse=True)
def many_files():
    """Allow this process the sockets of all clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(name="app")
def make_app(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path / 'x.db'}")
    app.create_schema()
    yield app
    app.close()


class Crowd:
    """Clients that stay; those that send slowly send a byte each second."""

    def __init__(self, port):
        self._port, self._clients, self._slow = port, [], []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._trickle)

    def connect(self, count, sent=b"", *, slowly=False):
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", self._port), timeout=20)
            self._clients.append(client)
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
            if slowly:
                self._slow.append(client)

    def _trickle(self):
        while not self._over.wait(1.0):
            for client in list(self._slow):
                with contextlib.suppress(OSError):
                    client.send(b"x")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        for client in self._clients:
            client.close()


def sign_in(server, token):
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{server.port}"}
    response, _ = ask(server, "POST", "/sign-in", f"token={token}", **form)
    assert response.status == 303
    return response.getheader("Set-Cookie").partition(";")[0]


def ended(client, seconds=10.0):
    """Whether the server closes a connection in time."""
    client.settimeout(seconds)
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_a_crowd_of_silent_and_slow_clients_keeps_nobody_out(tmp_path):
    with running(tmp_path, "jobs:app", "--port", "0", OUTLAST_WEB_TOKEN=TOKEN) as (process, said):
        server = Address(said)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, hard))  # what most systems give a process
        stream = Stream(server, sign_in(server, TOKEN))
        with Crowd(server.port) as crowd:
            crowd.connect(1000)
            crowd.connect(300, HALF_HEAD)
            crowd.connect(300, HALF_HEAD, slowly=True)
            crowd.connect(300, HALF_BODY % (server.port, server.port), slowly=True)
            took = []
            for _ in range(5):
                began = time.monotonic()
                response, _ = ask(server, "GET", "/api/tasks", **BEARER)
                took.append(time.monotonic() - began)
                assert response.status == 200
                crowd.connect(600)
                crowd.connect(300, HALF_BODY % (server.port, server.port), slowly=True)
                time.sleep(1.0)
            assert sorted(took)[2] < 2.0  # the median: a busy machine may delay one of them
            assert not stream.ended.is_set()


def test_a_client_that_does_not_send_its_request_in_time_is_disconnected(app, monkeypatch):
    monkeypatch.setattr(web_server, "_CLIENT_SECONDS", 1.5)
    with serve(app, port=0, token=TOKEN) as server, Crowd(server.port) as crowd:
        stream = Stream(server, sign_in(server, TOKEN))
        crowd.connect(1)
        crowd.connect(1, HALF_HEAD)
        crowd.connect(1, HALF_BODY % (server.port, server.port))
        answered = b"GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n"
        crowd.connect(1, answered + HALF_HEAD)
        crowd.connect(1, answered.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"))  # whose body nobody reads
        assert [ended(client) for client in crowd._clients] == [True] * 5
        time.sleep(2.0)
        assert not stream.ended.is_set()


def test_a_page_may_take_longer_than_a_client(app, monkeypatch):
    monkeypatch.setattr(web_server, "_CLIENT_SECONDS", 1.0)
    monkeypatch.setattr(web_server, "_MAX_CONNECTIONS", 10)
    read = app.store.event_totals

    def slow():
        time.sleep(2.5)
        return read()

    monkeypatch.setattr(app.store, "event_totals", slow)
    with serve(app, port=0, token=TOKEN) as server, Crowd(server.port) as crowd:
        asking = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        asking.sendall(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        time.sleep(0.5)
        crowd.connect(50)
        with asking:
            assert asking.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_response_may_be_taken_slowly_but_not_left(app, monkeypatch):
    monkeypatch.setattr(web_server, "_CLIENT_SECONDS", 2.0)
    with serve(app, port=0, token=TOKEN) as server:
        _, html = ask(server, "GET", "/sign-in")
        path = re.search(r"/static/outlast[^\"]+css", html)[0]
        size = 500 * len(ask(server, "GET", path)[1])  # more than the buffers of the system hold
        slow, stalled = (socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(2))
        with slow, stalled:
            for client in (slow, stalled):
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 500)
            taken = 0
            while taken <= size:
                part = len(slow.recv(65536))
                assert part, "the server has closed the connection"
                taken += part
                time.sleep(0.025)
            taken = 0
            with contextlib.suppress(ConnectionError):
                while part := len(stalled.recv(1 << 20)):
                    taken += part
            assert taken < size
