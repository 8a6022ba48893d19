"""The pages of sources: their health, their history, and what is done to them by hand."""

from datetime import UTC, datetime, timedelta

import pytest

import outlast
from outlast.decide.source_health import SourceHealth, SourceState
from outlast.errors import ResourceNotFoundError
from outlast.ports.source_rows import Cycle, NewSource, Poll, SourceChange
from outlast.report.sources import cycle_text, failure_text, history_cell, history_summary, next_poll
from outlast.web.pages.sources import strip_paths
from web_weighing import MOST_BYTES, weight

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECRET = "sk-live-0123456789abcdefghij"


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    made.create_schema()
    yield made
    made.close()


def add(app, count, **more):
    new = [
        NewSource(f"https://feeds.test/{number}?token={SECRET}", **{"profile": "feed", **more})
        for number in range(count)
    ]
    return [each.id for each in app.store.add_sources(new)]


def poll(app, number, outcome, **more):
    def change(source, now):
        return SourceChange(source._replace(outcome=outcome), Poll(source.id, 1, now, outcome, 1, **more))

    app.store.change_sources({number: (None, change)})


class TestList:
    def test_health_and_history(self, app, site):
        well, ill = add(app, 2)
        for outcome in ("changed", "unchanged", "deferred"):
            poll(app, well, outcome)
        app.sources.record_failure(ill, ResourceNotFoundError(f"404 <b>gone</b> api_key={SECRET}"))
        answer = site.get("/api/sources").json()
        assert (answer["total"], answer["counts"]["healthy"], answer["counts"]["warning"]) == (2, 1, 1)
        first, second = answer["rows"]
        assert (first["strip"], first["strip_told"]) == (
            ["info", "ok", "warn"], "The last 3 entries: 2 answered, 1 deferred",
        )  # fmt: skip
        assert (second["state"], second["consecutive_failures"], second["strip"]) == ("warning", 1, ["bad"])
        page = site.get("/sources").text
        assert "404 &lt;b&gt;gone&lt;/b&gt;" in page
        assert SECRET not in page + site.get("/api/sources").text

    def test_one_that_never_answered_does_not_pass_for_well(self, app, site):
        """What is not counted, such as a 503, leaves its state as it is."""
        never, lately, well = add(app, 3)
        for _ in range(7):
            poll(app, never, "failed", http_status=503)
        app.sources.record_success(lately)
        for number in (lately, well):
            poll(app, number, "unchanged")
        for _ in range(2):
            poll(app, lately, "failed", http_status=503)
        rows = {row["id"]: row for row in site.get("/api/sources").json()["rows"]}
        assert {number: (row["state"], row["doubt"]) for number, row in rows.items()} == {
            never: ("healthy", "never answered, 7 failed"),
            lately: ("healthy", "2 failed in a row, not counted"),
            well: ("healthy", ""),
        }
        assert "never answered, 7 failed" in site.get("/sources").text
        assert "never answered, 7 failed" in site.get(f"/sources/{never}").text

    def test_clearing_is_offered_where_something_is_narrowed(self, site):
        assert ">Clear</a>" not in site.get("/sources").text + site.get("/jobs").text
        assert ">Clear</a>" in site.get("/sources?state=healthy").text
        assert ">Clear</a>" in site.get("/jobs?job=x").text

    def test_narrowed(self, app, site):
        add(app, 2)
        (blog,) = add(app, 1, profile="blog", name="A blog")
        app.sources.disable(blog)
        for query in ("state=disabled", "state=DISABLED", "profile=blog", "text=A+blog", "state=disabled&profile=blog"):
            assert [row["id"] for row in site.get(f"/api/sources?{query}").json()["rows"]] == [blog]
        assert site.get("/api/sources?state=error").json()["rows"] == []
        assert "No sources match" in site.get("/sources?state=error").text
        assert site.get("/sources?state=nosuch").status_code == 400
        assert site.get("/sources?after=x").status_code == 400

    def test_page_by_page(self, app, site):
        numbers, seen, after = add(app, 60), [], ""
        while after is not None:
            answer = site.get(f"/api/sources?after={after}" if after else "/api/sources").json()
            seen += [row["id"] for row in answer["rows"]]
            after = answer["next"]
        assert seen == numbers
        assert 'rel="next"' in site.get("/sources").text

    def test_a_full_page_stays_small(self, app, site):
        numbers = add(app, 25, name="A source with a name that is rather long, as names of feeds often are")
        for _ in range(40):
            app.store.change_sources(
                {
                    number: (
                        None,
                        lambda source, now: SourceChange(source, Poll(source.id, 1, now, "failed", error="x" * 500)),
                    )
                    for number in numbers
                }
            )
        assert len(site.get("/sources").content) < 60_000

    def test_the_last_cycles(self, app, site):
        add(app, 3)
        cycle = app.store.open_cycle("feed")
        assert [each["id"] for each in site.get("/api/sources").json()["cycles"]] == [cycle.id]

    def test_no_sources(self, site):
        assert "outlast sources add" in site.get("/sources").text


