"""``outlast alerts``: what is told to people, whether it arrived, and whether it would."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import next_command, with_app
from outlast.cli.audit import write_audit_entry
from outlast.cli.errors import EXIT_FAILED, CommandError
from outlast.cli.formats import ROW_LIMIT, relative_time
from outlast.cli.logs import set_up_logs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outlast.app import App
    from outlast.ports.source_rows import Alert


_MASKED = ("key", "title", "text", "last_error")
_MAX_DELIVERIES = 100  # of up to 500 alerts each
_MAX_WAITING = 1000
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
@click.option("--limit", type=ROW_LIMIT, metavar="N", default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@with_app()
def list_alerts(app: "App", *, waiting: bool, limit: int, as_json: bool) -> None:
    """List alerts, newest first.

    \b
    Examples:
      outlast alerts list
      outlast alerts list --waiting --json
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.output import make_console, make_table, mask_secrets, print_empty, print_json, print_text  # noqa: PLC0415  # not for --help

    found = app.store.alerts(waiting=True if waiting else None, limit=limit)
    if as_json:
        print_json([_alert_data(alert) for alert in found])
        return
    if not found:
        if waiting:
            print_empty("no alert waits", f"{next_command('alerts', 'list')} shows those that were delivered")
        else:
            print_empty(
                "no alerts", f"monitors and workers make them of trouble; try: {next_command('alerts', 'test')}"
            )
        return
    columns = {"ID": None, "KIND": None, "WHEN": None, "TRIES": None, "DELIVERY": 10, "ALERT": None}
    rows = (
        (
            alert.id,
            str(alert.kind),
            relative_time(alert.created_at),
            alert.deliveries or None,
            _delivery_text(alert),
            f"{mask_secrets(alert.title)}{f' [{mask_secrets(alert.last_error)}]' if alert.last_error else ''}",
        )
        for alert in found
    )
    make_console().print(make_table(columns, rows))
    if len(found) == limit:
        print_text(f"there may be more: --limit {limit * 2}", "dim")
    if why := untried_alerts_hint(found):
        print_text(why, "yellow")


def untried_alerts_hint(found: "Iterable[Alert]") -> str:
    """Return what to do where alerts wait and nobody has tried to deliver one; nothing where somebody has."""
    tries = [alert.deliveries for alert in found if alert.delivered_at is None]
    if not tries or any(tries):
        return ""
    return (
        "nobody has tried to deliver them; monitors do so, and workers of an app with notify=…; where neither runs: "
        f"{next_command('alerts', 'deliver')}"
    )


def _alert_data(alert: "Alert") -> dict[str, Any]:
    from outlast.cli.output import mask_secrets, row_data  # noqa: PLC0415  # not for --help

    data = row_data(alert)
    del data["epoch"]
    return {**data, **{name: mask_secrets(data[name]) for name in _MASKED}, "delivery": _delivery_text(alert)}


def _delivery_text(alert: "Alert") -> str:
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
    from outlast.cli.output import mask_secrets, print_json, print_text, printable_line  # noqa: PLC0415  # not for --help
    from outlast.decide.decision import AlertKind  # noqa: PLC0415  # not for --help
    from outlast.observe.messages import Message  # noqa: PLC0415  # not for --help

    if not app.channels:
        raise CommandError(_NO_CHANNEL)
    message = Message(
        "Outlast: a test", "If you can read this, alerts arrive here. Nothing is wrong.", (AlertKind.FIRST,)
    )
    with suppress(Exception):  # it says nothing about the store, which need not have tables yet
        write_audit_entry(app, "test_alerts", "alerts", channels=[channel.name for channel in app.channels])
    outcomes = {channel.name: _send_error(channel, message) for channel in app.channels}
    if as_json:
        print_json(
            [
                {"channel": name, "delivered": not why, "error": mask_secrets(why) or None}
                for name, why in outcomes.items()
            ]
        )
    else:
        for name, why in outcomes.items():
            said = f"not delivered: {printable_line(mask_secrets(why))}" if why else "delivered"
            print_text(f"{name}: {said}", "red" if why else "green")
    if any(outcomes.values()):
        click.get_current_context().exit(EXIT_FAILED)


def _send_error(channel: Any, message: Any) -> str:
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
    from outlast.cli.output import count_text, print_json, print_text  # noqa: PLC0415  # not for --help

    set_up_logs("warning", as_json=False)
    if app.store.alerts(waiting=True, limit=1):  # a cron asks every minute, mostly for nothing
        write_audit_entry(app, "deliver_alerts", "alerts")
    deliverer = app.deliverer()
    taken = 0
    for _ in range(_MAX_DELIVERIES):
        now = deliverer.deliver()
        taken += now
        if not now:
            break
    waiting = app.store.alerts(waiting=True, limit=_MAX_WAITING)
    failed = [alert for alert in waiting if alert.last_error is not None]
    if as_json:
        print_json({"tried": taken, "waiting": len(waiting), "failed": len(failed)})
    else:
        rest = f"; {len(waiting)} wait, {len(failed)} of them after a failure" if waiting else ""
        print_text(f"{count_text(taken, 'alert')} tried{rest}" if taken or waiting else "no alert waits")
    if failed:
        click.get_current_context().exit(EXIT_FAILED)
