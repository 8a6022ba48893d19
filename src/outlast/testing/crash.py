"""Runs a program that crashes at a given place, as by a power cut or the out-of-memory killer.

The program runs in a new process, which is not forked, and kills itself at the place that the test names. The test can
then check what it has left behind.
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

# As for the child processes of a worker: the path of Outlast is added, the current directory is not.
_CHILD_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from outlast.testing.crash import run_child; run_child()"
_PACKAGE_ROOT = str(Path(__file__).parents[2])
_OUTPUT_SHOWN = 4000  # characters of the output in an error
_POLL_SECONDS = 0.01  # seconds between two checks


class Crashed(NamedTuple):
    """A program that crashed at the given place.

    Attributes:
        place: The place.
        code: Its exit code; for a signal, a negative number. 0 if one of its child processes crashed and the program
            went on.
        output: What it printed, including standard error.
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
    """Run a program in a new process, and kill it with SIGKILL at a place.

    The process does not have the patches of the test: pass what it needs as arguments or in its environment. If the
    test uses a fake clock, the process gets one with the same time. The child processes of the program are killed too,
    unless they have their own session.

    Args:
        place: The name of an ``outlast.point``, or the dotted name of a function; it crashes when that is called.
        program: A function that another process can import, async or not; or a command such as
            ``[sys.executable, "-m", "shop"]``, which can crash only at a point.
        args: Arguments of the function, as JSON values.
        after: Number of passes that do not crash.
        env: Added to its environment.
        timeout: Maximum time of the program in seconds.

    Raises:
        NotReachedError: If the program ends or times out before it reaches the place.
        ConfigError: If the program cannot be run in this way.
    """
    __tracebackhide__ = True  # a failing test shows its own line
    # Errors are ignored: a process that is being killed may still write while the folder is removed.
    with tempfile.TemporaryDirectory(prefix="outlast-crash-", ignore_cleanup_errors=True) as folder:
        crash = {"place": place, "after": after, "folder": folder}
        command, stdin = _command(place, program, args, crash)
        environment = os.environ | dict(env or {}) | {"OUTLAST_CRASH": json.dumps(crash)}
        code = _run(command, stdin, environment, Path(folder), timeout)
        output = _read_text(folder, "output")
        if (Path(folder) / "ended").exists():
            return Crashed(place, code if code is not None else -signal.SIGKILL, output)
        if code is None:
            end = f"did not reach {place!r} within {timeout:g} s"
        else:
            end = f"ended with exit code {code} before {place!r}"
        passed = passed_points_text(map(json.loads, _read_text(folder, "passed").splitlines()))
        printed = f"It printed:\n{output[-_OUTPUT_SHOWN:]}" if output.strip() else "It printed nothing."
        raise NotReachedError(f"the program {end}, so it did not crash there; {passed}. {printed}")


def _command(place: str, program: Any, args: tuple[Any, ...], crash: Mapping[str, Any]) -> tuple[list[str], bytes]:
    """Return the command to start, and its standard input."""
    if not callable(program):
        if args:
            raise ConfigError("a command takes no further arguments; add them to the command itself")
        if "." in place:
            raise ConfigError(
                f"a command can crash only at a point, not at {place}; add outlast.point(…) there, or give a function"
            )
        return [str(each) for each in program], b""
    try:
        module, name, main = function_ref(program)
    except ConfigurationError as error:
        raise ConfigError(str(error)) from error
    with contextlib.suppress(TypeError):
        main = main or inspect.getsourcefile(inspect.unwrap(program))
    clock = current_fake_clock()
    request = {
        "path": sys.path,
        "target": [module, name, main],
        "args": args,
        "clock": None if clock is None else clock.now(),
        "crash": crash,
    }
    try:
        line = json.dumps(request).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the arguments cannot be sent to another process as JSON: {error}") from error
    return [sys.executable, "-P", "-c", _CHILD_PROGRAM, _PACKAGE_ROOT], line


def _run(command: list[str], stdin_data: bytes, env: Mapping[str, str], folder: Path, timeout: float) -> int | None:
    """Run a command and kill its process group; return its exit code, or None after a timeout."""
    (folder / "stdin").write_bytes(stdin_data)
    with (folder / "stdin").open("rb") as stdin, (folder / "output").open("wb") as output:
        try:
            process = subprocess.Popen(  # noqa: S603  # the test's own program
                command, stdin=stdin, stdout=output, stderr=output, env=dict(env), start_new_session=True
            )
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started: {error}") from error
    ended = False
    try:
        ended = _wait_for_end(process, timeout)
    finally:
        _kill(process)
    return process.returncode if ended else None


def _wait_for_end(process: "subprocess.Popen[bytes]", timeout: float) -> bool:
    """Wait for a process and return whether it has ended; it is not reaped, so that its group id stays valid."""
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
    """Kill a process and its group; the process is reaped only afterwards, so that its id is not reused."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_text(folder: str, name: str) -> str:
    file = Path(folder) / name
    return file.read_text("utf-8", "replace") if file.exists() else ""


def run_child() -> None:
    """Run the function that standard input describes as JSON; `crash_at` starts a process with this."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    if request["clock"] is not None:
        clock.use(FakeClock(request["clock"]))
    module, name, file = request["target"]
    function = attrgetter(name)(_load_module(module, file))
    place = request["crash"]["place"]
    if "." in place:
        crash = Crash(**request["crash"])
        target = find_patch_target(place)
        target.put(with_call_hook(target.function, lambda: crash(place)))
        function = attrgetter(name)(sys.modules[module])  # the function may be the place itself
    result: Any = function(*request["args"])
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _load_module(name: str, file: str | None) -> Any:
    """Import a module by its name; if there is none, as for a test file, load its file."""
    if name == "__main__" and file is not None:
        name = Path(file).stem
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if file is None or error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded as a module")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
