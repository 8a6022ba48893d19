"""Values that the shell completes: what is known by heart, and what a SQLite file tells at once.

A completion never fails, waits for nobody and runs no code of the user: no server is asked, and no app is imported.
"""

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["category_names", "policy_names", "profile_names", "queue_names", "run_ids"]

Names = Callable[[click.Context, click.Parameter, str], list[str]]
_RUNS = 20
_SCHEME = "sqlite:///"


def _completing(names: Callable[[click.Context], Iterable[str]]) -> Names:
    """Return what click asks for completions; where the names cannot be had, there are none."""

    @wraps(names)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # as click calls it
        try:
            return [name for name in names(ctx) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001  # whoever presses a key must not see a traceback
            return []

    return complete


@_completing
def category_names(_: click.Context) -> Iterable[str]:
    """Complete the categories of failures."""
    from outlast.failure import Category  # noqa: PLC0415  # not for --help

    return [str(category) for category in Category]


@_completing
def policy_names(_: click.Context) -> Iterable[str]:
    """Complete the policies that have names."""
    from outlast.config import configure  # noqa: PLC0415  # not for --help
    from outlast.decide.presets import PRESETS  # noqa: PLC0415  # not for --help

    return dict.fromkeys([*configure().policies, "default", *PRESETS])


@_completing
def profile_names(_: click.Context) -> Iterable[str]:
    """Complete the profiles that come with Outlast."""
    from outlast.decide.profiles import PROFILES  # noqa: PLC0415  # not for --help

    return PROFILES


@_completing
def queue_names(ctx: click.Context) -> Iterable[str]:
    """Complete the queues that the store knows."""
    return _asked(ctx, lambda app: [row.name for row in app.tasks.queues()])


@_completing
def run_ids(ctx: click.Context) -> Iterable[str]:
    """Complete the last runs of jobs."""
    return _asked(ctx, lambda app: [run.id for run in app.store.runs(None, _RUNS)])


def _asked(ctx: click.Context, ask: "Callable[[App], Iterable[str]]") -> Iterable[str]:
    """Ask the store, if it is a file that is there; no name brings one into being."""
    from outlast.cli.choosing import DEFAULT_FILE, URL_VARIABLE  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if ctx.params.get("reference"):
        return ()  # the file is known to the app alone, whose module may do anything
    given = ctx.params.get("url") or os.environ.get(URL_VARIABLE) or configure().app.get("url")
    url = str(given or f"{_SCHEME}{DEFAULT_FILE}")
    if not url.startswith(_SCHEME) or not Path(url.removeprefix(_SCHEME)).is_file():
        return ()
    from outlast.app import App  # noqa: PLC0415  # not for --help

    app = App(url)
    try:
        return list(ask(app))
    finally:
        app.close()
