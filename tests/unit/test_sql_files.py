"""The .sql files: every statement can be rendered, and mistakes in a file are reported by name."""

import re
from importlib.resources import files

import pytest

from outlast.ports.job_rows import Run
from outlast.ports.read_rows import FlowEvent
from outlast.ports.rows import DeadLetter, Task
from outlast.ports.source_rows import Alert, Cycle
from outlast.ports.triage import AuditEntry, PayloadEdit, Replay
from outlast.sql_files import load_migrations, load_statements, parse_statements

SQLITE, POSTGRES, ETL = "outlast.stores.sqlite", "outlast.stores.postgres", "outlast.jobs.etl"
FOLDERS = {
    "sqlite": (SQLITE, "queries", {}),
    "postgres": (POSTGRES, "queries", {"schema": '"s1".'}),
    "etl on sqlite": (ETL, "sql/sqlite", {"table": '"t"'}),
    "etl on postgres": (ETL, "sql/postgres", {"table": '"t"'}),
}


def contents(package, folder):
    return {
        entry.name: entry.read_text("utf-8")
        for entry in files(package).joinpath(folder).iterdir()
        if entry.name.endswith(".sql")
    }


@pytest.mark.parametrize("place", FOLDERS)
def test_every_statement_is_complete(place):
    package, folder, values = FOLDERS[place]
    statements = load_statements(package, folder, **values)
    assert statements
    for name, text in statements.items():
        assert not re.search(r"\{\w+\}", text), name
        assert "--" not in text, f"{name} has a comment that would travel to the server"


@pytest.mark.parametrize("place", FOLDERS)
def test_every_statement_says_why_it_has_its_shape(place):
    package, folder, _ = FOLDERS[place]
    for file, text in contents(package, folder).items():
        silent = re.findall(r"^-- name: (\w+)\n(?!-- (?!name:|part:)\S)", text, re.MULTILINE)
        assert silent == [], f"{file}: statements without a comment line below their name"


@pytest.mark.parametrize("place", FOLDERS)
def test_every_part_is_used(place):
    package, folder, _ = FOLDERS[place]
    for file, text in contents(package, folder).items():
        parts = re.findall(r"^-- part: (\w+)$", text, re.MULTILINE)
        assert [part for part in parts if f"{{{part}}}" not in text] == [], file


def test_there_are_few_files():
    assert sum(len(contents(package, folder)) for package, folder, _ in FOLDERS.values()) <= 40


def test_the_schema_is_before_every_table():
    """A table without it would be found by the search path, or not at all."""
    tables = {
        name
        for script in load_migrations(POSTGRES, schema="s1.").values()
        for name in re.findall(r"^CREATE TABLE s1\.(\w+)", script, re.MULTILINE)
    }
    assert len(tables) > 15
    tables.add("schema_version")
    for name, text in load_statements(POSTGRES, schema="s1.").items():
        bare = re.findall(rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE) ({'|'.join(tables)})(?:_id_seq)?\b", text)
        own = re.findall(r"(\w+) (?:\([^)]*\) )?AS (?:NOT )?(?:MATERIALIZED )?\(", text)
        assert [table for table in bare if table not in own] == [], name


def test_the_schema_is_written_into_the_statements():
    assert load_statements(POSTGRES, schema='"a".')["delete_queue"] == 'DELETE FROM "a".queues WHERE name = %(name)s'


def test_failures_are_the_same_events_in_every_file():
    observed = (event for event in FlowEvent if event.startswith("would_"))
    expected = ", ".join(f"'{event}'" for event in ("retried", "deferred", "lost", "failed", *observed))
    found = {
        file: " ".join(part.split())
        for file, text in contents(POSTGRES, "queries").items()
        for part in re.findall(r"^-- part: failure_events\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    }
    assert set(found) == {"alerts.sql", "counters.sql", "failure_groups.sql"}
    assert set(found.values()) == {expected}


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("get_task", Task),
        ("dead_letter", DeadLetter),
        ("get_run", Run),
        ("list_cycles", Cycle),
        ("list_alerts", Alert),
        ("get_replay", Replay),
        ("payload_edits", PayloadEdit),
        ("list_audit_entries", AuditEntry),
    ],
)
def test_rows_are_read_by_position_so_columns_are_in_the_order_of_the_fields(statement, row):
    for package, values in ((SQLITE, {}), (POSTGRES, {"schema": ""})):
        text = load_statements(package, **values).get(statement)
        if text is not None:
            columns = re.sub(r"CASE .*? END AS ", "", text, flags=re.DOTALL)
            names = columns.removeprefix("SELECT ").partition("FROM")[0].replace(",", " ").split()
            fields = [name for name in row._fields if (row, name) != (Replay, "max_failures")]  # within the filters
            assert [{"which": "filters"}.get(name, name) for name in names] == fields


class TestAFile:
    def test_has_statements_and_parts(self):
        text = """-- A comment on the file.

-- part: both
{one}, b

-- part: one
a

-- name: first
-- Why it has this shape.
SELECT {both} FROM {schema}t
    -- not sent
WHERE c = '{}'

-- name: second
SELECT {one}
"""
        assert parse_statements("x.sql", text, {"schema": "s."}) == {
            "first": "SELECT a, b FROM s.t\nWHERE c = '{}'",
            "second": "SELECT a",
        }

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n", "x.sql: the name a is used twice"),
            ("-- part: a\nb\n-- name: a\nSELECT {a}\n", "x.sql: the name a is used twice"),
            ("-- name: schema\nSELECT 1\n", "x.sql: the name schema is used twice"),
            ("-- name: a\nSELECT {b}\n", "x.sql, a: {b} is neither a part of this file nor a known value"),
            ("-- name: a\nSELECT 1\n-- name: b\n{a}\n", "x.sql, b: {a} is neither a part"),
            ("-- part: a\n{b}\n-- part: b\n{a}\n-- name: c\n{a}\n", "x.sql, c: {a} includes itself"),
            ("SELECT 1\n-- name: a\nSELECT 2\n", "x.sql: there is text before the first block"),
            ("-- name: a b\nSELECT 1\n", "x.sql: the name 'a b' is not a name, or has no text"),
            ("-- name: a\n-- only a comment\n", "x.sql: the name 'a' is not a name, or has no text"),
        ],
    )
    def test_with_a_mistake_is_refused(self, text, problem):
        with pytest.raises(ValueError, match=re.escape(problem)):
            parse_statements("x.sql", text, {"schema": ""})

    def test_may_not_have_a_statement_of_another(self, tmp_path, monkeypatch):
        package = tmp_path / "two_files"
        (package / "queries").mkdir(parents=True)
        (package / "__init__.py").touch()
        for name in ("a.sql", "b.sql"):
            (package / "queries" / name).write_text("-- name: same\nSELECT 1\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ValueError, match=re.escape("b.sql: the statement same is also in another file")):
            load_statements("two_files")
