"""The standard library's errors, from the operating system, the event loop, child processes and parsers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import csv
import errno
import gzip
import io
import json
import os
import pickle
import resource
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import tomllib
import zipfile
import zlib
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from corpus.case import Case, World, caught, caught_async
from outlast import Category as C
from outlast import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Files


def not_permitted() -> object:
    """A hard link to a folder is refused even to root."""
    with tempfile.TemporaryDirectory() as folder:
        return os.link(folder, f"{folder}/link")


def forbidden(world: World) -> BaseException:
    """A file that nobody may read; root may read everything, so a child gives that up and hands the error back."""
    code = """if True:
        import os, pickle, sys
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            open(sys.argv[1])
        except OSError as error:
            sys.stdout.buffer.write(pickle.dumps(error))
    """
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).chmod(0)
        done = subprocess.run([sys.executable, "-c", code, file.name], capture_output=True, check=True)
    error: BaseException = pickle.loads(done.stdout)
    return error


def write_to(path: str) -> object:
    with Path(path).open("w") as file:
        file.write("x")
        file.flush()
    return None


def out_of_files() -> object:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 4, hard))
    held = []
    try:
        while True:
            held.append(Path("/dev/null").open())  # noqa: SIM115  # to be closed below
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for file in held:
            file.close()


def file_exists() -> object:
    return Path("/tmp").mkdir()


def remove_filled_folder() -> object:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").touch()
        return Path(folder).rmdir()


# Sockets


def broken_pipe() -> object:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        return ours.send(b"x")


@contextmanager
def listening() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener


def reset() -> object:
    with listening() as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        return ours.recv(1)


def address_in_use() -> object:
    with listening() as listener:
        return socket.create_server(listener.getsockname())


def receive_timeout() -> object:
    with listening() as listener, socket.create_connection(listener.getsockname(), timeout=0.02) as ours:
        return ours.recv(1)


# The event loop, threads and processes


async def loop_timeout() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(5)


async def incomplete_read() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"abc")
    reader.feed_eof()
    await reader.readexactly(10)


async def stream_refused() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(stream_refused())
        group.create_task(incomplete_read())


def cancelled(world: World) -> BaseException:
    async def run() -> BaseException:
        task = asyncio.create_task(asyncio.sleep(5))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return error
        raise AssertionError

    return asyncio.run(run())


def future_timeout() -> object:
    return concurrent.futures.Future().result(timeout=0.01)


def broken_pool() -> object:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(os._exit, 1).result(30)


def broken_thread_pool() -> object:
    def fail() -> None:
        raise RuntimeError

    with concurrent.futures.ThreadPoolExecutor(1, initializer=fail) as pool:
        return pool.submit(int).result(10)


def process(code: str) -> object:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=20)


def process_timeout() -> object:
    return subprocess.run(["sleep", "5"], check=True, timeout=0.05)


# Parsers


def gzip_of(content: bytes) -> object:
    return gzip.decompress(content)


def bad_zip() -> object:
    return zipfile.ZipFile(io.BytesIO(b"no zip at all"))


def bad_csv() -> object:
    return list(csv.reader(['"never closed'], strict=True))


def url_without_scheme() -> object:
    import urllib.request

    return urllib.request.urlopen("example")


def url_refused() -> object:
    import urllib.request

    return urllib.request.urlopen("http://127.0.0.1:1/", timeout=1)


def half_an_answer() -> object:
    import http.client

    with listening() as listener:
        talk = http.client.HTTPConnection(*listener.getsockname(), timeout=5)
        talk.request("GET", "/")
        theirs, _ = listener.accept()
        with theirs:
            theirs.recv(4096)
            theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        with closing(talk):
            return talk.getresponse().read()


def recursion() -> object:
    return recursion()


def out_of_memory() -> object:
    return bytearray(1 << 62)


NAME_UNKNOWN = partial(socket.getaddrinfo, "no such host", 80)

# Category, origin, code, how; `RETRIED` says which of them are worth another try.
REAL: dict[str, tuple[C, Origin | None, str | None, Callable[[], object]]] = {
    "no file": (C.NOT_FOUND, Origin.FILE, "ENOENT", partial(open, "/nowhere/at/all")),
    "a folder": (C.INVALID_PARAMETERS, Origin.FILE, "EISDIR", partial(open, "/tmp")),
    "no folder": (C.INVALID_PARAMETERS, Origin.FILE, "ENOTDIR", partial(open, "/dev/null/x")),
    "exists already": (C.INVALID_PARAMETERS, Origin.FILE, "EEXIST", file_exists),
    "folder not empty": (C.INVALID_PARAMETERS, Origin.FILE, "ENOTEMPTY", remove_filled_folder),
    "name too long": (C.INVALID_PARAMETERS, Origin.FILE, "ENAMETOOLONG", partial(open, "x" * 1000)),
    "disk full": (C.SYSTEM, Origin.FILE, "ENOSPC", partial(write_to, "/dev/full")),
    "not permitted": (C.ACCESS_DENIED, None, "EPERM", not_permitted),
    "too many files": (C.SYSTEM, None, "EMFILE", out_of_files),
    "no such process": (C.NOT_FOUND, None, "ESRCH", partial(os.kill, 2**22 + 1, 0)),
    "no such program": (C.NOT_FOUND, Origin.FILE, "ENOENT", partial(subprocess.run, ["/nowhere/at/all"])),
    "broken pipe": (C.NETWORK, Origin.NETWORK, "EPIPE", broken_pipe),
    "refused": (C.NETWORK, Origin.NETWORK, "ECONNREFUSED", partial(socket.create_connection, ("127.0.0.1", 1))),
    "reset": (C.NETWORK, Origin.NETWORK, "ECONNRESET", reset),
    "address in use": (C.CONFIGURATION, None, "EADDRINUSE", address_in_use),
    "receive timeout": (C.NETWORK, None, None, receive_timeout),
    "name unknown": (C.NETWORK, Origin.NETWORK, "EAI_NONAME", NAME_UNKNOWN),
    "service unknown": (C.NETWORK, None, "EAI_SERVICE", partial(socket.getaddrinfo, "127.0.0.1", "no-such")),
    "future timeout": (C.NETWORK, None, None, future_timeout),
    "process pool broken": (C.SYSTEM, None, None, broken_pool),
    "thread pool broken": (C.SYSTEM, None, None, broken_thread_pool),
    "process timeout": (C.NETWORK, None, None, process_timeout),
    "process said why": (
        C.NETWORK, None, None,
        partial(process, "import sys; sys.exit('fatal: Could not resolve host: github.example')"),
    ),
    "process was refused": (
        C.AUTHENTICATION, None, None,
        partial(process, "import sys; sys.exit('remote: HTTP 401: invalid credentials')"),
    ),
    "process silent": (C.UNKNOWN, None, None, partial(process, "import sys; sys.exit(1)")),
    "process killed": (C.SYSTEM, None, "SIGKILL", partial(process, "import os; os.kill(os.getpid(), 9)")),
    "process asks to retry": (C.API_TEMPORARY, None, "EX_TEMPFAIL", partial(process, "import sys; sys.exit(75)")),
    "JSON": (C.DATA, None, None, partial(json.loads, "{oops")),
    "JSON in bytes": (C.DATA, None, None, partial(json.loads, b"\xff\xfe{")),
    "TOML": (C.CONFIGURATION, None, None, partial(tomllib.loads, "a = ")),
    "UTF-8": (C.DATA, None, None, partial(b"\xff\xff".decode, "utf-8")),
    "encoding": (C.DATA, None, None, partial("日本".encode, "ascii")),
    "zlib": (C.DATA, None, None, partial(zlib.decompress, b"oops")),
    "gzip": (C.DATA, None, None, partial(gzip_of, b"no gzip")),
    "gzip cut off": (C.DATA, None, None, partial(gzip_of, gzip.compress(b"a" * 1000)[:-12])),
    "zip": (C.DATA, None, None, bad_zip),
    "XML": (C.DATA, None, None, partial(ET.fromstring, "<a><b></a>")),
    "CSV": (C.DATA, None, None, bad_csv),
    "struct": (C.DATA, None, None, partial(struct.unpack, "<I", b"ab")),
    "URL without a scheme": (C.CONFIGURATION, None, None, url_without_scheme),
    "URL refused": (C.NETWORK, Origin.HTTP, "ECONNREFUSED", url_refused),
    "half an answer": (C.NETWORK, None, None, half_an_answer),
    "module missing": (C.CONFIGURATION, None, None, partial(__import__, "no_such_module_at_all")),
    "out of memory": (C.SYSTEM, None, None, out_of_memory),
    "recursion": (C.UNKNOWN, None, None, recursion),
    "no such key": (C.UNKNOWN, Origin.PROGRAM, None, partial({}.__getitem__, "missing")),
    "not a number": (C.UNKNOWN, Origin.PROGRAM, None, partial(int, "x")),
    "wrong type": (C.UNKNOWN, Origin.PROGRAM, None, partial(len, 5)),
    "no attribute": (C.UNKNOWN, Origin.PROGRAM, None, partial(getattr, object(), "missing")),
    "index": (C.UNKNOWN, Origin.PROGRAM, None, partial([].pop)),
    "division": (C.UNKNOWN, Origin.PROGRAM, None, partial(divmod, 1, 0)),
    "exit": (C.UNKNOWN, None, None, partial(sys.exit, 1)),
}  # fmt: skip

ASYNC: dict[str, tuple[C, Callable[[], Any]]] = {
    "loop timeout": (C.NETWORK, loop_timeout),
    "wait_for": (C.NETWORK, lambda: asyncio.wait_for(asyncio.sleep(5), 0.01)),
    "incomplete read": (C.NETWORK, incomplete_read),
    "stream refused": (C.NETWORK, stream_refused),
    "task group": (C.NETWORK, task_group),
}


def real(call: Callable[[], object], world: World) -> BaseException:
    return caught(call)


def asynchronous(make: Callable[[], Any], world: World) -> BaseException:
    return caught_async(make)


def interrupted(world: World) -> BaseException:
    """A real signal, in the main thread where there is one to take it."""
    if threading.current_thread() is not threading.main_thread():
        return KeyboardInterrupt()
    import signal

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return caught(signal.raise_signal, signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def timed_out_by_kernel(world: World) -> BaseException:
    return OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def numberless(world: World) -> BaseException:
    return sqlite3.OperationalError("database is locked")


RETRIED = {C.NETWORK, C.SYSTEM, C.API_TEMPORARY, C.DATABASE_BUSY}

CASES: list[Case] = [
    *(
        Case(f"standard/{name}", partial(real, call), category, category in RETRIED, code=code, origin=origin)
        for name, (category, origin, code, call) in REAL.items()
    ),
    *(
        Case(f"standard/{name}", partial(asynchronous, make), category, category in RETRIED)
        for name, (category, make) in ASYNC.items()
    ),
    Case("standard/forbidden", forbidden, C.ACCESS_DENIED, False, code="EACCES"),
    Case("standard/cancelled", cancelled, C.UNKNOWN, False),
    Case("standard/interrupted", interrupted, C.UNKNOWN, False),
    Case("standard/timed out by the kernel", timed_out_by_kernel, C.NETWORK, True, code="ETIMEDOUT", constructed=True),
    Case("standard/locked, without a code", numberless, C.DATABASE_BUSY, True, constructed=True),
]
