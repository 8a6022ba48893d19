"""Durations and rates: one text means the same at every entry point, and is refused at every one of them."""

import json

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import outlast
from outlast.cli import cli
from outlast.errors import ConfigError
from outlast.ports.read_rows import FailureFilter
from outlast.units import format_seconds, parse_duration, parse_rate, rate_text, rate_words
from outlast.web import dashboard

RATES = {
    "5": 5.0,
    "5/s": 5.0,
    " 5 / second ": 5.0,
    "2.5": 2.5,
    "30/m": 0.5,
    "30/min": 0.5,
    "30/MIN": 0.5,
    "90/minute": 1.5,
    "0.5/h": 0.5 / 3600,
    "36/hour": 0.01,
    "1000/d": 1000 / 86400,
    "86400/day": 1.0,
    "100000": 100_000.0,
}
NOT_RATES = [
    *("fast", "0", "0/s", "-1", "-1/s", "10/", "/s", "10/y", "1/s/s", "1e3/s", "1 0/s", "10/s econd", "٣/s", "10/ſ"),
    *("200000/s", "100001", "0.05/d", "nan", "inf"),
]
DURATIONS = {
    "90": 90.0,
    "90s": 90.0,
    " 90 S ": 90.0,
    "10m": 600.0,
    "10min": 600.0,
    "1.5h": 5400.0,
    "2h": 7200.0,
    "1d": 86400.0,
    "3 day": 259_200.0,
    "1w": 604_800.0,
}
NOT_DURATIONS = ["soon", "-1", "-1s", "1e3", "5y", "h", "1h30m", "٣s", "nan", "inf", "101 0s", "999999999w"]


class World:
    """An app with one dead letter, its dashboard and the command line."""

    def __init__(self, folder):
        self.url = f"sqlite:///{folder / 'outlast.db'}"
        self.app = outlast.App(self.url)
        self.app.create_schema()

        @self.app.task
        def fail():
            raise outlast.errors.InvalidParametersError("no such page")

        fail.enqueue()
        self.app.worker(concurrency=1).drain()
        self.app.store.roll_up()
        self.group = self.app.store.failures(FailureFilter()).rows[0].fingerprint
        site = dashboard(self.app, auth=lambda _: "operator")
        self.client = TestClient(site, base_url="http://localhost", headers={"Origin": "http://localhost"})

    def command(self, *words):
        """Run a command; return what it prints, or None for a usage error."""
        result = CliRunner().invoke(cli, [*words, "--url", self.url])
        assert result.exit_code in {0, 2}, result.output
        return None if result.exit_code else result.stdout

    def post(self, path, **sent):
        """Send a form; return whether it was accepted."""
        answer = self.client.post(path, data=sent, follow_redirects=False)
        assert answer.status_code in {303, 400}, answer.text
        return answer.status_code == 303

    def post_json(self, path, **sent):
        answer = self.client.post(f"/api{path}", json=sent)
        assert answer.status_code in {200, 400}, answer.text
        return answer.status_code == 200

    @property
    def newest_replay(self):
        return self.app.store.replay_runs(limit=1)[0]

    @property
    def snoozed_for(self):
        store = self.app.store
        return (store.failure(self.group).snoozed_until - store.now()).total_seconds()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("units"))
    yield made
    made.app.close()


def python_value(function):
    try:
        return function()
    except ConfigError:
        return None


def limit_rate(_, text):
    return python_value(lambda: outlast.App("memory://").limit("api", rate=text).rate)


def limit_retries(_, text):
    return python_value(lambda: outlast.App("memory://").limit("api", retries=text).retries)


def replay_in_python(world, text):
    return python_value(lambda: world.app.dead_letters.replay_later(all=True, rate=text).rate)


def replay_command(world, text):
    said = world.command("dlq", "replay", "--all", f"--rate={text}", "--no-wait", "--json")
    return None if said is None else json.loads(said)["rate"]


def replay_page(world, text):
    return world.newest_replay.rate if world.post("/replays/start", all="1", rate=text) else None


def replay_json(world, text):
    return world.newest_replay.rate if world.post_json("/replays/start", all="1", rate=text) else None


