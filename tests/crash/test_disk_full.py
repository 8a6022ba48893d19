"""The disk is full while a failure is to be recorded. Pitfall 50."""

import os
import subprocess

import pytest

from crash.processes import until
from crash.scene import Scene
from outlast.ports.rows import Reason, Status

SIZE = 4 * 1024 * 1024  # bytes of the small disk


class LimitedFile:
    """A limit of SQLite itself: the file may grow no more while another one is there."""

    def __init__(self, folder):
        self.folder = folder
        self.flag = folder / "full"

    def fill(self):
        self.flag.touch()

    def clear(self):
        self.flag.unlink()

    def end(self):
        pass


class SmallDisk:
    """A file system of a few megabytes, filled with a ballast."""

    def __init__(self, folder):
        self.folder = folder / "disk"
        self.folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
        self.flag = self.folder / "never"

    def fill(self):
        file = os.open(self.folder / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (65536, 4096, 1):
                while os.write(file, b"x" * size) == size:
                    pass
        except OSError:
            return
        finally:
            os.close(file)

    def clear(self):
        (self.folder / "ballast").unlink()

    def end(self):
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


@pytest.fixture(params=[LimitedFile, SmallDisk])
def disk(request, tmp_path):
    disk = request.param(tmp_path)
    yield disk
    disk.end()


@pytest.fixture
def full_scene(disk, tmp_path, monkeypatch):
    monkeypatch.setenv("CRASH_FULL", str(disk.flag))
    scene = Scene("sqlite", tmp_path, f"sqlite:///{disk.folder}/outlast.db")
    yield scene
    scene.end()


def test_nothing_is_lost_and_it_goes_on_by_itself(full_scene, disk):
    scene = full_scene
    gate = scene.folder / "gate"
    (healthy,) = scene.add("gated", gate=str(gate))
    (failing,) = scene.add("bulky", gate=str(gate))
    later = scene.add("note", 20)
    worker = scene.start(lease=6.0, heartbeat=1.0, worker={"concurrency": 2})
    until(lambda: scene.ran(healthy) and scene.ran(failing), 20, worker.said)
    disk.fill()
    gate.touch()
    until(lambda: "is full" in worker.said(), 15, worker.said)
    waiting = [number for number in later if scene.task(number).status is Status.QUEUED]
    until(lambda: worker.said().count("is full") >= 3, 20, worker.said)
    assert not any(scene.ran(number) for number in waiting), "it takes on nothing new"
    assert worker.alive
    assert scene.task(failing).status is Status.RUNNING
    disk.clear()
    scene.settle(40)
    worker.stop()
    tasks = scene.check_books()
    assert tasks[healthy].status is Status.DONE
    assert [each.reason for each in scene.app.dead_letters.list()] == [Reason.PERMANENT]
    assert all(tasks[number].status is Status.DONE for number in later)
    assert scene.history(failing)[-1] == "fail"
    if "lost its lease" not in worker.said():
        assert set(scene.runs().values()) == {1}, "the outcomes were kept while nothing could be written"


def test_killed_while_the_disk_is_full(full_scene, disk):
    """Then the outcomes are gone, and the tasks run again."""
    scene = full_scene
    gate = scene.folder / "gate"
    numbers = scene.add("bulky", 2, gate=str(gate))
    worker = scene.start(worker={"concurrency": 2})
    until(lambda: all(scene.ran(number) for number in numbers), 20, worker.said)
    disk.fill()
    gate.touch()
    until(lambda: "is full" in worker.said(), 15, worker.said)
    worker.kill()
    disk.clear()
    worker = scene.start()
    scene.settle()
    worker.stop()
    for number, task in scene.check_books().items():
        assert task.status is Status.FAILED
        assert scene.history(number) == ["lost", "fail"]
