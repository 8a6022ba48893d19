"""docs/reference/queue.md names all there is of the queue, and nothing else."""

import contextlib
import inspect
import logging
import re
import sqlite3
from datetime import UTC, timedelta

import pytest

import outlast
from doc_pages import read
from outlast.config import _APP_KEYS
from outlast.ports.rows import Claimed, Cooldown, DeadLetterFilter, Group, QueueRow, Reason, Status, WorkerRow
from outlast.queue.dead_letters import FILTER_FIELDS, DeadLetterBox
from outlast.queue.definition import ENQUEUE_OPTIONS, TaskSettings
from outlast.queue.task_reader import TaskReader
from outlast.sql_files import load_migrations
from outlast.testing import fake_clock

PAGE = read("reference/queue.md")
SOURCES = read("reference/sources.md")
JOBS = read("reference/jobs.md")


class TestSettings:
    def test_of_an_app(self):
        parameters = _parameters(outlast.App)

        assert _defaults("App", "setting") == {name: _shown(each.default) for name, each in parameters.items()}

    def test_of_a_task(self):
        assert {*_defaults("Task", "setting")} == TaskSettings.__annotations__.keys()

    def test_the_defaults_of_a_task(self):
        definition = outlast.App("memory://").task(_nothing)
        shown = _defaults("Task", "setting")

        assert (shown["queue"], shown["priority"]) == (f'`"{definition.queue}"`', str(definition.priority))
        for name in ("timeout", "resource", "expires", "keep_result"):
            assert (shown[name], getattr(definition, name)) == ("None", None)

    def test_of_a_call(self):
        assert {*_defaults("Enqueue", "option", depth=3)} == ENQUEUE_OPTIONS

    def test_of_a_periodic_task(self):
        parameters = _parameters(outlast.App.periodic)
        parameters.pop("settings")

        assert _defaults("Periodic", "setting", depth=3) == {
            name: _shown(each.default) for name, each in parameters.items()
        }

    def test_of_a_worker(self):
        parameters = _parameters(outlast.App.worker)

        assert _defaults("Worker", "setting") == {name: _shown(each.default) for name, each in parameters.items()}

    def test_of_a_limit(self):
        parameters = _parameters(outlast.App.limit)
        parameters.pop("resource")

        assert _defaults("Limit", "setting") == {name: _shown(each.default) for name, each in parameters.items()}

    def test_in_the_file(self):
        rows = re.findall(r"^\| (`.+?) \|", _section("In outlast.toml", 3), re.MULTILINE)

        assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(_APP_KEYS)


class TestMethods:
    def test_of_an_app(self):
        table = _tables(_section("App"))[1]
        app = outlast.App("memory://")
        named = set(re.findall(r"`@?app\.(\w+)", table))

        assert named >= {name for name in dir(outlast.App) if not name.startswith("_")}
        assert [name for name in named if not hasattr(app, name)] == []

    @pytest.mark.parametrize(
        ("title", "kind", "other"),
        [
            ("Task", outlast.TaskDefinition, {"prepare"}),  # for Outlast's own use
            ("Worker", outlast.Worker, set()),
            ("app.tasks", TaskReader, set()),
            ("app.dead_letters, Triage", DeadLetterBox, set()),
        ],
    )
    def test_of_what_it_gives(self, title, kind, other):
        methods = {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}

        sections = "\n".join(map(_section, title.split(", ")))
        cells = " ".join(re.findall(r"^\| (`.+?) \|", sections, re.MULTILINE))

        assert set(re.findall(r"`(?:await )?(\w+)\(", cells)) == methods - other

    @pytest.mark.parametrize(
        ("method", "row"), [("queues", QueueRow), ("workers", WorkerRow), ("cooldowns", Cooldown), ("groups", Group)]
    )
    def test_the_fields_of_rows(self, method, row):
        line = re.search(rf"^\| `{method}\(.*$", PAGE, re.MULTILINE)[0]

        assert re.findall(r"`(\w+)`", line.partition(": ")[2]) == list(row._fields)

    def test_filters(self):
        line = re.search(r"^`which` stands for filters: (.*)$", PAGE, re.MULTILINE)[1]

        fields = {FILTER_FIELDS.get(name, name) for name in re.findall(r"`(\w+)`", line)}
        assert fields == set(DeadLetterFilter._fields) - {"before", "limit"}

    def test_what_a_task_knows_of_itself(self):
        text = re.search(r"^`outlast.current_task\(\)`.*?None outside", PAGE, re.MULTILINE | re.DOTALL)[0]

        assert re.findall(r"`(\w+)`", text) == list(Claimed._fields)


