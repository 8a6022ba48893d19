"""``outlast alerts``: list alerts, test the channels, deliver waiting alerts."""

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from outlast.classify import classify
from outlast.cli.app_options import flag, json_option, list_options, next_command, with_app, with_configured_app
from outlast.cli.errors import CommandError, exit_failed
from outlast.cli.formats import relative_time
from outlast.cli.logs import set_up_logs
from outlast.cli.output import Cells, JsonObject, print_json, print_list, print_text, printable_line, row_data, table
from outlast.decide.decision import AlertKind
from outlast.observe.messages import Message
from outlast.queue.audit import write_audit
from outlast.queue.masking import masked_texts
from outlast.report.text_format import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outlast.app import App
    from outlast.ports.source_rows import Alert


_MAX_DELIVERIES = 100  # of up to 500 alerts each
_MAX_WAITING = 1000
_MAX_LISTED = 20  # alerts of each channel
_NO_CHANNEL = (
    "no alert channel is configured, so alerts are only logged; use App(notify=…) in your program and --app here, put "
    "notify under [app] in outlast.toml, or set OUTLAST_NOTIFY"
)


@click.group()
def alerts() -> None:
    """List alerts, test the channels, deliver waiting alerts.

    Alerts report that a source fails or has recovered, that many sources fail together (an outage), or new dead
    letters. Monitors and workers deliver them while they run, and batch jobs at their end. If none runs, call
    outlast alerts deliver from cron. Set the channels with App(notify=…), with notify under [app] in outlast.toml, or
    with the variable OUTLAST_NOTIFY.

    \b
    Examples:
      outlast alerts test --app feeds:app
      outlast alerts list --waiting
    """  # noqa: D301  # click reads the control character, not a backslash


@alerts.command("list")
@flag("--waiting", "Only alerts that are not delivered yet.")
@list_options("Alerts", 50)
@with_app
def list_alerts(app: "App", *, waiting: bool, limit: int, as_json: bool) -> None:
    """List alerts, newest first.

    \b
    Examples:
      outlast alerts list
      outlast alerts list --waiting --json
    """  # noqa: D301  # click reads the control character, not a backslash
    found = app.store.alerts(waiting=True if waiting else None, limit=limit)
    hint = f"to send a test message: {next_command('alerts', 'test')}"
    printed = print_list(found, _alerts_table, "alerts", hint, as_json=as_json, data=_alert_data)
    if printed and (advice := untried_alerts_hint(found)):
        print_text(advice, "yellow")


@table("ID, KIND, WHEN, TRIES, DELIVERY:10, ALERT")
def _alerts_table(alert: "Alert") -> Cells:
    return (
        alert.id,
        str(alert.kind),
        relative_time(alert.created_at),
        alert.deliveries or None,
        _delivery_text(alert),
        f"{masked_texts(alert.title)}{f' [{masked_texts(alert.last_error)}]' if alert.last_error else ''}",
    )


def untried_alerts_hint(found: "Iterable[Alert]") -> str:
    """Return what to do if alerts wait and none was ever tried; empty otherwise."""
    tries = [alert.deliveries for alert in found if alert.delivered_at is None]
    if not tries or any(tries):
        return ""
    return (
        "no process has tried to deliver them; running monitors and workers do, except with --drain; if neither runs: "
        f"{next_command('alerts', 'deliver')}"
    )


def _alert_data(alert: "Alert") -> JsonObject:
    return {**row_data(alert), "delivery": _delivery_text(alert)}


def _delivery_text(alert: "Alert") -> str:
    if alert.delivered_at is None:
        return "waits"
    return "given up" if alert.last_error else "done"


