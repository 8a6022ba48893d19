"""Files and moves of other versions of Outlast."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

from conformance.places import need_postgres
from integration.moving_world import (  # noqa: F401  # fixtures
    NAMES_OF_BOTH,
    build,
    check_same,
    execute,
    give_up,
    here,
    interrupted,
    run_move,
    there,
    used_file,
)
from outlast.errors import SchemaError
from outlast.ports.source_rows import NewAlert
from outlast.sql_files import load_migrations
from outlast.stores.move.move import open_source, open_target, preview
from outlast.stores.move.plan import MoveError
from outlast.stores.sqlite.connection import now_ms
from outlast.stores.sqlite.schema import LATEST
from outlast.stores.sqlite.store import SqliteStore

need_postgres()
VERSION_OF = "SELECT max(version) FROM schema_version"


def look_at(source_url, target_url):
    with open_source(source_url) as source, open_target(target_url) as target:
        return preview(source, target, NAMES_OF_BOTH)


def old_file(path, version):
    """Make a file as a version left it: a task, and a worker that works."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT")
    for number in range(1, version + 1):
        connection.executescript(load_migrations("outlast.stores.sqlite")[number])
        connection.execute("INSERT INTO schema_version VALUES (?, 1)", (number,))
    connection.execute("INSERT INTO task_queue (task_type) VALUES ('fine')")
    names = "id, name, host, pid, queues, concurrency, state, started_at, heartbeat_at, expires_at"
    values = f"'w1', 'crawler', 'host7', 42, '[]', 1, 'running', 1, 1, {now_ms() + 3_600_000}"
    if version >= 4:
        names, values = f"{names}, schema_version", f"{values}, {version}"
    connection.execute(f"INSERT INTO workers ({names}) VALUES ({values})")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("version", [1, LATEST - 1])
def test_a_file_of_an_older_version(there, tmp_path, version):  # noqa: F811  # fixtures
    path = tmp_path / "old.db"
    url = f"sqlite:///{path}"
    old_file(path, version)
    before = path.read_bytes()

    for act in (look_at, run_move):
        with pytest.raises(MoveError, match=r"in use by worker crawler \(host7, process 42\)"):
            act(url, there)
    execute(path, "UPDATE workers SET expires_at = 1")
    with pytest.raises(
        MoveError, match=rf"have version {version}, and a dry run does not migrate them to version {LATEST}; run"
    ):
        look_at(url, there)
    assert not give_up(url, there)
    execute(path, "UPDATE workers SET expires_at = ?", int(now_ms() + 3_600_000))

    assert execute(path, VERSION_OF) == [(version,)]
    assert execute(path, "SELECT id FROM workers") == [("w1",)]
    assert len(path.read_bytes()) == len(before)
    execute(path, "UPDATE workers SET expires_at = 1")
    assert run_move(url, there).tables["task_queue"] == 1
    check_same(url, there)


def test_a_dry_run_changes_nothing(here, there, tmp_path):  # noqa: F811  # fixtures
    def everything():
        return {path.relative_to(tmp_path): path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}

    before = everything()
    assert look_at(here, there)["task_queue"] == 34
    assert everything() == before, "nor is what a dead worker held given back"
    with psycopg.connect(there) as own:
        assert own.execute("SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'outlast')").fetchone() == (
            0,
        )


def test_who_is_in_the_way_is_named_before_anything_is_changed(here, there, tmp_path):  # noqa: F811  # fixtures
    store = SqliteStore(tmp_path / "outlast.db")
    store.raise_alerts([NewAlert("key 9", "bad", "title", "text")])
    assert store.claim_alerts(1, 60)
    with pytest.raises(MoveError, match="alert delivery"):
        run_move(here, there)
    assert len(store.workers()) == 1, "the dead one is not struck off"
    store.close()


@pytest.fixture
def upgrade(monkeypatch):
    """Have a next version of Outlast go on."""

    def now():
        for module in ("sqlite.schema", "move.source", "move.move"):
            monkeypatch.setattr(f"outlast.stores.{module}.LATEST", LATEST + 1)

    return now


def test_an_upgrade_in_the_middle(here, there, tmp_path, upgrade):  # noqa: F811  # fixtures
    interrupted(here, there, "task_queue")
    file = tmp_path / "outlast.db"
    execute(file, "CREATE TABLE future (id INTEGER)")
    execute(
        file,
        "CREATE TRIGGER outlast_move_future_INSERT BEFORE INSERT ON future BEGIN SELECT RAISE(ABORT, 'moved'); END",
    )
    with psycopg.connect(there) as own:
        own.execute("CREATE TABLE future AS SELECT 1 AS id")
        own.execute(
            "CREATE TRIGGER outlast_moving BEFORE INSERT ON future FOR EACH STATEMENT EXECUTE FUNCTION outlast_moving()"
        )
    upgrade()

    for act in (run_move, look_at):
        with pytest.raises(
            MoveError,
            match=r"started by another version .*; continue with the version that started it, or cancel it: outlast move",
        ):
            act(here, there)
    assert give_up(here, there)

    execute(file, "INSERT INTO future VALUES (1)")
    with psycopg.connect(there) as own:
        assert own.execute("SELECT count(*) FROM future").fetchone() == (0,), "also tables that are not known here"
        own.execute("INSERT INTO future VALUES (1)")


def test_an_upgrade_after_the_end(here, there, tmp_path, upgrade):  # noqa: F811  # fixtures
    run_move(here, there)
    upgrade()
    assert run_move(here, there).already


def test_a_file_of_a_newer_version(here, there, tmp_path):  # noqa: F811  # fixtures
    execute(tmp_path / "outlast.db", "INSERT INTO schema_version VALUES (?, 1)", LATEST + 1)
    for act in (run_move, look_at):
        with pytest.raises(SchemaError, match="upgrade this one"):
            act(here, there)
