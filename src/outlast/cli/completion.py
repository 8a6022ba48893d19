"""``outlast completion``: the script by which a shell completes commands, options and values."""

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from outlast.app import App


# Values that the shell completes: what is known by heart, and what a SQLite file tells at once.
#
# A completion never fails, waits for nobody and runs no code of the user: no server is asked, and no app is imported.

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
_MAX_RUNS = 20
_SQLITE_SCHEME = "sqlite:///"


def _completer(names: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Return what click asks for completions; where the names cannot be had, there are none."""

    @wraps(names)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # as click calls it
        try:
            return [name for name in names(ctx) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001  # whoever presses a key must not see a traceback
            return []

    return complete


@_completer
def category_names(_: click.Context) -> Iterable[str]:
    """Complete the categories of failures."""
    from outlast.failure import Category  # noqa: PLC0415  # not for --help

    return [str(category) for category in Category]


@_completer
def policy_names(_: click.Context) -> Iterable[str]:
    """Complete the policies that have names."""
    from outlast.config import configure  # noqa: PLC0415  # not for --help
    from outlast.decide.presets import PRESETS  # noqa: PLC0415  # not for --help

    return dict.fromkeys([*configure().policies, "default", *PRESETS])


@_completer
def profile_names(_: click.Context) -> Iterable[str]:
    """Complete the profiles that come with Outlast."""
    from outlast.decide.source_health import PROFILES  # noqa: PLC0415  # not for --help

    return PROFILES


@_completer
def queue_names(ctx: click.Context) -> Iterable[str]:
    """Complete the queues that the store knows."""
    return _names_in_store(ctx, lambda app: [row.name for row in app.tasks.queues()])


@_completer
def run_ids(ctx: click.Context) -> Iterable[str]:
    """Complete the last runs of jobs."""
    return _names_in_store(ctx, lambda app: [run.id for run in app.store.runs(None, _MAX_RUNS)])


def _names_in_store(ctx: click.Context, ask: "Callable[[App], Iterable[str]]") -> Iterable[str]:
    """Ask the store, if it is a file that is there; no name brings one into being."""
    from outlast.cli.app_options import DEFAULT_FILE, URL_VARIABLE  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if ctx.params.get("reference"):
        return ()  # the file is known to the app alone, whose module may do anything
    given = ctx.params.get("url") or os.environ.get(URL_VARIABLE) or configure().app.get("url")
    url = str(given or f"{_SQLITE_SCHEME}{DEFAULT_FILE}")
    if not url.startswith(_SQLITE_SCHEME) or not Path(url.removeprefix(_SQLITE_SCHEME)).is_file():
        return ()
    from outlast.app import App  # noqa: PLC0415  # not for --help

    app = App(url)
    try:
        return list(ask(app))
    finally:
        app.close()


SHELLS = ("bash", "zsh", "fish")
_COMPLETE_VARIABLE = "_OUTLAST_COMPLETE"  # by which the script asks; the same name that click makes of the program's


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that has a shell complete what you type: bash, zsh or fish.

    It completes commands, options, and values where they are known: states, categories, policies, profiles; queues and
    runs of a SQLite file. It works in shells that are opened afterwards.

    \b
    For bash, put this into ~/.bashrc:
      eval "$(outlast completion bash)"
    For zsh, put this into ~/.zshrc, behind compinit:
      eval "$(outlast completion zsh)"
    For fish, write a file once, as below.

    \b
    Examples:
      outlast completion bash
      outlast completion fish > ~/.config/fish/completions/outlast.fish
    """  # noqa: D301  # click reads the control character, not a backslash
    from click.shell_completion import ShellComplete, get_completion_class  # noqa: PLC0415  # not for --help

    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    assert kind is not None, shell  # noqa: S101  # click knows all of them
    made = kind(root.command, {}, "outlast", _COMPLETE_VARIABLE)
    click.echo(ShellComplete.source(made))  # of the base: bash need not be asked for its version
