"""The page of cooldowns and breakers: what waits for what, and what is done by hand."""

import json
import sqlite3
from datetime import timedelta

import pytest

import outlast
from outlast import errors
from outlast.decide.limits import Candidate
from outlast.ports.read_rows import BreakerRow
from outlast.ports.rows import WorkerRow
from outlast.ports.source_rows import NewSource, SourceChange
from outlast.ports.store import LimitRequest
from outlast.report.breakers import breakers_by_resource
from outlast.web.pages.overview import read_board
from web_weighing import MOST_BYTES, weight

SECRET = "sk-live-0123456789abcdefghij"


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    made.create_schema()
    yield made
    made.close()


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
        app.store.start_cooldown("api.test", 3600, "rate_limit: 429", capped=True)
        app.store.start_cooldown("soon.test", 60, "breaker open")
        first, second = site.get("/api/waits").json()["cooldowns"]
        assert (first["resource"], first["tasks"], first["sources"], first["by_breaker"]) == ("soon.test", 0, 0, True)
        assert (second["resource"], second["tasks"], second["sources"], second["capped"]) == ("api.test", 3, 2, 1)
        page = site.get("/waits").text
        assert "rate_limit: 429" in page
        assert "asked for too long" in page

    def test_ended_by_hand(self, app, site):
        (task,) = enqueue(app, "api.test", 1)
        waiting, elsewhere = put_off(app, "https://api.test/1", "https://elsewhere.test/1")
        app.store.start_cooldown("api.test", 3600, "429")
        answer = site.post("/api/waits/end-cooldown", data={"resource": "api.test"}).json()
        assert (answer["ok"], answer["sources"]) == (True, 1)
        now = app.store.now()
        assert app.store.cooldowns() == []
        assert app.tasks.show(task).task.next_run_after <= now
        assert app.sources.get(waiting).not_before is None
        assert app.sources.get(elsewhere).not_before > now
        assert not site.post("/api/waits/end-cooldown", data={"resource": "api.test"}).json()["ok"]

    def test_the_task_that_met_the_answer_is_due_too(self, app, site):
        answers = [errors.RateLimitError("429", retry_after=600)]

        @app.task(resource="api.test")
        def call():
            if answers:
                raise answers.pop()

        number = call.enqueue().id
        app.worker(concurrency=1).drain()
        assert app.tasks.show(number).task.next_run_after > app.store.now()
        assert site.post("/api/waits/end-cooldown", data={"resource": "api.test"}).json()["ok"]
        app.worker(concurrency=1).drain()
        assert app.tasks.show(number).task.status == "DONE"

    def test_begun_by_hand(self, app, site):
        sent = {"resource": "api.test", "minutes": "1.5", "why": "they  move house"}
        page = site.post("/waits/start-cooldown", data=sent)
        assert page.status_code == 200
        assert "api.test is in cooldown for at least 1.5 minutes" in page.text
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
            {"resource": "a", "minutes": "5", "why": "x" * 501},
        ],
    )
    def test_what_cannot_be_meant(self, app, site, sent):
        assert site.post("/api/waits/start-cooldown", data=sent).status_code == 400
        assert app.store.cooldowns() == []

    def test_a_name_with_a_secret_in_it_is_masked_and_can_be_ended(self, app, site):
        resource = f"api.test?api_key={SECRET}"
        app.store.start_cooldown(resource, 60, f"token={SECRET}")
        app.store.order_breaker(resource, "open")
        page = site.get("/waits").text
        assert SECRET not in page
        assert SECRET not in site.get("/api/waits").text
        key = page.split('name="resource" value="#')[1].split('"')[0]
        assert SECRET not in site.post("/waits/end-cooldown", data={"resource": f"#{key}"}).text
        assert app.store.cooldowns() == []
        assert site.post("/api/waits/end-cooldown", data={"resource": "#" + "0" * 32}).status_code == 404


