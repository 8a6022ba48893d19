"""The page that simulates a policy: a form without JavaScript, figures, a chart, and bounded work."""

import threading

import pytest

import outlast
from outlast.web import dashboard
from outlast.web.pages import simulate as page

FORM = {
    "policy": "worker",
    "rate": "2/s",
    "duration": "5m",
    "down_at": "1m",
    "down_for": "2m",
    "place": "task",
    "arrivals": "constant",
}


@pytest.fixture
def site():
    from starlette.testclient import TestClient

    app = outlast.App("memory://")
    with TestClient(dashboard(app, auth=lambda _: "reader"), base_url="http://localhost") as client:
        yield client
    app.close()


def test_the_form_is_shown_first(site):
    text = site.get("/simulate").text

    assert '<form class="filters" method="get"' in text
    assert "<svg xmlns" not in text


def test_a_simulation_shows_figures_and_a_chart(site):
    answer = site.get("/simulate", params=FORM)

    assert answer.status_code == 200
    assert "style=" not in answer.text.partition("<svg xmlns")[2].partition("</svg>")[0], "the policy forbids it"
    data = site.get("/api/simulate", params=FORM).json()
    figures = {each["name"]: each["value"] for each in data["figures"]}
    assert figures["work"] == "600"
    assert int(figures["successes"]) + int(figures["dead_letters"]) == 600
    assert data["cut_off"] is False


def test_the_same_form_gives_the_same_figures(site):
    assert site.get("/api/simulate", params=FORM).json() == site.get("/api/simulate", params=FORM).json()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("rate", "often", "give a number per second"),
        ("policy", "hopeful", "choose one of: blog"),
        ("processes", "0", "give a whole number from 1"),
        ("down_for", "long", "give seconds, or a number with a unit"),
        ("rate", "1" * 41, "at most 40 are allowed"),
    ],
)
def test_a_mistake_is_shown_above_the_form_with_what_was_typed(site, field, value, said):
    answer = site.get("/simulate", params=FORM | {field: value})

    assert said in answer.text
    assert 'name="rate"' in answer.text
    if field == "rate":
        assert f'value="{value}"' in answer.text


def test_a_large_simulation_is_cut_off(site, monkeypatch):
    monkeypatch.setattr(page, "MAX_EVENTS", 500)

    assert site.get("/api/simulate", params=FORM).json()["cut_off"] is True
    assert "cut off" in site.get("/simulate", params=FORM).text


def test_one_simulation_at_a_time(site, monkeypatch):
    began, go_on = threading.Event(), threading.Event()
    real = page.simulate

    def slow(*args, **settings):
        began.set()
        assert go_on.wait(30)
        return real(*args, **settings)

    monkeypatch.setattr(page, "simulate", slow)
    first = threading.Thread(target=site.get, args=("/simulate",), kwargs={"params": FORM})
    first.start()
    assert began.wait(30)
    try:
        assert "another simulation is running" in site.get("/simulate", params=FORM).text
    finally:
        go_on.set()
        first.join()
