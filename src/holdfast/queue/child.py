"""Processes in which sync tasks run that have a timeout: a thread cannot be stopped, a process can.

They are started by exec and used again and again. Nothing is forked and nothing is pickled: a call is a line of JSON
that names the function, and so is the reply.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO, Any, NamedTuple

from holdfast.errors import ConfigurationError
from holdfast.queue.verdict import Verdict
from holdfast.redact import Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "BEGUN",
    "Children",
    "Died",
    "Raised",
    "Reply",
    "Returned",
    "Target",
    "TimedOut",
    "check_loaded",
    "target_of",
]

# Where Holdfast lies is added, and the current directory is not: a file json.py there must not be ours. The rest of the
# parent's path comes with the first line.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from holdfast.queue.childmain import main; main()"
_HOME = str(Path(__file__).parents[2])
_LOAD_SECONDS = 60.0
_GRACE_SECONDS = 5.0
_TICK_SECONDS = 1.0
_TAIL_BYTES = 8192
_TAIL_SHOWN = 2048
_redact = Redactor(limit=_TAIL_BYTES)
BEGUN = b'{"begun": true}\n'
"""The line that a child sends when the function is loaded and the call begins."""
_within = False  # whether this process is a child itself
_loading = False  # and whether it loads the program's files at this moment


def check_loaded() -> None:
    """See that a program does not act while one of its files is only loaded, in a child.

    Raises:
        ConfigurationError: If it does: it would act again in every child.
    """
    if _loading:
        message = "a task is enqueued while its file is only loaded; put that under: if __name__ == '__main__'"
        raise ConfigurationError(message)


class Target(NamedTuple):
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
    """The call raised an error."""

    verdict: Verdict


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


def target_of(function: "Callable[..., Any]") -> Target:
    """Return where a child finds a function.

    Raises:
        ConfigurationError: If it cannot: the function stands inside another one, or in no file.
    """
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        message = f"{name} stands inside a function, where no other process finds it; move it to its module"
        raise ConfigurationError(message)
    if module != "__main__":
        return Target(module, name)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package
        return Target(spec.name, name)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        message = f"{name} stands in no file, where no other process finds it; move it to a module"
        raise ConfigurationError(message)
    return Target(module, name, str(Path(file).resolve()))


class Children:
    """A number of child processes, started when they are needed. Used by many threads at once.

    Args:
        size: How many there may be; further calls wait for one to be free.

    Raises:
        ConfigurationError: If this process is a child: a program without a main guard would start itself without end.
    """

    def __init__(self, size: int) -> None:
        """Start nothing yet."""
        if _within:
            message = "a worker starts while its file is only loaded; put the start under: if __name__ == '__main__'"
            raise ConfigurationError(message)
        self.size = size
        self._changed = threading.Condition()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._starting = 0
        self._closed = False

    def run(
        self, target: tuple[str, str, str | None], payload: str, *, timeout: float, context: "Mapping[str, Any]"
    ) -> Reply:
        """Run a function in a child and wait for it.

        Args:
            target: Where it is found, such as a `Target`.
            payload: Its arguments, as its codec wrote them.
            timeout: Seconds for the call. Starting the child and importing the module are not counted; they have 60 s.
            context: JSON-ready values about the call. A true `keep` asks for the result; `claimed` is what
                `current_task` returns, as a list.

        Raises:
            OSError: If no process can be started.
        """
        place = Target(*target)
        line = json.dumps({"target": place, "payload": payload, "context": dict(context)}).encode() + b"\n"
        while (child := self._borrow()) is not None:
            try:
                if child.send(line) and (reply := child.reply(place, timeout)) is not None:
                    return reply
            finally:
                self._give_back(child)
        return Died(None, "")

    def close(self) -> None:
        """End all children. A call that runs is killed and returns `Died`."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
            self._changed.notify_all()
        for child in busy:
            child.kill()
        for child in idle:
            child.dismiss()
        for child in (*idle, *busy):
            child.wait()

    def _borrow(self) -> "_Child | None":
        """Return a child that is free or new; None after the end."""
        with self._changed:
            while not self._closed and not self._idle and len(self._busy) + self._starting >= self.size:
                self._changed.wait()
            while self._idle:
                child = self._idle.pop()  # the one used last: its memory is warm, and the others may rest
                if child.is_alive:
                    self._busy.add(child)
                    return child
                child.wait()
            if self._closed:
                return None
            self._starting += 1
        try:
            child = _Child()  # takes its time; others may give back and borrow meanwhile
        except BaseException:
            with self._changed:
                self._starting -= 1
                self._changed.notify()
            raise
        if self._enlisted(child):
            return child
        self._give_back(child)
        return None

    def _enlisted(self, child: "_Child") -> bool:
        with self._changed:
            self._starting -= 1
            self._busy.add(child)
            return not self._closed

    def _give_back(self, child: "_Child") -> None:
        with self._changed:
            self._busy.discard(child)
            keep = child.is_alive and not self._closed
            if keep:
                self._idle.append(child)
            self._changed.notify()
        if not keep:
            child.kill()
            child.wait()


class _Child:
    """One process, with a thread that takes in its replies and one that passes on its stderr."""

    def __init__(self) -> None:
        flags: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            flags = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self.process = subprocess.Popen(  # noqa: S603  # this very interpreter, and words of our own
            [sys.executable, "-P", "-c", _PROGRAM, _HOME],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **flags,
        )
        assert self.process.stdin  # noqa: S101  # for type checkers: pipes, as asked for
        assert self.process.stdout  # noqa: S101
        assert self.process.stderr  # noqa: S101
        self.requests: IO[bytes] = self.process.stdin
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()
        self.loaded: set[Target] = set()
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

    def reply(self, target: Target, timeout: float) -> Reply | None:
        """Wait for the reply to what was sent; None if the process was gone before the call began."""
        seconds = _LOAD_SECONDS
        line, in_time = self._line(seconds)
        if line == BEGUN:
            self.loaded.add(target)
            seconds = timeout
            line, in_time = self._line(seconds)
        elif line is None and in_time and target in self.loaded:  # killed while it was idle: nobody's fault here
            return None
        return self._read(line) if in_time else self._timed_out(seconds)

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
        with contextlib.suppress(OSError, ValueError):
            self.requests.close()

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
            return Raised(Verdict.from_dict(told["raised"])) if "raised" in told else Returned(told["returned"])
        except (ValueError, KeyError, TypeError):  # the end, or no reply of ours
            self.kill()
            self.wait()
        self._echo.join(_TICK_SECONDS)
        text = _redact(self.tail.decode("utf-8", "replace"))
        return Died(self.process.returncode, text[-_TAIL_SHOWN:])

    def _timed_out(self, seconds: float) -> TimedOut:
        self.kill()
        self.wait()
        return TimedOut(seconds)

    def _thread(self, work: "Callable[[IO[bytes]], None]", stream: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=work, args=(stream,), name=f"holdfast-child-{self.process.pid}", daemon=True)
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