@alerts.command("test")
@json_option
@with_configured_app(notifies=True)
def test_channels(app: "App", *, as_json: bool) -> None:
    """Send a test message to every channel. Exit code 1 if one was not delivered.

    \b
    Examples:
      outlast alerts test --app feeds:app
      OUTLAST_NOTIFY=https://hooks.slack.com/services/… outlast alerts test
    """  # noqa: D301  # click reads the control character, not a backslash
    if not app.channels:
        raise CommandError(_NO_CHANNEL)
    message = Message(
        "Outlast: a test", "If you can read this, alerts arrive here. Nothing is wrong.", (AlertKind.FIRST,)
    )
    with suppress(Exception):  # the test must also work before the tables exist
        write_audit(app.store, "test_alerts", "alerts", {"channels": [channel.name for channel in app.channels]})
    outcomes = {channel.name: masked_texts(_send_error(channel, message)) for channel in app.channels}
    if as_json:
        print_json([{"channel": name, "delivered": not why, "error": why or None} for name, why in outcomes.items()])
    else:
        for name, why in outcomes.items():
            result = f"not delivered: {printable_line(why)}" if why else "delivered"
            print_text(f"{name}: {result}", "red" if why else "green")
    if any(outcomes.values()):
        exit_failed()


def _send_error(channel: Any, message: Any) -> str:
    """Send a message; return why it failed, or an empty text."""
    try:
        channel.send(message)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a channel may raise anything
        failure = classify(error)
        return f"{failure.category}: {failure.exception_name}: {failure.message}"
    return ""


@alerts.command("deliver")
@flag("--now", "Also deliver the alerts that wait after a failure.", "at_once")
@json_option
@with_configured_app(notifies=True)
def deliver(app: "App", *, at_once: bool, as_json: bool) -> None:
    """Deliver all alerts and reminders that are due.

    Use it from cron if no other process delivers them: monitors and workers deliver alerts while they run, except with
    --drain, and batch jobs at their end. Without a channel, alerts are written to standard error. Exit code 1 if a
    delivery failed; it is retried for a day. The waits between two attempts grow to an hour; --now ends them.

    \b
    Examples:
      outlast alerts deliver --app feeds:app
      outlast alerts deliver --app feeds:app --now
    """  # noqa: D301  # click reads the control character, not a backslash
    set_up_logs("warning", as_json=False)
    if app.store.alerts(waiting=True, limit=1):  # cron runs this every minute, mostly with nothing to do
        write_audit(app.store, "deliver_alerts", "alerts")
    if at_once:
        app.store.make_alerts_due()
    tried, delivered = _deliver_all(app)
    waiting = app.store.alerts(waiting=True, limit=_MAX_WAITING)
    failed = [alert for alert in waiting if alert.last_error is not None]
    if as_json:
        ids = {channel: [alert.id for alert in found] for channel, found in delivered.items()}
        print_json({"tried": tried, "waiting": len(waiting), "failed": len(failed), "delivered": ids})
    else:
        _print_delivered(delivered)
        rest = f"; {len(waiting)} waiting, {len(failed)} of them after a failure" if waiting else ""
        print_text(f"{counted(tried, 'alert')} tried{rest}" if tried or waiting else "no alerts are waiting")
    if failed:
        exit_failed()


def _deliver_all(app: "App") -> "tuple[int, dict[str, list[Alert]]]":
    """Deliver the alerts that are due; return how many were tried, and which ones each channel has got."""
    deliverer, tried = app.deliverer(), 0
    delivered: defaultdict[str, list[Alert]] = defaultdict(list)
    for _ in range(_MAX_DELIVERIES):
        count = deliverer.deliver()
        tried += count
        for alert, result in deliverer.results:
            for channel in result.delivered_to[len(alert.delivered_to) :]:
                delivered[channel].append(alert)
        if not count:
            break
    return tried, delivered


def _print_delivered(delivered: "dict[str, list[Alert]]") -> None:
    for channel, found in delivered.items():
        print_text(f"{channel}: {counted(len(found), 'alert')} delivered", "green")
        for alert in found[:_MAX_LISTED]:
            print_text(f"  {alert.id} {printable_line(masked_texts(alert.title))}")
        if len(found) > _MAX_LISTED:
            print_text(f"  … and {len(found) - _MAX_LISTED} more")
