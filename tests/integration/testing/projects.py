"""Small projects of users, and how the plugin comes to them: through its entry point, as it does to everybody."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, entry_points
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PROJECT = ROOT / "pyproject.toml"


class Project:
    """A folder with a program and its tests."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run(self, *options, **environment):
        """Run pytest there; return what it printed, and its exit code."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *map(str, options)]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OUTLAST_", "PYTEST_"))}
        clean |= self.environment | environment
        done = subprocess.run(
            command, cwd=self.folder, env=clean, capture_output=True, text=True, timeout=100, check=False
        )
        return done.stdout + done.stderr, done.returncode


def names(text, outcome):
    return set(re.findall(rf"^{outcome} \S*?::(\w+(?:\[\w+\])?)", text, re.MULTILINE))


def declared():
    """Return the plugins that the project declares, by name."""
    return tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["entry-points"]["pytest11"]


def installed():
    """Return the plugins that pytest finds for Outlast, by name."""
    return {each.name: each.value for each in entry_points(group="pytest11") if each.module.startswith("outlast.")}


def is_outdated():
    """Tell whether the project has changed since it was installed; ``make test`` installs it anew in that case."""
    record = next(file for file in distribution("outlast").files if file.name == "RECORD")
    return record.locate().stat().st_mtime < _PROJECT.stat().st_mtime