RATE_ENTRIES = [limit_rate, limit_retries, replay_in_python, replay_command, replay_page, replay_json]


@pytest.mark.parametrize("entry", RATE_ENTRIES)
def test_a_rate_means_the_same_everywhere(world, entry):
    assert {text: entry(world, text) for text in RATES} == pytest.approx(RATES)


@pytest.mark.parametrize("entry", RATE_ENTRIES)
def test_what_is_not_a_rate_is_refused_everywhere(world, entry):
    assert {text: entry(world, text) for text in NOT_RATES} == dict.fromkeys(NOT_RATES)


def snooze_command(world, text):
    return None if world.command("dlq", "snooze", world.group, f"--for={text}") is None else world.snoozed_for


def snooze_page(world, text):
    return world.snoozed_for if world.post(f"/failures/{world.group}/snooze", **{"for": text}) else None


def snooze_json(world, text):
    return world.snoozed_for if world.post_json(f"/failures/{world.group}/snooze", **{"for": text}) else None


def since_command(world, text):
    said = world.command("dlq", "replay", f"--since={text}", "--rate=1", "--no-wait", "--json")
    return None if said is None else seconds_ago(world)


def since_page(world, text):
    return seconds_ago(world) if world.post("/replays/start", since=text) else None


def seconds_ago(world):
    return (world.app.store.now() - world.newest_replay.filters.since).total_seconds()


DURATION_ENTRIES = [snooze_command, snooze_page, snooze_json, since_command, since_page]


@pytest.mark.parametrize("entry", DURATION_ENTRIES)
def test_a_duration_means_the_same_everywhere(world, entry):
    assert {text: entry(world, text) for text in DURATIONS} == pytest.approx(DURATIONS, abs=5)


@pytest.mark.parametrize("entry", DURATION_ENTRIES)
def test_what_is_not_a_duration_is_refused_everywhere(world, entry):
    assert {text: entry(world, text) for text in NOT_DURATIONS} == dict.fromkeys(NOT_DURATIONS)


def test_eight_digits_are_a_date_and_not_seconds(world):
    assert world.command("dlq", "replay", "--since=20250101", "--rate=1", "--no-wait") is not None
    assert f"{world.newest_replay.filters.since:%Y-%m-%d %H:%M}" == "2025-01-01 00:00"
    assert world.post("/replays/start", since="20250101")
    assert f"{world.newest_replay.filters.since:%Y-%m-%d %H:%M}" == "2025-01-01 00:00"


@pytest.mark.parametrize(("number", "rate"), [(5, 5.0), (0.5, 0.5), (1e-6, 1e-6), (100_000, 1e5)])
def test_a_number_is_a_rate_per_second(number, rate):
    assert parse_rate(number) == rate


@pytest.mark.parametrize("value", [0, -1, 1e9, 10**400, float("nan"), float("inf"), True, None, (), b"5"])
def test_other_values_are_not_rates(value):
    assert parse_rate(value) is None


def test_the_longest_duration_is_a_hundred_years():
    assert parse_duration("36600d") == 36_600 * 86400
    assert parse_duration("36601d") is None


@pytest.mark.parametrize(
    ("rate", "text", "words"),
    [
        (10.0, "10/s", "10 per second"),
        (12_345.0, "12345/s", "12345 per second"),
        (0.5, "30/m", "30 per minute"),
        (0.01, "36/h", "36 per hour"),
        (0.5 / 3600, "12/d", "12 per day"),
        (1e-6, "0.0864/d", "0.0864 per day"),
    ],
)
def test_rates_as_text(rate, text, words):
    assert (rate_text(rate), rate_words(rate)) == (text, words)
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (9.54e-05, "0.095 ms"),
        (0.0012345, "1.23 ms"),
        (0.084, "84 ms"),
        (0.0999999, "100 ms"),
        (0.5, "0.5 s"),
        (99.96, "100 s"),
        (1e7, "10000000 s"),
    ],
)
def test_durations_are_shown_in_ms_or_s(seconds, text):
    assert format_seconds(seconds) == text
