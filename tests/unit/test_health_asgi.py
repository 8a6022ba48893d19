"""The health endpoint as an ASGI app, asked as a server asks it."""

import json
import threading

import anyio
import pytest

from outlast.errors import ConfigError
from outlast.health import Finding, HealthChecker, health_app
from outlast.testing import fake_clock

TOKEN = "s3cret-of-the-house"


def well():
    return HealthChecker(checks={"database": lambda: True, "disk": lambda: Finding(True, "tight", degraded=True)})


async def ask(app, path="/health", method="GET", headers=(), **more):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": method, "path": path, "headers": list(headers), **more}, receive, send)
    start, body = sent
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    assert all(type(part) is bytes for pair in start["headers"] for part in pair)
    return start["status"], dict(start["headers"]), body["body"]


def answer(app, *args, **kwargs):
    return anyio.run(lambda: ask(app, *args, **kwargs))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_everybody_gets(backend):
    status, headers, body = anyio.run(lambda: ask(health_app(well())), backend=backend)
    assert status == 200
    assert json.loads(body) == {"status": "healthy", "checks": {"database": True, "disk": True}}
    assert headers == {
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
        b"cache-control": b"no-store",
        b"x-content-type-options": b"nosniff",
    }


def test_what_is_not_well_is_a_503():
    app = health_app(HealthChecker(checks={"database": lambda: False}))
    for path in ("/health", "/ready"):
        status, _, body = answer(app, path)
        assert (status, json.loads(body)) == (503, {"status": "unhealthy", "checks": {"database": False}})


def test_ready_ends_with_stopping_and_health_does_not():
    checker = well()
    app = health_app(checker)
    assert answer(app, "/ready")[0] == 200
    checker.stopping()
    status, _, body = answer(app, "/ready")
    assert (status, json.loads(body)["checks"]) == (503, {"database": True, "accepting": False})
    assert answer(app, "/health")[0] == 200


def test_the_token_opens_the_details():
    app = health_app(well(), token=TOKEN)
    for scheme in (b"Bearer", b"bearer"):
        status, _, body = answer(app, headers=[(b"authorization", scheme + b" " + TOKEN.encode())])
        assert status == 200
        assert json.loads(body) == {
            "status": "degraded",
            "checks": {
                "database": {"ok": True, "degraded": False, "detail": "ok"},
                "disk": {"ok": True, "degraded": True, "detail": "tight"},
            },
        }
    body = answer(app, "/ready", headers=[(b"authorization", b"Bearer " + TOKEN.encode())])[2]
    assert json.loads(body)["checks"] == {"database": {"ok": True, "degraded": False, "detail": "ok"}}


RIGHT = b"Bearer " + TOKEN.encode()


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        (None, [(b"authorization", RIGHT)]),
        (None, [(b"authorization", b"Bearer ")]),
        (None, [(b"authorization", b"Bearer None")]),
        (TOKEN, []),
        (TOKEN, [(b"authorization", b"")]),
        (TOKEN, [(b"authorization", b"Bearer")]),
        (TOKEN, [(b"authorization", RIGHT[:-1])]),
        (TOKEN, [(b"authorization", RIGHT + b"x")]),
        (TOKEN, [(b"authorization", RIGHT.upper())]),
        (TOKEN, [(b"authorization", b"Basic " + TOKEN.encode())]),
        (TOKEN, [(b"authorization", b"Bearer \xff\xfe")]),
        (TOKEN, [(b"authorization", RIGHT), (b"authorization", b"Bearer other")]),
        (TOKEN, [(b"x-authorization", RIGHT)]),
    ],
)
def test_without_the_token_there_are_no_details(token, headers):
    status, _, body = answer(health_app(well(), token=token), headers=headers)
    assert status == 200
    assert json.loads(body) == {"status": "healthy", "checks": {"database": True, "disk": True}}


@pytest.mark.parametrize("token", ["", "  ", " x", "x\n", 7, b"bytes"])
def test_a_token_that_protects_nothing_is_refused(token):
    with pytest.raises(ConfigError, match="token is empty"):
        health_app(well(), token=token)


def test_head_has_no_body_and_the_same_headers():
    app = health_app(well())
    status, headers, body = answer(app)
    assert answer(app, method="HEAD") == (status, headers, b"")
    assert int(headers[b"content-length"]) == len(body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get"])
def test_other_methods(method):
    status, headers, body = answer(health_app(well()), method=method)
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")
    assert json.loads(body) == {"error": "method not allowed"}


@pytest.mark.parametrize("path", ["/", "", "/health/", "/healthz", "/HEALTH", "/health/ready", "//health"])
def test_other_paths(path):
    for method in ("GET", "POST"):
        status, _, body = answer(health_app(well()), path, method)
        assert (status, json.loads(body)) == (404, {"error": "not found"})


@pytest.mark.parametrize(
    ("path", "mount", "status"),
    [
        ("/internal/health", "/internal", 200),  # as the specification has it
        ("/health", "/internal", 200),  # as older servers have it
        ("/internal/health", "", 404),
        ("/health", "/health", 200),
        ("/healthy/health", "/health", 404),
    ],
)
def test_it_may_be_mounted(path, mount, status):
    assert answer(health_app(well()), path, root_path=mount)[0] == status


def test_refusals_ask_no_check():
    asked = []
    app = health_app(HealthChecker(checks={"a": lambda: bool(asked.append(1)) or True}))
    answer(app, "/nothing")
    answer(app, method="POST")
    assert asked == []
    answer(app)
    assert asked == [1]


def test_a_hundred_requests_at_once_cause_one_run_and_the_loop_goes_on():
    asked, release = [], threading.Event()

    def check():
        asked.append(1)
        return release.wait()

    app = health_app(HealthChecker(checks={"a": check}, timeout=60))
    statuses = []

    async def one():
        statuses.append((await ask(app))[0])

    async def main():
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(one)
            await anyio.sleep(0.01)
            assert statuses == []
            release.set()

    with fake_clock() as clock:
        for runs in (1, 2, 3):
            anyio.run(main)
            assert (len(statuses), len(asked)) == (100, runs)
            statuses.clear()
            release.clear()
            clock.advance(1)


def test_the_lifespan_of_a_server_is_answered():
    sent, coming = [], [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive():
        return coming.pop(0)

    async def send(message):
        sent.append(message["type"])

    anyio.run(health_app(well()), {"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_websocket_is_turned_away():
    sent = []

    async def send(message):
        sent.append(message)

    anyio.run(health_app(well()), {"type": "websocket", "path": "/health"}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]
