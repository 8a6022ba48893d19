"""Processes of programs of tests, forked from one that has imported what they need.

A new interpreter that imports Outlast and a driver costs a third of a second of a core, and tests start hundreds of them.
A fork is a process like any other: it has its own pid, its own signals and its own end, and runs its script from the
beginning as ``__main__``. As a script this is the process that they are forked from; it has no threads and opens nothing.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PREPARED = (
    "asyncio", "concurrent.futures.thread", "logging.handlers", "http.client", "sqlite3", "psycopg", "psycopg_pool",
    "outlast", "outlast.errors", "outlast.stores.sqlite.store", "outlast.stores.postgres.store",
    "outlast.queue.worker", "outlast.sources.monitor", "outlast.jobs.job", "outlast.observe.alert_delivery",
)  # fmt: skip
"""What the programs import; what is missing here is only slower."""
_LARGEST = 1 << 20  # bytes of a request, most of which is its environment


class Forked:
    """A process as `subprocess.Popen` shows one.

    Args:
        pid: Its number.
        ended: Where its exit code comes from once it has ended.
    """

    def __init__(self, pid: int, ended: int) -> None:
        self.pid, self.returncode, self._ended = pid, None, ended

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._ended, seconds):
            said = os.read(self._ended, 16)
            os.close(self._ended)
            if not said:
                message = f"the process that {self.pid} was forked from is gone"
                raise RuntimeError(message)
            self.returncode = int(said)
        return self.returncode


def _is_readable(file: int, seconds: float | None) -> bool:
    asking = select.poll()  # not `select`, which knows no numbers above a thousand
    asking.register(file, select.POLLIN)
    return bool(asking.poll(None if seconds is None else seconds * 1000))


class _Origin:
    """The process that others are forked from, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(self, command: list[str], environment: Mapping[str, str], output: Any, *more: str) -> Forked:
        """Start a process.

        Args:
            command: A script and its arguments.
            environment: The whole of it.
            output: An open file, for what it says.
            more: Modules that are also imported before it is forked.
        """
        reading, writing = os.pipe()
        asked = json.dumps([command, dict(environment), str(Path.cwd()), more]).encode()
        with self._lock:
            if self._socket is None:
                self._socket = self._started()
            socket.send_fds(self._socket, [asked], [output.fileno(), writing])
            os.close(writing)
            answer = self._socket.recv(16)
        if not answer:
            message = "the process that others are forked from is gone; what it said stands above"
            raise RuntimeError(message)
        return Forked(int(answer), reading)

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        command = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        atexit.register(process.wait, 10)
        atexit.register(ours.close)  # which is first, and ends it
        return ours


start = _Origin().start


def serve(number: int) -> list[str]:
    """Fork whenever somebody asks, and tell how forks have ended; return in a fork, with its command."""
    ears = socket.socket(fileno=number)
    woken, waking = os.pipe()
    for each in (woken, waking):
        os.set_blocking(each, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking)
    alive: dict[int, int] = {}
    while True:
        heard = select.select([ears, woken], [], [])[0]
        if woken in heard:
            with suppress(BlockingIOError):
                os.read(woken, 4096)
            _tell(alive)
        if ears not in heard:
            continue
        asked, files, _, _ = socket.recv_fds(ears, _LARGEST, 2)
        if not asked:
            sys.exit()
        command, environment, folder, more = json.loads(asked)
        _import(more)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ears.close()
            for each in (woken, waking, files[1], *alive.values()):
                os.close(each)
            os.chdir(folder)
            return _become(command, environment, files[0])
        os.close(files[0])
        alive[pid] = files[1]
        ears.send(b"%d" % pid)


def _tell(alive: dict[int, int]) -> None:
    while alive:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        ended = alive.pop(pid)
        with suppress(BrokenPipeError):  # nobody asks any more
            os.write(ended, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(ended)


def _import(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):  # then nobody needs it
            importlib.import_module(name)


def _become(command: list[str], environment: dict[str, str], output: int) -> list[str]:
    """Make this process what a new one would have been."""
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [
        str(Path(command[0]).parent),
        *filter(None, path),
        *[each for each in sys.path[1:] if each not in path],
    ]
    sys.argv[:] = command
    return command


if __name__ == "__main__":
    _import(_PREPARED)
    gc.freeze()  # so that forks share it
    runpy.run_path(serve(int(sys.argv[1]))[0], run_name="__main__")
