"""The settings of a limit: what can be written, and what is said of the rest."""

import pytest

import outlast
from outlast.decide.limits import ResourceLimit, per_second
from outlast.errors import ConfigError


@pytest.fixture
def app():
    return outlast.App("memory://")


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("10/s", 10.0),
        ("10 / second", 10.0),
        (" 10/s ", 10.0),
        ("0.5/s", 0.5),
        ("600/m", 10.0),
        ("90/min", 1.5),
        ("5400/h", 1.5),
        ("86400/d", 1.0),
        (3, 3.0),
        (0.25, 0.25),
    ],
)
def test_rates(written, rate):
    assert per_second("rate", written) == rate


@pytest.mark.parametrize(
    "written",
    [
        *("", "10/", "/s", "ten/s", "10/y", "-1/s", "1e3/s", "0/s", "1e9/s", 0, -1, 1e9, True, None, "٣/s", ()),
        *("1 0/s", "10/s econd", 2e5, "200000/s", "0.05/d"),
    ],
)
def test_what_is_no_rate(written):
    with pytest.raises(ConfigError, match=r"rate is .*such as 10/s.* from 0.000001 .* to 100000 per second$"):
        per_second("rate", written)


def test_bursts_follow_from_the_rates(app):
    assert app.limit("a", rate="10/s", retries="50/s") == ResourceLimit("a", 10.0, 1, None, 50.0, 50)
    assert app.limit("b", rate="300/s", concurrency=5) == ResourceLimit("b", 300.0, 30, 5, None, 1)
    assert app.limit("c", rate=1, burst=7, retries="6/m", retry_burst=2) == ResourceLimit("c", 1.0, 7, None, 0.1, 2)
    assert app.limit("d", retries="6/m").retry_burst == 1
    assert list(app.limits) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "limits nothing; give rate=…, concurrency=… or retries=…"),
        ({"burst": 3}, "limits nothing"),
        ({"concurrency": 3, "burst": 3}, "but rate=… is missing"),
        ({"rate": 1, "retry_burst": 3}, "but retries=… is missing"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"retries": "often"}, "retries is 'often'"),
        ({"rate": 1, "burst": 0}, "burst is 0; give a whole number from 1 to 100000"),
        ({"concurrency": 100_001}, "concurrency is 100001; give a whole number from 1 to 100000"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 2.5}, "concurrency is 2.5"),
        ({"concurrency": True}, "concurrency is True"),
        ({"retries": 1, "retry_burst": "many"}, "retry_burst is 'many'"),
    ],
)
def test_what_cannot_be_used(app, settings, said):
    with pytest.raises(ConfigError) as caught:
        app.limit("api", **settings)
    assert said in str(caught.value)
    assert app.limits == {}


@pytest.mark.parametrize("name", ["", "a" * 201, None, 7, "a\0b"])
def test_what_is_no_name(app, name):
    with pytest.raises(ConfigError, match="resource is "):
        app.limit(name, rate=1)


def test_one_limit_each(app):
    app.limit("api", rate=1)
    with pytest.raises(ConfigError, match="'api' already has a limit"):
        app.limit("api", concurrency=1)
