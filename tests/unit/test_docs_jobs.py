"""docs/reference/jobs.md names all there is of batch jobs, and nothing else."""

import inspect
import logging
import re
from pathlib import Path

import pytest

import outlast
import outlast.jobs.etl
from outlast.decide.decision import ABORT_CATEGORIES, DecisionState, Place, decide
from outlast.decide.gate import ENTITY_RATES
from outlast.failure import RETRYABLE, Failure
from outlast.jobs import job, ledger, runner, tally, target, target_feed
from outlast.jobs.etl import Etl, Loaded, StagingRow, StagingTransaction
from outlast.ports.job_rows import RunState, TargetStatus
from outlast.testing import fake_clock

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "jobs.md").read_text("utf-8")


class TestSettings:
    def test_of_a_job(self):
        assert _defaults("Job") == _parameters(outlast.App.job) | {"key": "–"}

    def test_of_a_run(self):
        assert _defaults("Run", depth=3) == _parameters(outlast.Job.run)
        assert set(_parameters(outlast.Job.run)) - set(_parameters(outlast.Job.run_async)) == {"executor"}

    def test_of_a_gate(self):
        assert _defaults("Gate") == _parameters(outlast.Gate)

    def test_known_rates(self):
        rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|$", _tables("Gate")[1], re.MULTILINE)

        assert {name: float(rate) for name, rate in rows} == ENTITY_RATES

    def test_of_an_etl(self):
        assert _defaults("ETL") == _parameters(Etl) | {"encode": "`canonical_json`", "decode": "`json.loads`"}


class TestMethods:
    @pytest.mark.parametrize(("title", "number", "kind"), [("Job", 1, outlast.Job), ("ETL", 1, Etl)])
    def test_of_what_runs(self, title, number, kind):
        named = re.findall(r"^\| `(\w+)\(", _tables(title)[number], re.MULTILINE)

        assert named == [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]

    def test_of_a_context(self):
        public = {name for name in dir(outlast.JobContext) if not name.startswith("_")}

        assert set(re.findall(r"^\| `(\w+)", _section("Context"), re.MULTILINE)) == public


class TestFields:
    def test_of_a_summary(self):
        assert _names("Summary") == list(outlast.Summary.__dataclass_fields__)

    def test_of_its_groups_and_of_the_comparison(self):
        with fake_clock():
            _fails.run(["a"])
            summary = _fails.run(["a"])

        assert re.findall(r"`(\w+)`", _row("groups").partition(": ")[2]) == list(summary.groups[0])
        assert re.findall(r"`(\w+)`", _row("compared").partition(": ")[2]) == list(summary.compared)

    @pytest.mark.parametrize("kind", [Loaded, StagingRow])
    def test_of_an_etl(self, kind):
        assert ", ".join(f"`{name}`" for name in kind._fields) in " ".join(_section("ETL").split())

    def test_of_a_transaction(self):
        public = [name for name in vars(StagingTransaction) if not name.startswith("_")]

        assert [name for name in public if f"`{name}`" not in _section("ETL")] == []


class TestWords:
    def test_statuses(self):
        assert _names("Statuses") == [*map(str, TargetStatus), *map(str, RunState)]

    def test_decisions(self):
        """By what the code decides, with and without a time that the other side has named."""
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", _section("Decisions"), re.MULTILINE)

        assert [name for name, _, _ in rows] == [str(each) for each in outlast.Category]
        for name, what, then in rows:
            category = outlast.Category(name)
            deferred = category in RETRYABLE or category is outlast.Category.QUOTA_EXHAUSTED
            assert ("deferred" in what) == deferred, name
            assert then.startswith("**ends**") == (category in ABORT_CATEGORIES), name
            failure = Failure(category=category, retryable=category in RETRYABLE, retry_after=7200.0)
            state = DecisionState(place=Place.TARGET, wanted=failure.retryable)
            decision = decide(failure, outlast.RetryPolicy(), state)
            assert (type(decision).__name__ == "Defer") == deferred, name

    def test_names_of_etls(self):
        section = _section("ETL")

        assert [name for name in outlast.jobs.etl.__all__ if not re.search(rf"`{name}\b", section)] == []

    def test_log_keys(self, caplog):
        """Whatever a record of a job carries beyond the standard library's own."""
        with caplog.at_level(logging.DEBUG, "outlast.jobs"), fake_clock():
            _fails.run(["a"])

        usual = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
        extra = {key for record in caplog.records if record.name == "outlast.jobs" for key in record.__dict__} - usual
        assert set(re.findall(r"`(\w+)`", _section("Log").partition("[Keys]")[2])) - {"extra"} == extra


def test_limits():
    assert _limit("names of jobs, entities and environments") == f"{job._MAX_NAME_LENGTH} characters"
    assert _limit("key of a target") == f"{target_feed._MAX_KEY_LENGTH} characters"
    assert _limit("text of an error, as stored") == f"{target._MAX_ERROR_TEXT:,} characters"
    assert _limit("results that are written together").startswith(f"{ledger._BATCH:,},")
    assert ledger._WRITE_INTERVAL == 0.5
    assert _limit("a store that is down is waited for") == f"{ledger._TRIES * ledger._PAUSE:.0f} s"
    assert _limit("targets read ahead") == (
        f"{runner._MIN_AHEAD} for each thread, up to {runner._MAX_AHEAD} where they are quick"
    )
    assert _limit("targets looked up together by a resumed run") == str(target_feed.LOOKUP_BATCH)
    assert _limit("causes that are counted one by one") == f"{tally._MAX_GROUPS:,}"


@outlast.App("memory://").job("fails", max_failure_rate=0.0)
def _fails(context, target):
    raise TimeoutError("no answer")


def _section(title, depth=2):
    rest = PAGE.partition(f"\n{'#' * depth} {title}\n")[2]
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def _tables(title, depth=2):
    return re.findall(r"(?:^\|.*\n)+", _section(title, depth), re.MULTILINE)


def _names(title):
    """The names in the first cells of a section's tables, several in one cell included."""
    return re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.+?) \|", _section(title), re.MULTILINE)))


def _row(name):
    return re.search(rf"^\| `{name}` \|.*$", _section("Summary"), re.MULTILINE)[0]


def _limit(what):
    return re.search(rf"^\| {re.escape(what)} \| (.+) \|$", PAGE, re.MULTILINE)[1]


def _defaults(title, depth=2):
    """The names and defaults in the first table of a section."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", _tables(title, depth)[0], re.MULTILINE))


def _parameters(function):
    found = inspect.signature(function).parameters.values()
    return {
        each.name: "–" if each.default is each.empty else str(each.default) for each in found if each.name != "self"
    }
