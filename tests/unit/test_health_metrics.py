"""/metrics of the health server: figures for who shows the token, and for nobody else."""

import sys
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import outlast
from outlast.cli.health_endpoints import ProcessState, serve_health
from outlast.errors import ConfigError
from outlast.health import HealthChecker, HealthServer
from outlast.observe.prometheus import exposing
from outlast.record import bus

TOKEN = "s3cret-of-the-house"


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path}/outlast.db")
    yield made
    made.close()


@pytest.fixture
def checker(app):
    return HealthChecker(db=app)


def up(body):
    """Return what the figures say of the store."""
    families = text_string_to_metric_families(body.decode())
    return next(sample.value for family in families for sample in family.samples if sample.name == "outlast_up")


def ask(server, path="/metrics", token=None, method="GET"):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_figures_for_who_shows_the_token(app, checker):
    with exposing(app) as told, HealthServer(checker, 0, token=TOKEN, metrics=told) as server:
        status, headers, body = ask(server, token=TOKEN)
        assert (status, up(body)) == (200, 1)
        assert headers["Content-Type"].startswith("text/plain")
        assert headers["Cache-Control"] == "no-store"
        assert ask(server, token=TOKEN, method="HEAD")[::2] == (200, b"")
        for wrong in (None, "wrong", TOKEN + "x"):
            status, headers, body = ask(server, token=wrong)
            assert (status, headers["WWW-Authenticate"], body) == (401, "Bearer", b'{"error": "unauthorized"}')
        assert ask(server, token=TOKEN, method="POST")[0] == 405
        assert ask(server, "/metrics/x", token=TOKEN)[0] == 404
        assert ask(server, "/health")[0] == 200


def test_none_where_none_are_given(checker):
    with HealthServer(checker, 0, token=TOKEN) as server:
        assert ask(server, token=TOKEN)[0] == 404


def test_they_need_a_token(checker):
    with pytest.raises(ConfigError, match="token"):
        HealthServer(checker, 0, metrics=lambda: (b"", ""))


def test_trouble_is_answered(checker, caplog):
    def broken():
        raise OSError("postgres://bob:hunter2pw@db/x")

    with HealthServer(checker, 0, token=TOKEN, metrics=broken) as server:
        assert ask(server, token=TOKEN)[::2] == (503, b'{"error": "no metrics"}')
    assert "metrics failed" in caplog.text
    assert "hunter2pw" not in caplog.text


@pytest.mark.parametrize(("token", "installed"), [(None, True), (TOKEN, False), (TOKEN, True)])
def test_of_the_command_line(token, installed, app, monkeypatch, caplog):
    caplog.set_level("INFO", "outlast.health")
    monkeypatch.delenv("OUTLAST_HEALTH_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("OUTLAST_HEALTH_TOKEN", token)
    if not installed:
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with serve_health(app, ProcessState(time.monotonic, lambda: False), 0, "127.0.0.1"):
        record = next(each for each in caplog.records if hasattr(each, "health_port"))
        record.port = record.health_port
        status, _, body = ask(record, token=TOKEN)
        assert bool(bus.subscribers) is bool(token and installed)
    assert status == (200 if token and installed else 404)
    assert (b"outlast_up 1.0" in body) is (status == 200)
    word = {
        (None, True): "/ready",
        (TOKEN, False): "'outlast[metrics]'",
        (TOKEN, True): "/metrics with the token",
    }
    assert record.getMessage().endswith(word[token, installed])
    assert not bus.subscribers
