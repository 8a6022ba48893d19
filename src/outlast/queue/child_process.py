"""Child processes for suspects and for tasks with a timeout, because a process can be killed and a thread cannot."""

import contextlib
import faulthandler
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO, Any, NamedTuple

from outlast.errors import ConfigurationError
from outlast.queue.task_failure import TaskFailure
from outlast.redact import Redactor

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping


class FunctionRef(NamedTuple):
    """Where a child finds the function.

    Attributes:
        module: Name of its module.
        name: Its qualified name there.
        main: File of the program, where the function stands in it; else None.
    """

    module: str
    name: str
    main: str | None = None


class Returned(NamedTuple):
    """The call returned; `text` is the result as JSON where it was asked for."""

    text: str | None


class Raised(NamedTuple):
    """The call raised an error.

    Attributes:
        verdict: The judgement on it.
        memory: Bytes that it was allowed to take, where it failed for want of memory; else None.
        taken: Bytes of them that it had then.
    """

    verdict: TaskFailure
    memory: int | None = None
    taken: int = 0


class TimedOut(NamedTuple):
    """The call took longer than `seconds` and was killed, with every process that it had started."""

    seconds: float


class Died(NamedTuple):
    """The process ended in the middle of the call.

    Attributes:
        code: Its exit code; a signal as a negative number; None if the children were closed before the call began.
        stderr: The end of what the call had written, redacted.
    """

    code: int | None
    stderr: str


Reply = Returned | Raised | TimedOut | Died


def function_ref(function: Callable[..., Any]) -> FunctionRef:
    """Return where a child finds a function.

    Raises:
        ConfigurationError: If it cannot: the function stands inside another one, or in no file.
    """
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        message = f"{name} is defined inside a function, where another process cannot import it; move it to the module"
        raise ConfigurationError(message)
    if module != "__main__":
        return FunctionRef(module, name)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package
        return FunctionRef(spec.name, name)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        message = f"{name} is not defined in a file, so another process cannot import it; move it to a module"
        raise ConfigurationError(message)
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
    """Return what an exit code says, such as ``was killed by SIGSEGV (a fault in C code)``.

    Args:
        code: As `subprocess` tells it: a signal is a negative number. None where it is not known.
    """
    if code is None:
        return "ended"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was killed by signal {-code}"
    return f"was killed by {name} ({_SIGNAL_MEANINGS[name]})" if name in _SIGNAL_MEANINGS else f"was killed by {name}"


# A child must end with its parent, even while it runs C code. The parent holds one end of an unused pipe. When the
# parent is gone, even by `kill -9`, the system closes that end and sends the child the signal it asked for. Only
# Linux does so; elsewhere a timer in C ends a call that is long past its timeout.

_OVERDUE_MARGIN = 60.0  # seconds; the parent, which says that time is up, may be slow
_LONGEST_TIMER = 10 * 365 * 86400.0  # seconds; the timer takes no more than some hundred years


@contextmanager
def parent_pipe() -> Iterator[tuple[tuple[IO[bytes], ...], tuple[int, ...]]]:
    """Open a pipe for the start of a child.

    Yields:
        The parent's end, to be closed after the child's end, and the number of the child's. Both are empty where the
        system sends no signal.
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
    """In the child: have this process, and all that it starts, killed when the parent is gone.

    Args:
        numbers: The descriptors that `parent_pipe` returned for the child.

    Returns:
        Whether the parent is there.
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
            return os.read(number, 1) != b""  # gone before it was asked for
    return True


@contextmanager
def exit_when_overdue(seconds: float | None) -> Iterator[None]:
    """End this process if the block runs for much longer than it may, whatever it does; None for no limit."""
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
_MAX_GONE = 3  # children that may be gone before a call begins, one after the other; beyond that it is no chance
_GRACE_SECONDS = 5.0
_TICK_SECONDS = 1.0
_TAIL_BYTES = 8192
_redact_tail = Redactor(limit=_TAIL_BYTES)
STARTED_LINE = b'{"begun": true}\n'
"""The line that a child sends when the function is loaded and the call begins."""
_is_child = False  # whether this process is a child itself
_is_loading = False  # and whether it loads the program's files at this moment


