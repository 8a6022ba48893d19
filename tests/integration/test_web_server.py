"""The dashboard behind a real uvicorn on a loopback port."""

import contextlib
import logging
import re
import socket
from urllib.parse import quote

import pytest

import outlast
from outlast.errors import ConfigError
from outlast.ports.rows import NewTask
from outlast.web.server import serve
from web_streaming import Stream, ask

TOKEN, READ_TOKEN = "the-operators-secret-for-tests-0123456789", "the-readers-secret-for-tests-0123456789"


@pytest.fixture(name="app", scope="module")
def make_app(tmp_path_factory):
    app = outlast.App(f"sqlite:///{tmp_path_factory.mktemp('web') / 'x.db'}")
    app.create_schema()
    yield app
    app.close()


@pytest.fixture(name="local", scope="module")
def make_local(app):
    """A server for this machine, which lets people in by links; and the links that it told."""
    told = []
    with serve(app, port=0, on_link=told.append) as server:
        server.told = told
        yield server


@pytest.fixture(name="guarded", scope="module")
def make_guarded(app):
    """A server that listens everywhere, which lets people in by tokens."""
    with serve(app, host="0.0.0.0", port=0, token=TOKEN, read_token=READ_TOKEN, hosts=["jobs.example.com"]) as server:
        yield server


def enter(server):
    """Use a fresh link; return the cookie."""
    path = server.link().removeprefix(server.url)
    response, _ = ask(server, "GET", path)
    assert response.status == 303
    return response.getheader("Set-Cookie").partition(";")[0]


