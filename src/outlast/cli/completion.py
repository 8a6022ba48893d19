"""``outlast completion``: a script that lets a shell complete commands, options and values.

A completion never fails, never waits and never runs the user's code: no store is read and no app is imported.
"""

from collections.abc import Callable, Iterable

import click

from outlast.config import configure
from outlast.decide.presets import PRESETS
from outlast.decide.source_health import PROFILES
from outlast.failure import Category

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(names: Callable[[], Iterable[str]]) -> Completer:
    """Return a completion function for click; on any error it completes nothing."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # as click calls it
        try:
            return [name for name in names() if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001  # pressing Tab must not show a traceback
            return []

    return complete


category_names = _completer(lambda: map(str, Category))
policy_names = _completer(lambda: dict.fromkeys([*configure().policies, "default", *PRESETS]))
profile_names = _completer(lambda: PROFILES)
"""Complete categories of failures, names of policies, and the profiles that come with Outlast."""


SHELLS = ("bash", "zsh", "fish")
_COMPLETE_VARIABLE = "_OUTLAST_COMPLETE"  # set by the script; click derives this name from the program's


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a completion script for your shell: bash, zsh or fish.

    It completes commands, options and many values: states, categories, policies and profiles. It takes effect in new
    shells.

    \b
    For bash, put this into ~/.bashrc:
      eval "$(outlast completion bash)"
    For zsh, put this into ~/.zshrc, after compinit:
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
    assert kind is not None, shell  # noqa: S101  # click supports all of them
    script = kind(root.command, {}, "outlast", _COMPLETE_VARIABLE)
    click.echo(ShellComplete.source(script))  # of the base class, which does not run bash to get its version
