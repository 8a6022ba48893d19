"""The main program of a child process that runs tasks, and the memory limit for suspect tasks."""

import contextvars
import errno
import faulthandler
import importlib
import inspect
import json
import os
import runpy
import signal
import sys
import threading
import time
import types
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from typing import IO, Any, NamedTuple, NoReturn

from outlast.classify.chain import LEAF_LIMIT
from outlast.classify.safe_access import contained, drop_interrupts
from outlast.decide.policy import RetryPolicy
from outlast.decide.presets import preset
from outlast.errors import ConfigurationError, PayloadError
from outlast.ports.rows import Claimed
from outlast.queue import child_process as child_side
from outlast.queue.child_process import die_with_parent, exit_when_overdue
from outlast.queue.payload import Codec, encode_kept_result
from outlast.queue.task_failure import task_failure_of
from outlast.run.call_state import CURRENT_TASK
from outlast.run.loops import checked_result_type, name_of
from outlast.run.signals import set_handlers

_PROC = Path("/proc/self")
_CGROUPS = Path("/sys/fs/cgroup")
_OOM_SCORE = 1000  # the system first kills the process with the highest score when memory runs out
_STATM_DATA = 5  # index in statm
_NO_THREAD = "can't start new thread"  # the message of the RuntimeError


@dataclass
class MemoryAllowance:
    """The memory that a call may use.

    Attributes:
        before: Bytes that the process used before the call.
        most: Bytes that the call may add.
        is_over: Whether the limit is removed. It cannot be removed if the call has lowered the hard limit.
    """

    before: int
    most: int
    is_over: bool = False

    def taken(self) -> int:
        """Return how many bytes the call uses now; not what this process added after the limit was removed."""
        return min(self.most, max(0, _used_bytes() - self.before))