def raw(server, sent):
    """Send bytes, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(sent)
        got = b""
        with contextlib.suppress(ConnectionError):
            while more := client.recv(65536):
                got += more
                if b"connection: close" not in got.lower() and b"\r\n\r\n" in got:
                    break
        return got


def test_the_link_is_good_once_and_the_next_one_is_told(local):
    link = local.link()
    path = link.removeprefix(local.url)
    assert re.fullmatch(r"/enter\?once=[\w-]{43}", path)
    told = len(local.told)
    response, body = ask(local, "GET", path)
    assert (response.status, response.getheader("Location"), body) == (303, "/", "")
    cookie = response.getheader("Set-Cookie")
    assert re.fullmatch(
        rf"outlast-session-{local.port}=[\w-]{{43}}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", cookie
    )
    page, html = ask(local, "GET", "/", Cookie=cookie.partition(";")[0])
    assert page.status == 200
    assert path.partition("=")[2] not in html
    again, _ = ask(local, "GET", path)
    assert (again.status, again.getheader("Set-Cookie")) == (401, None)
    assert len(local.told) == told + 1
    following = local.told[-1].removeprefix(local.url)
    assert ask(local, "GET", following)[0].status == 303


def test_pitfall_65_nothing_is_shown_to_whoever_has_no_link(local):
    for path in ("/", "/tasks", "/api/tasks", "/events", "/nowhere"):
        response, body = ask(local, "GET", path)
        assert response.status == 401, path
        assert "text/event-stream" not in response.getheader("Content-Type")
        assert "default" not in body


def test_who_came_by_link_may_change_things(local, app):
    cookie = enter(local)
    here = {"Cookie": cookie, "Origin": local.url, "Content_Type": "application/x-www-form-urlencoded"}
    response, _ = ask(local, "POST", "/queues/a%2Fb/pause", "new=true", **here)
    assert response.status == 303
    assert {queue.name: queue.paused for queue in app.tasks.queues()}["a/b"] is True
    response, html = ask(local, "GET", response.getheader("Location"), Cookie=cookie)
    assert response.status == 200
    assert "a/b" in html


def test_the_token_lets_people_and_programs_in(guarded):
    with pytest.raises(ConfigError, match="sign in with the token"):
        guarded.link()
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{guarded.port}"}
    assert ask(guarded, "POST", "/sign-in", "token=wrong", **form)[0].status == 401
    response, _ = ask(guarded, "POST", "/sign-in", f"token={quote(READ_TOKEN)}", **form)
    assert response.status == 303
    cookie = response.getheader("Set-Cookie").partition(";")[0]
    assert ask(guarded, "GET", "/tasks", Cookie=cookie)[0].status == 200
    assert ask(guarded, "POST", "/queues/x/pause", Cookie=cookie, Origin=form["Origin"])[0].status == 403
    assert "send the token" in ask(guarded, "GET", "/api/tasks")[1]
    assert "the token is wrong" in ask(guarded, "GET", "/api/tasks", Authorization="Bearer wrong")[1]
    program = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(guarded, "GET", "/api/tasks", **program)[0].status == 200
    program["Content_Type"] = "application/x-www-form-urlencoded"
    assert ask(guarded, "POST", "/api/queues/x/pause", "new=true", **program)[0].status == 200


def test_commands_to_copy_name_the_app_that_it_was_started_with(app):
    (number,) = [added.id for added in app.store.enqueue([NewTask("mail", "{}")])]
    with serve(app, port=0, read_token=READ_TOKEN, reference="shop:app") as server:
        answer, body = ask(server, "GET", f"/tasks/{number}", Authorization=f"Bearer {READ_TOKEN}")
    assert answer.status == 200
    assert f"outlast tasks show {number} --app shop:app" in body
    assert "MODULE:APP" not in body


def test_where_there_is_no_token_a_program_is_told_how_to_have_one(app):
    with serve(app, port=0) as server:
        assert "OUTLAST_WEB_READ_TOKEN (read only)" in ask(server, "GET", "/api/tasks")[1]


@pytest.mark.parametrize(
    ("host", "status"),
    [("jobs.example.com", 200), ("jobs.example.com:443", 200), ("localhost", 200), ("evil.example", 400), ("192.168.7.7", 400), ("", 400)],
)  # fmt: skip
def test_names_under_which_it_answers(guarded, host, status):
    response, body = ask(guarded, "GET", "/api/tasks", Host=host, Authorization=f"Bearer {TOKEN}")
    assert response.status == status
    assert status == 200 or "--allow-host" in body


def test_no_secret_is_written_down(app, caplog, capfd):
    with caplog.at_level(logging.DEBUG), serve(app, port=0) as server:
        link = server.link()
        cookie = enter(server)
        ask(server, "GET", link.removeprefix(server.url))
        ask(server, "GET", "/enter?once=a-wrong-one-time-link")
        ask(server, "GET", "/tasks", Cookie=cookie, Authorization="Bearer my-own-secret")
        ask(server, "GET", "/tasks?token=my-own-secret", Cookie=cookie)
        raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: my-own-secret\r\nBroken\r\n\r\n")
    written = caplog.text + "".join(capfd.readouterr())
    assert "signed in to the dashboard" in written
    for secret in (
        link.partition("once=")[2],
        cookie.partition("=")[2],
        "a-wrong-one-time-link",
        "my-own-secret",
        "once=",
    ):
        assert secret not in written


def test_what_the_server_says_of_itself(local):
    response, _ = ask(local, "GET", "/")
    assert response.getheader("Server") is None
    assert "nonce-" in response.getheader("Content-Security-Policy")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost, evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_requests_that_name_no_host_of_ours(local, sent):
    assert raw(local, sent).startswith(b"HTTP/1.1 400")


def test_two_lengths_are_refused(local):
    cookie = enter(local).encode()
    head = b"POST /queues/smuggled/pause HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: %s\r\nCookie: %s\r\n" % (
        local.port, local.url.encode(), cookie,
    )  # fmt: skip
    for lengths in (
        b"Content-Length: 3\r\nContent-Length: 30\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: x\r\n",
    ):
        assert re.match(rb"HTTP/1.1 (400|413|501)", raw(local, head + lengths + b"\r\na=1"))


def test_a_socket_is_not_upgraded(local):
    sent = (
        f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{local.port}\r\nCookie: {{}}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert raw(local, sent.format("x=y").encode()).startswith(b"HTTP/1.1 401")
    assert not raw(local, sent.format(enter(local)).encode()).startswith(b"HTTP/1.1 101")


def test_large_heads_and_bodies_are_not_taken(local):
    cookie = enter(local)
    assert ask(local, "GET", "/?" + "x" * 5000, Cookie=cookie)[0].status == 400
    assert ask(local, "GET", "/" + "x" * 3000, Cookie=cookie)[0].status == 400
    assert re.match(rb"HTTP/1.1 4\d\d", raw(local, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000))
    head = (
        f"POST /queues/x/pause HTTP/1.1\r\nHost: 127.0.0.1:{local.port}\r\nOrigin: {local.url}\r\nCookie: {cookie}\r\n"
    )
    told = head + "Content-Length: 1048577\r\n\r\n"
    assert raw(local, told.encode()).startswith(b"HTTP/1.1 413")
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    untold = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + piece * 17 + b"0\r\n\r\n"
    assert raw(local, untold).startswith(b"HTTP/1.1 413")


def test_signing_out_ends_the_streams_of_that_session_alone(local):
    cookie, other = enter(local), enter(local)
    stream, kept = Stream(local, cookie), Stream(local, other)
    assert ask(local, "POST", "/sign-out", Cookie=cookie, Origin=local.url)[0].status == 303
    assert stream.ended.wait(20)
    assert not kept.ended.is_set()
    assert ask(local, "GET", "/events", Cookie=cookie)[0].status == 401
    ask(local, "POST", "/sign-out", Cookie=other, Origin=local.url)
    assert kept.ended.wait(20)


def test_a_session_that_is_over_ends_its_streams(local, monkeypatch):
    cookie = enter(local)
    stream = Stream(local, cookie)
    session = local._access.session_of({"headers": [(b"cookie", cookie.encode())]})
    monkeypatch.setattr(session, "_until", 0.0)
    assert stream.ended.wait(20)


def test_closing_ends_streams_and_sessions_and_frees_the_port(app):
    server = serve(app, port=0).start()
    cookie = enter(server)
    stream = Stream(server, cookie)
    server.close()
    assert stream.ended.wait(20)
    server.close()
    with serve(app, port=server.port) as again:
        assert ask(again, "GET", "/", Cookie=cookie)[0].status == 401


def test_a_port_that_is_taken_and_ports_that_are_none(app, local):
    with pytest.raises(ConfigError, match=f"cannot listen on port {local.port} of 127.0.0.1: .*choose another port"):
        serve(app, port=local.port)
    for port in (-1, 65_536, "80", True):
        with pytest.raises(ConfigError, match="port is"):
            serve(app, port=port)
    with pytest.raises(ConfigError, match="cannot listen"):
        serve(app, host="no.such.host.invalid", port=0, token=TOKEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "jobs.example.com"])
def test_pitfall_65_it_is_open_to_others_with_a_token_alone(app, host):
    with pytest.raises(ConfigError, match="OUTLAST_WEB_TOKEN"):
        serve(app, host=host, port=0)


def test_only_for_show(app):
    with serve(app, port=0, read_only=True) as server:
        cookie = enter(server)
        response, html = ask(server, "GET", "/queues", Cookie=cookie)
        assert response.status == 200
        assert 'method="post" action="/queues' not in html
        assert ask(server, "POST", "/queues/shown/pause", Cookie=cookie, Origin=server.url)[0].status == 403
        assert "shown" not in {queue.name for queue in app.tasks.queues()}
