"""Options that commands share; the store: ``--app``, ``--url``, OUTLAST_URL, outlast.toml, or ``outlast.db``."""

import functools
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from outlast.cli.errors import CommandError
from outlast.cli.formats import ROW_LIMIT, ROW_NUMBER
from outlast.config import configure
from outlast.errors import ConfigError, SchemaError
from outlast.redact import redact

if TYPE_CHECKING:
    from outlast.app import App


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

URL_VARIABLE = "OUTLAST_URL"
DEFAULT_FILE = "outlast.db"
_MISSING_TABLE_ERRORS = ("UndefinedTable", "UndefinedColumn")  # names in psycopg, which may not be installed


def option(name: str, metavar: str, text: str, parameter: str | None = None, **settings: Any) -> "Callable[[F], F]":
    """Return an option with a value.

    Args:
        name: Such as ``--queue``.
        metavar: What help texts show for the value.
        text: Its help text.
        parameter: Name of the command's parameter; by default that of the option.
        settings: More settings of `click.option`.
    """
    names, is_shown = filter(None, (name, parameter)), bool(settings.get("default"))
    return click.option(*names, metavar=metavar, help=text, show_default=is_shown, **settings)


def flag(name: str, text: str, parameter: str | None = None) -> "Callable[[F], F]":
    """Return an option without a value; `option` describes the arguments."""
    return click.option(*filter(None, (name, parameter)), is_flag=True, help=text)


json_option = flag("--json", "Print JSON: an object, or a list of objects.", "as_json")
id_argument = click.argument("number", type=ROW_NUMBER, metavar="ID")


def list_options(what: str = "", default: int = 0) -> "Callable[[F], F]":
    """Return the options of a command that prints a list: ``--limit``, ``--wide`` and ``--json``.

    Args:
        what: The rows, such as ``Tasks``; empty if the list has no limit.
        default: How many rows are listed by default.
    """
    wide = click.option("--wide", is_flag=True, expose_value=False, callback=_set_wide, help="Cut no column.")
    limit = option("--limit", "N", f"{what} at most.", type=ROW_LIMIT, default=default)
    return lambda command: (limit if what else lambda same: same)(wide(json_option(command)))


def _set_wide(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  # as click calls it
    context.meta["outlast.wide"] = value


def with_app(command: "Callable[Concatenate[App, P], R]") -> Callable[..., R]:
    """Add the options ``--app`` and ``--url`` to a command, and pass the app as its first argument."""
    return with_configured_app()(command)


def with_configured_app(
    *, may_create: bool = False, creates_file: bool = False, notifies: bool = False
) -> "Callable[[Callable[Concatenate[App, P], R]], Callable[..., R]]":
    """Return `with_app` for a command that may create the store or sends alerts.

    Args:
        may_create: Whether the SQLite file of a URL may be created. Mostly not, so that a typo creates no file.
        creates_file: Whether the SQLite file of an ``--app`` may be created.
        notifies: Whether the command sends alerts. Without ``--app`` the channels come from the settings.
    """

    def decorate(command: "Callable[Concatenate[App, P], R]") -> Callable[..., R]:
        @option("--app", "MODULE:APP", "The app whose store to use, such as jobs:app.", "reference")
        @option(
            "--url",
            "URL",
            f"The store, such as sqlite:///outlast.db. Default: ${URL_VARIABLE}, then url under [app] in "
            f"outlast.toml, then {DEFAULT_FILE} if that file exists.",
        )
        @functools.wraps(command)
        def run(*args: Any, reference: str | None, url: str | None, **kwargs: Any) -> R:
            created = may_create or (creates_file and reference is not None)
            app = resolve_app(reference, url, may_create=created, notifies=notifies)
            try:
                try:
                    return command(app, *args, **kwargs)
                except Exception as error:
                    if type(error).__name__ in _MISSING_TABLE_ERRORS:
                        app.store.check_schema()  # its error says what to do
                    raise
            except SchemaError as error:
                text, store = str(error), shlex.join(_store_words(reference, url))
                raise CommandError(f"{text} {store}" if store and "; run: " in text else text) from error
            finally:
                app.close()

        return run

    return decorate


def next_command(*words: object) -> str:
    """Return a command to run next, with the ``--app`` or ``--url`` of this one."""
    params = click.get_current_context().params
    return shlex.join(["outlast", *map(str, words), *_store_words(params.get("reference"), params.get("url"))])


def _store_words(reference: str | None, url: str | None) -> list[str]:
    """Return the options that name the store; a URL with a secret is not repeated."""
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
    if reference is not None and url is not None:
        raise click.UsageError("give --app or --url, not both")
    config = configure()
    if reference is not None:
        from outlast.cli.loader import load_app  # noqa: PLC0415  # not for --help

        app, option = load_app(reference), f"--app {reference}"
    else:
        from outlast.app import App  # noqa: PLC0415  # not for --help

        chosen = _resolve_url(url, config.app.get("url"))
        notify = config.app.get("notify", ()) if notifies else ()
        app = App(chosen, notify=notify, dashboard_url=config.app.get("dashboard_url", ""))
        option = f"--url {chosen}"
    if not may_create:
        _check_file(app, option)
    return app


def _resolve_url(option: str | None, configured: str | None) -> str:
    chosen = option or os.environ.get(URL_VARIABLE) or configured
    if chosen:
        return chosen
    if Path(DEFAULT_FILE).is_file():
        return f"sqlite:///{DEFAULT_FILE}"
    raise ConfigError(
        f"no store is configured, and there is no {DEFAULT_FILE} in this folder; give --app MODULE:APP or --url URL, "
        f"set {URL_VARIABLE}, or put url under [app] in outlast.toml (outlast init writes one)"
    )


def _check_file(app: "App", option: str) -> None:
    """Check that a SQLite file exists, because the first query would create it."""
    path = getattr(getattr(app.store, "db", None), "path", None)
    if isinstance(path, Path) and not app.store.in_process and not path.exists():
        name = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        what = "URL" if option.startswith("--url") else "app"
        raise ConfigError(
            f"the file {name} does not exist; check the {what}, or create the file: outlast db init {option}"
        )


def reaches_store(check: Callable[[], object], *, required: bool) -> bool:
    """Check the store; return False if it cannot be reached, because workers and monitors wait for it.

    Args:
        check: Raises if the store cannot be used.
        required: Whether a store that cannot be reached is an error.
    """
    from outlast.run.store_wait import is_store_outage  # noqa: PLC0415  # not for --help

    try:
        check()
    except Exception as error:
        if required or not is_store_outage(error):
            raise
        return False
    return True
