"""Child processes for suspects and for tasks with a timeout, because a process can be killed and a thread cannot."""

import faulthandler
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO, Any, NamedTuple

from outlast.errors import ConfigurationError
from outlast.queue.task_failure import TaskFailure
from outlast.redact import Redactor


class FunctionRef(NamedTuple):
    """Where a child process finds a function.

    Attributes:
        module: Name of its module.
        name: Its qualified name there.
        main: File of the main program, if the function is defined in it; else None.
    """

    module: str
    name: str
    main: str | None = None


class Returned(NamedTuple):
    """The call returned; `text` is the result as JSON, if it was requested."""

    text: str | None


class Raised(NamedTuple):
    """The call raised an error.

    Attributes:
        task_failure: The failure.
        memory: The memory limit in bytes, if the call was out of memory; else None.
        taken: Bytes that the call had used.
    """

    task_failure: TaskFailure
    memory: int | None = None
    taken: int = 0


class TimedOut(NamedTuple):
    """The call took longer than `seconds` and was killed, with every process that it had started."""

    seconds: float


class Died(NamedTuple):
    """The process ended in the middle of the call.

    Attributes:
        code: Its exit code; a signal is a negative number; None if the pool was closed before the call started.
        stderr: The end of its stderr, redacted.
    """

    code: int | None
    stderr: str


Reply = Returned | Raised | TimedOut | Died


def function_ref(function: Callable[..., Any]) -> FunctionRef:
    """Return where a child process finds a function.

    Raises:
        ConfigurationError: If it cannot: the function is defined inside another one, or not in a file.
    """
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        raise ConfigurationError(
            f"{name} is defined inside a function, where another process cannot import it; move it to the module"
        )
    if module != "__main__":
        return FunctionRef(module, name)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package
        return FunctionRef(spec.name, name)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        raise ConfigurationError(
            f"{name} is not defined in a file, so another process cannot import it; move it to a module"
        )
    return FunctionRef(module, name, str(Path(file).resolve()))


_SIGNAL_MEANINGS = {
    "SIGKILL": "killed by a person, or by the system because memory ran out",
    "SIGSEGV": "a fault in C code",
    "SIGBUS": "a fault in C code, or a mapped file that got shorter",
    "SIGFPE": "a fault in C code",
    "SIGILL": "a fault in C code, or a library built for another processor",
    "SIGABRT": "C code aborted, perhaps because memory ran out",
    "SIGXCPU": "its CPU time limit was reached",
    "SIGXFSZ": "its file size limit was reached",
    "SIGTERM": "a request to terminate",
}


def describe_exit(code: int | None) -> str:
    """Return an exit code in words, such as ``was killed by SIGSEGV (a fault in C code)``.

    Args:
        code: As in `subprocess`: a signal is a negative number. None if it is not known.
    """
    if code is None:
        return "ended"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was killed by signal {-code}"
    meaning = _SIGNAL_MEANINGS.get(name)
    return f"was killed by {name} ({meaning})" if meaning else f"was killed by {name}"


# A child must end with its parent, even while it runs C code. The parent holds one end of an unused pipe. When the
# parent is gone, even by `kill -9`, the system closes that end and sends the child the signal it asked for. Only
# Linux does so; elsewhere a timer in C ends a call that is long past its timeout.

_OVERDUE_MARGIN = 60.0  # seconds; the parent, which kills a call at its timeout, may be slow
_LONGEST_TIMER = 10 * 365 * 86400.0  # seconds; the timer has a maximum of some hundred years


@contextmanager
def parent_pipe() -> Iterator[tuple[tuple[IO[bytes], ...], tuple[int, ...]]]:
    """Open a pipe for the start of a child.

    Yields:
        The parent's end, to be closed after the child has ended, and the descriptor of the child's end. Both are empty
        on systems that send no signal.
    """
    if sys.platform != "linux":
        yield (), ()
        return
    theirs, ours = os.pipe()
    end = open(ours, "wb", buffering=0)  # noqa: PTH123, SIM115  # a file number; the caller closes it
    try:
        yield (end,), (theirs,)
    except BaseException:
        end.close()
        raise
    finally:
        os.close(theirs)


