"""Who may read the files that Outlast creates, and what is said about a file that cannot be used."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner

import outlast
from outlast.cli import cli
from outlast.errors import ConfigError
from outlast.jobs.etl.raw import FileRawStore
from outlast.jobs.etl.staging import SqliteStaging
from outlast.stores.sqlite.store import SqliteStore

NOBODY = 65534
WRITES_EVERYTHING = """
import os, sys
os.umask(int(sys.argv[1], 8))
import outlast
from pathlib import Path
from outlast.jobs.etl.raw import FileRawStore
from outlast.jobs.etl.staging import SqliteStaging
from outlast.ports.rows import Kind, Settlement
from outlast.queue.spool import Spool

app = outlast.App("sqlite:///outlast.db")
memory = outlast.App("memory://")

@app.task
def pay(pin): ...

for each in (app, memory):
    each.create_schema()
pay.enqueue(pin="4711")
worker = app.worker()
worker._register()
lock = app.store.lock_job("a job", "me")
assert lock is not None
assert Spool(app.settings.spool).keep([(1, 1)], [])
assert Spool(Path("home/.outlast/spool/x")).keep([(1, 1)], [])
FileRawStore("raw").put("shop/order/7/0123456789abcdef", b"{}")
SqliteStaging("staging.db").create()
print(memory.store.db.path.parent, flush=True)
for folder in (Path(), memory.store.db.path.parent):
    for path in sorted(folder.rglob("*")):
        print(f"{path.stat().st_mode & 0o777:o}", "folder" if path.is_dir() else "file", path, flush=True)
