"""``outlast sources enable``, ``disable``, ``probe`` and ``remove``: what is done to sources by hand."""

from typing import TYPE_CHECKING

import click

from outlast.cli.auditing import write_down
from outlast.cli.choosing import command, with_app
from outlast.cli.failing import FAILED, OneLineError
from outlast.cli.logs import set_up_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outlast.app import App
    from outlast.ports.source_rows import Source

__all__ = ["disable", "enable", "found_source", "probe", "remove"]

_LARGEST = 2**63 - 1
_DIGITS = 19
_A_FEW = 5


def found_source(app: "App", word: str) -> "Source":
    """Return the source of a number or a URL.

    Raises:
        OneLineError: If there is none, or several could be meant.
    """
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help

    try:
        if word.isascii() and word.isdecimal():
            number = int(word) if len(word) <= _DIGITS else 0
            return app.sources.get(number if number <= _LARGEST else 0)
        return app.sources.get(word)
    except ConfigError as error:
        message = f"{word}: {error}; {command('sources', 'list')} shows what there is"
        raise OneLineError(message) from None


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@with_app()
def enable(app: "App", words: tuple[str, ...]) -> None:
    """Have sources polled again, at once and with their failures forgotten. Exit code 1 if there is no such source.

    \b
    Example:
      outlast sources enable 12
    """  # noqa: D301  # click reads the control character, not a backslash

    def act(source: "Source") -> str:
        write_down(app, "enable_source", f"source:{source.id}")
        transition = app.sources.enable(source.id)
        was = f", was {transition.before}" if transition is not None else " already"
        return f"healthy{was}; its failures are forgotten and it is due now"

    _each(app, words, act)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@click.option("--reason", metavar="TEXT", default="", help="Why, for its history.")
@with_app()
def disable(app: "App", words: tuple[str, ...], *, reason: str) -> None:
    """Have sources polled no more, not even as a probe, until they are enabled. Exit code 1 if there is no such source.

    \b
    Example:
      outlast sources disable 12 --reason 'moved to another site'
    """  # noqa: D301  # click reads the control character, not a backslash

    def act(source: "Source") -> str:
        was = source.state
        write_down(app, "disable_source", f"source:{source.id}", reason)
        app.sources.disable(source.id, reason)
        return f"disabled, was {was}; {command('sources', 'enable', source.id)} brings it back"

    _each(app, words, act)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@with_app()
def probe(app: "App", words: tuple[str, ...]) -> None:
    """Have sources polled in the next cycle, also those that their profile has disabled.

    A monitor has to run, or outlast monitor --once. Exit code 1 if there is none, or it was disabled by hand.

    \b
    Example:
      outlast sources probe 12
    """  # noqa: D301  # click reads the control character, not a backslash

    def act(source: "Source") -> str:
        write_down(app, "probe_source", f"source:{source.id}")
        if app.sources.probe(source.id):
            return "is polled in the next cycle"
        message = f"was disabled by hand; {command('sources', 'enable', source.id)} brings it back"
        raise OneLineError(message)

    _each(app, words, act)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="ID_OR_URL...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_app()
def remove(app: "App", words: tuple[str, ...], *, yes: bool) -> None:
    """Remove sources and their history, after asking. If there is no such source, none is removed; exit code 1.

    \b
    Example:
      outlast sources remove 12 13 --yes
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    meant = list({source.id: source for source in (found_source(app, word) for word in words)}.values())
    if not yes:
        click.confirm(f"Remove {_told(meant)} for good?", abort=True, err=True)
    for source in meant:
        write_down(app, "remove_source", f"source:{source.id}", profile=source.profile, url=source.url)
        app.sources.remove(source.id)
        say(f"source {source.id}: removed", "green")


def _told(meant: "Sequence[Source]") -> str:
    from outlast.cli.showing import counted, one_line  # noqa: PLC0415  # not for --help
    from outlast.cli.sources_showing import title_of  # noqa: PLC0415  # not for --help

    if len(meant) > _A_FEW:
        return f"{counted(len(meant), 'source')} and their history"
    return ", ".join(f"source {source.id} ({one_line(title_of(source))})" for source in meant) + " with its history"


def _each(app: "App", words: "Sequence[str]", act: "Callable[[Source], str]") -> None:
    """Do something to sources one by one; one that cannot be done hinders no other."""
    from outlast.cli.showing import masked, say  # noqa: PLC0415  # not for --help

    set_up_logs("error", as_json=False)  # what the book logs is said here
    failed = False
    for word in words:
        try:
            source = found_source(app, word)
            said = f"source {source.id}: {act(source)}"
        except OneLineError as error:
            failed = True
            said = error.message if error.message.startswith(word) else f"source {word}: {error.message}"
            say(masked(said), "red")
        else:
            say(said, "green")
    if failed:
        click.get_current_context().exit(FAILED)
