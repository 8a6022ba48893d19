"""The process that `crash_at` starts for a function: it loads it, arms the place, and calls it."""

import asyncio
import importlib
import importlib.util
import inspect
import json
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

from outlast import clock
from outlast.run.crashes import Crash
from outlast.testing.clocks import FakeClock
from outlast.testing.faults import watched
from outlast.testing.seats import seat_of

__all__ = ["main"]


def main() -> None:
    """Do what stdin says, as JSON."""
    told = json.load(sys.stdin)
    sys.path[:] = told["path"]
    if told["clock"] is not None:
        clock.use(FakeClock(told["clock"]))
    module, name, file = told["target"]
    function = attrgetter(name)(_module(module, file))
    place = told["crash"]["place"]
    if "." in place:
        crash = Crash(**told["crash"])
        seat = seat_of(place)
        seat.put(watched(seat.function, lambda: crash(place)))
        function = attrgetter(name)(sys.modules[module])  # it may be the place itself
    result: Any = function(*told["args"])
    if inspect.iscoroutine(result):
        asyncio.run(result)


def _module(name: str, file: str | None) -> Any:
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
