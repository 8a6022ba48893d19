"""Processes in which tasks run that have a timeout, or took a worker down: a thread cannot be stopped, a process can.

They are started by exec and used again and again. Nothing is forked and nothing is pickled: a call is a line of JSON
that names the function, and so is the reply.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import IO, Any

from outlast.errors import ConfigurationError
from outlast.queue.calls import Died, Raised, Reply, Returned, Target, TimedOut, target_of
from outlast.queue.lifelines import lifeline
from outlast.queue.verdict import Verdict
from outlast.redact import Redactor

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

# Where Outlast lies is added, and the current directory is not: a file json.py there must not be ours. The rest of the
# parent's path comes with the first line.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from outlast.queue.childmain import main; main()"
_HOME = str(Path(__file__).parents[2])
_LOAD_SECONDS = 60.0
_MOST_GONE = 3  # children that may be gone before a call begins, one after the other; beyond that it is no chance
_GRACE_SECONDS = 5.0
_TICK_SECONDS = 1.0
_TAIL_BYTES = 8192
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


class Children:
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
        if _within:
            message = "a worker starts while its file is only loaded; put the start under: if __name__ == '__main__'"
            raise ConfigurationError(message)
        self.size = size
        self._changed = threading.Condition()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._starting = 0
        self.closed = False

    def run(
        self, target: tuple[str, str, str | None], payload: str, *, timeout: float, context: "Mapping[str, Any]"
    ) -> Reply:
        """Run a function in a child and wait for it.

        Args:
            target: Where it is found, such as a `Target`.
            payload: Its arguments, as its codec wrote them.
            timeout: Seconds for the call. Starting the child and importing the module are not counted; they have 60 s.
            context: JSON-ready values about the call. A true `keep` asks for the result; `claimed` is what
                `current_task` returns, as a list; `memory` limits what it may take, as `limited` says.

        Raises:
            OSError: If no process can be started.
        """
        place = Target(*target)
        seconds = timeout if math.isfinite(timeout) else None
        request = {"target": place, "payload": payload, "seconds": seconds, "context": dict(context)}
        line, gone = json.dumps(request).encode() + b"\n", 0
        while (child := self._borrow()) is not None:
            try:
                reply = child.reply(place, timeout) if child.send(line) else None
                gone += reply is None
                if reply is None and gone >= _MOST_GONE:
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

    def _borrow(self) -> "_Child | None":
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
            return not self.closed

    def _give_back(self, child: "_Child") -> None:
        with self._changed:
            self._busy.discard(child)
            keep = child.is_alive and not self.closed
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
        with lifeline() as (self._life, theirs):
            self.process = subprocess.Popen(  # noqa: S603  # this very interpreter, and words of our own
                [sys.executable, "-P", "-c", _PROGRAM, _HOME, *map(str, theirs)],
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
        text = _redact(self.tail.decode("utf-8", "replace"))
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
                return Raised(Verdict.from_dict(told["raised"]), told.get("memory"), told.get("taken", 0))
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
