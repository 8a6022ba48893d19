"""docs/reference/policy.md names all there is of retrying, and nothing else."""

import logging
import re
import tomllib

import pytest

import outlast
from doc_pages import FENCE, read
from outlast.config import _OVERRIDE_KEYS, _POLICY_KEYS
from outlast.decide.backoff import BACKOFFS, JITTERS
from outlast.decide.presets import PRESETS
from outlast.run.report import Report
from outlast.testing import failing, fake_clock

POLICY = read("reference/policy.md")
SOURCES = read("reference/sources.md")
JOBS = read("reference/jobs.md")


class TestThePolicyPage:
    def test_options(self):
        assert _rows("Options") == [*outlast.RetryPolicy._fields[:1], "max_retries", *outlast.RetryPolicy._fields[1:]]

    def test_the_verdict(self):
        rows = re.findall(r"^\| (`.+?) \|", _section("The verdict"), re.MULTILINE)

        assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted([*outlast.Failure._fields, "fingerprint"])

    def test_choices(self):
        assert [name for name in (*BACKOFFS, *JITTERS) if f'`"{name}"`' not in POLICY] == []

    def test_presets(self):
        assert _rows("Presets") == list(PRESETS)

    @pytest.mark.parametrize("name", PRESETS)
    def test_the_numbers_of_a_preset(self, name):
        policy = PRESETS[name]
        row = next(line for line in _section("Presets").splitlines() if line.startswith(f"| `{name}`"))
        cells = [cell.strip() for cell in row.split("|")[2:5]]

        assert cells == [str(policy.max_attempts), f"{policy.base_delay:g} s", f"{policy.max_delay:g} s"]

    def test_stop_reasons(self):
        described = re.search(r"reason: (.*?)retry_at:", Report.__doc__, re.DOTALL)[1]

        assert sorted(_rows("Stop reasons")) == sorted(re.findall(r"``(\w+)``", described))

    def test_events(self):
        assert _rows("Events") == [name for name in outlast.events.__all__ if name != "Event"]

    def test_the_fields_of_events(self):
        for name in _rows("Events"):
            row = next(line for line in _section("Events").splitlines() if line.startswith(f"| `{name}`"))
            fields = getattr(outlast.events, name).__dataclass_fields__
            assert re.findall(r"`(\w+)`", row.split("|")[2]) == list(fields), name

    def test_exceptions(self):
        assert sorted(_rows("Exceptions")) == sorted(outlast.errors.__all__)

    def test_settings_of_a_breaker(self):
        assert _rows("Breaker") == list(outlast.BreakerSettings._fields)

    @pytest.mark.parametrize(
        ("title", "kind"), [("Options", outlast.RetryPolicy), ("Breaker", outlast.BreakerSettings)]
    )
    def test_defaults(self, title, kind):
        value = kind()
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", _section(title), re.MULTILINE)

        assert {name: cell for name, cell in rows if cell != "–"} == {
            name: _shown_default(getattr(value, name)) for name in kind._fields
        }

    def test_keys_of_the_file(self):
        cells = re.findall(r"^\| (`.+?) \|", _section("In outlast.toml", 3), re.MULTILINE)

        assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(_POLICY_KEYS)

    def test_keys_of_an_override_in_the_file(self):
        row = next(line for line in _section("In outlast.toml", 3).splitlines() if line.startswith("| `overrides`"))

        assert sorted(re.findall(r"`(\w+)`", row.split("|")[2])) == sorted(_OVERRIDE_KEYS)

    def test_every_public_name_of_retrying(self):
        homes = ("outlast.run.", "outlast.decide.", "outlast.record.", "outlast.config")
        elsewhere = {  # have a page of their own
            "outlast.decide.source_health": SOURCES,
            "outlast.decide.gate": JOBS,
        }
        pages = {name: elsewhere.get(home, POLICY) for name, home in outlast._HOMES.items()}
        names = [name for name, home in outlast._HOMES.items() if home.startswith(homes)]

        assert [name for name in names if not re.search(rf"\boutlast\.{name}\b", pages[name])] == []

    def test_log_keys(self, caplog):
        """Whatever a record carries beyond the standard library's own."""
        caplog.set_level(logging.DEBUG, "outlast.retry")
        fetch = outlast.retry(max_attempts=2)(failing(lambda: None, [TimeoutError()] * 2))
        with fake_clock(), pytest.raises(TimeoutError):
            fetch()

        usual = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
        extra = {key for record in caplog.records for key in record.__dict__} - usual
        assert set(re.findall(r"`(\w+)`", _section("Log").partition("[Keys]")[2])) - {"extra"} == extra


def test_a_page_shows_policies_in_a_file(tmp_path):
    """Every key that a policy can have in outlast.toml, but two that stand for others."""
    page = read("how-to/write-rules.md")
    shown = [block[2] for block in FENCE.finditer(page) if block[1] == "toml" and "[policies." in block[2]]
    file = tmp_path / "outlast.toml"
    file.write_text("".join(shown), "utf-8")

    assert set(outlast.load_config(file).policies) == {"shop", "nightly"}
    used = set(tomllib.loads(shown[0])["policies"]["shop"])
    assert set(_POLICY_KEYS) - used == {"max_retries", "nested"}


def _shown_default(value):
    if value is outlast.RETRYABLE:
        return "`outlast.RETRYABLE`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, float):
        return f"{value:g} s"
    return "none" if value == {} else str(value)


def _section(title, depth=2):
    return POLICY.partition(f"\n{'#' * depth} {title}\n")[2].partition("\n##")[0]


def _rows(title):
    """The names in the first cells of a section's table; subsections do not count."""
    return re.findall(r"^\| `(\w+)`", _section(title), re.MULTILINE)
