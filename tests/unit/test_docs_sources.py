"""The pages on HTTP, sources, alerts and health name all there is of them, and nothing else."""

import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest

import outlast
import outlast.health
import outlast.http
from outlast.decide.decision import AlertKind
from outlast.decide.source_health import COUNTED_CATEGORIES, PROFILES, SourceHealth
from outlast.http.settings import IDEMPOTENT, TransportSettings
from outlast.observe import alert_delivery, messages
from outlast.ports.source_rows import Cycle, Poll
from outlast.sources import fetchers, registry
from outlast.sources.announcements import CycleSummary
from outlast.sources.registry import SourceRegistry
from outlast.stores import rules as kept

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "reference" / "sources.md").read_text("utf-8")
EXPLAINED = (DOCS / "explanation" / "source-health.md").read_text("utf-8")
HTTP = (DOCS / "how-to" / "retry-http-requests.md").read_text("utf-8")
HEALTH = (DOCS / "how-to" / "check-health.md").read_text("utf-8")
ALERTS = (DOCS / "how-to" / "get-alerts.md").read_text("utf-8")
DAY = 86400.0


class TestSettings:
    def test_of_rules(self):
        rules = outlast.SourceRules()
        shown = _defaults("Rules")

        assert list(shown) == list(outlast.SourceRules.__dataclass_fields__)
        assert {name: cell for name, cell in shown.items() if name != "counted"} == {
            name: _shown(getattr(rules, name)) for name in shown if name != "counted"
        }

    def test_of_a_monitor(self):
        parameters = dict(inspect.signature(outlast.App.monitor).parameters)
        parameters.pop("self")

        assert _defaults("Monitor") == {name: _shown(each.default) for name, each in parameters.items()}

    def test_of_what_is_fetched(self):
        assert _defaults("Fetched") == {name: str(value) for name, value in outlast.Fetched._field_defaults.items()}
        assert list(_defaults("Fetched")) == list(outlast.Fetched._fields)

    def test_of_a_transport(self):
        assert [
            name for name in TransportSettings.__annotations__ if not re.search(rf"`{name}\b|\b{name}=", HTTP)
        ] == []
        assert [name for name in IDEMPOTENT if name not in HTTP] == []


class TestMethods:
    @pytest.mark.parametrize(("title", "kind"), [("app.sources", SourceRegistry), ("Monitor", outlast.Monitor)])
    def test_of_what_an_app_gives(self, title, kind):
        methods = {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}

        cells = " ".join(re.findall(r"^\| (`.+?) \|", _section(title), re.MULTILINE))

        assert set(re.findall(r"`(?:await )?(\w+)\(", cells)) == methods

    def test_what_narrows_a_list(self):
        line = re.search(r"^\| `list\(.*$", PAGE, re.MULTILINE)[0]
        parameters = [name for name in inspect.signature(SourceRegistry.list).parameters if name != "self"]

        assert re.findall(r"`(\w+)`", line.partition(";")[2]) == parameters


class TestFields:
    def test_of_a_source(self):
        section = _section("Fields of a source")
        first, second = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)

        assert _names(first) == list(outlast.Source._fields)
        assert _names(second) == list(SourceHealth._fields)
        properties = [name for name, value in vars(outlast.Source).items() if isinstance(value, property)]
        assert [name for name in properties if f"`source.{name}`" not in section] == []

    @pytest.mark.parametrize(("title", "kind"), [("Polls", Poll), ("Cycles", Cycle)])
    def test_of_rows(self, title, kind):
        text = _section(title).partition("|")[0]

        assert [name for name in re.findall(r"`(\w+)`", text) if name in kind._fields] == list(kind._fields)

    @pytest.mark.parametrize("kind", [outlast.Changed, outlast.Entry, outlast.Transition, CycleSummary])
    def test_of_values(self, kind):
        assert [name for name in kind._fields if f"`{name}`" not in PAGE] == []


class TestWords:
    def test_states(self):
        states = [str(each) for each in outlast.SourceState]

        assert _names(_section("States")) == states
        assert [name for name in states if f"| `{name}` |" not in EXPLAINED] == []

    def test_profiles(self):
        assert _names(_section("Profiles")) == list(PROFILES)

    def test_what_counts(self):
        section = EXPLAINED.partition("\n## What counts\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.+?) \| .+? \| (yes|no)", section, re.MULTILINE)
        said = {name: word == "yes" for cell, word in rows for name in re.findall(r"`(\w+)`", cell)}

        assert said == {str(each): each in COUNTED_CATEGORIES for each in outlast.Category}

    @pytest.mark.parametrize("page", [PAGE, ALERTS], ids=["reference", "how-to"])
    def test_kinds_of_alerts(self, page):
        table = re.search(r"^\| kind \|(?:.*\n)((?:^\|.*\n)+)", page, re.MULTILINE)[1]

        assert _names(table) == [str(each) for each in AlertKind]

    def test_events(self):
        own = ("CooledDown", "CycleEnded", "SourceChanged")

        assert re.findall(r"`(\w+)`", _section("Events")) == [name for name in outlast.events.__all__ if name in own]


class TestNumbers:
    def test_of_deliveries(self):
        policy = alert_delivery.DELIVERY_POLICY
        waits = [policy.get_delay(number) for number in (1, 2)]

        assert (
            _number("attempts within one delivery") == f"{policy.max_attempts}, after {waits[0]:g} s and {waits[1]:g} s"
        )
        assert (
            _number("longest wait that a channel may ask for within one delivery") == f"{alert_delivery.HINT_LIMIT:g} s"
        )
        assert (alert_delivery.FIRST_WAIT, alert_delivery.LONGEST_WAIT, alert_delivery.GIVE_UP_AFTER) == (60, 3600, DAY)
        assert _number("one message for several alerts").startswith(f"from {messages.DIGEST_AT} alerts")

    def test_of_sources(self):
        assert _number("URL, name") == f"{registry.MAX_URL:,} and {registry.MAX_NAME} characters"
        assert _number("response of a feed or page, decompressed") == f"{fetchers.BODY_LIMIT // 1024**2} MiB"
        assert f"The last {kept.POLLS_KEPT} entries" in PAGE
        assert f"The last {kept.CYCLES_KEPT:,} of each profile" in PAGE


def test_the_names_for_http_stand_on_their_page():
    assert [name for name in outlast.http.__all__ if name not in HTTP and name != "Settings"] == []


def test_the_names_for_health_stand_on_their_page():
    assert [name for name in outlast.health.__all__ if name not in HEALTH] == []


def test_the_checks_of_an_app_stand_on_their_page(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path}/x.db")
    checker = outlast.health.HealthChecker.for_app(app, loop=outlast.health.Heartbeat())
    section = HEALTH.partition("\n## What is checked\n")[2].partition("\n## ")[0]

    assert set(_names(section)) == {*checker.check().checks, "heartbeat"}
    app.close()


def _section(title):
    rest = PAGE.partition(f"\n## {title}\n")[2]
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def _names(table):
    """The names in the first cells of a table, several in one cell included."""
    return re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)))


def _defaults(title):
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", _section(title), re.MULTILINE))


def _number(what):
    return re.search(rf"^\| {re.escape(what)} \| (.+) \|$", PAGE, re.MULTILINE)[1]


def _shown(value):
    if isinstance(value, timedelta):
        return f"{value.total_seconds() / 60:g} minutes"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, float) and value >= DAY:
        return f"{value / DAY:g} day{'s' if value > DAY else ''}"
    if isinstance(value, float) and value >= 1:
        return f"{value:g} s"
    return str(value)