"""


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", ["000", "022"])
def test_nobody_else_can_read_what_is_created(tmp_path, umask):
    command = [sys.executable, "-c", WRITES_EVERYTHING, umask]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    temporary, *lines = said.splitlines()
    found = {name: (mode, kind) for mode, kind, name in (line.split(" ", 2) for line in lines)}
    assert {mode for mode, kind in found.values() if kind == "file"} == {"600"}, found
    assert {mode for mode, kind in found.values() if kind == "folder"} == {"700"}, found
    expected = {"outlast.db", "outlast.db-wal", "outlast.db-shm", "outlast.db-workers", "outlast.db-jobs"}
    expected |= {"outlast.db-spool", "home/.outlast/spool/x", "raw/shop/order/7/0123456789abcdef", "staging.db"}
    assert expected | {f"{temporary}/outlast.db"} <= found.keys()


def test_what_exists_is_left_alone(tmp_path):
    file, folder = tmp_path / "shared.db", tmp_path / "shared.db-workers"
    for path in (tmp_path / "staging.db", file):
        path.touch()
        path.chmod(0o660)
    folder.mkdir()
    folder.chmod(0o770)
    app = outlast.App(f"sqlite:///{file}")
    app.create_schema()
    app.worker()._register()
    SqliteStaging(tmp_path / "staging.db").create()
    assert [mode_of(tmp_path / f"shared.db{end}") for end in ("", "-wal", "-shm")] == [0o660] * 3
    assert (mode_of(folder), mode_of(tmp_path / "staging.db")) == (0o770, 0o660)
    app.close()


def test_a_link_to_a_file_that_does_not_exist_creates_it_for_this_user_alone(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    old = os.umask(0)
    try:
        app = outlast.App(f"sqlite:///{tmp_path / 'link.db'}")
        app.create_schema()
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "real.db") == 0o600
    app.close()


def test_many_threads_create_one_file(tmp_path):
    """Closing a file ends the locks that SQLite has on it, so nobody may open a new one before it is closed."""
    for number in range(20):
        stores = [SqliteStore(tmp_path / f"{number}.db") for _ in range(8)]
        begin, failed = threading.Barrier(8), []

        def work(store, begin=begin, failed=failed):
            begin.wait()
            try:
                store.check_schema()
                store.check_dead_letters()
            except Exception as error:  # shown by the test
                failed.append(error)

        threads = [threading.Thread(target=work, args=(store,)) for store in stores]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failed == []
        for store in stores:
            store.close()


# Files that cannot be used


def junk(folder):
    (folder / "x.db").write_bytes(b"once upon a time, there was no database" * 100)


def damaged(folder):
    whole = folder / "x.db"
    app = outlast.App(f"sqlite:///{whole}")
    app.create_schema()
    app.close()
    whole.write_bytes(whole.read_bytes()[:100] + b"\xff" * 50_000)


def a_folder(folder):
    (folder / "x.db").mkdir()


UNUSABLE = {
    "junk": (junk, "is not a SQLite database", "check the path, or move the file away"),
    "damaged": (damaged, "is damaged", "restore a backup"),
    "folder": (a_folder, "is a folder", "give the path of a file"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_file_that_cannot_be_used_is_named_with_what_to_do(tmp_path, what):
    make, wrong, todo = UNUSABLE[what]
    make(tmp_path)
    file = tmp_path / "x.db"
    app = outlast.App(f"sqlite:///{file}")

    @app.task
    def pay(): ...

    for use in (app.create_schema, app.tasks.counts, pay.enqueue, app.store.check_dead_letters):
        with pytest.raises(ConfigError) as caught:
            use()
        assert str(caught.value) == f"{file} {wrong}; {todo}"
    said = CliRunner().invoke(cli, ["status", "--url", f"sqlite:///{file}"])
    assert (said.exit_code, said.stderr) == (2, f"Error: {file} {wrong}\n  {todo}\n")
    assert doctor(file) == ["store", False, f"ConfigError: {file} {wrong}", f"{todo[0].upper()}{todo[1:]}."]
    moved = CliRunner().invoke(cli, ["move", f"sqlite:///{file}", "postgresql://nowhere.invalid/x"])
    assert str(file) in moved.stderr
    assert "Traceback" not in moved.stderr


def test_a_missing_folder_is_named(tmp_path):
    file = tmp_path / "no" / "x.db"
    with pytest.raises(ConfigError, match=rf"does not exist: {tmp_path}/no; create the folder, or correct the URL"):
        outlast.App(f"sqlite:///{file}").create_schema()
    said = CliRunner().invoke(cli, ["db", "init", "--url", f"sqlite:///{file}"])
    assert said.stderr == (
        f"Error: the folder of the database does not exist: {tmp_path}/no\n  create the folder, or correct the URL\n"
    )
    assert said.exit_code == 2


def doctor(file):
    said = CliRunner().invoke(cli, ["doctor", "--json", "--url", f"sqlite:///{file}"])
    assert said.exit_code == 1
    last = json.loads(said.stdout)["findings"][-1]
    return [last["check"], last["ok"], last["text"], last["todo"]]


def without_rights(work):
    """Do something in a child that is not root."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
        except BaseException:  # the child must not run the other tests
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture(name="place")
def make_place():
    """A folder that others can reach, with a database in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        app = outlast.App(f"sqlite:///{folder / 'x.db'}")
        app.create_schema()
        doctor_once = CliRunner().invoke(cli, ["doctor", "--json", "--url", f"sqlite:///{folder / 'x.db'}"])
        assert doctor_once.exit_code == 0, "so that all is imported that the child cannot read"
        app.close()
        yield folder


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o777, 0o444), (0o777, 0o000), (0o555, 0o444), (0o555, 0o666), (0o555, None)]
)
def test_a_file_without_permission_is_named_with_what_to_do(place, folder_mode, file_mode):
    file = place / "x.db"
    if file_mode is None:
        file.unlink()
    else:
        file.chmod(file_mode)
    place.chmod(folder_mode)

    def work():
        app = outlast.App(f"sqlite:///{file}")
        told = f"{file} cannot be written by this user; give it write permission for the file and its folder"
        for use in (app.store.check_dead_letters, lambda: app.store.end_cooldown("x"), app.store.check_dead_letters):
            with pytest.raises(ConfigError) as caught:
                use()
            assert str(caught.value) == told
        if file_mode is not None:
            wrong, todo = told.split("; ")
            assert doctor(file) == ["store", False, f"ConfigError: {wrong}", f"G{todo[1:]}."]
        said = CliRunner().invoke(cli, ["db", "init", "--url", f"sqlite:///{file}"])
        if file_mode != 0o444 or folder_mode != 0o777:  # whose tables are there, and can be read
            assert said.stderr == "Error: {}\n  {}\n".format(*told.split("; "))

    without_rights(work)
    place.chmod(0o777)


def test_a_file_that_can_only_be_read_is_shown(place):
    (place / "x.db").chmod(0o444)

    def work():
        assert outlast.App(f"sqlite:///{place / 'x.db'}").tasks.counts()["QUEUED"] == 0

    without_rights(work)


def test_a_raw_document_is_for_this_user_alone_also_in_a_folder_of_others(tmp_path):
    tmp_path.chmod(0o775)
    FileRawStore(tmp_path).put("a/0123456789abcdef", b"x")
    assert (mode_of(tmp_path), mode_of(tmp_path / "a")) == (0o775, 0o700)
    assert mode_of(tmp_path / "a" / "0123456789abcdef") == 0o600
