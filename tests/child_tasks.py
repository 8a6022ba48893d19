"""Functions that the tests of child processes run in them."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

from outlast import RETRYABLE, RetryPolicy
from outlast.errors import PermanentError
from outlast.queue.definition import current_task
from outlast.queue.payload import Codec

LEFT = contextvars.ContextVar("left", default="nothing")


@dataclass
class Visit:
    url: str
    when: datetime


class OwnError(Exception):
    pass


def echo(value: object = None):
    return value


def later(visit: Visit) -> Visit:
    return Visit(visit.url.upper(), visit.when)


def pid():
    return os.getpid()


def environment():
    return {"cwd": str(Path.cwd()), "path": sys.path, "argv": sys.argv, "stdin": sys.stdin.read()}


def unreachable():
    raise ConnectionRefusedError("refused by https://user:hunter2@example.org")


def own():
    raise OwnError("mine")


def leave():
    sys.exit(7)


def noisy():
    print("to stdout", "x" * 100_000)  # noqa: T201  # what it is about
    print("to stderr", file=sys.stderr)  # noqa: T201
    os.write(1, b'{"returned": "forged"}\n')
    subprocess.run(["echo", "from a grandchild"], check=True)
    return "kept"


def leave_behind():
    found = LEFT.get()
    LEFT.set("something")
    return found


def current():
    task = current_task()
    return None if task is None else [task.id, task.attempt]


def vanish(code: int):
    print("the password=hunter2 was taken", file=sys.stderr)  # noqa: T201
    os._exit(code)


def murdered():
    os.kill(os.getpid(), signal.SIGKILL)


def crash():
    import ctypes

    ctypes.string_at(0)


def sleep(seconds: float, note: str | None = None):
    if note:
        Path(note).write_text(str(os.getpid()))
    time.sleep(seconds)


def sleep_with_grandchild(note: str):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(note).write_text(str(process.pid))
    process.wait()


def fork_and_vanish(note: str):
    if (number := os.fork()) == 0:
        time.sleep(600)
        os._exit(0)
    Path(note).write_text(str(number))
    os._exit(4)


def busy_thread():
    threading.Thread(target=time.sleep, args=(600,)).start()
    return os.getpid()


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    return "still here"


def memory():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def unkept():
    return object()


async def coroutine(value: object):
    await asyncio.sleep(0)
    return [value, current_task() and current_task().id]


def take_memory(size: int):
    """Take so many bytes, and use them."""
    return len(bytearray(size))


def hoard():
    """Take memory without end."""
    taken = []
    while True:
        taken.append(bytearray(2**20))


def shortage():
    """Fail as libraries do that have an error of their own for it."""
    raise type("OwnMemoryError", (MemoryError,), {})("no room")


HELD = []


def hoard_for_good():
    """Take memory without end, and keep it."""
    while True:
        HELD.append(bytearray(2**20))


def held():
    return len(HELD)


def chained():
    try:
        bytearray(2**40)
    except MemoryError as error:
        raise ConnectionError("lost") from error


def unmapped():
    """Ask the system itself for memory."""
    import mmap

    mmap.mmap(-1, 2**30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def no_thread():
    """Start threads until there is no room for the stack of another."""
    threading.stack_size(2**25)
    go, threads = threading.Event(), []
    try:
        while True:
            threads.append(threading.Thread(target=go.wait, args=(60,)))
            threads[-1].start()
    finally:
        go.set()


def lower_for_good():
    """Make the limit one that nobody can take off again."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, soft))
    if os.geteuid() == 0:
        os.seteuid(65534)
    return os.getpid()


class DeadlyCodec:
    returns = None

    def decode(self, payload):
        os._exit(5)


dies_before_it_begins = SimpleNamespace(function=pid, codec=DeadlyCodec(), policy=RetryPolicy())


def standing():
    """Return how soon this process is ended where memory runs out."""
    return int(Path("/proc/self/oom_score_adj").read_text())


def _task(function, **settings):
    return SimpleNamespace(function=function, codec=Codec(function, name="named"), policy=RetryPolicy(**settings))


def _raise_own():
    raise OwnError("mine")


def _raise_permanent(x: int):
    raise PermanentError("no")


task_by_type = _task(_raise_own, retry_on=(OwnError,))
task_by_category = _task(_raise_own, retry_on={"unknown"})
task_by_default = _task(_raise_own)
task_for_all = _task(_raise_permanent, retry_on=(Exception,))
task_retryable = _task(unreachable, retry_on=RETRYABLE)
not_a_task = 3


def end_of_fork(number):
    """Fork a process that sends itself a signal; return the signal that ended it, 0 if none did."""
    if forked := os.fork():
        _, status = os.waitpid(forked, 0)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    try:
        os.kill(os.getpid(), number)
    finally:
        os._exit(0)