class TestWords:
    def test_statuses(self):
        assert _rows("Statuses") == [str(each) for each in Status]

    def test_reasons(self):
        assert _rows("Reasons") == [str(each) for each in Reason]

    def test_events(self):
        named = re.findall(r"`(Task\w+)`", _section("Events"))

        assert sorted(named) == [name for name in outlast.events.__all__ if name.startswith("Task")]

    def test_log_keys(self, caplog):
        """Whatever a record on an attempt carries beyond the standard library's own."""
        app = outlast.App("memory://", policy=outlast.RetryPolicy(max_attempts=2, base_delay=0))
        app.task(name="fails")(_fail)
        app.tasks_by_name["fails"].enqueue()
        app.task(name="ends")(lambda: None)
        app.tasks_by_name["ends"].enqueue_many([{}] * 20)  # of which some are summed up
        with caplog.at_level(logging.INFO, "outlast.worker"), fake_clock():
            app.worker().drain()

        usual = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
        extra = {key for record in caplog.records for key in record.__dict__} - usual
        assert set(re.findall(r"`(\w+)`", _section("Log").partition("[Keys]")[2])) - {"extra"} == extra

    def test_public_names(self):
        homes = ("outlast.app", "outlast.queue.", "outlast.ports.")
        pages = {
            name: SOURCES if home == "outlast.ports.source_rows" else PAGE for name, home in outlast._HOMES.items()
        }
        names = [name for name, home in outlast._HOMES.items() if home.startswith(homes)]

        assert [name for name in names if not re.search(rf"\boutlast\.{name}\b", pages[name])] == []


class TestTables:
    def test_of_sqlite(self, tmp_path):
        app = outlast.App(f"sqlite:///{tmp_path}/x.db")
        app.create_schema()
        with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found = {
                name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
                for name in names
                if not name.startswith("sqlite_")
            }
        app.close()

        named, shared = _columns("SQLite"), _columns()
        assert {name: set(columns) for name, columns in named.items()} == {
            name: set(each) for name, each in found.items()
        }
        for name, columns in shared.items():
            assert [column for column in found[name] if column in columns] == columns, "in this order"

    def test_of_postgresql(self):
        """By its migrations; the order of columns is another one there."""
        script = re.sub(r"--.*", "", "".join(load_migrations("outlast.stores.postgres", schema="outlast.").values()))
        tables = re.findall(r"^CREATE TABLE outlast\.(\w+) \((.*?)^\)", script, re.MULTILINE | re.DOTALL)
        found = {name: set(re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE)) for name, body in tables}
        for name, body in re.findall(r"^ALTER TABLE outlast\.(\w+)(.*?);", script, re.MULTILINE | re.DOTALL):
            found[name] |= set(re.findall(r"ADD COLUMN (\w+) ", body))
        named = {name: set(columns) for name, columns in _columns("PostgreSQL").items()}

        assert {name: columns for name, columns in named.items() if name != "schema_version"} == found


def _nothing():
    pass


def _fail():
    raise TimeoutError("no answer")


def _parameters(function):
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    return parameters


def _shown(value):
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, timedelta):
        if value < timedelta(days=1):
            return f"{value / timedelta(hours=1):g} hour"
        return f"{value.days} days" if value.days != 1 else "1 day"
    if value is UTC:
        return "UTC"
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if value < 1 else f"{value:g} s"  # a share, or seconds


def _section(title, depth=2, page=PAGE):
    rest = page.partition(f"\n{'#' * depth} {title}\n")[2]
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def _tables(section):
    return re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)


def _defaults(title, heading, depth=2):
    """The names and defaults in the table whose first column has that heading."""
    table = next(each for each in _tables(_section(title, depth)) if each.startswith(f"| {heading} |"))
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", table, re.MULTILINE)
    return {name: default for names, default in rows for name in re.findall(r"\w+", names)}


def _rows(title):
    return re.findall(r"^\| `(\w+)`", _section(title), re.MULTILINE)


def _columns(database=None):
    """The columns of all tables, those of sources and of jobs from their own pages; what a database has alone is last."""
    tables = _section("Tables") + _section("Tables", page=SOURCES) + _section("Tables", page=JOBS)
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", tables, re.MULTILINE)
    columns = {name: re.findall(r"`(\w+)`", cell) for name, cell in rows}
    section = _section("Of one database alone", 3)
    if database is None:
        return columns
    place = ["table", "SQLite", "PostgreSQL"].index(database)
    for line in re.findall(r"^\| `.+$", section, re.MULTILINE):
        cells = [re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:]]
        if cells[place]:
            columns.setdefault(cells[0][0], []).extend(cells[place])
    return columns
