"""A move that is given up, or taken elsewhere, while others are at it: nothing in use is touched, nothing is left behind."""

from __future__ import annotations

import sqlite3
import threading

import psycopg
import pytest

from conformance.places import need_postgres
from crash.processes import until
from integration.moving_world import (  # noqa: F401  # fixtures
    NAMES_OF_BOTH,
    build,
    check_same,
    execute,
    give_up,
    here,
    interrupted,
    new_database,
    run_move,
    there,
    used_file,
)
from outlast.errors import ConfigError
from outlast.stores.move.move import MoveNames, cancel_move, open_source, open_target
from outlast.stores.move.plan import MoveError
from outlast.stores.move.source import SourceFile
from outlast.stores.move.target import TargetDatabase

need_postgres()
ELSEWHERE = MoveNames("sqlite:///here", "postgresql://o'brien/elsewhere")


@pytest.fixture
def elsewhere(postgres_server):
    return new_database(postgres_server)


def tasks_at(url):
    with psycopg.connect(url) as own:
        return own.execute("SELECT count(*) FROM task_queue").fetchone()[0]


def is_usable(url, folder):
    app = build(url, folder)
    app.tasks_by_name["fine"].enqueue(1)
    app.close()
    return True


def test_a_move_that_ends_meanwhile_is_not_given_up(here, there, tmp_path, monkeypatch):  # noqa: F811  # fixtures
    look = TargetDatabase.received_move
    seen = []

    def look_late(target):
        """Look while the file was told already, and the target is not open yet; go on when it is."""
        monkeypatch.setattr(TargetDatabase, "received_move", look)
        run_move(here, there, progress=lambda step: step.doing == "ended" and seen.append(look(target)))
        return seen[0]

    monkeypatch.setattr(TargetDatabase, "received_move", look_late)
    with pytest.raises(MoveError, match="has ended"):
        give_up(here, there)

    assert is_usable(there, tmp_path)
    with open_target(there) as target:
        for act in (target.empty, target.end):
            with pytest.raises(MoveError, match="another process has ended or cancelled"):
                act(seen[0].receipt)
    assert tasks_at(there) == 35


def test_it_is_given_up_while_another_copies(here, there, tmp_path):  # noqa: F811  # fixtures
    """Who copies waits for who gives up, and not the other way round as well."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    copies, may_go_on = threading.Event(), threading.Event()
    raised = []

    def pause(step):
        if step.doing == "task_queue":
            copies.set()
            assert may_go_on.wait(60)

    def run():
        with pytest.raises(MoveError) as caught:
            run_move(here, there, batch=5, progress=pause)
        raised.append(str(caught.value))

    other = threading.Thread(target=run)
    other.start()
    assert copies.wait(60)
    with open_source(here) as source, open_target(there) as target, psycopg.connect(there, autocommit=True) as own:
        unguard = target._unguard

        def unguard_later():
            may_go_on.set()
            until(lambda: own.execute(waits).fetchone()[0], 30, "the other waits for its turn")
            unguard()

        target._unguard = unguard_later
        assert cancel_move(source, target, NAMES_OF_BOTH)
    other.join(60)

    assert raised == ["another process has ended or cancelled the move meanwhile; run this again"]
    assert tasks_at(there) == 0
    assert is_usable(here, tmp_path)
    assert is_usable(there, tmp_path)


def test_one_of_the_same_name_on_another_machine(here, there, monkeypatch):  # noqa: F811  # fixtures
    interrupted(here, there, "task_queue")
    with open_source(here) as source:
        assert cancel_move(source, None, NAMES_OF_BOTH), "the file is free, the copy is left"
    copied = tasks_at(there)
    with monkeypatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "elsewhere.example")
        with pytest.raises(MoveError, match=r"contains rows of sqlite:///here on .*; pass the target URL of this file"):
            give_up(here, there)
    assert tasks_at(there) == copied > 0
    assert give_up(here, there)
    assert tasks_at(there) == 0


def test_killed_while_it_is_given_up(here, there, tmp_path, monkeypatch):  # noqa: F811  # fixtures
    interrupted(here, there, "task_queue")
    with monkeypatch.context() as patch:
        patch.setattr(SourceFile, "unfreeze", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            give_up(here, there)

    with pytest.raises(MoveError, match=r"to postgresql://there is being cancelled; run outlast move --cancel again"):
        run_move(here, there)
    assert give_up(here, there)
    assert is_usable(here, tmp_path)
    run_move(here, there)
    check_same(here, there)


def test_a_url_that_is_not_the_targets(here, there, elsewhere, tmp_path):  # noqa: F811  # fixtures
    interrupted(here, there, "task_queue")

    with pytest.raises(
        MoveError, match=r"elsewhere contains no rows of this file; the file is being moved to \S+there: pass"
    ):
        give_up(here, elsewhere, ELSEWHERE)

    with pytest.raises(ConfigError, match="is being moved"):
        is_usable(here, tmp_path)
    assert give_up(here, there)


def test_gone_on_with_in_another_empty_database(here, there, elsewhere, tmp_path):  # noqa: F811  # fixtures
    app = build(here, tmp_path)
    app.tasks_by_name["fine"].enqueue(1)
    interrupted(here, there, "frozen")

    assert run_move(here, elsewhere, names=ELSEWHERE).resumed

    check_same(here, elsewhere)
    with pytest.raises(sqlite3.IntegrityError, match=r"was moved to PostgreSQL \(postgresql://o'brien/elsewhere\)"):
        app.tasks_by_name["fine"].enqueue(1)
    app.close()
    with pytest.raises(
        MoveError, match=r"was moved to postgresql://o'brien/elsewhere on 20.*there is another database"
    ):
        run_move(here, there)


def test_another_takes_it_to_another_database(here, there, elsewhere, tmp_path):  # noqa: F811  # fixtures
    def overtake(step):
        if step.doing == "guarded":
            run_move(here, elsewhere, names=ELSEWHERE)

    with pytest.raises(MoveError, match="meanwhile cancelled or pinned to another target"):
        run_move(here, there, progress=overtake)

    check_same(here, elsewhere)
    assert is_usable(there, tmp_path), "it is not left shut"


def test_a_copy_that_was_not_gone_on_with(here, there, elsewhere):  # noqa: F811  # fixtures
    interrupted(here, there, "guarded")
    interrupted(here, elsewhere, "task_queue", names=ELSEWHERE)

    with pytest.raises(MoveError, match=r"an abandoned copy; the file is being moved to .*elsewhere"):
        give_up(here, there)

    assert give_up(here, elsewhere, ELSEWHERE)
    assert give_up(here, there), "then it can be cleared away too"
    assert tasks_at(elsewhere) == 0
