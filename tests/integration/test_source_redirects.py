"""Where redirects of sources may lead: to public addresses, and to those that were checked (pitfall 68)."""

from __future__ import annotations

import asyncio
import socket

import httpx
import httpx2
import pytest

from integration.monitoring import QUICK, add, feed, lines, opened
from outlast.sources import monitor as monitors
from servers.feeds import Answer, FeedServer, page, rss
from servers.webhooks import Reply, WebhookServer

PUBLIC, OTHER_PUBLIC, DEAD_PUBLIC = "93.184.216.34", "8.8.8.8", "8.8.4.4"
SOURCE = "http://feeds.example/feed"


class Internet:
    """A resolver, and routes from public addresses to servers of ours. Other addresses but loopback refuse connections.

    Attributes:
        names: For each name its answers, one list of addresses for each time it is asked; the last one stays.
        routes: For each public address the port of a server on loopback.
        asked: The names that were resolved, in order.
        went: The addresses that were connected to, in order.
    """

    def __init__(self, patch):
        self.names, self.routes, self.asked, self.went = {}, {}, [], []
        self._peers = {}
        self._getaddrinfo = socket.getaddrinfo
        self._connect = asyncio.selector_events.BaseSelectorEventLoop.sock_connect
        self._getpeername = asyncio.trsock.TransportSocket.getpeername
        patch.setattr(socket, "getaddrinfo", self.getaddrinfo)
        internet = self

        async def sock_connect(loop, sock, address):
            host, port = internet.route(sock, *address[:2])
            return await internet._connect(loop, sock, (host, port, *address[2:]))

        def getpeername(sock):
            return internet._peers.get(sock.fileno()) or internet._getpeername(sock)

        patch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", sock_connect)
        patch.setattr(asyncio.trsock.TransportSocket, "getpeername", getpeername)

    def getaddrinfo(self, host, port, *_, **__):
        host = host.decode() if isinstance(host, bytes) else host
        if host not in self.names:
            return self._getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self.asked.append(host)
        answers = self.names[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port or 0)) for each in found]

    def route(self, sock, host, port):
        self.went.append(host)
        self._peers.pop(sock.fileno(), None)
        if host in self.routes:
            self._peers[sock.fileno()] = (host, port)
            return "127.0.0.1", self.routes[host]
        if not host.startswith(("127.", "0.", "::1", "::ffff:127.")):
            raise ConnectionRefusedError(111, "refused")
        return host, port


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"], autouse=True)
def library(request, monkeypatch):
    monkeypatch.setattr(monitors, "_httpx_module", lambda: request.param)
    return request.param


@pytest.fixture
def app(tmp_path):
    with opened(f"sqlite:///{tmp_path}/outlast.db") as app:
        yield app


@pytest.fixture
def server():
    with FeedServer() as server:
        server.script("/secret", Answer(body=rss(title="Internal")))
        yield server


@pytest.fixture
def internet(monkeypatch, server):
    internet = Internet(monkeypatch)
    internet.names["feeds.example"] = [[PUBLIC]]
    internet.routes[PUBLIC] = int(server.url().rpartition(":")[2].strip("/"))
    return internet


def redirect(location, status=302):
    return Answer(status, {"Location": location})


def poll(app, url=SOURCE, profile=QUICK, **settings):
    """Poll one source once; return its history's last line and the contents that were delivered."""
    delivered = []
    (number,) = add(app, [url])
    app.monitor(profile, on_change=lambda changed: delivered.append(changed.fetched.content), **settings).cycle()
    return next(each for each in lines(app, number)[::-1] if each.attempts), delivered


def is_refused(line):
    return (line.outcome, line.category, line.attempts) == ("failed", "data", 1) and "allow_private=True" in line.error


PRIVATE = [
    "http://127.0.0.1:{port}/secret",
    "//127.0.0.1:{port}/secret",
    "http://127.1:{port}/secret",
    "http://2130706433:{port}/secret",
    "http://017700000001:{port}/secret",
    "http://0x7f000001:{port}/secret",
    "http://0.0.0.0:{port}/secret",
    "http://localhost:{port}/secret",
    "http://LOCALHOST:{port}/secret",
    "http://inside.example:{port}/secret",
    "http://mixed.example:{port}/secret",
    "http://[::1]:{port}/secret",
    "http://[::ffff:127.0.0.1]:{port}/secret",
    "http://[::ffff:7f00:1]:{port}/secret",
    "http://user:password@127.0.0.1:{port}/secret",
    "https://127.0.0.1:{port}/secret",
    "http://169.254.169.254/latest/meta-data/",
    "http://168.63.129.16/machine/",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
]


