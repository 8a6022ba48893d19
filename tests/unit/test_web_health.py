"""The page of health: what the checks find, without details that nobody should see, and never hanging."""

import gc
import threading
import time
import weakref

import pytest

import outlast
from outlast.observe.channels import channel
from outlast.ports.rows import WorkerRow
from outlast.ports.source_rows import NewAlert

FEW_SECONDS = 15.0  # far more than a check has, far less than a hang


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    made.create_schema()
    yield made
    made.close()


@pytest.fixture
def site(app):
    from starlette.testclient import TestClient

    from outlast.web import dashboard

    with TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost") as client:
        yield client


def checks(site):
    answer = site.get("/api/health-checks").json()
    return answer["state"], {each["name"]: (each["state"], each["detail"]) for each in answer["checks"]}


def test_all_is_well(app, site, tmp_path):
    state, found = checks(site)
    assert state == "healthy"
    assert set(found) == {"database", "oldest_ready", "dead_letters", "disk", "tables", "workers", "alerts"}
    assert {each for each, _ in found.values()} == {"ok"}
    assert found["tables"][1].startswith("version ")
    assert found["alerts"] == ("ok", "none waiting")
    answer = site.get("/api/health-checks").json()
    assert answer["store"] == f"sqlite:///{tmp_path / 'outlast.db'}"
    assert {"outlast", "python", "sqlite"} <= set(answer["versions"])
    page = site.get("/health-checks").text
    assert "All checks pass." in page
    assert "the log only" in page


def test_tasks_wait_and_nobody_takes_them(app, site):
    @app.task
    def call():
        pass

    call.enqueue()
    state, found = checks(site)
    assert (state, found["workers"]) == ("degraded", ("degraded", "no worker is alive, and tasks wait"))
    assert "At least one check is degraded." in site.get("/health-checks").text


def test_workers_that_are_alive_and_one_that_is_silent(app, site):
    now = app.store.now()
    for name, lease in (("one", 60.0), ("two", -1.0)):
        worker = WorkerRow(
            name, name, "host", 1, ("default",), 1, "running", 0, alive=True, started_at=now, heartbeat_at=now
        )
        app.store.register(worker, lease)
    assert checks(site)[1]["workers"] == ("degraded", "1 worker alive, 1 silent")


def test_alerts_that_wait(app, site):
    app.store.raise_alerts([NewAlert("source:1", "disabled", "one"), NewAlert("source:2", "disabled", "two")])
    state, found = checks(site)[1]["alerts"]
    assert state == "ok"
    assert found.startswith("2 alerts not delivered yet, the oldest for ")


def test_a_check_that_hangs_is_named_and_the_page_answers(app, site, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(app.store, "check_schema", lambda: release.wait(60))
    monkeypatch.setattr(app.store, "alerts", lambda **_: release.wait(60))
    try:
        began = time.monotonic()
        state, found = checks(site)
        assert time.monotonic() - began < FEW_SECONDS
        assert state == "unhealthy"
        assert found["tables"][0] == found["alerts"][0] == "unhealthy"
        assert found["database"][0] == "ok"
        assert site.get("/health-checks").status_code == 200
    finally:
        release.set()


def test_what_a_check_raises_is_not_shown(app, site, monkeypatch):
    def broken():
        raise RuntimeError("password=hunter2 at /etc/secret")

    monkeypatch.setattr(app.store, "check_schema", broken)
    page = site.get("/health-checks").text
    assert "At least one check fails" in page
    assert "hunter2" not in page
    assert "/etc/secret" not in page


def test_the_channels_are_named(tmp_path):
    from starlette.testclient import TestClient

    from outlast.web import dashboard

    def tell(message):
        pass

    app = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}", notify=tell)
    with TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost") as client:
        assert client.get("/api/health-checks").json()["channels"] == [channel(tell).name]
    app.close()


class TestStoreTold:
    def test_a_password_is_no_part_of_it(self):
        from outlast.stores.postgres.store import PostgresStore

        store = PostgresStore("postgresql://me:hunter2@db.test:5432/jobs?schema=mine")
        assert store.location == "postgresql://db.test:5432/jobs?schema=mine"

    def test_memory(self):
        from outlast.stores.sqlite.memory import MemoryStore

        assert MemoryStore().location == "memory"


def test_a_dashboard_that_is_gone_leaves_nothing_behind(tmp_path):
    """Checkers hold their app, and an app holds connections."""
    from starlette.testclient import TestClient

    from outlast.web import dashboard

    app = outlast.App(f"sqlite:///{tmp_path / 'gone.db'}")
    app.create_schema()
    client = TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost")
    assert client.get("/health-checks").status_code == 200
    assert client.get("/health-checks").status_code == 200
    gone = weakref.ref(app)
    app.close()
    del app, client
    gc.collect()
    assert gone() is None
