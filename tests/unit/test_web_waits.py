"""The page of cooldowns and breakers: what waits for what, and what is done by hand."""

import json
from datetime import timedelta

import pytest

import holdfast as hf
from holdfast.ports.read_rows import BreakerRow
from holdfast.ports.rows import Worker
from holdfast.ports.source_rows import NewSource, SourceChange
from holdfast.report.breakers import by_resource

SECRET = "sk-live-0123456789abcdefghij"


@pytest.fixture
def app(tmp_path):
    made = hf.App(f"sqlite:///{tmp_path / 'holdfast.db'}")
    made.create_schema()
    yield made
    made.close()


@pytest.fixture
def site(app):
    from starlette.testclient import TestClient

    from holdfast.web import dashboard

    with TestClient(dashboard(app, auth=lambda _: "operator"), base_url="http://localhost") as client:
        client.headers["Origin"] = "http://localhost"
        yield client


def enqueue(app, resource, count):
    @app.task(resource=resource)
    def call(number: int):
        pass

    return [call.enqueue(number).id for number in range(count)]


def put_off(app, *urls):
    """Have sources wait for their host."""
    numbers = [each.id for each in app.store.add_sources([NewSource(url, "feed") for url in urls])]
    until = app.store.now() + timedelta(hours=1)

    def change(source, _now):
        return SourceChange(source._replace(outcome="deferred", not_before=until, next_poll_at=until))

    app.store.change_sources(dict.fromkeys(numbers, (None, change)))
    return numbers


class TestCooldowns:
    def test_what_waits_for_what_and_until_when(self, app, site):
        enqueue(app, "api.test", 3)
        put_off(app, "https://api.test/1", "https://api.test/2", "https://elsewhere.test/1")
        app.store.cool("api.test", 3600, "rate_limit: 429", capped=True)
        app.store.cool("soon.test", 60, "breaker open")
        first, second = site.get("/api/waits").json()["cooldowns"]
        assert (first["resource"], first["tasks"], first["sources"], first["by_breaker"]) == ("soon.test", 0, 0, True)
        assert (second["resource"], second["tasks"], second["sources"], second["capped"]) == ("api.test", 3, 2, 1)
        page = site.get("/waits").text
        assert "rate_limit: 429" in page
        assert "asked for too long" in page

    def test_ended_by_hand(self, app, site):
        (task,) = enqueue(app, "api.test", 1)
        waiting, elsewhere = put_off(app, "https://api.test/1", "https://elsewhere.test/1")
        app.store.cool("api.test", 3600, "429")
        answer = site.post("/api/waits/warm", data={"resource": "api.test"}).json()
        assert (answer["ok"], answer["sources"]) == (True, 1)
        now = app.store.now()
        assert app.store.cooldowns() == []
        assert app.tasks.show(task).task.next_run_after <= now
        assert app.sources.get(waiting).not_before is None
        assert app.sources.get(elsewhere).not_before > now
        assert not site.post("/api/waits/warm", data={"resource": "api.test"}).json()["ok"]

    def test_begun_by_hand(self, app, site):
        sent = {"resource": "api.test", "minutes": "1.5", "reason": "they  move house"}
        page = site.post("/waits/cool", data=sent)
        assert page.status_code == 200
        assert "api.test is left alone for 1.5 minutes" in page.text
        (cooldown,) = app.store.cooldowns()
        assert (cooldown.resource, cooldown.reason) == ("api.test", "they move house")
        assert 80 < (cooldown.until - app.store.now()).total_seconds() <= 90

    @pytest.mark.parametrize(
        "sent",
        [
            {"minutes": "5"},
            {"resource": " ", "minutes": "5"},
            {"resource": "a" * 501, "minutes": "5"},
            *(
                {"resource": "a", "minutes": minutes}
                for minutes in ("", "0", "-1", "nan", "inf", "soon", "10081", "1e9")
            ),
            {"resource": "a", "minutes": "5", "reason": "x" * 301},
        ],
    )
    def test_what_cannot_be_meant(self, app, site, sent):
        assert site.post("/api/waits/cool", data=sent).status_code == 400
        assert app.store.cooldowns() == []

    def test_a_name_with_a_secret_in_it_is_masked_and_can_be_ended(self, app, site):
        resource = f"api.test?api_key={SECRET}"
        app.store.cool(resource, 60, f"token={SECRET}")
        app.store.order_breaker(resource, "open")
        page = site.get("/waits").text
        assert SECRET not in page
        assert SECRET not in site.get("/api/waits").text
        key = page.split('name="resource" value="#')[1].split('"')[0]
        assert SECRET not in site.post("/waits/warm", data={"resource": f"#{key}"}).text
        assert app.store.cooldowns() == []
        assert site.post("/api/waits/warm", data={"resource": "#" + "0" * 32}).status_code == 404


