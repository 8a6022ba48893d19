"""Functions that suspects run, where another process finds them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

import outlast

HERE = {}
"""What the program sets up when it starts, and no other process has."""


def _note(notes: str) -> None:
    with Path(notes).open("a") as file:
        file.write(f"{outlast.current_task().id} {os.getpid()}\n")


def leave(notes: str) -> None:
    _note(notes)
    os._exit(3)


def fault(notes: str) -> None:
    _note(notes)
    ctypes.string_at(0)


def murder(notes: str) -> None:
    _note(notes)
    os.kill(os.getpid(), signal.SIGKILL)


def hoard(notes: str) -> None:
    """Take memory without end."""
    _note(notes)
    taken = []
    while True:
        taken.append(bytearray(2**22))


async def leave_async(notes: str) -> None:
    _note(notes)
    await asyncio.sleep(0)
    os._exit(4)


def innocent(notes: str) -> int:
    _note(notes)
    return os.getpid()


async def innocent_async(notes: str) -> int:
    _note(notes)
    await asyncio.sleep(0)
    return os.getpid()


def cut_off(notes: str) -> None:
    """Run out of memory where that is told as another error, one that is retried."""
    _note(notes)
    try:
        bytearray(2**40)
    except MemoryError as error:
        raise ConnectionError("the other side is gone") from error


def unreachable(notes: str) -> None:
    _note(notes)
    raise ConnectionError("refused")


def homesick(notes: str) -> None:
    _note(notes)
    HERE["client"].get("/")


def gated(notes: str, gate: str) -> None:
    _note(notes)
    while not Path(gate).exists():
        time.sleep(0.01)
