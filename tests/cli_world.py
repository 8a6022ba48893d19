"""A folder with an app in it, as a user of the command line has one."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from outlast.classify import default_classifier, use_classifier
from outlast.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["World", "in_one_line", "make_world"]

JOBS = """
import time
from datetime import datetime
from pathlib import Path

import outlast

app = outlast.App("sqlite:///outlast.db", grace=20)
not_an_app = 4


class Shop:
    app = app


@app.task
def scrape(url: str, depth: int = 1, token: str | None = None):
    if "bad" in url:
        raise ValueError(f"no good: {url.split('/')[0]}")


@app.task(queue="mail")
def mail(to: str, at: datetime | None = None):
    Path("mailed").write_text(f"{to} {type(at).__name__}")


@app.task(policy=outlast.RetryPolicy(max_attempts=4, base_delay=1000, jitter="none"))
def flaky():
    raise ConnectionError("down")


@app.task
def slow(seconds: float):
    Path("begun").touch()
    time.sleep(seconds)
    Path("finished").touch()


@app.task
def many(first: int, *rest: int, **more: str):
    Path("many").write_text(f"{first} {rest} {more}")
"""


def in_one_line(text: str) -> str:
    """Return an error with what to do about it behind what is wrong, rather than beneath."""
    return text.replace("\n  ", "; ")


class World:
    """A folder with ``jobs.py``, and the command line in it.

    Attributes:
        folder: The current one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "jobs.py").write_text(JOBS, "utf-8")

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'outlast.db'}"

    def app(self) -> Any:
        """The app of ``jobs.py``."""
        import jobs

        return jobs.app

    def run(self, *words: object, code: int = 0, text: str | None = None) -> Result:
        """Run a command, and see that it ends as it should and without a traceback."""
        result = CliRunner().invoke(cli, [str(word) for word in words], input=text)
        assert result.exit_code == code, (result.output, result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    def json(self, *words: object, code: int = 0) -> Any:
        """Run a command with ``--json``."""
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def enqueue(self, *words: object) -> int:
        return int(self.json("enqueue", "jobs:app", *words)["task_id"])

    def drain(self) -> None:
        app = self.app()
        app.worker(concurrency=1).drain()
        app.close()

    def dead_letters(self, count: int, *words: object) -> list[int]:
        """Have so many tasks fail for good; return the numbers of all dead letters, newest first."""
        for number in range(count):
            self.enqueue("scrape", f"url=bad{number}/x", *words)
        self.drain()
        return [letter["id"] for letter in self.json("dlq", "list", "--limit", 1000)]


@pytest.fixture(name="world")
def make_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for variable in ("OUTLAST_URL", "OUTLAST_CONFIG", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    sys.modules.pop("jobs", None)
    before, root = default_classifier(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield World(tmp_path)
    if (jobs := sys.modules.pop("jobs", None)) is not None:
        jobs.app.close()
    use_classifier(before)
    root.handlers[:] = handlers
    root.setLevel(level)
