"""Webhooks against a real server: what is sent, where it may go, and what is told when it goes wrong."""

import hmac
import json
import logging
import pickle
import socket
import time
import traceback
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from outlast import classify
from outlast.decide.decision import AlertKind
from outlast.errors import ConfigError, TemporaryAPIError
from outlast.failure import Category
from outlast.http.public_addresses import is_public
from outlast.observe import webhook
from outlast.observe.channels import WebhookChannel, channel
from outlast.observe.messages import Message, compose
from outlast.observe.webhook import WebhookError, post
from outlast.ports.source_rows import Alert
from servers.webhooks import Reply, WebhookServer

SECRET = "/services/T0AAAA/B0BBBB/uVxYz12345secret"
PUBLIC, OTHER_PUBLIC = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"
MESSAGE = Message("feed is disabled", "5 × 403 <from> a & b", (AlertKind.FIRST,))


@pytest.fixture
def server():
    with WebhookServer() as running:
        yield running


@pytest.fixture
def secure_server(monkeypatch):
    with WebhookServer("hooks.slack.com") as running:
        monkeypatch.setenv("SSL_CERT_FILE", running.ca_file)
        yield running


@pytest.fixture
def names(monkeypatch):
    """A resolver: each name with its answers, one list of addresses for each time it is asked, the last one stays."""

    class Resolver(dict):
        asked = 0

        def getaddrinfo(self, host, port, **_):
            self.asked += 1
            if host not in self:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            answers = self[host]
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            return [
                (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
                for each in found
            ]

    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
    return resolver


@pytest.fixture
def internet(monkeypatch):
    """Leads every connection to a server of ours, and tells where it should have gone."""

    class Internet(list):
        leads_to = None

    went = Internet()

    class Socket(socket.socket):
        def __init__(self, family, kind):
            super().__init__(socket.AF_INET, kind)

        def connect(self, where):
            went.append(where[0])
            super().connect(("127.0.0.1", went.leads_to.port))

    def resolve(*args, **kwargs):
        return socket.getaddrinfo(*args, **kwargs)  # the one of `names`, if a test uses both

    stand_in = SimpleNamespace(socket=Socket, SOCK_STREAM=socket.SOCK_STREAM, getaddrinfo=resolve)
    monkeypatch.setattr(webhook, "socket", stand_in)
    return went


def send(url, **options):
    post(url, b"{}", {"Content-Type": "application/json"}, **options)


def failure_of(error):
    """Classify an error, and see that nothing of it shows the secret."""
    told = [str(error), repr(error), str(classify(error).to_dict()), "".join(traceback.format_exception(error))]
    assert not [text for text in told if "secret" in text or "T0AAAA" in text]
    return classify(error)


def test_a_body_is_posted(server):
    post(server.url("/a/b?c=d"), b"body", {"Content-Type": "text/plain"}, allow_private=True)
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/a/b?c=d", b"body")
    assert request.headers["content-type"] == "text/plain"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"


def test_a_path_in_any_script_is_sent_encoded(server):
    send(server.url("/フィード?q=é"), allow_private=True)
    assert server.requests[0].path == "/%E3%83%95%E3%82%A3%E3%83%BC%E3%83%89?q=%C3%A9"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "192.0.0.192",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00::1]",
        "[ff0e::1]",
    ],
)
def test_private_addresses_are_refused(host, server):
    """Pitfall 68: by number in every spelling, and by name."""
    with pytest.raises(ConfigError) as caught:
        send(f"https://{host}:{server.port}{SECRET}")
    failure = failure_of(caught.value)
    assert (failure.category, failure.retryable) == (Category.CONFIGURATION, False)
    assert "App(notify_private=True) or channel(…, allow_private=True)" in str(caught.value)
    assert server.connections == 0


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", OTHER_PUBLIC]
)
def test_public_addresses_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize("others", [[PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [OTHER_PUBLIC, "::1"], []])
def test_one_private_address_of_a_name_is_enough(others, names, internet, server):
    """Pitfall 68."""
    names["hooks.example"], internet.leads_to = [others], server
    with pytest.raises(ConfigError, match=r"hooks\.example has an address that is not public"):
        send(f"https://hooks.example{SECRET}")
    assert internet == []


def test_a_name_that_changes_its_mind_is_asked_once(names, internet, secure_server):
    """Pitfall 68: the address that was checked is the one that is called."""
    names["hooks.slack.com"], internet.leads_to = [[PUBLIC], ["127.0.0.1"]], secure_server
    send(f"https://hooks.slack.com{SECRET}")
    assert (internet, names.asked) == ([PUBLIC], 1)
    assert secure_server.requests[0].path == SECRET
    assert secure_server.requests[0].headers["host"] == "hooks.slack.com"
    assert secure_server.server_names == ["hooks.slack.com"]
    with pytest.raises(ConfigError):  # asked again, it now leads to ourselves: it is checked whenever it is called
        send(f"https://hooks.slack.com{SECRET}")
    assert len(secure_server.requests) == 1


def test_a_certificate_for_another_name_is_refused(names, internet, secure_server):
    names["elsewhere.example"], internet.leads_to = [[PUBLIC]], secure_server
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        send(f"https://elsewhere.example{SECRET}")
    assert failure_of(caught.value).category is Category.NETWORK
    assert secure_server.requests == []


def test_the_next_address_is_tried_when_one_is_dead(server, names):
    with socket.socket() as dead:  # bound and never listening
        dead.bind(("127.0.0.2", server.port))
        names["two.example"] = [["127.0.0.2", "127.0.0.1"]]
        send(f"http://two.example:{server.port}/", allow_private=True)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304])
