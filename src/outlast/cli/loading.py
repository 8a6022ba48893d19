"""From ``MODULE:APP`` to the app, with an error that says what is wrong and what there is instead."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TypeVar

import click

from outlast.app import App
from outlast.cli.failing import MisusedError
from outlast.errors import ConfigError
from outlast.queue.masking import masked_text
from outlast.redact import safe_text

__all__ = ["find", "load_app", "names_of"]

T = TypeVar("T")
_LONGEST = 32_768  # characters of a traceback


def load_app(reference: str) -> App:
    """Import a module, from the current folder too, and return the app in it.

    Args:
        reference: Such as ``jobs:app`` or ``shop.jobs:Jobs.app``.

    Raises:
        ConfigError: If there is no such app; the message names those that the module has.
    """
    return find(reference, App)[1]


def find(reference: str, *kinds: type[T]) -> tuple[ModuleType, T]:
    """Import a module, from the current folder too; return it and what the reference names in it.

    Args:
        reference: Such as ``jobs:app``.
        kinds: What it may be.

    Raises:
        ConfigError: If there is no such thing; the message names those that the module has.
    """
    name, colon, path = reference.partition(":")
    _check_form(reference, name)
    module = _imported(name)
    if not colon or not path:
        message = f"{reference!r} names no app; write MODULE:APP{_instead(module, kinds)}"
        raise ConfigError(message)
    found: object = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            message = f"module {name} has no {path!r}{_instead(module, kinds)}"
            raise ConfigError(message) from None
    if not isinstance(found, kinds):
        message = f"{reference} is no {_told(kinds)} but {_described(found)}{_instead(module, kinds)}"
        raise ConfigError(message)
    return module, found


def _check_form(reference: str, name: str) -> None:
    file = Path(name)
    if file.suffix == ".py" or "/" in name:
        parts = file.with_suffix("").parts if file.name else ()  # a folder alone has no name
        meant = ".".join(part for part in parts if part not in {"/", ".", ".."}) or "MODULE"
        message = f"{reference!r} names a file; write the module as in an import: {meant}:APP"
        raise ConfigError(message)
    if not all(part.isidentifier() for part in name.split(".")):
        message = f"{reference!r} is no MODULE:APP; write the module as in an import, such as jobs:app"
        raise ConfigError(message)


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        message = (
            f"there is no module {error.name!r}; it was looked for in {here} and where packages are installed: "
            "run this in its folder, or install it"
        )
        raise ConfigError(message) from None
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> MisusedError:
    """Show where the module fails, from its own first line on, and return what ends the command."""
    frames = traceback.format_exception(type(error), error, _beyond_the_import(error.__traceback__))
    click.echo(safe_text(masked_text("".join(frames)), _LONGEST), err=True)
    return MisusedError(
        f"module {name} cannot be imported: {type(error).__name__}: {_text(error)}", "the lines above show where"
    )


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # the class is a foreign one
        return "its text cannot be had"


def _beyond_the_import(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins in the module itself."""
    ours = {__file__, importlib.__file__}
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in ours and not file.startswith("<frozen importlib"):
            return trace
        trace = trace.tb_next
    return None


def names_of(module: ModuleType, *kinds: type[T]) -> dict[str, T]:
    """Return what a module has of some kinds, by ``MODULE:NAME``; what it has under two names once."""
    found = {f"{module.__name__}:{name}": value for name, value in vars(module).items() if isinstance(value, kinds)}
    firsts = {id(value): name for name, value in reversed(found.items())}
    return {name: value for name, value in found.items() if firsts[id(value)] == name}


def _instead(module: ModuleType, kinds: tuple[type[object], ...]) -> str:
    names = names_of(module, *kinds)
    return f"; it has {', '.join(names)}" if names else f"; there is no {_told(kinds)} in {module.__name__} at all"


def _told(kinds: tuple[type[object], ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def _described(found: object) -> str:
    if isinstance(found, ModuleType | type) or callable(found):
        return f"a {type(found).__name__}"
    return f"of type {type(found).__name__}"
