"""A program that ends in the middle, as a power cut or the kernel's memory killer ends it.

The program runs in a process of its own, started anew and not forked, and kills itself at a place of the test's choice.
The test then looks at what it left behind.
"""

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from outlast import clock
from outlast.errors import ConfigError, ConfigurationError
from outlast.queue.child_process import function_ref
from outlast.run.crashes import Crash
from outlast.testing.clock import FakeClock, current_fake_clock
from outlast.testing.faults import NotReachedError, find_patch_target, passed_points_text, with_call_hook

# As for the children of a worker: where Outlast lies is added, and the current directory is not.
_CHILD_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from outlast.testing.crash import run_child; run_child()"
_PACKAGE_ROOT = str(Path(__file__).parents[2])
_OUTPUT_SHOWN = 4000  # characters of what it printed
_POLL_SECONDS = 0.01  # seconds between two looks whether it has ended


class Crashed(NamedTuple):
    """A program that ended where it was told to.

    Attributes:
        place: Where.
        code: Its exit code; a signal as a negative number. 0 where it was a process that it had started which ended,
            and it went on.
        output: What it printed, errors included.
    """

    place: str
    code: int
    output: str


def crash_at(
    place: str,
    program: Callable[..., object] | Sequence[str],
    *args: Any,
    after: int = 0,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> Crashed:
    """Run a program in a process of its own, and end it with SIGKILL at a place.

    A function's process is a new one: what the test has patched is not there, so it gets what it needs as arguments or
    through its environment. It goes by a fake clock if the test does, from the same time on. The processes that it has
    started end with it, unless they are in a session of their own.

    Args:
        place: The name of an ``outlast.point``, or the dotted name of a function: then it ends when that is called.
        program: A function that another process can import, async or not; or a command such as
            ``[sys.executable, "-m", "shop"]``, which can be ended at a point alone.
        args: For the function, as JSON can hold them.
        after: How many passes are let through first.
        env: Added to its environment.
        timeout: Seconds that it may take.

    Raises:
        NotReachedError: If it ends, or its time does, without coming to the place.
        ConfigError: If the program cannot be run in this way.
    """
    __tracebackhide__ = True  # a test that fails shows its own line
    # Errors are ignored: what is being killed may write a last note while the folder is removed.
    with tempfile.TemporaryDirectory(prefix="outlast-crash-", ignore_cleanup_errors=True) as folder:
        crash = {"place": place, "after": after, "folder": folder}
        command, told = _command(place, program, args, crash)
        environment = os.environ | dict(env or {}) | {"OUTLAST_CRASH": json.dumps(crash)}
        code = _run(command, told, environment, Path(folder), timeout)
        output = _read_text(folder, "output")
        if (Path(folder) / "ended").exists():
            return Crashed(place, code if code is not None else -signal.SIGKILL, output)
        how = (
            f"had not come to {place!r} after {timeout:g} s" if code is None else f"ended with {code} before {place!r}"
        )
        passed = passed_points_text(map(json.loads, _read_text(folder, "passed").splitlines()))
        said = f"It printed:\n{output[-_OUTPUT_SHOWN:]}" if output.strip() else "It printed nothing."
        message = f"the program {how}, so it did not crash there; {passed}. {said}"
        raise NotReachedError(message)


def _command(place: str, program: Any, args: tuple[Any, ...], crash: Mapping[str, Any]) -> tuple[list[str], bytes]:
    """Return what to start, and what to tell it."""
    if not callable(program):
        if args:
            message = "arguments of a command stand in the command itself"
            raise ConfigError(message)
        if "." in place:
            message = (
                f"a command can be ended at a point alone: put outlast.point(…) before {place}, or give a function"
            )
            raise ConfigError(message)
        return [str(each) for each in program], b""
    try:
        module, name, main = function_ref(program)
    except ConfigurationError as error:
        raise ConfigError(str(error)) from error
    with contextlib.suppress(TypeError):
        main = main or inspect.getsourcefile(inspect.unwrap(program))
    clock = current_fake_clock()
    told = {
        "path": sys.path,
        "target": [module, name, main],
        "args": args,
        "clock": None if clock is None else clock.now(),
        "crash": crash,
    }
    try:
        line = json.dumps(told).encode()
    except (TypeError, ValueError) as error:
        message = f"the arguments go to another process as JSON, which cannot hold them: {error}"
        raise ConfigError(message) from error
    return [sys.executable, "-P", "-c", _CHILD_PROGRAM, _PACKAGE_ROOT], line


def _run(command: list[str], told: bytes, env: Mapping[str, str], folder: Path, timeout: float) -> int | None:
    """Run it to its end, and end all that it has started; return its exit code, None where it had to be ended."""
    (folder / "told").write_bytes(told)
    with (folder / "told").open("rb") as stdin, (folder / "output").open("wb") as output:
        try:
            process = subprocess.Popen(  # noqa: S603  # the test's own program
                command, stdin=stdin, stdout=output, stderr=output, env=dict(env), start_new_session=True
            )
        except OSError as error:
            message = f"{command[0]} cannot be started: {error}"
            raise ConfigError(message) from error
    ended = False
    try:
        ended = _wait_for_end(process, timeout)
    finally:
        _kill(process)
    return process.returncode if ended else None


def _wait_for_end(process: "subprocess.Popen[bytes]", timeout: float) -> bool:
    """Wait for the end of a process and tell whether it came; its number is kept, as that of its group."""
    if not hasattr(os, "waitid"):  # Windows, and macOS before Python 3.13
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
        return process.returncode is not None
    until = time.monotonic() + timeout
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a process with its whole group, ended or not; it is waited for afterwards, so its number is its own."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_text(folder: str, name: str) -> str:
    file = Path(folder) / name
    return file.read_text("utf-8", "replace") if file.exists() else ""


# The process that `crash_at` starts for a function: it loads it, arms the place, and calls it.


def run_child() -> None:
    """Do what stdin says, as JSON."""
    told = json.load(sys.stdin)
    sys.path[:] = told["path"]
    if told["clock"] is not None:
        clock.use(FakeClock(told["clock"]))
    module, name, file = told["target"]
    function = attrgetter(name)(_load_module(module, file))
    place = told["crash"]["place"]
    if "." in place:
        crash = Crash(**told["crash"])
        seat = find_patch_target(place)
        seat.put(with_call_hook(seat.function, lambda: crash(place)))
        function = attrgetter(name)(sys.modules[module])  # it may be the place itself
    result: Any = function(*told["args"])
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _load_module(name: str, file: str | None) -> Any:
    """Return a module by its name; where that leads nowhere, as for a test file, by its file."""
    if name == "__main__" and file is not None:
        name = Path(file).stem
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if file is None or error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        message = f"no module can be made of {file}"
        raise ImportError(message)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