def test_redirects_are_not_followed(status, server):
    """Pitfall 68."""
    server.script(Reply(status, {"Location": server.url("/elsewhere-secret")}))
    with pytest.raises(WebhookError, match="redirect") as caught:
        send(server.url(SECRET), allow_private=True)
    failure = failure_of(caught.value)
    assert (failure.category, failure.retryable) == (Category.CONFIGURATION, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://hooks.slack.com/services/secret", r"use https, or .*notify_private=True.* or .*allow_private=True"),
        ("https://user:secret@hooks.slack.com/", "user or password"),
        ("https://secret@hooks.slack.com/", "user or password"),
        ("https://example.com\\@127.0.0.1/secret", "user or password"),
        ("ftp://hooks.slack.com/secret", "https://"),
        ("https:///secret", "no host"),
        ("https://hooks.slack.com/secret path", "contains spaces"),
        ("https://hooks.slack.com/secret\r\nX-Header: 1", "contains spaces"),
        ("https://hooks.slack.com:secret/", "the URL of a webhook is not valid"),
        ("https://[secret/", "the URL of a webhook is not valid"),
        ("https://" + "é" * 70 + ".example/secret", "the URL of a webhook is not valid"),
        ("https://.leading.example/secret", "is not a valid host name"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused_without_being_shown(url, says):
    with pytest.raises(ConfigError, match=says) as caught:
        send(url)
    assert failure_of(caught.value).category is Category.CONFIGURATION


@pytest.mark.parametrize(
    ("reply", "category", "retryable", "wait"),
    [
        (Reply(429, {"Retry-After": "7"}), Category.RATE_LIMIT, True, 7),
        (Reply(429), Category.RATE_LIMIT, True, None),
        (Reply(500), Category.API_TEMPORARY, True, None),
        (Reply(503, {"Retry-After": "9"}), Category.API_TEMPORARY, True, 9),
        (Reply(400, body=b"invalid_payload"), Category.INVALID_PARAMETERS, False, None),
        (Reply(403, body=b"action_prohibited"), Category.ACCESS_DENIED, False, None),
        (Reply(404, body=b"no_service"), Category.NOT_FOUND, False, None),
        (Reply(410, body=b"channel_is_archived"), Category.NOT_FOUND, False, None),
        ("reset", Category.NETWORK, True, None),
    ],
)
def test_answers_are_told_apart(reply, category, retryable, wait, server):
    server.script(reply)
    with pytest.raises((WebhookError, OSError)) as caught:
        send(server.url(SECRET), allow_private=True)
    failure = failure_of(caught.value)
    assert (failure.category, failure.retryable, failure.retry_after) == (category, retryable, wait)
    if isinstance(reply, Reply):
        assert failure.http_status == reply.status
        assert reply.body == b"ok" or reply.body.decode() in failure.message


def test_an_answer_that_repeats_the_address_is_not_repeated(server):
    server.script(Reply(404, body=f"Cannot POST {SECRET}".encode()), Reply(404, body=b"secret"))
    for _ in range(2):
        with pytest.raises(WebhookError) as caught:
            send(server.url(SECRET), allow_private=True)
        failure_of(caught.value)


def test_an_error_survives_pickling(server):
    server.script(Reply(429, {"Retry-After": "7"}))
    with pytest.raises(WebhookError) as caught:
        send(server.url(SECRET), allow_private=True)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), classify(copy).retry_after) == (str(caught.value), 7)


