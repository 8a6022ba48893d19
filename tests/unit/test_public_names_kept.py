"""No public name disappears unnoticed.

tests/data/public_names.txt has a line for each: what the package and its public modules export, what docs/reference/api
publishes of other modules, the members of exported classes, the parameters of exported functions and methods, the
commands of the command line and their options. A line ``old renamed -> new`` allows `old` to be gone while `new`
exists, and counts for the members, parameters and options of `old` as well. To list what there is now, run this file.
"""

import enum
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Unpack, get_args, get_origin

import click

import outlast as package
from outlast.cli import cli

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = ROOT / "CHANGELOG.md"
RECORDED = Path(__file__).resolve().parent.parent / "data" / "public_names.txt"
MODULES = ("errors", "events", "worker", "health", "http", "testing", "engines.celery", "jobs.etl", "simulate", "web")
NOT_RECORDED = ("stores.postgres.store",)
"""Published for its constructor; its methods are those of the store port, which is not public."""
HANDLES = ("tasks", "dead_letters", "sources")
"""Attributes of an app that have a public interface of their own."""
_RENAMED = " renamed -> "


def public_names():
    """Return every public name, relative to the package."""
    found = set(_members("", package))
    for name in MODULES:
        module = getattr(package, name, None) or importlib.import_module(f"{package.__name__}.{name}")
        found |= {name, *_members(f"{name}.", module)}
    for name, module in _published_modules():
        found |= {name, *_members(f"{name}.", module)}
    app = package.App("memory://")
    for name in HANDLES:
        members = _class_members(f"App().{name}", type(getattr(app, name)))
        found |= {f"App().{name}", *(each for each in members if not each.startswith(f"App().{name}("))}
    return found | {f"cli: {words}" for words in _commands(cli, ())}


def _published_modules():
    """Yield further modules that have a page in docs/reference/api, reduced to the names on that page."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from reference_api import public
    finally:
        sys.path.pop(0)
    for title, names in public().items():
        name = title.partition(".")[2]
        if name and name not in (*MODULES, *NOT_RECORDED):
            module = importlib.import_module(title)
            yield name, SimpleNamespace(__all__=names, **{each: getattr(module, each) for each in names})


def _members(prefix, module):
    for name in module.__all__:
        value = getattr(module, name)
        yield prefix + name
        if inspect.isclass(value):
            yield from _class_members(prefix + name, value)
        elif inspect.ismodule(value) and callable(value):
            yield from _parameters(prefix + name, getattr(value, name))
        elif inspect.isfunction(value):
            yield from _parameters(prefix + name, value)


def _class_members(name, kind):
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] == package.__name__]
    if not issubclass(kind, enum.Enum) and any({"__init__", "__new__"} & vars(each).keys() for each in own):
        yield from _parameters(name, kind)
    for member in {member for each in own for member in (*vars(each), *inspect.get_annotations(each))}:
        if not member.startswith("_"):
            yield f"{name}.{member}"
            value = getattr(kind, member, None)
            if inspect.isfunction(value) or inspect.ismethod(value):
                yield from _parameters(f"{name}.{member}", value)


def _parameters(name, function):
    """Return what can be given by name; of the rest, only that more is taken."""
    for each in inspect.signature(function).parameters.values():
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            yield f"{name}({'*' if each.kind is each.VAR_POSITIONAL else '**'})"
            if get_origin(each.annotation) is Unpack:  # of a TypedDict
                yield from (
                    f"{name}({setting})" for setting in getattr(get_args(each.annotation)[0], "__annotations__", ())
                )
        elif each.kind is not each.POSITIONAL_ONLY and each.name != "self" and not each.name.startswith("_"):
            yield f"{name}({each.name})"


def _commands(command, words):
    if words:
        yield " ".join(words)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (" ".join([*words, option]) for option in (*parameter.opts, *parameter.secondary_opts))
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from _commands(command.get_command(context, name), (*words, name))


def _missing(lines, names):
    """Return the recorded names that are gone, and the renamed ones whose new name does not exist."""
    renamed = {old: new for old, _, new in (line.partition(_RENAMED) for line in lines) if new}
    return [line for line in lines if _new_name(line.partition(_RENAMED)[0], renamed) not in names]


def _new_name(name, renamed):
    """Return what a name is called now, also where it is a member, a parameter or an option of a renamed one."""
    for old in sorted(renamed, key=len, reverse=True):
        if name == old or name.startswith((f"{old}.", f"{old}(", f"{old} ")):
            return renamed[old] + name.removeprefix(old)
    return name


def test_every_recorded_name_exists_or_has_a_new_one():
    assert _missing(RECORDED.read_text("utf-8").splitlines(), public_names()) == []


def test_a_renamed_name_is_in_the_changelog():
    renamed = CHANGELOG.read_text("utf-8").partition("**Renamed**")[2].partition("\n### ")[0]
    for line in RECORDED.read_text("utf-8").splitlines():
        old, _, new = line.partition(_RENAMED)
        for name in (old, new) if new else ():
            word = re.split(r"[.\s]", name)[-1]
            assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", renamed), name


def test_a_renamed_name_needs_its_new_one():
    names = {"kept", "new", "new.member", "new(size)", "cli: new", "cli: new --rate"}
    assert _missing(["kept", "old renamed -> new", "old.member", "old(size)"], names) == []
    assert _missing(["cli: old renamed -> cli: new", "cli: old --rate"], names) == []
    assert _missing(["gone", "old renamed -> missing"], names) == ["gone", "old renamed -> missing"]
    assert _missing(["old renamed -> new", "old.lost", "older"], names) == ["old.lost", "older"]


if __name__ == "__main__":
    print("\n".join(sorted(public_names())))  # noqa: T201  # what is asked for
