"""A program that is ended with SIGKILL at a place, and what a test learns of it."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outlast
from outlast.errors import ConfigError, ConfigurationError
from outlast.run.crashes import crash_from_json
from outlast.testing import NotReachedError, crash_at, drain, fake_clock, fresh_database, on_store

PROGRAM = """
import os, pathlib, subprocess, sys, time
import outlast
from outlast import clock

here = pathlib.Path(__file__).parent
app = outlast.App(os.environ.get("PROGRAM_STORE", "memory://"))

def note(text):
    with open(here / "notes", "a") as file:
        file.write(f"{text}\\n")

def upload(n):
    note(f"upload {n}")

@outlast.retry
def mark(n):
    note(f"mark {n}")

def collect(times=1, text=""):
    print(f"collecting {text}", flush=True)
    for n in range(times):
        upload(n)
        outlast.point("after-upload")
        mark(n)
    outlast.point("at the end")

async def collect_async(times):
    collect(times)

def tell_time():
    clock.sleep(1000)
    note(clock.now())
    outlast.point("told")

def hang():
    outlast.point("before")
    time.sleep(60)

def broken():
    raise ValueError("no good")

def parent():
    subprocess.run([sys.executable, "-c", "import program; program.collect()"], cwd=here)
    note("parent goes on")

def with_helper(place):
    command = [sys.executable, "-c", "import program; program.hold()"]
    helper = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE)
    helper.stdout.readline()
    outlast.point(place)
    helper.stdout.close()

def hold():
    import fcntl
    with open(here / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print("locked", flush=True)
        time.sleep(45)

class Tools:
    @staticmethod
    def collect():
        collect(1)

@app.task
def scrape(n: int) -> None:
    note(f"scrape {n}")
    outlast.point("scraped")

@app.task
def kill(n: int) -> None:
    note("kill")
    outlast.point("killing")
    if (here / "notes").read_text().count("kill") == 2 and "pytest" not in sys.modules:
        os.kill(os.getpid(), 9)

def work():
    app.worker(concurrency=1).drain()

if __name__ == "__main__":
    collect(3)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "program", raising=False)
    import program

    yield program
    sys.modules.pop("program", None)


@pytest.fixture
def notes(tmp_path):
    return lambda: (tmp_path / "notes").read_text().splitlines() if (tmp_path / "notes").exists() else []


def test_it_ends_at_a_point_and_nothing_after_it_runs(program, notes):
    crashed = crash_at("after-upload", program.collect)

    assert notes() == ["upload 0"]
    assert crashed.place == "after-upload"
    assert crashed.code == -signal.SIGKILL
    assert crashed.output == "collecting \n"


def test_so_many_passes_are_let_through(program, notes):
    crash_at("after-upload", program.collect, 5, "Ünïcode 🦊", after=2)
    assert notes()[-1] == "upload 2"


def test_at_a_function_it_ends_when_that_is_called_beneath_its_decorators(program, notes):
    crash_at("program.mark", program.collect, 3, after=1)
    assert notes() == ["upload 0", "mark 0", "upload 1"]


def test_coroutine_functions_and_methods(program, notes):
    crash_at("after-upload", program.collect_async, 2)
    crash_at("after-upload", program.Tools.collect)
    assert notes() == ["upload 0", "upload 0"]


def test_the_function_itself_may_be_the_place(program, notes):
    crash_at("program.collect", program.collect)
    assert notes() == []


def test_a_command_ends_at_a_point(program, notes, tmp_path):
    crashed = crash_at("after-upload", [sys.executable, tmp_path / "program.py"], after=1)
    assert notes() == ["upload 0", "mark 0", "upload 1"]
    assert crashed.code == -signal.SIGKILL


def test_a_process_that_the_program_has_started_ends_and_the_program_goes_on(program, notes):
    crashed = crash_at("after-upload", program.parent)
    assert notes() == ["upload 0", "parent goes on"]
    assert crashed.code == 0


def is_free(file):
    """Tell whether nobody alive has a lock."""
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("place", ["helped", "elsewhere"])
def test_what_it_has_started_ends_with_it(program, tmp_path, place):
    """Whether it is killed or ends by itself."""
    told = (
        contextlib.nullcontext()
        if place == "helped"
        else pytest.raises(NotReachedError, match="ended with exit code 0")
    )
    with told:
        crash_at("helped", program.with_helper, place)
    until = time.monotonic() + 30
    while not is_free(tmp_path / "lock"):
        assert time.monotonic() < until, "it is still there"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "text",
    ["", "1", "no JSON", "[]", "{}", '{"place": "a", "after": "0", "folder": "."}', '{"place": "a", "after": 0}'],
)
def test_a_variable_that_is_none_of_ours_does_nothing(text):
    assert crash_from_json(text) is None


