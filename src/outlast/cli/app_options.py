"""The store of a command: ``--app``, ``--url``, OUTLAST_URL, outlast.toml, or ``outlast.db`` in the current folder."""

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
_MISSING_TABLE_ERRORS = ("UndefinedTable", "UndefinedColumn")  # names in psycopg, which may not be installed


def with_app(
    *, may_create: bool = False, creates_file: bool = False, notifies: bool = False
) -> "Callable[[Callable[Concatenate[App, P], R]], Callable[..., R]]":
    """Add the options ``--app`` and ``--url`` to a command, and pass the app as its first argument.

    Args:
        may_create: Whether the SQLite file of a URL may be created. Mostly not, so that a typo creates no file.
        creates_file: Whether the SQLite file of an ``--app`` may be created.
        notifies: Whether the command sends alerts. Without ``--app`` the channels come from the settings.
    """

    def decorate(command: "Callable[Concatenate[App, P], R]") -> Callable[..., R]:
        @click.option("--app", "reference", metavar="MODULE:APP", help="The app whose store to use, such as jobs:app.")
        @click.option(
            "--url",
            metavar="URL",
            help=f"The store, such as sqlite:///outlast.db. Default: ${URL_VARIABLE}, then url under [app] in "
            f"outlast.toml, then {DEFAULT_FILE} if that file exists.",
        )
        @functools.wraps(command)
        def run(*args: Any, reference: str | None, url: str | None, **kwargs: Any) -> R:
            created = may_create or (creates_file and reference is not None)
            from outlast.errors import SchemaError  # noqa: PLC0415  # not for --help

            app = resolve_app(reference, url, may_create=created, notifies=notifies)
            try:
                return command(app, *args, **kwargs)
            except SchemaError as error:
                raise _missing_tables_error(error, reference, url) from error
            except Exception as error:
                if type(error).__name__ in _MISSING_TABLE_ERRORS:
                    _check_tables(app, reference, url)  # its error says what to do
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
    """Return the error with the complete command to run; a URL with a secret is not repeated."""
    text = str(error)
    store = shlex.join(_store_words(reference, url))
    return CommandError(f"{text} {store}" if store and "; run: " in text else text)


def next_command(*words: object) -> str:
    """Return a command to run next, with the ``--app`` or ``--url`` of this one."""
    params = click.get_current_context().params
    return shlex.join(["outlast", *map(str, words), *_store_words(params.get("reference"), params.get("url"))])


def _store_words(reference: str | None, url: str | None) -> list[str]:
    """Return the options that name the store; a URL with a secret is not repeated."""
    from outlast.redact import redact  # noqa: PLC0415  # not for --help

    if reference:
        return ["--app", reference]
    return ["--url", url] if url and redact(url) == url else []


def resolve_app(reference: str | None, url: str | None, *, may_create: bool = False, notifies: bool = False) -> "App":
    """Load the settings of outlast.toml and return the app of a command.

    Args:
        reference: ``MODULE:APP``, or None.
        url: URL of the store, or None.
        may_create: Whether a SQLite file may be created.
        notifies: Whether the app needs the alert channels of the settings.

    Raises:
        ConfigError: If no store is configured, or it cannot be used.
    """
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if reference is not None and url is not None:
        message = "give --app or --url, not both"
        raise click.UsageError(message)
    config = configure()
    if reference is not None:
        from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help

        app, option = load_app(reference), f"--app {reference}"
    else:
        from outlast.app import App  # noqa: PLC0415  # not for --help

        chosen = _resolve_url(url, config.app.get("url"))
        notify = config.app.get("notify", ()) if notifies else ()
        app, option = App(chosen, notify=notify), f"--url {chosen}"
    if not may_create:
        _check_file(app, option)
    return app


def _resolve_url(option: str | None, configured: str | None) -> str:
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    chosen = option or os.environ.get(URL_VARIABLE) or configured
    if chosen:
        return chosen
    if Path(DEFAULT_FILE).is_file():
        return f"sqlite:///{DEFAULT_FILE}"
    message = (
        f"no store is configured, and there is no {DEFAULT_FILE} in this folder; give --app MODULE:APP or --url URL, "
        f"set {URL_VARIABLE}, or put url under [app] in outlast.toml (outlast init writes one)"
    )
    raise ConfigError(message)


def _check_file(app: "App", option: str) -> None:
    """Check that a SQLite file exists, because the first query would create it."""
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    path = getattr(getattr(app.store, "db", None), "path", None)
    if isinstance(path, Path) and not app.store.in_process and not path.exists():
        name = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        what = "URL" if option.startswith("--url") else "app"
        message = f"the file {name} does not exist; check the {what}, or create the file: outlast db init {option}"
        raise ConfigError(message)


def store_label(app: "App") -> str:
    """Return the location of an app's store, without a password."""
    from outlast.report.text_format import store_location  # noqa: PLC0415  # not for --help

    return store_location(app.store)
