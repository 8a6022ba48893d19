"""Kills this process at a named point if a test asks for it. Loaded only in such tests."""

import json
import os
import signal
import time
from pathlib import Path
from typing import NoReturn


class Crash:
    """Kills this process, like ``kill -9``, when it passes a named place often enough.

    Passes are counted across the processes that share the folder, so a program that starts others crashes once.

    Args:
        place: The name of the place.
        after: Number of passes before the one that kills.
        folder: Folder in which the passes are recorded, for the test to read.
    """

    def __init__(self, place: str, after: int, folder: str) -> None:
        self.place, self.after, self.folder = place, after, Path(folder)
        self._is_over = False

    def __call__(self, name: str) -> None:
        """Record that a place was passed, and kill the process if it is time. Does nothing once the test is over."""
        if self._is_over:
            return
        try:
            _append(self.folder / "passed", json.dumps(name).encode() + b"\n")
            if name == self.place and _append(self.folder / "here", b".") == self.after + 1:
                (self.folder / "ended").write_text(str(os.getpid()))
                _kill_self()
        except FileNotFoundError:  # the test has ended and removed its folder
            self._is_over = True


def crash_from_json(text: str) -> Crash | None:
    """Return the crash that a JSON text describes; None if the text is not valid or the test is over."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    match data:
        case {"place": str(place), "after": int(after), "folder": str(folder)} if Path(folder).is_dir():
            return Crash(place, after, folder)
    return None


def _append(file: Path, data: bytes) -> int:
    """Append to a file in one write; return the position after it, which is different for every process."""
    number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(number, data)
        return os.lseek(number, 0, os.SEEK_CUR)
    finally:
        os.close(number)


def _kill_self() -> NoReturn:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows: SIGTERM kills too
    while True:
        time.sleep(1)  # until the signal arrives; nothing after the place may run