@pytest.mark.parametrize("how", ["stall", "drip"])
def test_a_server_that_never_comes_to_an_end_is_left(how, server):
    server.script(how)
    with pytest.raises(TimeoutError, match=r"127\.0\.0\.1 did not answer within 0\.3 s") as caught:
        send(server.url(SECRET), allow_private=True, timeout=0.3)
    failure = failure_of(caught.value)
    assert (failure.category, failure.retryable) == (Category.NETWORK, True)


@pytest.mark.parametrize("how", ["stall", "drip"])
def test_nor_is_it_waited_for_behind_tls(how, names, internet, secure_server):
    names["hooks.slack.com"], internet.leads_to = [[PUBLIC]], secure_server
    secure_server.script(how)
    with pytest.raises(TimeoutError, match=r"hooks\.slack\.com did not answer within 0\.5 s"):
        send(f"https://hooks.slack.com{SECRET}", timeout=0.5)
    assert len(secure_server.requests) == 1


def test_a_handshake_that_never_ends_is_left():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="did not answer"):
        send(f"https://127.0.0.1:{silent.getsockname()[1]}{SECRET}", allow_private=True, timeout=0.2)


def test_the_status_counts_even_if_the_answer_never_ends(server):
    server.script("drip-body")
    send(server.url(SECRET), allow_private=True, timeout=0.3)
    assert len(server.requests) == 1


def test_a_large_answer_is_read_in_part(server):
    server.script(Reply(500, body=b"x" * 1_000_000))
    with pytest.raises(WebhookError) as caught:
        send(server.url(SECRET), allow_private=True)
    assert len(caught.value.response.body) == webhook.RESPONSE_LIMIT


def test_a_resolver_that_hangs_is_left(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(5))
    with pytest.raises(TimeoutError, match="was not resolved"):
        send(f"https://hooks.slack.com{SECRET}", timeout=0.05)


def test_an_unknown_name_is_the_networks_trouble(names):
    with pytest.raises(socket.gaierror) as caught:
        send(f"https://nothing.example{SECRET}")
    assert failure_of(caught.value).category is Category.NETWORK


def test_slack_gets_blocks_and_a_text(names, internet, secure_server):
    names["hooks.slack.com"], internet.leads_to = [[PUBLIC]], secure_server
    channel(f"https://hooks.slack.com{SECRET}").send(MESSAGE)
    (request,) = secure_server.requests
    assert (request.path, request.headers["content-type"]) == (SECRET, "application/json; charset=utf-8")
    text = "5 × 403 &lt;from&gt; a &amp; b"
    assert json.loads(request.body) == {
        "text": f"feed is disabled\n{text}",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "feed is disabled", "emoji": False}},
            {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}},
        ],
    }


