"""``outlast completion``: the script by which a shell completes commands, options and values."""

import click

__all__ = ["completion"]

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_OUTLAST_COMPLETE"  # by which the script asks; the same name that click makes of the program's


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
    made = kind(root.command, {}, "outlast", _VARIABLE)
    click.echo(ShellComplete.source(made))  # of the base: bash need not be asked for its version