def die_with_parent(numbers: Sequence[str]) -> bool:
    """In the child: have the system kill this process, and all that it starts, when the parent is gone.

    Args:
        numbers: The descriptors that `parent_pipe` returned for the child.

    Returns:
        Whether the parent is still alive.
    """
    if sys.platform != "linux":
        return True
    import fcntl  # noqa: PLC0415  # Windows has none

    for number in map(int, numbers):
        with suppress(OSError):  # a system that only looks like Linux
            os.set_inheritable(number, False)  # noqa: FBT003  # it takes no names
            os.set_blocking(number, False)
            fcntl.fcntl(number, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(number, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_ASYNC)
        with suppress(BlockingIOError):
            return os.read(number, 1) != b""  # the parent was gone before
    return True


@contextmanager
def exit_when_overdue(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes much longer than `seconds`, whatever it does; None for no limit."""
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(min(seconds, _LONGEST_TIMER) + _OVERDUE_MARGIN, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


# Children are started by exec and reused. Nothing is forked or pickled: a call is a line of JSON that names the
# function, and so is the reply.

# The folder of Outlast is added to the path, but not the current directory, where a file json.py would replace the
# module of the standard library. The rest of the parent's path comes with the first line.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from outlast.queue.child_main import main; main()"
_PACKAGE_PARENT = str(Path(__file__).parents[2])
_LOAD_SECONDS = 60.0
_MAX_GONE = 3  # children in a row that may be gone before a call starts; more are no coincidence
_GRACE_SECONDS = 5.0
_TICK_SECONDS = 1.0
_TAIL_BYTES = 8192
_redact_tail = Redactor(limit=_TAIL_BYTES)
STARTED_LINE = b'{"begun": true}\n'
"""The line that a child sends when the function is loaded and the call starts."""
_is_child = False  # whether this process is a child itself
_is_loading = False  # whether it imports the files of the program now


def check_not_loading() -> None:
    """Check that a child does not import the program now.

    Raises:
        ConfigurationError: If it does: tasks that are enqueued at import would be enqueued again in every child.
    """
    if _is_loading:
        raise ConfigurationError(
            "a task is enqueued while its file is imported; put that under: if __name__ == '__main__'"
        )


class ChildPool:
    """A pool of child processes, started when they are needed. May be used by many threads at once.

    Args:
        size: Maximum number of processes; further calls wait for one.

    Attributes:
        closed: Whether the pool is closed.

    Raises:
        ConfigurationError: If this process is a child: a program without a main guard would start itself endlessly.
    """

    def __init__(self, size: int) -> None:
        if _is_child:
            raise ConfigurationError(
                "a worker starts while its file is imported; put the start under: if __name__ == '__main__'"
            )
        self.size = size
        self._changed = threading.Condition()
        self._idle: list[_ChildProcess] = []
        self._busy: set[_ChildProcess] = set()
        self._starting = 0
        self.closed = False

    def run(
        self, target: tuple[str, str, str | None], payload: str, *, timeout: float, context: Mapping[str, Any]
    ) -> Reply:
        """Run a function in a child and wait for it.

        Args:
            target: The function, a `FunctionRef`.
            payload: Its arguments, as encoded by its codec.
            timeout: Seconds for the call. Starting the child and importing the module have their own limit of 60 s.
            context: JSON values about the call. A true `keep` requests the result; `claimed` is what `current_task`
                returns, as a list; `memory` is the memory limit, see `memory_limit`.

        Raises:
            OSError: If no process can be started.
        """
        function = FunctionRef(*target)
        seconds = timeout if math.isfinite(timeout) else None
        request = {"target": function, "payload": payload, "seconds": seconds, "context": dict(context)}
        line, gone = json.dumps(request).encode() + b"\n", 0
        while (child := self._borrow()) is not None:
            try:
                reply = child.reply(function, timeout) if child.send(line) else None
                if reply is not None:
                    return reply
                gone += 1
                if gone >= _MAX_GONE:
                    return child.died()
            finally:
                self._give_back(child)
        return Died(None, "")

    def load(self, target: tuple[str, str, str | None]) -> Reply:
        """Load a function in a child without calling it.

        Raises:
            OSError: If no process can be started.
        """
        return self.run(target, "", timeout=0.0, context={"load": True})

    def close(self) -> None:
        """End all children. A running call is killed and returns `Died`."""
        with self._changed:
            self.closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
            self._changed.notify_all()
        for child in busy:
            child.kill()
        for child in idle:
            child.dismiss()
        for child in (*idle, *busy):
            child.wait()

    def _borrow(self) -> "_ChildProcess | None":
        """Return a free or new child; None if the pool is closed."""
        with self._changed:
            while not self.closed and not self._idle and len(self._busy) + self._starting >= self.size:
                self._changed.wait()
            while self._idle:
                child = self._idle.pop()  # the one used last: its memory is warm
                if child.is_alive:
                    self._busy.add(child)
                    return child
                child.wait()
            if self.closed:
                return None
            self._starting += 1
        try:
            child = _ChildProcess()  # slow, so without the lock
        except BaseException:
            with self._changed:
                self._starting -= 1
                self._changed.notify()
            raise
        if self._add_busy(child):
            return child
        self._give_back(child)
        return None

    def _add_busy(self, child: "_ChildProcess") -> bool:
        """Count a new child as busy. Returns whether the pool is still open."""
        with self._changed:
            self._starting -= 1
            self._busy.add(child)
            return not self.closed

    def _give_back(self, child: "_ChildProcess") -> None:
        with self._changed:
            self._busy.discard(child)
            keep = child.is_alive and not self.closed
            if keep:
                self._idle.append(child)
            self._changed.notify()
        if not keep:
            child.kill()
            child.wait()


class _ChildProcess:
    """One process, with a thread that reads its replies and one that forwards its stderr."""

    def __init__(self) -> None:
        flags: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            flags = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        with parent_pipe() as (self._life, theirs):
            self.process = subprocess.Popen(  # noqa: S603  # this interpreter with fixed arguments
                [sys.executable, "-P", "-c", _PROGRAM, _PACKAGE_PARENT, *map(str, theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=theirs,
                **flags,
            )
        assert self.process.stdin  # noqa: S101  # for type checkers
        assert self.process.stdout  # noqa: S101
        assert self.process.stderr  # noqa: S101
        self.requests: IO[bytes] = self.process.stdin
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()
        self.loaded: set[FunctionRef] = set()
        self.tail = bytearray()
        self.is_alive = True
        self._killed = False
        self._listener = self._start_thread(self._read_replies, self.process.stdout)
        self._echo = self._start_thread(self._forward_stderr, self.process.stderr)
        self.send(json.dumps({"path": sys.path, "argv": sys.argv}).encode() + b"\n")

    def send(self, line: bytes) -> bool:
        """Send one line. Returns False if the process is gone and has not received it."""
        self.tail.clear()
        try:
            self.requests.write(line)
            self.requests.flush()
        except (OSError, ValueError):
            self.kill()
            self.wait()
            return False
        return True

    def reply(self, target: FunctionRef, timeout: float) -> Reply | None:
        """Wait for the reply to the request. Returns None if the process was gone before the call started."""
        seconds = _LOAD_SECONDS
        line, in_time = self._next_line(seconds)
        if line == STARTED_LINE:
            self.loaded.add(target)
            seconds = timeout
            line, in_time = self._next_line(seconds)
        elif line is None and in_time and target in self.loaded:  # killed while it was idle
            return None
        if not in_time:
            self.kill()
            self.wait()
            return TimedOut(seconds)
        reply = self._parse_reply(line)
        if isinstance(reply, Returned):
            self.loaded.add(target)
        return reply

    def kill(self) -> None:
        """Kill the process and all that it started. May be called from any thread, more than once."""
        self.is_alive = False
        if self._killed and self.process.returncode is not None:
            return  # another process may have its id by now
        self._killed = True
        if sys.platform != "win32":
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif self.process.poll() is None:
            tree = ["taskkill", "/F", "/T", "/PID", str(self.process.pid)]
            with suppress(OSError):
                subprocess.run(tree, capture_output=True, check=False)  # noqa: S603  # fixed arguments
        with suppress(OSError):
            self.process.kill()

    def dismiss(self) -> None:
        """Let an idle process end."""
        self.is_alive = False
        with suppress(OSError, ValueError):
            self.requests.close()

    def wait(self) -> None:
        """Wait for the process to end, and kill it if it does not, so that no zombie is left."""
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self._listener.join(_TICK_SECONDS)
        for pipe in (self.requests, *self._life):
            with suppress(OSError, ValueError):
                pipe.close()

    def died(self) -> Died:
        """Return how the process ended; it is killed if it is alive."""
        self.kill()
        self.wait()
        self._echo.join(_TICK_SECONDS)
        text = _redact_tail(self.tail.decode("utf-8", "replace"))
        return Died(self.process.returncode, text)

    def _next_line(self, seconds: float) -> tuple[bytes | None, bool]:
        """Return the next line, None at the end of the process, and whether it came in time."""
        end = monotonic() + seconds
        while True:
            left = end - monotonic()
            try:
                return self.replies.get(timeout=min(max(left, 0.0), _TICK_SECONDS)), True
            except Empty:
                if left <= 0:
                    return None, False
                if self.process.poll() is not None:  # a process that it has forked holds the pipe open
                    return None, True

    def _parse_reply(self, line: bytes | None) -> Reply:
        try:
            reply = json.loads(line or b"")
            if reply.get("last"):  # its memory or its limit would affect the next call
                self.kill()
                self.wait()
            if "raised" in reply:
                return Raised(TaskFailure.from_dict(reply["raised"]), reply.get("memory"), reply.get("taken", 0))
            return Returned(reply["returned"])
        except (ValueError, KeyError, TypeError, AttributeError):  # the process ended, or the reply is not ours
            return self.died()

    def _start_thread(self, work: Callable[[IO[bytes]], None], stream: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=work, args=(stream,), name=f"outlast-child-{self.process.pid}", daemon=True)
        thread.start()
        return thread

    def _read_replies(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.replies.put(line)
        self.kill()  # before the wait, after which another process may get its id
        self.process.wait()
        self.replies.put(None)

    def _forward_stderr(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read1(65_536):  # type: ignore[attr-defined]  # a BufferedReader
                self.tail += chunk
                del self.tail[:-_TAIL_BYTES]
                with suppress(OSError):
                    os.write(2, chunk)
