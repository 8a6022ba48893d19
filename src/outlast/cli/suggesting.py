"""``outlast explain --unknown``: rules that would judge what is stored and nobody knows."""

from typing import TYPE_CHECKING

from outlast.cli.choosing import with_app

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.report.suggestions import Suggestion

__all__ = ["show_suggestions"]

_NO_RULE = "# nothing in it tells it apart from other errors; raise an exception class of your own"
_LONGEST = 160  # characters of a message


@with_app()
def show_suggestions(app: "App", *, as_json: bool) -> None:
    """Print a rule for each cause that is unknown or judged by weak signs; nothing is written.

    Args:
        app: Whose store is looked at.
        as_json: Whether to print JSON.
    """
    from outlast.classify import default_classifier  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import print_json, say  # noqa: PLC0415  # not for --help
    from outlast.queue.doubtful import LARGEST, sampled_groups  # noqa: PLC0415  # not for --help
    from outlast.report.suggestions import suggestions  # noqa: PLC0415  # not for --help

    found = suggestions(sampled_groups(app.store), default_classifier().rules)
    if as_json:
        print_json([each._asdict() for each in found])
        return
    if not found:
        say("every failure is known: none is judged by weak signs, or a rule of yours knows it now")
        return
    say(f"Of the {LARGEST} largest groups of failures; to judge them, put what is right into outlast.toml:")
    for each in found:
        say("")
        for line in (*_about(each), *(each.toml or _NO_RULE).splitlines()):
            say(line)


def _about(suggestion: "Suggestion") -> list[str]:
    """Return the comments above a rule; each in one line, for it is meant to be copied."""
    line = " ".join(suggestion.message.split())
    shown = f"{line[:_LONGEST]} …" if len(line) > _LONGEST else line
    matched = (
        f"Matches {_many(suggestion.failures, 'failure')} in {_many(len(suggestion.groups), 'group')}, "
        f"{_many(suggestion.dead, 'dead letter')}."
    )
    title = f"# {suggestion.title}: {shown}" if shown else f"# {suggestion.title}"
    return [title, f"# {suggestion.because} Now {suggestion.category}. {matched}"]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