class TestOne:
    def test_its_history_and_last_failure(self, app, site):
        (number,) = add(app, 1, name="<i>Feed</i>")
        app.sources.record_failure(number, ResourceNotFoundError(f"404 token={SECRET}"))
        answer = site.get(f"/api/sources/{number}").json()
        assert answer["failure"]["category"] == "not_found"
        assert answer["failure"]["rule"]
        assert [each["outcome"] for each in answer["polls"]] == ["failed"]
        page = site.get(f"/sources/{number}").text
        assert "&lt;i&gt;Feed&lt;/i&gt;" in page
        assert SECRET not in page + str(answer)

    @pytest.mark.parametrize("number", ["99", "0", "x", str(2**63), "9" * 40])
    def test_there_is_none(self, site, number):
        assert site.get(f"/sources/{number}").status_code == 404
        assert site.post(f"/sources/{number}/enable").status_code == 404

    def test_a_failure_that_another_program_stored(self, app, site):
        (number,) = add(app, 1)
        odd = {"category": ["?"], "message": {"a": 1}, "http_status": "5xx"}
        app.store.change_sources({number: (None, lambda source, _: SourceChange(source._replace(last_failure=odd)))})
        assert site.get(f"/sources/{number}").status_code == 200
        assert site.get(f"/api/sources/{number}").status_code == 200


class TestByHand:
    def test_disabled_and_enabled(self, app, site):
        (number,) = add(app, 1)
        page = site.post(f"/sources/{number}/disable", data={"why": "moved  away"})
        assert f"source {number} is disabled, was healthy" in page.text
        source = app.sources.get(number)
        assert (source.state, source.health.disabled_by) == (SourceState.DISABLED, "hand")
        assert "moved away" in str(app.sources.history(number, 1))
        answer = site.post(f"/api/sources/{number}/enable").json()
        assert (answer["ok"], answer["state"]) == (True, "healthy")
        assert app.sources.get(number).state is SourceState.HEALTHY

    def test_probed(self, app, site):
        (number,) = add(app, 1)
        later = app.store.now() + timedelta(hours=1)
        app.store.change_sources(
            {number: (None, lambda source, _: SourceChange(source._replace(next_poll_at=later, not_before=later)))}
        )
        page = site.post(f"/sources/{number}/probe", data={"back": ""})
        assert page.url.path == "/sources"
        assert "is polled in the next cycle" in page.text
        source = app.sources.get(number)
        assert source.not_before is None
        assert source.next_poll_at <= app.store.now()

    def test_one_that_was_disabled_by_hand_is_not_probed(self, app, site):
        (number,) = add(app, 1)
        app.sources.disable(number)
        answer = site.post(f"/api/sources/{number}/probe").json()
        assert not answer["ok"]
        assert "disabled by hand" in answer["message"]

    def test_a_reason_that_is_too_long(self, app, site):
        (number,) = add(app, 1)
        assert site.post(f"/sources/{number}/disable", data={"why": "x" * 501}).status_code == 400
        assert app.sources.get(number).is_active


