"""``outlast doctor`` on a real file: each check off once, and what it says then."""

import shutil
import sqlite3
import time
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from cli_world import make_world  # noqa: F401  # a fixture
from outlast.stores.sqlite.store import SqliteStore


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def roomy(monkeypatch):
    """A disk with room, whatever this machine has."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**40, 0, 2**39))


@pytest.fixture
def busy(world):
    """A file in which something was done, something failed, and something waits."""
    world.enqueue("scrape", "url=good/x")
    world.dead_letters(2)
    world.enqueue("mail", "to=ann")
    world.app().deliverer().deliver()  # a worker that had the time to look at the groups has told of them
    world.app().store.roll_up()  # a worker does so every few seconds; until then a new task is not in the books
    world.app().close()
    return world


def spoil(world, *statements):
    connection = sqlite3.connect(world.folder / "outlast.db")
    for statement in statements:
        assert connection.execute(statement).rowcount > 0, statement
    connection.commit()
    connection.close()


def found(world, *words, code=0):
    """What each check said: its name, whether it is well, and the text."""
    answer = world.json("doctor", *words, code=code)
    assert answer["ok"] is (code == 0)
    assert answer["store"].endswith("outlast.db")
    assert all(each.keys() == {"check", "ok", "text", "todo"} for each in answer["findings"])
    return {each["check"]: (each["ok"], each["text"], each["todo"]) for each in answer["findings"]}


def test_all_is_well(busy):
    said = busy.run("doctor").stdout

    assert [line.split()[1] for line in said.splitlines() if line[0] in "✓•"] == [
        "settings", "store", "clock", "writing", "spool", "disk", "workers", "ledger",
    ]  # fmt: skip
    assert "✗" not in said
    assert "4 tasks = 1 done + 2 dead + 1 live + 0 cancelled + 0 discarded; the counters match" in said
    assert "were recounted" not in busy.run("doctor", "--repair").stdout


def test_as_json(busy):
    checks = found(busy)

    assert {name: ok for name, (ok, *_) in checks.items()} == {
        "settings": True, "store": True, "clock": True, "writing": True, "spool": True, "disk": True, "workers": None,
        "ledger": True,
    }  # fmt: skip
    assert checks["workers"][1:] == ("0 alive", "outlast worker MODULE:APP starts one.")


def test_nothing_is_changed_by_looking(busy):
    before = busy.json("status")["counts"], busy.app().store.event_totals(), busy.json("audit")
    busy.run("doctor")

    assert (busy.json("status")["counts"], busy.app().store.event_totals(), busy.json("audit")) == before


def test_a_file_that_is_no_database(world):
    (world.folder / "outlast.db").write_bytes(b"once upon a time, there was no database" * 100)
    checks = found(world, code=1)

    assert checks.keys() == {"settings", "store"}
    ok, text, todo = checks["store"]
    assert ok is False
    assert text == f"ConfigError: {world.folder / 'outlast.db'} is not a SQLite database"
    assert todo == "Check the path, or move the file away."


def test_tables_of_another_version(busy):
    spoil(busy, "INSERT INTO schema_version VALUES (999, 0)")
    checks = found(busy, code=1)

    assert checks.keys() == {"settings", "store"}
    assert checks["store"][0] is False
    assert "999" in checks["store"][1]


def test_a_dead_letter_cannot_be_written(busy, monkeypatch):
    def refuse(_):
        message = "attempt to write a readonly database"
        raise sqlite3.OperationalError(message)

    monkeypatch.setattr(SqliteStore, "check_dead_letters", refuse)
    checks = found(busy, code=1)

    assert "writing" not in checks
    assert checks["store"][:2] == (False, "OperationalError: attempt to write a readonly database")
    assert "✗ store" in busy.run("doctor", code=1).stdout


def test_outcomes_that_wait_to_be_stored(busy):
    spool = busy.app().settings.spool
    spool.mkdir()
    (spool / "5d41402a.jsonl").write_text("{}\n")
    ok, text, todo = found(busy, code=1)["spool"]

    assert ok is False
    assert text == f"1 file of outcomes in {spool} is not stored yet"
    assert "worker" in todo


def test_outcomes_that_were_refused_are_no_mistake_for_ever(busy):
    spool = busy.app().settings.spool
    spool.mkdir()
    (spool / "5d41402a.refused").write_text("{}\n")
    checks = found(busy)

    assert checks["spool"][0] is True
    ok, text, todo = checks["refused"]
    assert ok is None
    assert text == f"1 file of outcomes in {spool} could not be applied completely"
    assert "No worker applies them" in todo


def test_a_clock_that_is_wrong(busy, monkeypatch):
    slow = datetime.fromtimestamp(time.time() - 90, UTC)
    monkeypatch.setattr(SqliteStore, "now", lambda _: slow)
    ok, text, _ = found(busy, code=1)["clock"]

    assert ok is False
    assert text.endswith("ahead of the store")


@pytest.mark.parametrize(("free", "code"), [(0.04, 1), (0.06, 0)])
def test_a_full_disk(busy, monkeypatch, free, code):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**40, 0, int(2**40 * free)))
    ok, text, todo = found(busy, code=code)["disk"]

    assert (ok, bool(todo)) == (code == 0, code == 1)
    assert text.startswith(f"{free:.0%} free")


def test_alerts_that_were_not_delivered_are_no_mistake(busy):
    from outlast.ports.source_rows import NewAlert

    app = busy.app()
    app.store.raise_alerts([NewAlert("group:f1", "new", "something new")])
    app.close()

    ok, text, todo = found(busy)["alerts"]
    assert (ok, text) == (None, "1 not delivered yet")
    assert todo.startswith("No process has tried to deliver them; ")
    assert todo.endswith("if neither runs: outlast alerts deliver")


def test_alerts_that_could_not_be_delivered(busy):
    from outlast.ports.source_rows import AlertResult, NewAlert

    app = busy.app()
    app.store.raise_alerts([NewAlert("group:f1", "new", "something new")])
    (alert,) = app.store.claim_alerts(1, 60)
    app.store.settle_alerts([AlertResult(alert.id, alert.epoch, (), 3600.0, "slack: it is down")])
    app.close()

    assert found(busy)["alerts"] == (None, "1 not delivered yet", "outlast alerts list --waiting shows why.")
    listed = busy.run("alerts", "list").stdout
    assert "down" in listed
    assert "nobody has tried" not in listed


@pytest.mark.parametrize(
    ("statement", "check", "said"),
    [
        ("DELETE FROM task_queue WHERE status = 'DONE'", "ledger", "1 task DONE is missing"),
        ("DELETE FROM task_queue WHERE status = 'QUEUED'", "ledger", "1 task QUEUED is missing"),
        (
            "UPDATE task_queue SET status = 'CANCELLED' WHERE status = 'QUEUED'",
            "ledger",
            "1 task cancelled is too many",
        ),
        ("DELETE FROM dead_letter_queue WHERE id = 1", "pairs", "2 tasks failed for good, but there are 1 dead letter"),
        ("DELETE FROM task_flow WHERE event = 'done'", "ledger", "1 task DONE is too many"),
    ],
)
def test_books_that_are_off_and_are_put_right(busy, statement, check, said):
    spoil(busy, statement)
    text = busy.run("doctor", code=1).stdout
    assert said in text
    assert found(busy, code=1)[check][0] is False

    mended = busy.run("doctor", "--repair").stdout
    assert said in mended, "what was off is told also when it is put right"
    assert "the counters were recounted from the rows" in mended
    assert mended.splitlines()[-1].startswith("✓ ledger")
    assert found(busy)["ledger"][0] is True
    assert "were recounted" not in busy.run("doctor", "--repair").stdout


def test_a_lost_dead_letter_is_rebuilt_and_written_down(busy):
    before = {each["action"] for each in busy.json("audit")}
    spoil(busy, "DELETE FROM dead_letter_queue WHERE id = 1")
    said = busy.run("doctor", "--repair").stdout

    assert "1 dead letter was rebuilt from the failed task and its last attempt" in said
    assert busy.json("status")["counts"]["dead_letters"] == 2
    assert busy.json("status")["counts"]["DISCARDED"] == 0
    (entry,) = [each for each in busy.json("audit") if each["action"] == "repair_counters"]
    assert "repair_counters" not in before
    assert entry["subject"] == "counters"
    assert "@" in entry["who"]


def test_put_right_as_json(busy):
    spoil(busy, "DELETE FROM task_queue WHERE status = 'DONE'")
    answer = busy.json("doctor", "--repair")

    assert answer["ok"] is True
    assert [each["ok"] for each in answer["findings"] if each["check"] == "ledger"] == [False, True]


def test_what_cannot_be_mended_stays_off(busy, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**40, 0, 1))
    spoil(busy, "DELETE FROM task_queue WHERE status = 'DONE'")

    assert "were recounted" in busy.run("doctor", "--repair", code=1).stdout
    checks = found(busy, code=1)
    assert (checks["disk"][0], checks["ledger"][0]) == (False, True)


def test_tables_are_missing(world, postgres_server):
    postgres_server.execute("DROP DATABASE IF EXISTS doctor", "CREATE DATABASE doctor")
    url = postgres_server.url.rpartition("/")[0] + "/doctor"
    (_, store) = world.json("doctor", "--url", url, code=1)["findings"]

    assert (store["check"], store["ok"]) == ("store", False)
    assert "outlast db init creates and migrates the tables" in store["todo"]
    world.run("db", "init", "--url", url)
    answer = world.json("doctor", "--url", url)
    assert [each["check"] for each in answer["findings"]] == ["settings", "store", "clock", "writing", "spool", "workers", "ledger"]  # fmt: skip
    postgres_server.execute("DROP DATABASE doctor")


def test_a_server_that_is_not_there(world):
    pytest.importorskip("psycopg")
    answer = world.json("doctor", "--url", "postgresql://ann:hunter2@127.0.0.1:1/x", code=1)

    (_, store) = answer["findings"]
    assert (store["check"], store["ok"]) == ("store", False)
    assert "hunter2" not in str(answer)
    assert "db init" not in store["todo"], "tables are not what is missing"


def test_a_missing_table_is_found_by_doctor_and_db_check_alike(busy):
    with sqlite3.connect(busy.folder / "outlast.db") as connection:
        connection.execute("DROP TABLE resource_slots")
    connection.close()
    checked = busy.run("db", "check", code=1).stderr
    assert "the table resource_slots is missing from the database\n  restore a backup, or" in checked
    found = busy.run("doctor", code=1).stdout
    assert "SchemaError: the table resource_slots is missing from the database; restore a backup, or" in " ".join(
        found.split()
    )
    assert "outlast db init creates" not in found
