"""``memory://``: a SQLite file in a temporary folder that is gone with its store."""

import gc
import os
import stat
import subprocess
import sys
import tempfile

import pytest

import outlast
from conformance.acting import claim, die, register, task
from outlast.errors import ConfigError
from outlast.ports.rows import NewTask, Rescued
from outlast.stores.sqlite.memory import MemoryStore
from outlast.stores.sqlite.store import SqliteStore

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The temporary folder of this process, with nothing in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run(program, folder, *args):
    """Run a program whose temporary folder is the given one."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def enqueued(app, name="noop"):
    return app.store.enqueue([NewTask(name, "{}")])[0].id


def test_500_apps_leave_nothing_behind(folder):
    def use():
        app = outlast.App("memory://")

        @app.task
        def noop() -> None: ...

        noop.enqueue()
        assert app.tasks.counts()["QUEUED"] == 1

    for _ in range(500):
        use()
    gc.collect()
    assert list(folder.iterdir()) == []


def test_an_app_at_the_end_of_a_process_leaves_nothing_behind(tmp_path):
    program = """
import outlast
apps = [outlast.App("memory://") for _ in range(3)]
apps[0].create_schema()
apps[1].create_schema()
apps[1].close()
"""
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no such rights on this system")
def test_only_its_user_can_read_it(folder):
    app = outlast.App("memory://")
    app.create_schema()
    (made,) = folder.iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


_FORKS = """
import os, sys
import outlast
from outlast.ports.rows import NewTask

app = outlast.App("memory://")
app.store.enqueue([NewTask("noop", "{}")])
child = os.fork()
if child == 0:
    if sys.argv[1] == "use":
        app.store.enqueue([NewTask("noop", "{}")])
        own = outlast.App("memory://")
        own.create_schema()
    if sys.argv[1] == "delete":
        del app
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert len(os.listdir(os.environ["TMPDIR"])) == 1, "what the child made is gone, and nothing else"
assert app.tasks.counts()["QUEUED"] == (2 if sys.argv[1] == "use" else 1)
"""


@needs_fork
@pytest.mark.parametrize("what", ["nothing", "use", "delete"])
def test_a_forked_child_that_exits_leaves_the_folder_of_its_parent(tmp_path, what):
    done = run(_FORKS, tmp_path, what)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_used_again_after_close():
    app = outlast.App("memory://")
    number = enqueued(app)
    app.close()
    app.close()
    assert app.store.get(number).status == "QUEUED"
    assert enqueued(app) != number


def test_two_apps_see_nothing_of_each_other():
    one, other = outlast.App("memory://"), outlast.App("memory://")
    enqueued(one)
    assert (one.tasks.counts()["QUEUED"], other.tasks.counts()["QUEUED"]) == (1, 0)
    assert one.settings.spool != other.settings.spool


@pytest.mark.skipif(sys.platform == "win32", reason="TMPDIR means nothing there")
def test_without_a_writable_folder_tmpdir_is_named(folder):
    folder.rmdir()
    with pytest.raises(ConfigError, match="TMPDIR"):
        outlast.App("memory://")


def test_its_tables_are_those_of_any_file(tmp_path):
    def tables(store):
        return store.db.read(lambda connection: connection.execute("SELECT sql FROM sqlite_master").fetchall())

    assert tables(MemoryStore()) == tables(SqliteStore(tmp_path / "outlast.db"))


def test_users_cannot_choose_to_lose_data(tmp_path):
    with pytest.raises(ConfigError, match="FULL or NORMAL"):
        SqliteStore(tmp_path / "outlast.db", synchronous="OFF")


def test_a_suspect_runs_in_the_worker():
    """Another process would find another store."""
    app, ran = outlast.App("memory://"), []
    app.task(name="innocent")(lambda: ran.append(os.getpid()))
    (added,) = app.store.enqueue([task("innocent", "{}")])
    register(app.store, "doomed")
    assert [each.id for each in claim(app.store, "doomed", 1)] == [added.id]
    die(app.store, "doomed")
    assert app.store.rescue(9) == [Rescued(added.id, "doomed", "suspect")]
    app.worker().drain()
    assert ran == [os.getpid()]


@needs_fork
def test_a_store_that_is_collected_in_the_midst_of_a_fork_does_not_block_it(tmp_path):
    program = """
import gc, os
os.register_at_fork(before=gc.collect)  # of these the last registered runs first, so the files are locked by then

import outlast

gc.disable()
app = outlast.App("memory://")
app.create_schema()
app.itself = app  # only the garbage collector finds it
del app
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(os.listdir(os.environ["TMPDIR"]))
"""
    done = run(program, tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@needs_fork
def test_parent_and_child_may_use_it_first_at_the_same_time(tmp_path):
    program = """
import os
import outlast
from outlast.ports.rows import NewTask

for _ in range(40):
    app = outlast.App("memory://")
    child = os.fork()
    app.store.enqueue([NewTask("noop", "{}")])
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert app.tasks.counts()["QUEUED"] == 2
"""
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
