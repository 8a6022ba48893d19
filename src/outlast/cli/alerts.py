"""``outlast alerts``: what is told to people, whether it arrived, and whether it would."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.auditing import write_down
from outlast.cli.choosing import command, with_app
from outlast.cli.failing import FAILED, OneLineError
from outlast.cli.logs import set_up_logs
from outlast.cli.moments import relative
from outlast.cli.numbers import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outlast.app import App
    from outlast.ports.source_rows import Alert

__all__ = ["alerts", "why_untried"]

_MASKED = ("key", "title", "text", "last_error")
_MOST_DELIVERIES = 100  # of up to 500 alerts each
_MOST_WAITING = 1000
_NO_CHANNEL = (
    "nothing says where alerts go, so they are only logged: give App(notify=…) in your program and --app here, notify "
    "under [app] in outlast.toml, or set OUTLAST_NOTIFY"
)


@click.group()
def alerts() -> None:
    """Look at alerts, try the channels, deliver what waits.

    An alert tells that a source is in trouble or well again, that so many fail together that it is an outage, or of
    dead letters. Monitors deliver them while they run, and workers of an app with notify=…; where neither runs, give
    outlast alerts deliver to cron. Where to is said by App(notify=…), by notify under [app] in outlast.toml, or by
    the variable OUTLAST_NOTIFY.

    \b
    Examples:
      outlast alerts test --app feeds:app
      outlast alerts list --waiting
    """  # noqa: D301  # click reads the control character, not a backslash


@alerts.command("list")
@click.option("--waiting", is_flag=True, help="Only those that are not delivered yet.")
@click.option("--limit", type=LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_alerts(app: "App", *, waiting: bool, limit: int, as_json: bool) -> None:
    """List alerts, newest first.

    \b
    Examples:
      outlast alerts list
      outlast alerts list --waiting --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import (  # noqa: PLC0415  # not for --help
        found_none,
        masked,
        print_json,
        say,
        screen,
        table,
    )

    found = app.store.alerts(waiting=True if waiting else None, limit=limit)
    if as_json:
        print_json([_data(alert) for alert in found])
        return
    if not found:
        if waiting:
            found_none("no alert waits", f"{command('alerts', 'list')} shows those that were delivered")
        else:
            found_none("no alerts", f"monitors and workers make them of trouble; try: {command('alerts', 'test')}")
        return
    columns = {"ID": None, "KIND": None, "WHEN": None, "TRIES": None, "DELIVERY": 10, "ALERT": None}
    rows = (
        (
            alert.id,
            str(alert.kind),
            relative(alert.created_at),
            alert.deliveries or None,
            _delivery(alert),
            f"{masked(alert.title)}{f' [{masked(alert.last_error)}]' if alert.last_error else ''}",
        )
        for alert in found
    )
    screen().print(table(columns, rows))
    if len(found) == limit:
        say(f"there may be more: --limit {limit * 2}", "dim")
    if why := why_untried(found):
        say(why, "yellow")


def why_untried(found: "Iterable[Alert]") -> str:
    """Return what to do where alerts wait and nobody has tried to deliver one; nothing where somebody has."""
    tries = [alert.deliveries for alert in found if alert.delivered_at is None]
    if not tries or any(tries):
        return ""
    return (
        "nobody has tried to deliver them; monitors do so, and workers of an app with notify=…; where neither runs: "
        f"{command('alerts', 'deliver')}"
    )


def _data(alert: "Alert") -> dict[str, Any]:
    from outlast.cli.showing import as_data, masked  # noqa: PLC0415  # not for --help

    data = as_data(alert)
    del data["epoch"]
    return {**data, **{name: masked(data[name]) for name in _MASKED}, "delivery": _delivery(alert)}


def _delivery(alert: "Alert") -> str:
    if alert.delivered_at is None:
        return "waits"
    return "given up" if alert.last_error else "done"


@alerts.command("test")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app(tells=True)
def test_channels(app: "App", *, as_json: bool) -> None:
    """Send a test message to every channel, and say whether it arrived. Exit code 1 if one did not.

    \b
    Examples:
      outlast alerts test --app feeds:app
      OUTLAST_NOTIFY=https://hooks.slack.com/services/… outlast alerts test
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import masked, one_line, print_json, say  # noqa: PLC0415  # not for --help
    from outlast.decide.alerting import AlertKind  # noqa: PLC0415  # not for --help
    from outlast.observe.messages import Message  # noqa: PLC0415  # not for --help

    if not app.channels:
        raise OneLineError(_NO_CHANNEL)
    message = Message(
        "Outlast: a test", "If you can read this, alerts arrive here. Nothing is wrong.", (AlertKind.FIRST,)
    )
    with suppress(Exception):  # it says nothing about the store, which need not have tables yet
        write_down(app, "test_alerts", "alerts", channels=[channel.name for channel in app.channels])
    outcomes = {channel.name: _sent(channel, message) for channel in app.channels}
    if as_json:
        print_json(
            [{"channel": name, "delivered": not why, "error": masked(why) or None} for name, why in outcomes.items()]
        )
    else:
        for name, why in outcomes.items():
            said = f"not delivered: {one_line(masked(why))}" if why else "delivered"
            say(f"{name}: {said}", "red" if why else "green")
    if any(outcomes.values()):
        click.get_current_context().exit(FAILED)


def _sent(channel: Any, message: Any) -> str:
    """Send a message; return why it could not be, or nothing."""
    from outlast.classify import classify  # noqa: PLC0415  # not for --help

    try:
        channel.send(message)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the channel may be anybody's
        failure = classify(error)
        return f"{failure.category}: {failure.exception_name}: {failure.message}"
    return ""


@alerts.command("deliver")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as a JSON object.")
@with_app(tells=True)
def deliver(app: "App", *, as_json: bool) -> None:
    """Deliver now what waits and is due, reminders too; for cron, where nobody else delivers.

    Monitors do so while they run, and workers of an app with notify=…, unless they drain.
    Without a channel alerts are written to standard error. Exit code 1 if one could not be delivered; it is tried
    again later, for a day.

    \b
    Example:
      outlast alerts deliver --app feeds:app
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.showing import counted, print_json, say  # noqa: PLC0415  # not for --help

    set_up_logs("warning", as_json=False)
    if app.store.alerts(waiting=True, limit=1):  # a cron asks every minute, mostly for nothing
        write_down(app, "deliver_alerts", "alerts")
    courier = app.courier()
    taken = 0
    for _ in range(_MOST_DELIVERIES):
        now = courier.deliver()
        taken += now
        if not now:
            break
    waiting = app.store.alerts(waiting=True, limit=_MOST_WAITING)
    failed = [alert for alert in waiting if alert.last_error is not None]
    if as_json:
        print_json({"tried": taken, "waiting": len(waiting), "failed": len(failed)})
    else:
        rest = f"; {len(waiting)} wait, {len(failed)} of them after a failure" if waiting else ""
        say(f"{counted(taken, 'alert')} tried{rest}" if taken or waiting else "no alert waits")
    if failed:
        click.get_current_context().exit(FAILED)