@pytest.mark.parametrize("location", PRIVATE)
def test_a_redirect_to_a_private_address_is_refused(app, server, internet, location):
    internet.names["inside.example"] = [["127.0.0.1"]]
    internet.names["mixed.example"] = [[PUBLIC, "127.0.0.1"]]
    server.script("/feed", redirect(location.format(port=internet.routes[PUBLIC])))
    line, delivered = poll(app)
    assert is_refused(line)
    assert delivered == []
    assert (internet.went, server.count("/secret")) == ([PUBLIC], 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_last_of_several_redirects_is_refused(app, server, internet, status):
    internet.names["other.example"] = [[OTHER_PUBLIC]]
    internet.routes[OTHER_PUBLIC] = internet.routes[PUBLIC]
    server.script("/feed", redirect("http://other.example/next", status))
    server.script("/next", redirect(server.url("/secret"), status))
    line, delivered = poll(app)
    assert is_refused(line)
    assert (delivered, internet.went, server.count("/secret")) == ([], [PUBLIC, OTHER_PUBLIC], 0)


def test_a_redirect_to_a_public_address_is_followed(app, server, internet):
    internet.names["other.example"] = [[OTHER_PUBLIC]]
    internet.routes[OTHER_PUBLIC] = internet.routes[PUBLIC]
    server.script("/feed", redirect("http://other.example/moved"))
    server.script("/moved", feed(3))
    line, delivered = poll(app)
    assert (line.outcome, [len(each.entries) for each in delivered]) == ("changed", [3])
    assert [each.headers["host"] for each in server.requests] == ["feeds.example", "other.example"]
    assert internet.went == [PUBLIC, OTHER_PUBLIC]


class TestRebinding:
    def test_a_name_that_was_public_before_is_refused(self, app, server, internet):
        internet.names["feeds.example"] = [[PUBLIC], ["127.0.0.1"]]
        server.script("/feed", redirect("/secret"))
        line, delivered = poll(app)
        assert is_refused(line)
        assert (delivered, internet.went, server.count("/secret")) == ([], [PUBLIC], 0)

    def test_the_connection_goes_to_the_address_that_was_checked(self, app, server, internet):
        internet.names["other.example"] = [[OTHER_PUBLIC], ["127.0.0.1"]]
        internet.routes[OTHER_PUBLIC] = internet.routes[PUBLIC]
        server.script("/feed", redirect("http://other.example/moved"))
        server.script("/moved", feed(3))
        line, _ = poll(app)
        assert line.outcome == "changed"
        assert (internet.asked.count("other.example"), internet.went) == (1, [PUBLIC, OTHER_PUBLIC])


class TestTls:
    @pytest.fixture
    def secure(self, monkeypatch):
        with WebhookServer("secure.example", "second.example") as secure:
            monkeypatch.setenv("SSL_CERT_FILE", secure.ca_file)
            yield secure

    def test_the_name_stays_the_name_of_the_host(self, app, server, internet, secure):
        """Both names have one address; a connection of one is not used for the other."""
        for name in ("secure.example", "second.example"):
            internet.names[name] = [[OTHER_PUBLIC]]
        internet.routes[OTHER_PUBLIC] = secure.port
        server.script("/feed", redirect("https://secure.example/moved"))
        secure.script(Reply(302, {"Location": "https://second.example/again"}), Reply(body=rss()))
        line, _ = poll(app)
        assert line.outcome == "changed", line
        assert secure.server_names == ["secure.example", "second.example"]
        assert [each.headers["host"] for each in secure.requests] == ["secure.example", "second.example"]

    def test_a_certificate_of_another_name_is_refused(self, app, server, internet, secure):
        internet.names["elsewhere.example"] = [[OTHER_PUBLIC]]
        internet.routes[OTHER_PUBLIC] = secure.port
        server.script("/feed", redirect("https://elsewhere.example/moved"))
        line, _ = poll(app)
        assert (line.outcome, line.category) == ("failed", "network")
        assert "CERTIFICATE_VERIFY_FAILED" in line.error
        assert secure.requests == []


def test_the_next_address_is_tried_when_one_is_dead(app, server, internet):
    internet.names["other.example"] = [[DEAD_PUBLIC, OTHER_PUBLIC]]
    internet.routes[OTHER_PUBLIC] = internet.routes[PUBLIC]
    server.script("/feed", redirect("http://other.example/moved"))
    server.script("/moved", feed(3))
    line, _ = poll(app)
    assert line.outcome == "changed"
    assert internet.went == [PUBLIC, DEAD_PUBLIC, OTHER_PUBLIC]


@pytest.mark.parametrize(
    "location", ["http://nothing.invalid/", "http://a..b/", f"http://{'a' * 64}.example/", "http://0177.0.0.1/"]
)
def test_a_redirect_to_a_name_that_is_not_one_is_a_failure_of_the_network(app, server, internet, location):
    server.script("/feed", redirect(location))
    line, _ = poll(app)
    assert (line.outcome, line.category) == ("failed", "network"), line
    assert internet.went == [PUBLIC]


class TestPrivateSources:
    """What you configure yourself may be private."""

    def test_a_redirect_on_the_same_host_is_followed(self, app, server):
        server.script("/feed", redirect("/secret"))
        line, delivered = poll(app, server.url("/feed"))
        assert (line.outcome, delivered[0].title) == ("changed", "Internal")

    def test_a_private_name_may_redirect_to_itself(self, app, server, internet):
        internet.names["wiki.example"] = [["127.0.0.1"]]
        server.script("/feed", redirect("/secret"))
        line, _ = poll(app, f"http://wiki.example:{internet.routes[PUBLIC]}/feed")
        assert line.outcome == "changed"

    @pytest.mark.parametrize("allow_private", [False, True])
    def test_a_redirect_to_another_private_host_needs_leave(self, app, server, allow_private):
        server.script("/feed", redirect(server.host_url(2, "/secret")))
        line, delivered = poll(app, server.url("/feed"), allow_private=allow_private)
        if allow_private:
            assert (line.outcome, delivered[0].title) == ("changed", "Internal")
        else:
            assert is_refused(line)
            assert server.count("/secret") == 0

    def test_all_redirects_are_followed_with_leave(self, app, server, internet):
        server.script("/feed", redirect(server.url("/secret")))
        line, delivered = poll(app, allow_private=True)
        assert (line.outcome, delivered[0].title) == ("changed", "Internal")


class TestOtherFetchers:
    def test_pages(self, app, server, internet):
        server.script("/secret", Answer(body=page("internal")))
        server.script("/feed", redirect(server.url("/secret")))
        line, delivered = poll(app, fetch="page")
        assert is_refused(line)
        assert delivered == []

    def test_functions_that_use_the_client(self, app, server, internet):
        async def fetch(source, client):
            return (await client.get(source.url)).text

        server.script("/feed", redirect(server.url("/secret")))
        line, delivered = poll(app, fetch=fetch)
        assert is_refused(line)
        assert delivered == []

    def test_each_call_of_a_function_goes_where_it_says(self, app, server, internet):
        async def fetch(source, client):
            await client.get(source.url)
            return (await client.get(server.url("/secret"))).text

        internet.names["other.example"] = [[OTHER_PUBLIC]]
        internet.routes[OTHER_PUBLIC] = internet.routes[PUBLIC]
        server.script("/feed", redirect("http://other.example/moved"))
        line, _ = poll(app, fetch=fetch)
        assert line.outcome == "changed"


def test_a_source_that_redirects_inside_is_disabled_like_any_other(app, server, internet):
    server.script("/feed", redirect(server.url("/secret")))
    (number,) = add(app, [SOURCE])
    monitor = app.monitor(QUICK)
    for _ in range(5):
        monitor.cycle()
    assert app.sources.get(number).state == "disabled"
    assert (server.count("/feed"), server.count("/secret")) == (5, 0)
