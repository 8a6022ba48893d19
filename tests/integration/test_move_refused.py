"""What cannot be moved is refused, in words that help; the command line."""

from __future__ import annotations

import json
import shutil

import psycopg
import pytest
from click.testing import CliRunner

from conformance.acting import register
from integration.moving_world import (  # noqa: F401  # fixtures
    build,
    check_same,
    execute,
    here,
    interrupted,
    new_database,
    run_move,
    there,
    used_file,
)
from outlast.cli import cli
from outlast.ports.rows import NewTask
from outlast.ports.source_rows import NewAlert
from outlast.stores.move.move import open_source, open_target
from outlast.stores.move.plan import MoveError
from outlast.stores.sqlite.store import SqliteStore


def command(*words, code=0):
    result = CliRunner().invoke(cli, ["move", *words])
    assert result.exit_code == code, (result.output, result.exception)
    assert "outlast-secret" not in result.output
    return result


@pytest.fixture
def file(here, tmp_path):  # noqa: F811  # fixtures
    return tmp_path / "outlast.db"


def is_untouched(here, there):  # noqa: F811  # not the fixtures
    with open_source(here) as source, open_target(there) as target:
        return source.mark() is None and target.received_move() is None


@pytest.mark.parametrize(("number", "place"), [(0, "first"), (1, "second")])
def test_a_url_that_cannot_be_read_is_told_of_and_not_shown(here, number, place):  # noqa: F811  # fixtures
    urls = [here, "postgresql://user@host/database"]
    urls[number] = "https://user:outlast-secret@["
    assert f"the {place} URL is not valid: Invalid IPv6 URL" in command(*urls, "--dry-run", code=2).stderr


class TestInUse:
    def test_workers(self, here, there, file):  # noqa: F811  # fixtures
        store = SqliteStore(file)
        register(store, "w7", name="crawler")

        for words in ([here, there], [here, there, "--dry-run"]):
            said = command(*words, code=1).stderr
            assert "in use by worker crawler (host, process 42)\n  stop them and run this again" in said
        assert is_untouched(here, there)
        store.leave("w7")
        store.close()
        command(here, there)

    def test_a_monitor(self, here, there, file):  # noqa: F811  # fixtures
        store = SqliteStore(file)
        cycle = store.open_cycle("blog")
        store.claim_sources(cycle.id, "m7", 1, 60)
        assert "in use by monitor m7 (1 sources)" in command(here, there, code=1).stderr
        store.release_sources("m7")
        store.close()
        command(here, there, "--dry-run")

    def test_a_job(self, here, there, file):  # noqa: F811  # fixtures
        store = SqliteStore(file)
        lock = store.lock_job("items", "cron on host7")
        store.add_run("r7", "items", "item", "test", None)
        assert "in use by job items (cron on host7)" in command(here, there, code=1).stderr
        lock.release()
        store.close()
        command(here, there, "--dry-run")

    def test_somebody_who_delivers(self, here, there, file):  # noqa: F811  # fixtures
        store = SqliteStore(file)
        store.raise_alerts([NewAlert("key 9", "bad", "title", "text")])
        assert store.claim_alerts(1, 60)
        assert "in use by alert delivery (1 alerts)" in command(here, there, code=1).stderr
        store.close()

    def test_outcomes_that_only_a_worker_on_the_file_can_store(self, here, there, file):  # noqa: F811  # fixtures
        spool = file.with_name("outlast.db-spool")
        spool.mkdir()
        (spool / "w1.jsonl").write_text("{}")
        assert "start a worker on the file once" in command(here, there, code=1).stderr


class TestTarget:
    def test_has_rows(self, here, there, tmp_path):  # noqa: F811  # fixtures
        app = build(there, tmp_path)
        app.create_schema()
        app.store.enqueue([NewTask("fine", "{}")])
        app.close()

        said = command(here, there, code=1).stderr

        assert "the target already has rows in task_queue, task_flow" in said
        assert is_untouched(here, there)

    def test_is_that_of_another_file(self, here, there, tmp_path):  # noqa: F811  # fixtures
        other = tmp_path / "other.db"
        shutil.copy(tmp_path / "outlast.db", other)
        run_move(here, there)
        assert "contains the rows of sqlite:///here on " in command(f"sqlite:///{other}", there, code=1).stderr

    def test_is_another_one_than_before(self, here, there, postgres_server):  # noqa: F811  # fixtures
        run_move(here, there)
        elsewhere = new_database(postgres_server)
        assert "was moved to postgresql://there on 20" in command(here, elsewhere, code=1).stderr

    def test_a_row_that_it_refuses_is_named(self, here, there, file):  # noqa: F811  # fixtures
        (row,) = execute(file, "SELECT max(id) - 1 FROM task_attempts")
        (before,) = execute(file, "SELECT error_message FROM task_attempts WHERE id = ?", *row)
        execute(file, "UPDATE task_attempts SET error_message = 'a' || char(0) WHERE id = ?", *row)

        said = command(here, there, code=1).stderr

        assert f"refuses the row of task_attempts with id {row[0]}: invalid byte sequence" in said
        assert "the file stays frozen" in said
        assert "as before" in command(here, there, "--cancel").stdout
        execute(file, "UPDATE task_attempts SET error_message = ? WHERE id = ?", *before, *row)
        command(here, there)
        check_same(here, there)

    def test_sides_that_differ(self, here, there):  # noqa: F811  # fixtures
        def tamper(step):
            if step.doing == "comparing both sides":
                with psycopg.connect(there) as own:
                    own.execute("SELECT set_config('outlast.moving', 'on', true)")
                    own.execute("DELETE FROM task_queue WHERE id = (SELECT min(id) FROM task_queue)")

        with pytest.raises(
            MoveError, match=r"rows of task_queue: 34 in the file, 33 in the target, counted DONE: 13 .* 12"
        ):
            run_move(here, there, progress=tamper)
        assert "makes the file usable again" in command(here, there, code=1).stderr, "it stays so"