class TestBreakers:
    def test_over_processes(self, app, site):
        now = app.store.now()
        for name in ("one", "two"):
            worker = Worker(name, f"host:{name}", "host", 1, ("default",), 1, "running", 0, alive=True,
                            started_at=now, heartbeat_at=now)  # fmt: skip
            app.store.register(worker, 60)
        app.store.tell_breakers("one", [("api.test", "open", 30.0, "5 failures in a row"), ("db", "closed", None, "")])
        app.store.tell_breakers("two", [("api.test", "closed", None, "")])
        api, db = site.get("/api/waits").json()["breakers"]
        assert (api["resource"], api["state"], api["told"], api["order"]) == (
            "api.test",
            "open",
            "1 open, 1 closed",
            None,
        )
        assert [each["process"] for each in api["processes"]] == ["host:one", "host:two"]
        assert (db["state"], db["told"]) == ("closed", "closed in one process")
        assert "5 failures in a row" in site.get("/waits").text

    def test_opened_and_closed_by_hand(self, app, site):
        assert site.post("/waits/open", data={"resource": "api.test"}).status_code == 200
        (order,) = app.store.breaker_orders(0)
        assert (order.resource, order.state, order.seconds) == ("api.test", "open", None)
        (row,) = site.get("/api/waits").json()["breakers"]
        assert (row["state"], row["order"], row["told"]) == ("open", "open", "no process has told of it")
        assert site.post("/api/waits/close", data={"resource": "api.test"}).json()["ok"]
        (order,) = app.store.breaker_orders(order.number)
        assert (order.resource, order.state) == ("api.test", "closed")

    def test_opened_for_a_while(self, app, site):
        site.post("/api/waits/open", data={"resource": "api.test", "minutes": "2"})
        (order,) = app.store.breaker_orders(0)
        assert 110 < order.seconds <= 120
        assert site.post("/api/waits/open", data={"resource": "b", "minutes": "never"}).status_code == 400

    def test_readers_look_and_change_nothing(self, app):
        from starlette.testclient import TestClient

        from holdfast.web import dashboard

        app.store.cool("api.test", 60, "429")
        client = TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost")
        page = client.get("/waits")
        assert page.status_code == 200
        assert "<form" not in page.text.split("<main")[1].split("</main")[0]
        assert (
            client.post(
                "/waits/warm", data={"resource": "api.test"}, headers={"Origin": "http://localhost"}
            ).status_code
            == 403
        )
        assert len(app.store.cooldowns()) == 1


class TestByResource:
    def row(self, app, resource, process, state, ago=0.0, order=None):
        return BreakerRow(resource, process, state, None, "", order, app.store.now() - timedelta(seconds=ago))

    def test_the_worst_first(self, app):
        rows = [
            self.row(app, "a", "w1", "closed"),
            self.row(app, "b", "w1", "half_open"),
            self.row(app, "c", "w1", "open"),
            self.row(app, "c", "w2", "open"),
        ]
        found = by_resource(rows, app.store.now())
        assert [(each.resource, each.state, each.told) for each in found] == [
            ("c", "open", "open in all 2 processes"),
            ("b", "half_open", "half-open in one process"),
            ("a", "closed", "closed in one process"),
        ]

    def test_a_process_without_a_lease_that_fell_silent_is_left_out(self, app):
        rows = [
            self.row(app, "a", "host:1", "open", ago=61),
            self.row(app, "a", "host:2", "closed", ago=59),
            self.row(app, "b", "host:1", "open", ago=61),
            self.row(app, "c", "worker-1", "open", ago=3600),
        ]
        found = by_resource(rows, app.store.now())
        assert [(each.resource, each.state) for each in found] == [("c", "open"), ("a", "closed")]


def test_the_twin_is_json(app, site):
    assert set(json.loads(site.get("/api/waits").text)) == {"at", "cooldowns", "breakers", "most_counted"}