@contextmanager
def memory_limit(memory: float | None) -> Iterator[MemoryAllowance | None]:
    """Limit the memory that this process may add in the block; beyond it, there is a `MemoryError`, or C code fails.

    Memory that it used before, mostly for modules, is not counted. If the machine runs out of memory anyway, the system
    kills this process first. Only on Linux; elsewhere there is no limit.

    Args:
        memory: Bytes, or up to 1 a share of the machine's memory; None for no limit.

    Yields:
        The allowance; None without a limit.
    """
    if memory is None or sys.platform != "linux":
        yield None
        return
    import resource  # noqa: PLC0415  # Windows has none

    most = int(memory * machine_memory() if memory <= 1 else memory)
    before, hard = resource.getrlimit(
        resource.RLIMIT_DATA
    )  # not RLIMIT_AS: many libraries reserve addresses that they never use
    score = None
    try:
        taken = _used_bytes()
        soft = taken + most if hard == resource.RLIM_INFINITY else min(taken + most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        score = _set_oom_score(_OOM_SCORE)
    except (OSError, ValueError, IndexError):  # a system that only looks like Linux; its tasks run without a limit
        yield None
        return
    allowance = MemoryAllowance(taken, max(0, soft - taken))
    try:
        yield allowance
    finally:
        with suppress(OSError, ValueError):  # the call has lowered the hard limit, which cannot be raised
            resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
            allowance.is_over = True
        _set_oom_score(score)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, means out of memory; a new thread needs memory too."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < LEAF_LIMIT:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno == errno.ENOMEM):
            return True
        if isinstance(each, RuntimeError) and _NO_THREAD in str(each):
            return True
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions[:LEAF_LIMIT]
    return False


def _used_bytes() -> int:
    """Return the bytes of data that this process uses."""
    return int((_PROC / "statm").read_text().split()[_STATM_DATA]) * os.sysconf("SC_PAGE_SIZE")


def machine_memory() -> int:
    """Return the memory in bytes of the machine, or of the container or service of this process."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    lines = []
    with suppress(OSError):
        lines = (_PROC / "cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (_CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (_CGROUPS, "memory.max")
        inner = PurePosixPath(path)
        for group in (inner, *inner.parents):
            with suppress(OSError, ValueError):  # not visible in a container; "max" is not a number
                most = min(most, int((base / str(group).lstrip("/") / name).read_text()))
    return most


def _set_oom_score(score: int | None) -> int | None:
    """Set the score for kills when memory runs out. Returns the previous score; None if it is not known."""
    if score is None:
        return None
    with suppress(OSError, ValueError):
        file = _PROC / "oom_score_adj"
        before = int(file.read_text())
        file.write_text(str(score))
        return before
    return None


# Requests and replies are lines of JSON on two private pipes. Before user code is loaded, stdin is replaced by an empty
# file and stdout by stderr. Calls run in the main thread, as libraries expect. Another thread reads the requests, so
# that it notices at once when the parent is gone.

_MAIN_NAME = "__outlast_main__"
_SECONDS_TO_LEAVE = 5.0


class _LoadedTask(NamedTuple):
    """The function of a target, with its codec and policy."""

    function: Callable[..., Any]
    codec: Codec
    policy: RetryPolicy


def main() -> None:
    """Serve the parent until it closes the pipe."""
    requests, replies = _take_pipes()
    if not die_with_parent(sys.argv[2:]):
        return
    faulthandler.enable()  # a crash in C code leaves its stack on stderr
    set_handlers((signal.SIGINT, signal.SIGTERM), lambda *_: None)  # the parent decides; SIG_IGN would be inherited
    first = requests.readline()
    if not first:
        return
    setup = json.loads(first)
    child_side._is_child = True  # noqa: SLF001  # set only here
    sys.path[:] = setup["path"]
    sys.argv[:] = setup["argv"]
    child = _CallServer(requests, replies)
    threading.Thread(target=child.read_requests, name="outlast-requests", daemon=True).start()
    child.serve()


def _take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the two pipes, and replace them by harmless files for the code of the program."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    with suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # here a TextIOWrapper
    return open(requests, "rb"), open(replies, "wb")  # noqa: PTH123  # descriptors, open until the process ends


class _CallServer:
    """Answers the requests of the parent, and keeps the loaded functions."""

    def __init__(self, requests: IO[bytes], replies: IO[bytes]) -> None:
        self.requests = requests
        self.replies = replies
        self.waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self.busy = False
        self.known: dict[tuple[str, str, str | None], _LoadedTask] = {}

    def read_requests(self) -> None:
        """Queue requests. When the parent is gone, end the process; at once if a call runs."""
        for line in self.requests:
            self.busy = True
            self.waiting.put(line)
        if self.busy:
            _kill_own_group()
        self.waiting.put(None)
        time.sleep(_SECONDS_TO_LEAVE)  # threads of the program may keep the interpreter alive
        _kill_own_group()

    def serve(self) -> None:
        """Answer requests one after the other."""
        while (line := self.waiting.get()) is not None:
            request = json.loads(line)
            reply = self.answer(request)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # the program may have replaced or closed it
                    stream.flush()
            self.busy = False
            self.send(json.dumps(reply).encode() + b"\n")

    def send(self, line: bytes) -> None:
        """Write one line."""
        self.replies.write(line)
        self.replies.flush()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a call and return the reply; an error becomes a task failure."""
        drop_interrupts()
        context = request["context"]
        policy, allowed = preset("worker"), None
        try:
            work = self.find(*request["target"])
            policy = work.policy
            if context.get("load"):
                return {"returned": None}
            try:
                args, kwargs = work.codec.decode(request["payload"])
            except PayloadError as error:  # whatever the policy says: a retry would decode the same payload
                return {"raised": task_failure_of(error, policy)._replace(wanted=False).to_dict()}
            CURRENT_TASK.set(Claimed(*context["claimed"]) if "claimed" in context else None)
            self.send(child_side.STARTED_LINE)
            with exit_when_overdue(request.get("seconds")), memory_limit(context.get("memory")) as allowed:
                value, raised = contextvars.copy_context().run(_call, work.function, args, kwargs)
            if raised is not None:
                raise raised
            keep, codec = context.get("keep"), work.codec
            reply: dict[str, Any] = {"returned": encode_kept_result(value, codec.returns, codec.name) if keep else None}
        except BaseException as error:  # noqa: BLE001  # sys.exit() in a task ends the task
            reply = {"raised": task_failure_of(error, policy).to_dict()}
            if allowed is not None and contained(None, is_out_of_memory, error):  # its memory may stay: the last call
                reply |= {"memory": allowed.most, "taken": allowed.taken(), "last": True}
        return {"last": allowed is not None and not allowed.is_over} | reply

    def find(self, module: str, name: str, file: str | None) -> _LoadedTask:
        """Return the function of a target; it is loaded at the first call."""
        target = (module, name, file)
        if target not in self.known:
            child_side._is_loading = True  # noqa: SLF001  # set only here
            try:
                found: Any = attrgetter(name)(_main_module(file) if file else importlib.import_module(module))
            finally:
                child_side._is_loading = False  # noqa: SLF001  # the same
            self.known[target] = _load_task(found, f"{module}.{name}")
        return self.known[target]


def _call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    """Return the value of a call, or its error: asyncio and contextlib run code of errors that they pass on."""
    try:
        if inspect.iscoroutinefunction(function):
            import asyncio  # noqa: PLC0415  # slow to import, and few tasks need it

            return asyncio.run(_outcome(function(*args, **kwargs)))
        value = function(*args, **kwargs)
        checked_result_type(name_of(function), value)
    except BaseException as error:  # noqa: BLE001  # raised by the caller
        return None, error
    else:
        return value, None


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001  # as above
        return None, error


def _load_task(found: Any, name: str) -> _LoadedTask:
    """Return the function, codec and policy of a task or a plain function."""
    function = getattr(found, "function", found)
    if not callable(function):
        raise ConfigurationError(f"{name} is not a task or a function")
    codec = getattr(found, "codec", None) or Codec(function)
    return _LoadedTask(function, codec, getattr(found, "policy", None) or preset("worker"))


def _main_module(file: str) -> types.ModuleType:
    """Return the main file of the parent as a module. It has another name, so that the program does not start again."""
    if _MAIN_NAME not in sys.modules:
        module = types.ModuleType(_MAIN_NAME)
        module.__dict__.update(runpy.run_path(file, run_name=_MAIN_NAME))
        sys.modules["__main__"] = sys.modules[_MAIN_NAME] = module
    return sys.modules[_MAIN_NAME]


def _kill_own_group() -> NoReturn:
    """Kill this process and all that it has started."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
