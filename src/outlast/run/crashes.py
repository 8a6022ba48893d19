"""Kills this process at a named point if a test asks for it. Loaded only in such tests."""

import json
import os
import signal
import time
from pathlib import Path
from typing import NoReturn


class Crash:
    """Ends this process as ``kill -9`` does when a place is passed for the right time.

    Passes are counted across the processes that share the folder, so a program that starts others crashes once.

    Args:
        place: The name of the place.
        after: So many passes are let through.
        folder: Where the passes are noted, for the test to read.
    """

    def __init__(self, place: str, after: int, folder: str) -> None:
        """Keep them."""
        self.place, self.after, self.folder = place, after, Path(folder)
        self._is_over = False

    def __call__(self, name: str) -> None:
        """Note that a place was passed; end there if it is the one. Once the test is over, nothing happens."""
        if self._is_over:
            return
        try:
            _append(self.folder / "passed", json.dumps(name).encode() + b"\n")
            if name == self.place and _append(self.folder / "here", b".") == self.after + 1:
                (self.folder / "ended").write_text(str(os.getpid()))
                _kill_self()
        except FileNotFoundError:  # the test has removed its folder, and this process outlives it
            self._is_over = True


def crash_from_json(text: str) -> Crash | None:
    """Return the crash that stands in the environment, as JSON; None if it is no such thing, or its test is over."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    match told:
        case {"place": str(place), "after": int(after), "folder": str(folder)} if Path(folder).is_dir():
            return Crash(place, after, folder)
    return None


def _append(file: Path, data: bytes) -> int:
    """Add to the end of a file, whole; return where that is now, which no other process is told as well."""
    number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(number, data)
        return os.lseek(number, 0, os.SEEK_CUR)
    finally:
        os.close(number)


def _kill_self() -> NoReturn:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has one way to kill, and calls it so
    while True:
        time.sleep(1)  # the signal is on its way; nothing after the place may run