def test_a_compatible_server_is_reached_where_private_addresses_are_allowed(server):
    url = f"slack+{server.url(SECRET)}"
    channel(url, allow_private=True).send(MESSAGE)
    assert server.requests[0].path == SECRET
    with pytest.raises(ConfigError, match="use https"):
        channel(url)


def test_slacks_refusals_are_the_channels_errors(server):
    server.script(Reply(404, body=b"no_service"))
    with pytest.raises(WebhookError, match="404: no_service"):
        channel(f"slack+{server.url(SECRET)}", allow_private=True).send(MESSAGE)


ALERT = Alert(
    7, "source:12", AlertKind.RECOVERED, None, "Tea shop: it answers again", "", 1, 1, (), None, None,
    datetime(2026, 11, 18, 8, 5, tzinfo=UTC), datetime(2026, 11, 18, 6, 0, tzinfo=UTC),
)  # fmt: skip


def test_a_json_webhook_gets_the_alerts_as_data(server):
    ((message, _),) = compose([ALERT])
    channel(f"json+{server.url(SECRET)}", allow_private=True).send(message)
    (request,) = server.requests
    assert (request.path, request.headers["content-type"]) == (SECRET, "application/json; charset=utf-8")
    assert json.loads(request.body) == {
        "title": "recovered after 2 h 5 min: Tea shop: it answers again",
        "text": "Alert 7, 2026-11-18 08:05:00 UTC. Command: outlast sources show 12",
        "alerts": [
            {
                "id": 7,
                "key": "source:12",
                "kind": "recovered",
                "state": None,
                "title": "Tea shop: it answers again",
                "text": "",
                "created_at": "2026-11-18T08:05:00+00:00",
                "lasted": 7500.0,
                "page": "",
            }
        ],
    }
    assert "outlast-signature" not in request.headers


def test_a_json_webhook_has_headers_and_a_signature(server):
    made = WebhookChannel(
        server.url(SECRET), headers={"Authorization": "Bearer abc"}, secret="shared", allow_private=True
    )
    made.send(MESSAGE)
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer abc"
    assert request.headers["outlast-signature"] == f"sha256={hmac.new(b'shared', request.body, 'sha256').hexdigest()}"
    assert json.loads(request.body)["alerts"] == []
    for shown in (made.name, repr(made)):
        assert "secret" not in shown
        assert "shared" not in shown


def test_a_json_webhook_is_held_to_public_addresses(server):
    with pytest.raises(ConfigError, match="uses http"):
        channel(f"json+{server.url(SECRET)}")
    with pytest.raises(ConfigError, match="not public"):
        channel("json+https://127.0.0.1/in").send(MESSAGE)
    server.script(Reply(500))
    with pytest.raises(WebhookError, match="500"):
        channel(f"json+{server.url(SECRET)}", allow_private=True).send(MESSAGE)


def test_apprise_delivers(server, caplog):
    caplog.set_level(logging.DEBUG)
    through = channel(f"json://127.0.0.1:{server.port}{SECRET}?:key=secret")
    through.send(MESSAGE)
    (request,) = server.requests
    sent = json.loads(request.body)
    assert (request.path, sent["title"], sent["message"]) == (SECRET, MESSAGE.title, MESSAGE.text)
    assert sent["type"] == "warning"
    through.send(Message("recovered: feed", "", (AlertKind.RECOVERED,)))
    sent = json.loads(server.requests[1].body)
    assert (sent["type"], sent["message"]) == ("success", "recovered: feed")
    assert "secret" not in caplog.text + repr(through) + through.name


def test_what_apprise_cannot_deliver_is_an_error(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.script(Reply(500))
    through = channel(f"json://127.0.0.1:{server.port}{SECRET}")
    with pytest.raises(TemporaryAPIError, match=f"could not deliver to {through.name}") as caught:
        through.send(MESSAGE)
    assert failure_of(caught.value).retryable
    assert "secret" not in caplog.text


def test_apprise_is_heard_when_others_use_it(caplog):
    channel("json://127.0.0.1:9/")
    logging.getLogger("apprise").warning("somebody else's")
    assert "somebody else's" in caplog.text