class TestWords:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["memory://", "postgresql://h/d"], "only a file can be moved"),
            (["postgresql://h/d", "sqlite:///x.db"], "from SQLite to PostgreSQL and not back"),
            (["sqlite:///none.db", "postgresql://h/d"], "does not exist"),
            (["sqlite:///x.db"], "Missing argument 'POSTGRES_URL'"),
            (["sqlite:///x.db", "--dry-run", "--cancel"], "not both"),
        ],
    )
    def test_that_make_no_sense(self, tmp_path, monkeypatch, words, said):
        monkeypatch.chdir(tmp_path)
        assert said in command(*words, code=2).stderr
        assert list(tmp_path.iterdir()) == [], "nothing is created"

    def test_a_target_of_another_kind(self, here, tmp_path):  # noqa: F811  # fixtures
        assert "pass postgresql://" in command(here, "sqlite:///y.db", code=2).stderr

    def test_a_file_of_another_kind(self, there, tmp_path):  # noqa: F811  # fixtures
        execute(tmp_path / "mine.db", "CREATE TABLE mine (id INTEGER)")
        assert "has no tables of Outlast" in command(f"sqlite:///{tmp_path}/mine.db", there, code=2).stderr
        assert execute(tmp_path / "mine.db", "SELECT count(*) FROM sqlite_master") == [(1,)]


class TestCommand:
    def test_a_dry_run_then_the_move_then_once_more(self, here, there, file, postgres_server):  # noqa: F811  # fixtures
        execute(file, "CREATE TABLE staging (id INTEGER)")
        looked = json.loads(command(here, there, "--dry-run", "--json").stdout)
        assert looked["tables"]["task_queue"] == 34
        assert looked["target"] == f"postgresql://127.0.0.1:{postgres_server.port}/{there.rpartition('/')[2]}"
        assert is_untouched(here, there)
        text = command(here, there, "--dry-run").stdout
        assert "nothing prevents it" in text
        assert "are not moved: staging" in text

        told = command(here, there).stdout

        for words in (
            "task_queue",
            "both sides match",
            "from dead workers: 2 tasks",
            "use the new URL in your App",
            "staging",
        ):
            assert words in told
        assert "was already moved to postgresql://127.0.0.1" in command(here, there).stdout
        assert json.loads(command(here, there, "--json").stdout)["already"] is True
        check_same(here, there)
        result = CliRunner().invoke(cli, ["status", "--url", here])
        assert result.exit_code == 2
        assert "this file was moved to PostgreSQL (postgresql://127.0.0.1:" in result.stderr
        assert "use that URL instead" in result.stderr
        assert "outlast-secret" not in result.output

    def test_the_status_of_a_target_that_waits(self, here, there):  # noqa: F811  # fixtures
        def told():
            return " ".join(CliRunner().invoke(cli, ["status", "--url", there]).stdout.split())

        interrupted(here, there, "task_queue")
        assert "a move into this database is not finished: run outlast move again" in told()
        assert "starts one" not in told()
        command(here, there)
        assert "is not finished" not in told()
        assert "starts one" in told()

    def test_nothing_to_give_up(self, here, there):  # noqa: F811  # fixtures
        assert "nothing to cancel" in command(here, there, "--cancel").stdout
        assert json.loads(command(here, "--cancel", "--json").stdout)["cancelled"] is False

    def test_given_up_where_the_target_is_gone(self, here, there, tmp_path):  # noqa: F811  # fixtures
        interrupted(here, there, "task_queue")
        assert "drop its tables" in command(here, "--cancel").stdout
        app = build(here, tmp_path)
        app.tasks_by_name["fine"].enqueue(1)
        app.close()
        assert "is still receiving sqlite:///here" in command(here, there, code=1).stderr
