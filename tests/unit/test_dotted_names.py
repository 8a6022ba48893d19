"""Names of modules that are written as strings: a moved module breaks them only at run time."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import outlast

PACKAGE = Path(outlast.__file__).parent
DOTTED = re.compile(r"(?<![\w./@-])outlast(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?(?![\w-])")
NOT_MODULES = frozenset(
    {
        # files, settings and keys that begin with the name of the project
        "outlast.toml",
        "outlast.db",
        "outlast.service",
        "outlast.moving",
        # keys of an ASGI scope
        "outlast.caller",
        "outlast.nonce",
        "outlast.prefix",
        # keys in the context of a command
        "outlast.command",
        "outlast.wide",
        # names of span events, and of the logger of alerts
        "outlast.attempt_failed",
        "outlast.gave_up",
        "outlast.recovered",
        "outlast.retrying",
        "outlast.task_deferred",
        "outlast.task_failed",
        "outlast.task_retrying",
        "outlast.notify",
    }
)


def written_names():
    """Yield every dotted name in a string of the package that is not a logger or a context variable."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        labels = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in {"getLogger", "ContextVar", "get_tracer", "get_meter"}:
                    labels.update(id(each) for each in node.args)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in labels:
                for found in DOTTED.findall(node.value):
                    if found not in NOT_MODULES and found.partition(":")[0] not in NOT_MODULES:
                        yield path.relative_to(PACKAGE).as_posix(), found


WRITTEN = sorted(set(written_names()))


def test_there_are_such_names():
    assert len(WRITTEN) > 60


@pytest.mark.parametrize(("file", "name"), WRITTEN)
def test_every_dotted_name_in_a_string_resolves(file, name):
    assert resolves(name), f"{file} names {name}, which does not exist"


def resolves(name):
    module, _, attribute = name.partition(":")
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for each in [*parts[count:], *filter(None, [attribute])]:
            if not hasattr(found, each):
                return False
            found = getattr(found, each)
        return True
    return False
