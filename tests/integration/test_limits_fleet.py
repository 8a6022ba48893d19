"""Limits across processes: together they start no more than allowed, and who is killed gives its slots back."""

import json
import os
import time
from collections import Counter
from itertools import count

import pytest

import forked
from conformance.places import need_postgres
from crash.processes import until
from integration import limited_program
from integration.limited_program import build

_numbers = count(1)
LATE = 1.0  # seconds that may pass on a busy machine between being let through and the first line of a task


class Shop:
    """A database, workers on it, and what their tasks wrote down."""

    def __init__(self, url, folder, **settings):
        self.url, self.folder, self.settings = url, folder, settings
        self.path = folder / "lines"
        self.path.touch()
        self.app = build(url, self.path, {})
        self.app.create_schema()
        self.children = []

    def hire(self, count):
        for _ in range(count):
            command = [limited_program.__file__, self.url, str(self.path), json.dumps(self.settings)]
            with (self.folder / f"worker{len(self.children)}.log").open("wb") as log:
                self.children.append(forked.start(command, os.environ, log))

    def lines(self):
        """Return all lines: word, task, process, time."""
        return [
            (word, int(n), int(pid), float(at))
            for word, n, pid, at in (line.split() for line in self.path.read_text().splitlines())
        ]

    def times(self, word):
        return sorted(at for found, _, _, at in self.lines() if found == word)

    def counts(self):
        return self.app.store.counts()

    def said(self):
        return "\n".join(each.read_text()[-1500:] for each in self.folder.glob("worker*.log"))

    def finish(self, count, seconds=60.0):
        def what():
            return f"{count} done; {self.counts()}, {self.app.store.limits()}\n{self.said()}"

        until(lambda: self.counts()["DONE"] == count, seconds, what)

    def end(self):
        for child in self.children:
            child.kill()
        for child in self.children:
            child.wait(20)
        self.app.close()


on_both = pytest.mark.parametrize("shop", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def shop(request, tmp_path):
    """Return a function that opens one, with the settings of its limit."""
    opened = []
    url = f"sqlite:///{tmp_path}/outlast.db"
    if getattr(request, "param", "postgres") == "postgres":
        need_postgres()
        server, name = request.getfixturevalue("postgres_server"), f"limits{next(_numbers)}"
        server.execute(f"CREATE DATABASE {name}")
        url = f"{server.url.rpartition('/')[0]}/{name}"

    def opens(**settings):
        opened.append(Shop(url, tmp_path, **settings))
        return opened[0]

    yield opens
    for each in opened:
        each.end()


def worst(times, rate, burst):
    """Return by how much the worst window sees more starts than it may, with what a busy machine adds."""
    return max(
        last - first + 1 - burst - rate * (times[last] - times[first] + LATE)
        for first in range(len(times))
        for last in range(first, len(times))
    )


def most_at_once(lines, killed):
    """Return the largest number of tasks that ran together; one whose end nobody wrote, until its process was killed."""
    ends = {(n, pid): at for word, n, pid, at in lines if word == "end"}
    steps = [
        step for word, n, pid, at in lines if word == "begin" for step in ((at, 1), (ends.get((n, pid), killed), -1))
    ]
    running = most = 0
    for _, change in sorted(steps):
        running += change
        most = max(most, running)
    return most


@on_both
def test_a_rate_is_kept_by_all_workers_together(shop):
    """Without a limit they would be done within a second; with one each, in a third of the time."""
    here = shop(rate="40/s", burst=5)
    here.app.tasks_by_name["call"].enqueue_many([{"n": n} for n in range(80)])
    here.hire(3)
    here.finish(80)
    times = here.times("begin")
    assert len(times) == 80, "nothing ran twice"
    assert worst(times, 40, 5) <= 0
    assert times[-1] - times[0] >= (80 - 5) / 40 - LATE
    tasks = here.app.tasks.list(limit=200)
    assert all(each.attempt == 1 and each.retry_count == 0 for each in tasks), "to be refused costs nothing"
    assert here.app.store.counter_check()[1] == here.counts()


def test_so_many_run_at_once_also_when_a_worker_is_killed(shop, tmp_path):
    here, gate = shop(concurrency=3), tmp_path / "gate"
    here.app.tasks_by_name["held"].enqueue_many([{"n": n, "gate": str(gate)} for n in range(100, 103)], priority=0)
    here.app.tasks_by_name["call"].enqueue_many([{"n": n, "seconds": 0.03} for n in range(30)])
    here.hire(1)
    until(lambda: len(here.times("begin")) == 3, 30, lambda: f"the slots are taken\n{here.said()}")
    here.hire(2)
    until(lambda: len(here.app.store.workers()) == 3, 30, here.said)
    asked = here.app.store.limits()[0].asked_at
    until(lambda: here.app.store.limits()[0].asked_at > asked, 30, lambda: f"somebody asks\n{here.said()}")
    assert [row.running for row in here.app.store.limits()] == [3]
    assert {n for _, n, _, _ in here.lines()} == {100, 101, 102}, "nobody else gets a slot while they run"
    killed = time.monotonic()
    here.children[0].kill()
    here.children[0].wait(20)
    gate.touch()
    here.finish(33)
    assert most_at_once(here.lines(), killed) == 3
    assert Counter(n for word, n, _, _ in here.lines() if word == "end") == dict.fromkeys(
        [*range(30), *range(100, 103)], 1
    )
    assert [row.running for row in here.app.store.limits()] == [0]


def test_retries_keep_to_the_budget_of_all_workers_together(shop):
    """With a budget each they would be done in half of the time, and that is more than a busy machine explains."""
    here = shop(retries="60/s", retry_burst=5)
    here.app.tasks_by_name["stubborn"].enqueue_many([{"n": n} for n in range(160)])
    here.hire(2)
    here.finish(160)
    assert len(here.times("begin")) == 320
    times = here.times("again")
    assert worst(times, 60, 5) <= 0
    assert times[-1] - times[0] >= (160 - 5) / 60 - LATE
    assert here.app.store.counter_check()[1] == here.counts()
