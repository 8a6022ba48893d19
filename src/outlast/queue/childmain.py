"""The child: runs one call after the other that the parent sends, and ends with it.

Requests and replies are lines of JSON on two pipes that nothing else can reach: file 0 is empty and file 1 leads to
stderr before any code of the user's is loaded. The call runs in the main thread, as libraries expect. Another thread
reads the requests, and so learns at once that the parent is gone.
"""

import contextlib
import contextvars
import faulthandler
import importlib
import inspect
import json
import logging
import os
import runpy
import signal
import sys
import threading
import time
import types
from operator import attrgetter
from queue import SimpleQueue
from typing import IO, Any, NamedTuple, NoReturn

from outlast.decide.presets import preset
from outlast.errors import ConfigurationError, PayloadError
from outlast.ports.rows import Claimed
from outlast.queue import child as child_side
from outlast.queue.current import CURRENT
from outlast.queue.lifelines import hold_on, overdue_ends
from outlast.queue.limiting import limited, wants_memory
from outlast.queue.payload import Codec, encode_result
from outlast.queue.verdict import verdict_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outlast.decide.policy import RetryPolicy

__all__ = ["main"]

_MAIN = "__outlast_main__"
_SECONDS_TO_LEAVE = 5.0


class _Work(NamedTuple):
    """What a target turned out to be."""

    function: "Callable[..., Any]"
    codec: Codec
    policy: "RetryPolicy"


def main() -> None:
    """Serve the parent until it closes the pipe."""
    requests, replies = _take_pipes()
    if not hold_on(sys.argv[2:]):
        return
    faulthandler.enable()  # a crash in C code leaves its stack on stderr
    for each in (signal.SIGINT, signal.SIGTERM):  # the parent decides; a handler, unlike SIG_IGN, is not inherited
        signal.signal(each, lambda *_: None)
    first = requests.readline()
    if not first:
        return
    told = json.loads(first)
    child_side._within = True  # noqa: SLF001  # said by the one who knows
    sys.path[:] = told["path"]
    sys.argv[:] = told["argv"]
    child = _Server(requests, replies)
    threading.Thread(target=child.listen, name="outlast-requests", daemon=True).start()
    child.serve()


def _take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the two pipes, and put harmless files where the user's code would find them."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper, here
    return open(requests, "rb"), open(replies, "wb")  # noqa: PTH123  # file numbers; open as long as we live


class _Server:
    """The loop, and what it keeps from call to call."""

    def __init__(self, requests: IO[bytes], replies: IO[bytes]) -> None:
        self.requests = requests
        self.replies = replies
        self.waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self.busy = False
        self.known: dict[tuple[str, str, str | None], _Work] = {}

    def listen(self) -> None:
        """Take requests in; when the parent is gone, end: at once if a call runs, for nobody waits for it any more."""
        for line in self.requests:
            self.busy = True
            self.waiting.put(line)
        if self.busy:
            _die()
        self.waiting.put(None)
        time.sleep(_SECONDS_TO_LEAVE)  # threads of the user's may hold the interpreter back
        _die()

    def serve(self) -> None:
        """Answer one request after the other."""
        while (line := self.waiting.get()) is not None:
            request = json.loads(line)
            reply = self.answer(request)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # the user's code may have replaced or closed it
                    stream.flush()
            self.busy = False
            self.send(json.dumps(reply).encode() + b"\n")

    def send(self, line: bytes) -> None:
        """Write one line."""
        self.replies.write(line)
        self.replies.flush()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the call and return the reply; whatever it raises becomes a verdict."""
        context = request["context"]
        policy, allowed = preset("worker"), None
        try:
            work = self.find(*request["target"])
            policy = work.policy
            if context.get("load"):
                return {"returned": None}
            try:
                args, kwargs = work.codec.decode(request["payload"])
            except PayloadError as error:  # whatever the policy says: the next attempt would read the same
                return {"raised": verdict_on(error, policy)._replace(wanted=False).to_dict()}
            CURRENT.set(Claimed(*context["claimed"]) if "claimed" in context else None)
            self.send(child_side.BEGUN)
            with overdue_ends(request.get("seconds")), limited(context.get("memory")) as allowed:
                value = contextvars.copy_context().run(_called, work.function, args, kwargs)
        except BaseException as error:  # noqa: BLE001  # sys.exit() in a task ends the task
            told: dict[str, Any] = {"last": allowed is not None and not allowed.is_over}
            if allowed is not None and wants_memory(error):  # what it has taken may stay; the next one is not to pay
                told = {"memory": allowed.most, "taken": allowed.taken(), "last": True}
            return told | {"raised": verdict_on(error, policy).to_dict()}
        last = allowed is not None and not allowed.is_over
        return {"returned": _result(value, work.codec) if context.get("keep") else None, "last": last}

    def find(self, module: str, name: str, file: str | None) -> _Work:
        """Return the target, loaded at its first call."""
        target = (module, name, file)
        if target not in self.known:
            child_side._loading = True  # noqa: SLF001  # said by the one who knows
            try:
                found: Any = attrgetter(name)(_main_module(file) if file else importlib.import_module(module))
            finally:
                child_side._loading = False  # noqa: SLF001  # the same
            self.known[target] = _work(found, f"{module}.{name}")
        return self.known[target]


def _called(function: "Callable[..., Any]", args: "Sequence[Any]", kwargs: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        import asyncio  # noqa: PLC0415  # takes its time, and few need it

        return asyncio.run(function(*args, **kwargs))
    return function(*args, **kwargs)


def _result(value: Any, codec: Codec) -> str | None:
    try:
        return encode_result(value, codec.returns)
    except PayloadError as error:  # its work is done; doing it again would not help
        log = logging.getLogger("outlast.worker")
        log.error("%s succeeded, its result cannot be kept: %s", codec.name, error)  # noqa: TRY400  # the words say it all
        return None


def _work(found: Any, name: str) -> _Work:
    """Return what is needed to run a task object or a plain function."""
    function = getattr(found, "function", found)
    if not callable(function):
        message = f"{name} is neither a task nor a function"
        raise ConfigurationError(message)
    codec = getattr(found, "codec", None) or Codec(function)
    return _Work(function, codec, getattr(found, "policy", None) or preset("worker"))


def _main_module(file: str) -> types.ModuleType:
    """Return the parent's main file as a module; loaded under another name, it does not start the program again."""
    if _MAIN not in sys.modules:
        module = types.ModuleType(_MAIN)
        module.__dict__.update(runpy.run_path(file, run_name=_MAIN))
        sys.modules["__main__"] = sys.modules[_MAIN] = module
    return sys.modules[_MAIN]


def _die() -> NoReturn:
    """End this process, and what it has started."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
