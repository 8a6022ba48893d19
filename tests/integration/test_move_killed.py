"""A move that is killed goes on where it was, wherever that is; and nobody uses either side meanwhile."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import outlast
from crash.processes import until
from integration.moving_world import (  # noqa: F401  # fixtures
    NAMES_OF_BOTH,
    build,
    check_same,
    execute,
    here,
    interrupted,
    run_move,
    there,
    used_file,
)
from outlast.errors import ConfigError
from outlast.stores.move.move import cancel_move, open_source, open_target
from outlast.stores.move.plan import MoveError
from servers.postgres import PostgresServer

TESTS = Path(__file__).parents[1]
POINTS = [
    "freezing the file", "frozen", "guarded", "pinned", "note:1", "task_queue:2", "ended",
]  # fmt: skip


def start(*words, cwd=None):
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(TESTS)])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, *words],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def killed(here, there, point):  # noqa: F811  # not the fixtures
    """Move until a point, where the process kills itself."""
    child = start(str(TESTS / "integration" / "moving_program.py"), here, there, point)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, said.decode()


def is_frozen(url):
    app = outlast.App(url)
    try:
        app.store.counts()
    except ConfigError:
        return True
    finally:
        app.close()
    return False


def test_killed_again_and_again(here, there):  # noqa: F811  # fixtures
    for point in POINTS:
        killed(here, there, point)
        assert is_frozen(here) == (point != "freezing the file"), point
    moved = run_move(here, there)
    assert (moved.already, moved.resumed, moved.copied) == (False, True, 0)
    check_same(here, there)
    assert run_move(here, there).already


@pytest.mark.parametrize("point", ["frozen", "task_queue"])
def test_what_was_interrupted_can_be_given_up(here, there, tmp_path, point):  # noqa: F811  # fixtures
    interrupted(here, there, point)
    with open_source(here) as source, open_target(there) as target:
        assert cancel_move(source, target, NAMES_OF_BOTH)
        assert not cancel_move(source, target, NAMES_OF_BOTH)
    app = build(here, tmp_path)
    app.tasks_by_name["fine"].enqueue(7)
    app.worker().drain()
    assert app.store.counter_check()[0] == app.store.counter_check()[1]
    app.close()
    app = build(there, tmp_path)
    assert sum(app.store.counts().values()) == 0
    app.close()
    assert run_move(here, there).copied > 0
    check_same(here, there)
    with open_source(here) as source, open_target(there) as target, pytest.raises(MoveError, match="has ended"):
        cancel_move(source, target, NAMES_OF_BOTH)


def test_who_has_the_file_open_is_refused_too(here, there, tmp_path):  # noqa: F811  # fixtures
    app = build(here, tmp_path)
    fine = app.tasks_by_name["fine"]
    fine.enqueue(1)
    app.store.counts()
    interrupted(here, there, "task_queue")

    for act in (lambda: fine.enqueue(2), lambda: app.worker().drain(), lambda: app.tasks.pause("mail")):
        with pytest.raises(
            sqlite3.IntegrityError, match=r"is being moved to PostgreSQL \(postgresql://there\) since 20"
        ):
            act()
    waiting = build(there, tmp_path)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="the move is not over"):
        waiting.tasks_by_name["fine"].enqueue(1)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="the move is not over"):
        waiting.worker().drain()
    waiting.close()

    run_move(here, there)
    with pytest.raises(ConfigError, match=r"was moved to PostgreSQL \(postgresql://there\) on 20.*; use that URL"):
        build(here, tmp_path).store.counts()
    with pytest.raises(
        sqlite3.IntegrityError, match=r"was moved to PostgreSQL \(postgresql://there\) on 20.*; use that"
    ):
        fine.enqueue(2)
    app.close()
    with pytest.raises(sqlite3.IntegrityError, match="was moved to PostgreSQL"):
        execute(tmp_path / "outlast.db", "INSERT INTO task_queue (task_type) VALUES ('by hand')")
    check_same(here, there)


def test_the_command_is_killed_while_it_waits_for_the_target(here, there, tmp_path):  # noqa: F811  # fixtures
    with open_target(there) as target:
        target.store.create_schema()
    with psycopg.connect(there) as blocking:
        blocking.execute("LOCK TABLE audit_log IN ROW EXCLUSIVE MODE")
        child = start("-m", "outlast", "move", here, there, cwd=tmp_path)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        with psycopg.connect(there, autocommit=True) as own:
            until(lambda: own.execute(waits).fetchone()[0], 30, "it waits")
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=20)
    assert is_frozen(here)

    again = start("-m", "outlast", "move", here, there, cwd=tmp_path)
    said, _ = again.communicate(timeout=60)

    assert again.returncode == 0, said.decode()
    assert "both sides match" in said.decode()
    assert "outlast-secret" not in said.decode()
    check_same(here, there)


def test_two_at_once_take_turns(here, there):  # noqa: F811  # fixtures
    children = [start("-m", "outlast", "move", here, there) for _ in range(2)]
    said = [each.communicate(timeout=60)[0].decode() for each in children]
    codes = sorted(each.returncode for each in children)

    assert codes[0] == 0, said  # the other may have come too late, or too early
    assert run_move(here, there).already
    check_same(here, there)


@pytest.fixture
def own_server(tmp_path):
    """A server that may be restarted. It loses what it had just committed, as one may be set to."""
    server = PostgresServer(tmp_path / "postgres")
    server.start()
    yield server
    server.stop()


def test_the_server_is_restarted(here, own_server):  # noqa: F811  # fixtures
    def crash_at(point):
        def crash(step):
            if step.doing == point and own_server.pid is not None:
                own_server.stop_hard()

        return crash

    for point in ("pinned", "task_queue", "comparing both sides"):
        with pytest.raises(psycopg.OperationalError):
            run_move(here, own_server.url, batch=5, progress=crash_at(point))
        assert is_frozen(here)
        own_server.restart()
    assert run_move(here, own_server.url).resumed
    check_same(here, own_server.url)


@pytest.mark.parametrize("point", ["frozen", "guarded", "task_queue"])
def test_another_was_quicker(here, there, tmp_path, point):  # noqa: F811  # fixtures
    def overtake(step):
        if step.doing == point and not run_move(here, there).already:
            app = build(there, tmp_path)
            app.tasks_by_name["fine"].enqueue(1)
            app.close()

    with pytest.raises(MoveError, match="another process has ended or cancelled the move meanwhile; run this again"):
        run_move(here, there, progress=overtake)
    assert run_move(here, there).already
    with open_target(there) as target:
        last = "SELECT max(id) = (SELECT last_value FROM task_queue_id_seq) FROM task_queue"
        assert target.connection.execute(last).fetchone() == (True,), "numbers were not set back"