class TestBreakers:
    def test_over_processes(self, app, site):
        now = app.store.now()
        for name in ("one", "two"):
            worker = WorkerRow(name, f"host:{name}", "host", 1, ("default",), 1, "running", 0, alive=True,
                            started_at=now, heartbeat_at=now)  # fmt: skip
            app.store.register(worker, 60)
        app.store.report_breakers(
            "one", [("api.test", "open", 30.0, "5 failures in a row"), ("db", "closed", None, "")]
        )
        app.store.report_breakers("two", [("api.test", "closed", None, "")])
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
        assert site.post("/waits/open-breaker", data={"resource": "api.test"}).status_code == 200
        (order,) = app.store.breaker_orders(0)
        assert (order.resource, order.state, order.seconds) == ("api.test", "open", None)
        (row,) = site.get("/api/waits").json()["breakers"]
        assert (row["state"], row["order"], row["told"]) == ("ordered", "open", "no process has this breaker yet")
        assert site.post("/api/waits/close-breaker", data={"resource": "api.test"}).json()["ok"]
        (order,) = app.store.breaker_orders(order.number)
        assert (order.resource, order.state) == ("api.test", "closed")

    def test_one_that_no_process_has_is_told_of_as_such(self, app, site):
        """Nothing refuses calls then, and the page does not say that anything does."""
        answer = site.post("/api/waits/open-breaker", data={"resource": "api.test", "minutes": "1"}).json()
        assert (answer["ok"], answer["known"]) == (True, False)
        assert answer["message"].startswith("no process has a breaker named api.test yet, so its tasks continue.")
        assert "not in use" in site.get("/waits").text
        assert read_board(app.store, app.store.now()).waits == ()
        app.store.report_breakers("host:1", [("api.test", "closed", None, "")])
        answer = site.post("/api/waits/open-breaker", data={"resource": "api.test", "minutes": "1"}).json()
        assert (answer["known"], answer["message"][:13]) == (True, "the breaker o")
        assert site.post("/api/waits/close-breaker", data={"resource": "api.test"}).json()["known"]

    def test_opened_for_a_while(self, app, site):
        site.post("/api/waits/open-breaker", data={"resource": "api.test", "minutes": "2"})
        (order,) = app.store.breaker_orders(0)
        assert 110 < order.seconds <= 120
        assert site.post("/api/waits/open-breaker", data={"resource": "b", "minutes": "never"}).status_code == 400

    def test_readers_look_and_change_nothing(self, app):
        from starlette.testclient import TestClient

        from outlast.web import dashboard

        app.store.start_cooldown("api.test", 60, "429")
        client = TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost")
        page = client.get("/waits")
        assert page.status_code == 200
        assert "<form" not in page.text.split("<main")[1].split("</main")[0]
        assert (
            client.post(
                "/waits/end-cooldown", data={"resource": "api.test"}, headers={"Origin": "http://localhost"}
            ).status_code
            == 403
        )
        assert len(app.store.cooldowns()) == 1


class TestByResource:
    def row(self, app, resource, process, state, due_in=None):
        now = app.store.now()
        until = None if due_in is None else now + timedelta(seconds=due_in)
        return BreakerRow(resource, process, state, until, "", None, now)

    def test_the_worst_first(self, app):
        rows = [
            self.row(app, "a", "w1", "closed"),
            self.row(app, "b", "w1", "half_open"),
            self.row(app, "c", "w1", "open"),
            self.row(app, "c", "w2", "open"),
        ]
        found = breakers_by_resource(rows, app.store.now())
        assert [(each.resource, each.state, each.told) for each in found] == [
            ("c", "open", "open in all 2 processes"),
            ("b", "half_open", "half-open in one process"),
            ("a", "closed", "closed in one process"),
        ]

    def test_an_open_one_whose_time_is_over_is_tried_at_the_next_call(self, app):
        rows = [
            self.row(app, "a", "w1", "open", due_in=-1),
            self.row(app, "b", "w1", "open", due_in=60),
            self.row(app, "b", "w2", "open", due_in=-1),
        ]
        found = breakers_by_resource(rows, app.store.now())
        assert [(each.resource, each.state, each.told) for each in found] == [
            ("b", "open", "1 open, 1 lets the next call through"),
            ("a", "due", "lets the next call through in one process"),
        ]

    def test_a_worker_may_have_a_name_with_a_colon_and_tell_but_once(self, app):
        """Who is silent is left out by the store, which knows who has a lease."""
        long_ago = app.store.now() - timedelta(hours=1)
        (found,) = breakers_by_resource([BreakerRow("a", "w1:1", "open", None, "", None, long_ago)], app.store.now())
        assert found.state == "open"


def test_the_twin_is_json(app, site):
    assert set(json.loads(site.get("/api/waits").text)) == {
        *("at", "cooldowns", "breakers", "limits", "pages", "all_sources_counted", "most_counted"),
    }


