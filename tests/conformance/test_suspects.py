"""Suspects apart: what takes a process down takes down a child, and is counted as a crash. Pitfall 40."""

import errno
import importlib
import logging
import os
import re
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

import outlast
from conformance import suspect_tasks
from conformance.acting import bury, claim, die, live_counts, register, task
from conformance.test_worker_life import NOW, wait_for, working
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Rescued, Status
from outlast.ports.triage import NewReplay
from outlast.queue import child_process, settlement
from outlast.report.doctor import ledger_findings

ALL = DeadLetterFilter()
MEGABYTE = 2**20


class Village:
    """An app whose tasks stand where another process finds them, and a place where they note who ran them."""

    def __init__(self, store, folder, **settings):
        given = {"lease": 2, "heartbeat": 0.2, "grace": 5, "suspect_memory": 150 * MEGABYTE} | settings
        self.store, self.notes = store, folder / "notes"
        self.app = outlast.App(store, policy=NOW, spool=folder / "spool", **given)

    def suspect(self, function, **arguments):
        """Enqueue a task and have a worker die over it; return its number."""
        name = function.__name__
        if name not in self.app.tasks_by_name:
            settings = {"keep_result": 60} if name.startswith("innocent") else {}
            self.app.task(**settings)(function)
        number = self.app.tasks_by_name[name].enqueue(notes=str(self.notes), **arguments).id
        register(self.store, "doomed")
        (claimed,) = claim(self.store, "doomed", 1)
        assert claimed.id == number
        die(self.store, "doomed")
        assert self.store.rescue(9) == [Rescued(number, "doomed", "suspect")]
        return number

    def ran(self, number):
        """Return the processes in which a task ran."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [int(pid) for each, pid in map(str.split, lines) if int(each) == number]

    def history(self, number):
        return [each.outcome for each in self.store.attempts(number)]

    def check_books(self):
        assert all(finding.ok for finding in ledger_findings(*self.store.counter_check()))


@pytest.fixture
def make(store, tmp_path, monkeypatch):
    monkeypatch.setattr(settlement, "_CRASH_WAITS", (0.0,))  # a drain waits for nothing
    return lambda **settings: Village(store, tmp_path, **settings)


def test_what_takes_its_process_down_takes_down_no_more(database, make):
    """The worker is this very process: it would be gone."""
    village = make(crash_limit=2)
    texts = {
        "leave": "its process exited with code 3",
        "fault": "its process was killed by SIGSEGV (a fault in C code): Fatal Python error",
        "murder": "its process was killed by SIGKILL (killed by a person, or by the system because memory ran out)",
        "hoard": "out of memory: it used 1",
        "cut_off": r"out of memory: it used [0-4] of the 150 MiB that suspect_memory allows",
        "leave_async": "its process exited with code 4",
    }
    guilty = {name: village.suspect(getattr(suspect_tasks, name)) for name in texts}
    innocent = [village.suspect(each) for each in (suspect_tasks.innocent, suspect_tasks.innocent_async)]

    village.app.worker(concurrency=2).drain()

    for name, number in guilty.items():
        found = village.store.get(number)
        assert (found.status, found.crash_count, found.retry_count) == (Status.FAILED, 2, 0), name
        assert village.history(number) == ["lost"] * 3, "once among others, twice alone"
        ran = village.ran(number)
        assert len(ran) == 2
        assert os.getpid() not in ran
        (letter,) = [each for each in village.store.dead_letters(ALL) if each.original_task_id == number]
        assert (letter.reason, letter.crash_count) == (Reason.CRASH, 2)
        assert letter.error_type == {"hoard": "MemoryError", "cut_off": "ConnectionError"}.get(name, "ProcessDied")
        assert re.match(texts[name].replace("(", r"\(").replace(")", r"\)"), letter.error_message)
    for number in innocent:
        found = village.store.get(number)
        assert (found.status, found.crash_count, village.history(number)) == (Status.DONE, 0, ["lost"])
        (ran,) = village.ran(number)
        assert ran != os.getpid()
        assert village.app.tasks_by_name[found.task_type].result(number) == ran, "its result came back"
    village.check_books()
    assert live_counts(village.store) == {"DONE": 2, "FAILED": 6, "dead_letters": 6}


def test_others_go_on_in_the_same_worker(database, make):
    village = make(crash_limit=1)
    number = village.suspect(suspect_tasks.leave)

    @village.app.task
    def note(value: int) -> int:
        return os.getpid()

    with working(village.app, concurrency=2) as worker:
        note.enqueue_many([{"value": n} for n in range(20)])
        wait_for(lambda: live_counts(village.store) == {"DONE": 20, "FAILED": 1, "dead_letters": 1}, 60)
    assert (worker.outcomes[Kind.DONE], worker.outcomes[Kind.CRASH]) == (20, 1)
    assert village.store.get(number).status is Status.FAILED
    village.check_books()


def test_what_no_other_process_finds_runs_here_and_it_is_said_once(database, make, caplog):
    village = make()
    runs = []

    def hidden(notes: str):
        runs.append(os.getpid())

    async def hidden_async(notes: str):
        runs.append(os.getpid())

    numbers = [village.suspect(each) for each in (hidden, hidden_async, hidden)]
    with caplog.at_level(logging.WARNING, "outlast.worker"):
        village.app.worker(concurrency=2).drain()

    assert runs == [os.getpid()] * 3
    assert {village.store.get(number).status for number in numbers} == {Status.DONE}
    said = [each.getMessage() for each in caplog.records if "cannot run in a child process" in each.getMessage()]
    assert len(said) == 2
    assert "is defined inside a function, where another process cannot import it" in said[0]


def test_after_a_crash_it_waits(database, make, monkeypatch):
    """What killed it from outside may be over by then: memory that others took, for instance."""
    village = make()
    monkeypatch.setattr(settlement, "_CRASH_WAITS", (3600.0,))
    number = village.suspect(suspect_tasks.leave)

    village.app.worker(concurrency=2).drain()

    found = village.store.get(number)
    assert (found.status, found.suspect, found.crash_count) == (Status.QUEUED, True, 1)
    assert found.next_run_after - found.updated_at == timedelta(hours=1)
    assert not village.store.suspects_due(["default"])


def test_one_that_raises_stays_a_suspect(database, make):
    """It had not come to its end: what took the worker down may be there."""
    village = make()
    number = village.suspect(suspect_tasks.unreachable)

    village.app.worker(concurrency=2).drain()

    assert village.history(number) == ["lost", "retry", "retry", "fail"]
    assert len(village.ran(number)) == 3
    assert os.getpid() not in village.ran(number)
    (letter,) = village.store.dead_letters(ALL)
    assert (letter.reason, letter.error_type, letter.crash_count) == (Reason.EXHAUSTED, "ConnectionError", 0)
    village.check_books()


def test_one_whose_resource_is_not_there_stays_a_suspect(database, make):
    village, name = make(), f"apart.{os.urandom(4).hex()}"
    guard = outlast.resource(name, breaker=outlast.BreakerSettings(consecutive=1, open_for=60))
    village.app.task(resource=name)(suspect_tasks.innocent)
    number = village.suspect(suspect_tasks.innocent)
    with suppress(ConnectionError), guard:
        raise ConnectionError("down")

    village.app.worker(concurrency=2).drain()

    found = village.store.get(number)
    assert (found.status, found.suspect, found.deferrals) == (Status.QUEUED, True, 1)
    assert village.ran(number) == []


def unstarted(*given, **more):
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.mark.parametrize("way", ["start", "import"])
def test_one_for_which_there_is_no_process_waits_for_one(database, make, monkeypatch, tmp_path, way):
    """It is no reason to run it in the worker: that is what it may take down."""
    village, function = make(), suspect_tasks.leave
    if way == "start":
        monkeypatch.setattr(child_process.subprocess, "Popen", unstarted)
    else:
        (tmp_path / "passing.py").write_text(
            f"import os\nif os.getpid() != {os.getpid()}: os._exit(3)\ndef leave(notes: str): os._exit(3)"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "passing", raising=False)
        function = importlib.import_module("passing").leave
    number = village.suspect(function)
    before = village.store.get(number)

    village.app.worker(concurrency=2).drain()

    found = village.store.get(number)
    assert (found.status, found.suspect, found.crash_count, found.deferrals) == (Status.QUEUED, True, 0, 1)
    assert (found.attempt, found.retry_count, village.history(number)) == (before.attempt, 0, ["lost"])
    assert ("no process could be started" if way == "start" else "exited with code 3") in found.last_error
    assert found.next_run_after > found.updated_at
    village.check_books()


def test_what_misses_something_apart_is_not_given_up_for_that(database, make, monkeypatch):
    """The worker has a client; an error that is not retried is the last word only where the task usually runs."""
    village = make()
    number = village.suspect(suspect_tasks.homesick)
    monkeypatch.setitem(suspect_tasks.HERE, "client", {"/": 1})

    village.app.worker(concurrency=2).drain()

    found = village.store.get(number)
    assert (found.status, found.retry_count, found.suspect) == (Status.DONE, 1, False)
    assert village.history(number) == ["lost", "retry"]
    apart, here = village.ran(number)
    assert apart != here == os.getpid()


def test_what_fails_in_both_places_is_a_dead_letter(database, make):
    village = make()
    number = village.suspect(suspect_tasks.homesick)

    village.app.worker(concurrency=2).drain()

    assert village.history(number) == ["lost", "retry", "fail"]
    (letter,) = village.store.dead_letters(ALL)
    assert (letter.reason, letter.error_type) == (Reason.PERMANENT, "KeyError")
    village.check_books()


def test_time_that_is_up_is_a_failed_attempt(database, make, tmp_path):
    village = make(suspect_timeout=2)
    gate = tmp_path / "gate"
    number = village.suspect(suspect_tasks.gated, gate=str(gate))

    with working(village.app, concurrency=2):
        wait_for(lambda: village.history(number) == ["lost", "retry"], 60)
        gate.touch()
        wait_for(lambda: village.store.get(number).status is Status.DONE, 60)

    found = village.store.get(number)
    assert (found.crash_count, found.retry_count) == (0, 1)
    assert village.store.attempts(number)[1].error_message == "killed after 2 s"
    assert len(village.ran(number)) == 2
    assert village.ran(number)[1] == os.getpid()


def test_a_worker_that_stops_gives_it_back_at_no_cost(database, make, tmp_path):
    village = make(grace=0.1)
    number = village.suspect(suspect_tasks.gated, gate=str(tmp_path / "never"))
    before = village.store.get(number)

    with working(village.app, concurrency=2):
        wait_for(lambda: village.ran(number), 60)

    found = village.store.get(number)
    assert (found.status, found.suspect, found.crash_count) == (Status.QUEUED, True, 0)
    assert (found.attempt, found.retry_count) == (before.attempt, 0)
    assert village.history(number) == ["lost"]
    (pid,) = village.ran(number)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_subscribers_hear_of_it(database, make):
    village = make(crash_limit=2)
    seen = []
    for kind in (outlast.events.TaskStarted, outlast.events.TaskEnded, outlast.events.TaskFailed):
        outlast.subscribe(seen.append, kind)
    village.suspect(suspect_tasks.leave)

    village.app.worker(concurrency=2).drain()

    told = [(type(each).__name__, getattr(each, "outcome", None) or getattr(each, "reason", None)) for each in seen]
    once = [("TaskStarted", None), ("TaskEnded", "crash")]
    assert told == [*once, once[0], ("TaskFailed", "crash"), once[1]]


def test_a_suspect_runs_in_a_process_of_its_own(make):
    village = make()
    number = village.suspect(suspect_tasks.innocent)

    village.app.worker(concurrency=2).drain()

    (pid,) = village.ran(number)
    assert pid != os.getpid()


class TestCanaries:
    """A canary gets one attempt: the first crash that is known to be its own is its last."""

    def queue_canary(self, store):
        bury(store, task("killer"))
        replay = store.add_replay(NewReplay(ALL))
        claimed = store.claim_replay("somebody", 60)
        assert store.replay_step(replay.id, claimed.epoch, 1, stage=0, canary=True).replayed == 1
        return replay

    def crash(self, store, name, *, suspect):
        register(store, name)
        (claimed,) = claim(store, name, 1, suspect=suspect)
        assert claimed.canary
        die(store, name)
        return [each.outcome for each in store.rescue(3)]

    def test_one_that_takes_a_worker_down_alone_ends(self, store):
        replay = self.queue_canary(store)

        assert self.crash(store, "w1", suspect=False) == ["suspect"], "it may have been another's fault"
        assert store.canaries(replay.id).dead is None
        assert self.crash(store, "w2", suspect=True) == ["dead"]

        (letter,) = store.dead_letters(ALL)
        assert (letter.reason, letter.crash_count) == (Reason.CANARY, 1)
        assert store.canaries(replay.id).dead == letter.original_task_id
        assert all(finding.ok for finding in ledger_findings(*store.counter_check()))

    def test_one_that_takes_a_child_down_ends(self, database, store, make):
        village = make()
        village.app.task(suspect_tasks.murder)
        parameters = f'{{"notes":"{village.notes}"}}'
        bury(store, task("murder", parameters))
        replay = store.add_replay(NewReplay(ALL))
        claimed = store.claim_replay("somebody", 60)
        store.replay_step(replay.id, claimed.epoch, 1, stage=0, canary=True)
        self.crash(store, "w1", suspect=False)

        village.app.worker(concurrency=2).drain()

        (letter,) = store.dead_letters(ALL)
        assert (letter.reason, letter.crash_count, letter.error_type) == (Reason.CANARY, 1, "ProcessDied")
        assert len(village.ran(letter.original_task_id)) == 1