def check_not_loading() -> None:
    """See that a program does not act while one of its files is only loaded, in a child.

    Raises:
        ConfigurationError: If it does: it would act again in every child.
    """
    if _is_loading:
        message = "a task is enqueued while its file is imported; put that under: if __name__ == '__main__'"
        raise ConfigurationError(message)


class ChildPool:
    """A number of child processes, started when they are needed. Used by many threads at once.

    Args:
        size: How many there may be; further calls wait for one to be free.

    Attributes:
        closed: Whether they are to end.

    Raises:
        ConfigurationError: If this process is a child: a program without a main guard would start itself without end.
    """

    def __init__(self, size: int) -> None:
        """Start nothing yet."""
        if _is_child:
            message = "a worker starts while its file is imported; put the start under: if __name__ == '__main__'"
            raise ConfigurationError(message)
        self.size = size
        self._changed = threading.Condition()
        self._idle: list[_ChildProcess] = []
        self._busy: set[_ChildProcess] = set()
        self._starting = 0
        self.closed = False

    def run(
        self, target: tuple[str, str, str | None], payload: str, *, timeout: float, context: "Mapping[str, Any]"
    ) -> Reply:
        """Run a function in a child and wait for it.

        Args:
            target: Where it is found: a `FunctionRef`.
            payload: Its arguments, as its codec wrote them.
            timeout: Seconds for the call. Starting the child and importing the module are not counted; they have 60 s.
            context: JSON-ready values about the call. A true `keep` asks for the result; `claimed` is what
                `current_task` returns, as a list; `memory` limits what it may
                take, see `memory_limit`.

        Raises:
            OSError: If no process can be started.
        """
        place = FunctionRef(*target)
        seconds = timeout if math.isfinite(timeout) else None
        request = {"target": place, "payload": payload, "seconds": seconds, "context": dict(context)}
        line, gone = json.dumps(request).encode() + b"\n", 0
        while (child := self._borrow()) is not None:
            try:
                reply = child.reply(place, timeout) if child.send(line) else None
                gone += reply is None
                if reply is None and gone >= _MAX_GONE:
                    return child.died()
                if reply is not None:
                    return reply
            finally:
                self._give_back(child)
        return Died(None, "")

    def load(self, target: tuple[str, str, str | None]) -> Reply:
        """Have a child find a function; it is loaded there, and not called.

        Raises:
            OSError: If no process can be started.
        """
        return self.run(target, "", timeout=0.0, context={"load": True})

    def close(self) -> None:
        """End all children. A call that runs is killed and returns `Died`."""
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
        """Return a child that is free or new; None after the end."""
        with self._changed:
            while not self.closed and not self._idle and len(self._busy) + self._starting >= self.size:
                self._changed.wait()
            while self._idle:
                child = self._idle.pop()  # the one used last: its memory is warm, and the others may rest
                if child.is_alive:
                    self._busy.add(child)
                    return child
                child.wait()
            if self.closed:
                return None
            self._starting += 1
        try:
            child = _ChildProcess()  # takes its time; others may give back and borrow meanwhile
        except BaseException:
            with self._changed:
                self._starting -= 1
                self._changed.notify()
            raise
        if self._enlisted(child):
            return child
        self._give_back(child)
        return None

    def _enlisted(self, child: "_ChildProcess") -> bool:
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
    """One process, with a thread that takes in its replies and one that passes on its stderr."""

    def __init__(self) -> None:
        flags: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            flags = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        with parent_pipe() as (self._life, theirs):
            self.process = subprocess.Popen(  # noqa: S603  # this very interpreter, and words of our own
                [sys.executable, "-P", "-c", _PROGRAM, _PACKAGE_PARENT, *map(str, theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=theirs,
                **flags,
            )
        assert self.process.stdin  # noqa: S101  # for type checkers: pipes, as asked for
        assert self.process.stdout  # noqa: S101
        assert self.process.stderr  # noqa: S101
        self.requests: IO[bytes] = self.process.stdin
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()
        self.loaded: set[FunctionRef] = set()
        self.tail = bytearray()
        self.is_alive = True
        self._killed = False
        self._listener = self._thread(self._listen, self.process.stdout)
        self._echo = self._thread(self._pass_on, self.process.stderr)
        self.send(json.dumps({"path": sys.path, "argv": sys.argv}).encode() + b"\n")

    def send(self, line: bytes) -> bool:
        """Send one line; False if the process is gone, and has not seen it."""
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
        """Wait for the reply to what was sent; None if the process was gone before the call began."""
        seconds = _LOAD_SECONDS
        line, in_time = self._line(seconds)
        if line == STARTED_LINE:
            self.loaded.add(target)
            seconds = timeout
            line, in_time = self._line(seconds)
        elif line is None and in_time and target in self.loaded:  # killed while it was idle: nobody's fault here
            return None
        reply = self._read(line) if in_time else self._timed_out(seconds)
        if isinstance(reply, Returned):
            self.loaded.add(target)
        return reply

    def kill(self) -> None:
        """End the process and all that it started. May be called from any thread, and again."""
        self.is_alive = False
        if self._killed and self.process.returncode is not None:
            return  # its number may be another's by now
        self._killed = True
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif self.process.poll() is None:
            tree = ["taskkill", "/F", "/T", "/PID", str(self.process.pid)]
            with contextlib.suppress(OSError):
                subprocess.run(tree, capture_output=True, check=False)  # noqa: S603  # our own words
        with contextlib.suppress(OSError):
            self.process.kill()

    def dismiss(self) -> None:
        """Let an idle process end by itself."""
        self.is_alive = False
        with contextlib.suppress(OSError, ValueError):
            self.requests.close()

    def wait(self) -> None:
        """Wait for the process to end, and help where it does not, so that no zombie is left."""
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self._listener.join(_TICK_SECONDS)
        for pipe in (self.requests, *self._life):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()

    def died(self) -> Died:
        """Say how the process ended; it is ended where it lives."""
        self.kill()
        self.wait()
        self._echo.join(_TICK_SECONDS)
        text = _redact_tail(self.tail.decode("utf-8", "replace"))
        return Died(self.process.returncode, text)

    def _line(self, seconds: float) -> tuple[bytes | None, bool]:
        """Return the next line, None at the end of the process, and whether there was one in time."""
        end = monotonic() + seconds
        while True:
            left = end - monotonic()
            try:
                return self.replies.get(timeout=min(max(left, 0.0), _TICK_SECONDS)), True
            except Empty:
                if left <= 0:
                    return None, False
                if self.process.poll() is not None:  # something that it had forked holds the pipe open
                    return None, True

    def _read(self, line: bytes | None) -> Reply:
        try:
            told = json.loads(line or b"")
            if told.get("last"):  # what it has taken, or a limit that it could not take off, is nobody else's
                self.kill()
                self.wait()
            if "raised" in told:
                return Raised(TaskFailure.from_dict(told["raised"]), told.get("memory"), told.get("taken", 0))
            return Returned(told["returned"])
        except (ValueError, KeyError, TypeError, AttributeError):  # the end, or no reply of ours
            return self.died()

    def _timed_out(self, seconds: float) -> TimedOut:
        self.kill()
        self.wait()
        return TimedOut(seconds)

    def _thread(self, work: "Callable[[IO[bytes]], None]", stream: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=work, args=(stream,), name=f"outlast-child-{self.process.pid}", daemon=True)
        thread.start()
        return thread

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.replies.put(line)
        self.kill()  # before it is waited for: until then its number cannot be another's
        self.process.wait()
        self.replies.put(None)

    def _pass_on(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read1(65_536):  # type: ignore[attr-defined]  # a BufferedReader
                self.tail += chunk
                del self.tail[:-_TAIL_BYTES]
                with contextlib.suppress(OSError):
                    os.write(2, chunk)
