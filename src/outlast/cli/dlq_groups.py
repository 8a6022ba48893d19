"""``outlast dlq ack``, ``snooze``, ``reopen`` and ``note``: what people say of a group."""

from typing import TYPE_CHECKING

import click

from outlast.cli.choosing import with_app
from outlast.cli.moments import SPAN, relative

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["ack", "note", "reopen", "snooze"]


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@with_app()
def ack(app: "App", fingerprint: str) -> None:
    """Say that you see to a group; it is not told of. When it fails after that, it is open again by itself.

    \b
    Example:
      outlast dlq ack 5d41402abc4b2a76
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    group = app.dead_letters.acknowledge(fingerprint)
    say(f"group {fingerprint}: acknowledged by {group.acknowledged_by}; it is open again once it fails again", "green")


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@click.option("--for", "seconds", type=SPAN, metavar="SPAN", required=True, help="How long, such as 2h or 3d.")
@with_app()
def snooze(app: "App", fingerprint: str, *, seconds: float) -> None:
    """Have a group not told of for a while.

    \b
    Example:
      outlast dlq snooze 5d41402abc4b2a76 --for 2h
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    until = app.dead_letters.snooze(fingerprint, seconds).snoozed_until
    told = f"snoozed, told of again {relative(until)}" if until is not None and seconds else "open again"
    say(f"group {fingerprint}: {told}", "green")


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@with_app()
def reopen(app: "App", fingerprint: str) -> None:
    """Have a group told of again that was acknowledged or snoozed.

    \b
    Example:
      outlast dlq reopen 5d41402abc4b2a76
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    app.dead_letters.reopen(fingerprint)
    say(f"group {fingerprint}: open again", "green")


@click.command()
@click.argument("fingerprint", metavar="GROUP")
@click.argument("text", metavar="TEXT")
@with_app()
def note(app: "App", fingerprint: str, text: str) -> None:
    """Write a note to a group, for people; an empty TEXT removes it.

    \b
    Example:
      outlast dlq note 5d41402abc4b2a76 'prices with a comma, fixed in 1.4'
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    app.dead_letters.note(fingerprint, text)
    say(f"group {fingerprint}: the note was {'kept' if text else 'removed'}", "green")
