"""The command line; every command has a file of its own."""

import click

import holdfast
from holdfast.cli.explain import explain

__all__ = ["cli"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(holdfast.__version__, prog_name="holdfast")
def cli() -> None:
    """Failure handling: what a program does when something it depends on fails."""


cli.add_command(explain)