class TestLimits:
    def test_how_they_stand(self, app, site):
        assert "Resources with limits" not in site.get("/waits").text
        app.limit("api.test", rate="6/m", burst=2, concurrency=4, retries="0.5/s")
        enqueue(app, "api.test", 5)
        assert app.worker().drain() == 2
        (row,) = site.get("/api/waits").json()["limits"]
        assert (row["resource"], row["rate"], row["burst"], row["concurrency"]) == ("api.test", 0.1, 2, 4)
        assert (row["running"], row["tasks"], row["retries_until"]) == (0, 3, None)
        assert row["next_start"] < row["waiting_until"]
        page = site.get("/waits").text
        for words in ("6/m, burst 2", "0 of 4", "30/m", "Resources with limits"):
            assert words in page

    def test_secrets_are_masked_and_a_page_shows_a_part(self, app, site):
        for number in range(30):
            limit = app.limit(f"{SECRET}-{number:02}", rate=1)
            app.store.admit([LimitRequest(limit, (Candidate(number, 1),))])
        told = site.get("/api/waits").json()
        assert told["pages"]["limits"] == {"number": 1, "last": 3, "shown": 10, "whole": 30, "more": 20}
        assert SECRET not in site.get("/waits?limit_page=2").text
        assert "10 of 30 limits" in site.get("/waits").text


class TestMany:
    def test_a_page_shows_a_part_and_leads_to_the_rest(self, app, site):
        for number in range(90):
            app.store.start_cooldown(f"host-{number:03}.test", 3600 + number, "x" * 300)
        app.store.report_breakers(
            "host:1:x", [(f"api-{number:03}.test", "open", 60.0, "y" * 300) for number in range(45)]
        )
        told = site.get("/api/waits").json()
        assert [len(told[name]) for name in ("cooldowns", "breakers")] == [20, 10]
        assert told["pages"]["cooldowns"] == {"number": 1, "last": 5, "shown": 20, "whole": 90, "more": 70}
        page = site.get("/waits").text
        assert "20 of 90 cooldowns, and 70 more" in page
        assert 'href="/waits?cooldown_page=2"' in page
        seen = [
            row["resource"]
            for number in range(1, 6)
            for row in site.get(f"/api/waits?cooldown_page={number}").json()["cooldowns"]
        ]
        assert seen == [f"host-{number:03}.test" for number in range(90)]
        assert 'href="/waits?cooldown_page=3&amp;breaker_page=2"' in site.get("/waits?cooldown_page=3").text
        assert weight(site, "/waits") < MOST_BYTES
        assert site.get("/api/waits?cooldown_page=999").json()["pages"]["cooldowns"]["number"] == 5
        for odd in ("0", "-1", "x", "1e3", "9999999", "٣"):
            assert site.get("/waits", params={"cooldown_page": odd}).status_code == 400, odd

    def test_a_breaker_of_many_processes_names_a_few(self, app, site):
        for number in range(9):
            app.store.report_breakers(f"host:{number}:x", [("api.test", "open", 60.0, "")])
        (row,) = site.get("/api/waits").json()["breakers"]
        assert (len(row["processes"]), row["more_processes"]) == (3, 6)
        assert "and 6 more" in site.get("/waits").text

    def test_sources_that_were_not_all_counted_are_said_to_be_more(self, app, site, monkeypatch):
        put_off(app, *(f"https://api.test/{number}" for number in range(5)))
        app.store.start_cooldown("api.test", 3600, "429")
        assert "or more" not in site.get("/waits").text
        monkeypatch.setattr("outlast.web.pages.waits._MAX_SOURCES", 3)
        told = site.get("/api/waits").json()
        assert (told["cooldowns"][0]["sources"], told["all_sources_counted"]) == (3, False)
        assert "or more" in site.get("/waits").text
        monkeypatch.setattr("outlast.operations.actions._SOURCES_PER_CHANGE", 2)
        done = site.post("/api/waits/end-cooldown", data={"resource": "api.test"}).json()
        assert done["sources"] == 5
        assert app.store.waiting_sources(10) == []

    def test_a_cooldown_whose_sources_cannot_be_moved_goes_on(self, app, site, monkeypatch):
        put_off(app, "https://api.test/1")
        app.store.start_cooldown("api.test", 3600, "429")

        def locked(*_):
            raise sqlite3.OperationalError("database is locked")

        with monkeypatch.context() as patch:
            patch.setattr(type(app.store), "change_sources", locked)
            assert site.post("/api/waits/end-cooldown", data={"resource": "api.test"}).status_code == 503
        assert [each.resource for each in app.store.cooldowns()] == ["api.test"]