def test_a_program_with_such_a_variable_runs(program, tmp_path, notes):
    gone = json.dumps({"place": "after-upload", "after": 0, "folder": str(tmp_path / "gone")})
    for text in ("[1]", gone):
        command = [sys.executable, tmp_path / "program.py"]
        subprocess.run(command, env=os.environ | {"OUTLAST_CRASH": text}, check=True, timeout=60)
    assert notes().count("mark 2") == 2


def test_a_process_that_outlives_the_test_goes_on(tmp_path):
    crash = crash_from_json(json.dumps({"place": "here", "after": 5, "folder": str(tmp_path / "folder")}))
    assert crash is None, "there is no such folder yet"
    (tmp_path / "folder").mkdir()
    crash = crash_from_json(json.dumps({"place": "here", "after": 1, "folder": str(tmp_path / "folder")}))
    crash("here")
    assert (tmp_path / "folder" / "here").read_text() == "."
    shutil.rmtree(tmp_path / "folder")
    for _ in range(3):
        crash("here")
    assert not (tmp_path / "folder").exists()


def test_a_function_of_the_test_file_itself(tmp_path):
    crash_at("here", of_this_file, str(tmp_path / "seen"))
    assert (tmp_path / "seen").read_text() == "seen"


def of_this_file(path):
    Path(path).write_text("seen")
    outlast.point("here")


def test_it_goes_by_the_tests_fake_clock(program, notes):
    with fake_clock(start=5e9):
        crash_at("told", program.tell_time)
    assert notes() == ["5000001000.0"]


def test_a_point_that_is_never_reached_fails_the_test_and_says_why(program):
    with pytest.raises(NotReachedError) as caught:
        crash_at("after-uplaod", program.collect, 2, "things")
    assert str(caught.value) == (
        "the program ended with exit code 0 before 'after-uplaod', so it did not crash there; "
        "passed points: 'after-upload' (2 times), 'at the end'. It printed:\ncollecting things\n"
    )


def test_a_program_that_fails_before_the_point_shows_its_traceback(program):
    with pytest.raises(
        NotReachedError, match=r"(?s)ended with exit code 1 before 'x'.*no point was passed.*ValueError: no good"
    ):
        crash_at("x", program.broken)


def test_a_function_that_is_never_called_fails_the_test(program):
    with pytest.raises(NotReachedError, match=r"ended with exit code 0 before 'program\.broken'"):
        crash_at("program.broken", program.collect)


def test_a_program_that_hangs_is_ended(program):
    with pytest.raises(NotReachedError, match=r"did not reach 'after' within 1 s"):
        crash_at("after", program.hang, timeout=1)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (("after", lambda: None), "is defined inside a function"),
        (("after", of_this_file, {1, 2}), "cannot be sent to another process as JSON"),
        (("shop.fetch", ["python", "-m", "shop"]), "a command can crash only at a point, not at shop.fetch"),
        (("after", ["python", "-m", "shop"], 5), "add them to the command itself"),
        (("after", ["no-such-program-anywhere"]), "no-such-program-anywhere cannot be started"),
    ],
)
def test_what_cannot_be_run_is_explained(how, told):
    with pytest.raises((ConfigError, ConfigurationError), match=told):
        crash_at(*how)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_another_worker_takes_over_at_once(program, notes, request, tmp_path, store):
    """On PostgreSQL too, where a lease would have to run out."""
    if store == "postgres":
        place = request.getfixturevalue("postgres_server").url
        with fresh_database(place) as url:
            take_over(program, notes, url)
    else:
        take_over(program, notes, f"sqlite:///{tmp_path}/x.db")


def take_over(program, notes, url):
    with on_store(program.app, url) as app:
        for n in range(3):
            program.scrape.enqueue(n=n)
        crash_at("scraped", program.work, after=1, env={"PROGRAM_STORE": url})
        assert notes() == ["scrape 0", "scrape 1"]
        assert app.tasks.counts()["RUNNING"] >= 1

        drained = drain(app)

        assert drained.dead == 0
        assert 1 <= drained.rescued <= 2, "the first was done, and may not have been settled"
        assert app.tasks.counts()["DONE"] == 3
        assert set(notes()) == {"scrape 0", "scrape 1", "scrape 2"}
        assert notes().count("scrape 1") == 2


def test_a_task_that_takes_its_own_process_down_again_is_counted(program, notes, tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    with on_store(program.app, url) as app:
        program.kill.enqueue(n=1)
        crash_at("killing", program.work, env={"PROGRAM_STORE": url})

        drained = drain(app, processes=True)

    assert (drained.done, drained.rescued, drained.crashed, drained.dead) == (1, 1, 1, 0)
    assert "done=1, rescued=1, crashed=1" in repr(drained)
    assert notes() == ["kill"] * 3
