"""``outlast dlq replays``: replays that workers carry on: how far they are, stop one, have it go on."""

from typing import TYPE_CHECKING

import click

from outlast.cli.choosing import command, with_app
from outlast.cli.failing import FAILED
from outlast.cli.moments import exact, relative
from outlast.cli.numbers import LIMIT, NUMBER

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.ports.triage_rows import Replay

__all__ = ["replays"]


class _Replays(click.Group):
    """A group that lists when no command is named, and shows one when a number is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the command that is meant."""
        first = args[0] if args else "--"
        if first.isdecimal():
            args = ["show", *args]
        elif first.startswith("-") and first not in {"-h", "--help"}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Replays)
def replays() -> None:
    """List replays that workers carry on; stop one, have it go on.

    They are begun by outlast dlq replay with --canary or --rate, or on the dashboard.

    \b
    Examples:
      outlast dlq replays
      outlast dlq replays stop 3
    """  # noqa: D301  # click reads the control character, not a backslash


@replays.command("list")
@click.option("--running", is_flag=True, help="Only those that are not over.")
@click.option("--limit", type=LIMIT, metavar="N", default=20, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_replays(app: "App", *, running: bool, limit: int, as_json: bool) -> None:
    """List replays, newest first.

    \b
    Example:
      outlast dlq replays list --running
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.dlq_progress import line_of, replay_data, say_no_worker  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import found_none, print_json, screen, table  # noqa: PLC0415  # not for --help

    found = app.dead_letters.replays(running=running, limit=limit)
    if as_json:
        print_json([replay_data(each) for each in found])
        return
    if not found:
        found_none(
            "no replay runs" if running else "no replays", "outlast dlq replay --group GROUP --canary begins one"
        )
        return
    columns = {"ID": None, "STATE": None, "QUEUED": None, "OF": None, "STAYED": None, "BEGUN": None, "WHAT": None}
    rows = (
        (each.id, each.state, each.replayed, each.total, each.conflicts or None, relative(each.created_at), each.what)
        for each in map(line_of, found)
    )
    screen().print(table(columns, rows))
    if any(each.state == "running" for each in found):
        say_no_worker(app)


@replays.command("show")
@click.argument("number", type=NUMBER, metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_app()
def show_replay(app: "App", number: int, *, as_json: bool) -> None:
    """Show how far a replay is, and why it was stopped.

    \b
    Example:
      outlast dlq replays show 3
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.dlq_progress import replay_data, say_no_worker  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import print_json  # noqa: PLC0415  # not for --help

    found = app.dead_letters.replay_run(number)
    if as_json:
        print_json(replay_data(found))
        return
    _show(found)
    if found.state == "running":
        say_no_worker(app)


def _show(found: "Replay") -> None:
    from outlast.cli.dlq_progress import line_of  # noqa: PLC0415  # not for --help
    from outlast.cli.showing import facts, screen  # noqa: PLC0415  # not for --help

    line = line_of(found)
    screen().print(
        facts(
            [
                ("replay", f"{line.id}, {line.state}"),
                ("of", line.what),
                ("stands", line.told),
                ("stopped by", line.stopped_by or None),
                ("stayed", ", ".join(map(str, line.conflict_ids)) or None),
                ("rate", line.rate),
                ("steps", ", ".join(f"{step.name}: {step.state}" for step in line.steps) or None),
                ("begun by", line.who),
                ("why", line.reason or None),
                ("begun", exact(line.created_at)),
                ("last step", exact(line.updated_at)),
                ("ended", exact(line.ended_at)),
                ("go on", command("dlq", "replays", "resume", line.id) if line.can_resume else None),
            ]
        )
    )


@replays.command("stop")
@click.argument("number", type=NUMBER, metavar="ID")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@with_app()
def stop_replay(app: "App", number: int, *, why: str) -> None:
    """Have a replay queue no more; what it has queued already runs. Exit code 1 if it does not run.

    \b
    Example:
      outlast dlq replays stop 3
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import say  # noqa: PLC0415  # not for --help

    if app.dead_letters.stop_replay(number, why=why):
        say(f"replay {number}: stopped; {command('dlq', 'replays', 'resume', number)} has it go on", "yellow")
        return
    say(f"replay {number}: was over already", "red")
    click.get_current_context().exit(FAILED)


@replays.command("resume")
@click.argument("number", type=NUMBER, metavar="ID")
@click.option("--why", metavar="TEXT", default="", help="Why, for those who look at it later.")
@click.option("--wait/--no-wait", default=True, help="Whether to stay until it is over.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object at the end.")
@with_app()
def resume_replay(app: "App", number: int, *, why: str, wait: bool, as_json: bool) -> None:
    """Have a replay go on that was stopped: one first again, then ten, then the rest. Exit code 1 if it stops again.

    What had failed is taken up again too.

    \b
    Example:
      outlast dlq replays resume 3
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.dlq_progress import follow  # noqa: PLC0415  # not for --help

    follow(app, app.dead_letters.resume_replay(number, why=why), wait=wait, as_json=as_json, begun="goes on")
