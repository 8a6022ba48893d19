"""Which store a command looks at: ``--app``, ``--url``, the environment, the file, or the file that is there."""

import functools
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from outlast.cli.errors import CommandError

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.errors import SchemaError


P = ParamSpec("P")
R = TypeVar("R")

URL_VARIABLE = "OUTLAST_URL"
DEFAULT_FILE = "outlast.db"
_MISSING_TABLE_ERRORS = ("UndefinedTable", "UndefinedColumn")  # as psycopg calls it, which need not be installed


def with_app(
    *, may_create: bool = False, adds: bool = False, tells: bool = False
) -> "Callable[[Callable[Concatenate[App, P], R]], Callable[..., R]]":
    """Give a command the options ``--app`` and ``--url``, and the app that they lead to as its first argument.

    Args:
        may_create: Whether the file of a SQLite URL may come into being; a mistyped name should not make one.
        adds: Whether the command adds something; the file of an app, hardly a mistype, may come into being.
        tells: Whether the command notifies people; without an app they are those that the settings name.
    """

    def decorate(command: "Callable[Concatenate[App, P], R]") -> Callable[..., R]:
        @click.option(
            "--app", "reference", metavar="MODULE:APP", help="The app whose store is meant, such as jobs:app."
        )
        @click.option(
            "--url",
            metavar="URL",
            help=f"The store, such as sqlite:///outlast.db. Default: ${URL_VARIABLE}, then url under [app] in "
            f"outlast.toml, then {DEFAULT_FILE} if that file is there.",
        )
        @functools.wraps(command)
        def run(*args: Any, reference: str | None, url: str | None, **kwargs: Any) -> R:
            created = may_create or (adds and reference is not None)
            from outlast.errors import SchemaError  # noqa: PLC0415  # not for --help

            app = resolve_app(reference, url, may_create=created, tells=tells)
            try:
                return command(app, *args, **kwargs)
            except SchemaError as error:
                raise _missing_tables_error(error, reference, url) from error
            except Exception as error:
                if type(error).__name__ in _MISSING_TABLE_ERRORS:
                    _check_tables(app, reference, url)  # which says what to do about it
                raise
            finally:
                app.close()

        return run

    return decorate


def _check_tables(app: "App", reference: str | None, url: str | None) -> None:
    from outlast.errors import SchemaError  # noqa: PLC0415  # not for --help

    try:
        app.store.check_schema()
    except SchemaError as error:
        raise _missing_tables_error(error, reference, url) from error


def _missing_tables_error(error: "SchemaError", reference: str | None, url: str | None) -> CommandError:
    """Return the error with the whole command that helps; a URL that holds a secret is not repeated."""
    text = str(error)
    more = shlex.join(_store_words(reference, url))
    return CommandError(f"{text} {more}" if more and "; run: " in text else text)


def next_command(*words: object) -> str:
    """Return a command to type next, with the ``--app`` or ``--url`` that this one was given."""
    params = click.get_current_context().params
    return shlex.join(["outlast", *map(str, words), *_store_words(params.get("reference"), params.get("url"))])


def _store_words(reference: str | None, url: str | None) -> list[str]:
    """Return the words that name the store; a URL that holds a secret is not repeated."""
    from outlast.redact import redact  # noqa: PLC0415  # not for --help

    if reference:
        return ["--app", reference]
    return ["--url", url] if url and redact(url) == url else []


def resolve_app(reference: str | None, url: str | None, *, may_create: bool = False, tells: bool = False) -> "App":
    """Return the app that is meant; the settings of outlast.toml are in use from here on.

    Args:
        reference: ``MODULE:APP``, if it was given.
        url: Of the store, if it was given.
        may_create: Whether a SQLite file may come into being.
        tells: Whether the people that the settings name are needed.

    Raises:
        ConfigError: If nothing says which store is meant, or it cannot be.
    """
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if reference is not None and url is not None:
        message = "give --app or --url, not both"
        raise click.UsageError(message)
    config = configure()
    if reference is not None:
        from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help

        app, meant = load_app(reference), f"--app {reference}"
    else:
        from outlast.app import App  # noqa: PLC0415  # not for --help

        chosen = _resolve_url(url, config.app.get("url"))
        notify = config.app.get("notify", ()) if tells else ()
        app, meant = App(chosen, notify=notify), f"--url {chosen}"
    if not may_create:
        _check_file(app, meant)
    return app


def _resolve_url(given: str | None, configured: str | None) -> str:
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    chosen = given or os.environ.get(URL_VARIABLE) or configured
    if chosen:
        return chosen
    if Path(DEFAULT_FILE).is_file():
        return f"sqlite:///{DEFAULT_FILE}"
    message = (
        f"nothing says which store is meant, and there is no {DEFAULT_FILE} here; give --app MODULE:APP or --url URL, "
        f"set {URL_VARIABLE}, or put url under [app] in outlast.toml (outlast init writes one)"
    )
    raise ConfigError(message)


def _check_file(app: "App", meant: str) -> None:
    """See that a SQLite file is there; it is opened with the first question, which would create it."""
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    path = getattr(getattr(app.store, "db", None), "path", None)
    if isinstance(path, Path) and not app.store.in_process and not path.exists():
        name = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        which = "URL" if meant.startswith("--url") else "app"
        message = f"there is no file {name}; is the {which} right? To create it: outlast db init {meant}"
        raise ConfigError(message)


def store_label(app: "App") -> str:
    """Return where an app's tasks are, for people: without a password."""
    from outlast.report.text_format import store_location  # noqa: PLC0415  # not for --help

    return store_location(app.store)