class TestWords:
    @pytest.fixture
    def source(self, app):
        (number,) = add(app, 1)
        return app.sources.get(number)._replace(next_poll_at=NOW - timedelta(seconds=1))

    @pytest.mark.parametrize(
        ("changes", "how", "at"),
        [
            ({}, "due", None),
            ({"next_poll_at": NOW + timedelta(60)}, "scheduled", NOW + timedelta(60)),
            ({"not_before": NOW + timedelta(60)}, "held", NOW + timedelta(60)),
            ({"not_before": NOW + timedelta(1), "next_poll_at": NOW + timedelta(2)}, "scheduled", NOW + timedelta(2)),
            ({"leased_until": NOW + timedelta(1)}, "now", None),
            ({"leased_until": NOW + timedelta(1), "outcome": "failed"}, "due", None),
            ({"health": SourceHealth(SourceState.DISABLED, disabled_by="hand")}, "never", None),
            ({"health": SourceHealth(SourceState.DISABLED, disabled_by="rule")}, "probe", None),
            (
                {"health": SourceHealth(SourceState.DISABLED, disabled_by="rule"), "not_before": NOW + timedelta(1)},
                "probe",
                NOW + timedelta(1),
            ),
        ],
    )
    def test_when_it_is_polled_next(self, source, changes, how, at):
        assert next_poll(source._replace(**changes), NOW) == (how, at)

    def test_a_line_of_a_strip(self):
        poll = Poll(1, 2, NOW, "failed", 3, 503, "api_temporary", "down", SourceState.HEALTHY, SourceState.WARNING)
        assert history_cell(poll) == (
            "bad", "2026-11-15 12:00:00 UTC: failed, 503, healthy to warning: api_temporary: down",
        )  # fmt: skip
        assert history_cell(Poll(1, 2, NOW, "something new")).kind == "mute"

    def test_a_strip_in_words_and_drawn(self):
        polls = [Poll(1, 2, NOW, each) for each in ("changed", "failed", "failed", "withdrawn")]
        assert history_summary(polls) == "The last 4 entries: 1 answered, 2 failed, 1 other"
        assert history_summary([]) == "Not polled yet"
        assert strip_paths(("ok", "bad", "ok")) == {"ok": "M300 9V20M316 9V20", "bad": "M308 0V20"}

    def test_a_cycle(self):
        cycle = Cycle(1, "feed", NOW, NOW, 10, 9, 2, 5, 1, NOW)
        assert cycle_text(cycle) == (
            "9 polled, 2 changed, 5 failed, 1 deferred; so many failed together that it counts as an outage"
        )

    def test_a_failure(self):
        assert failure_text(None) is None
        assert failure_text({"category": "data", "exception_name": "E", "message": "m"}) == "data: E: m"
        assert failure_text({"http_status": 503}) == "unknown (503): : "


def test_a_long_history_of_long_errors_is_shown_in_part(app, site):
    (number,) = add(app, 1)
    for _ in range(70):
        poll(app, number, "failed", error=f"password={SECRET} {'<long> ' * 600}", category="api_temporary")
    told = site.get(f"/api/sources/{number}").json()
    assert len(told["polls"]) == 30
    assert max(len(each["error"]) for each in told["polls"]) <= 240
    assert told["pages"]["polls"]["whole"] == 70
    page = site.get(f"/sources/{number}").text
    assert f'href="/sources/{number}?history_page=2"' in page
    assert SECRET not in page
    assert weight(site, f"/sources/{number}") < MOST_BYTES
    assert len(site.get(f"/api/sources/{number}?history_page=3").json()["polls"]) == 10
