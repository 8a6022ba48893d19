"""``outlast monitor``: poll sources."""

import logging
import time
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.errors import EXIT_FAILED
from outlast.cli.formats import DURATION
from outlast.cli.health_endpoints import ProcessState, serve_health, with_health_options
from outlast.cli.logs import LEVELS, quiet_clients, set_up_logs

if TYPE_CHECKING:
    from outlast.cli.loader import LoadedMonitor
    from outlast.config import Config
    from outlast.sources.announcements import CycleSummary
    from outlast.sources.fetchers import Changed
    from outlast.sources.monitor import Monitor


log = logging.getLogger("outlast.monitor")


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@click.option("--profile", metavar="NAME", help="Whose sources: blog, feed or your own. Default: feed.")
@click.option("--once", is_flag=True, help="Poll all active sources once, print what came of it, and end; for cron.")
@click.option("--every", type=DURATION, metavar="SPAN", help="Between two polls of a source: seconds, or 90s, 15m, 2h.")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Requests at once.")
@click.option("--per-host", type=click.IntRange(min=1), metavar="N", help="Requests at once to one host.")
@click.option("--json", "as_json", is_flag=True, help="With --once: print a JSON object.")
@click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="info", show_default=True,
    help="What is logged at least.",
)  # fmt: skip
@click.option("--json-logs", is_flag=True, help="Log one JSON object per line.")
@with_health_options
def monitor(  # noqa: PLR0913  # its options
    reference: str,
    *,
    profile: str | None,
    once: bool,
    as_json: bool,
    log_level: str,
    json_logs: bool,
    health_port: int | None,
    health_host: str,
    **changes: Any,
) -> None:
    """Poll the sources of an app until told to stop.

    MODULE:APP is where the app is: feeds:app for the variable app in feeds.py. The current folder is looked in too. If
    the module has a monitor of the app, made by app.monitor(…), that one is used, with its on_change; if it has
    several, name one: feeds:blogs. If it has none, changes are logged. What the module says goes for what is not given.

    SIGTERM or Ctrl-C stops it: requests that run may finish, all else is given back. A second one ends it at once.

    With --once the exit code is 1 if so many sources failed together that it is an outage, if on_change failed, or if
    it was stopped.

    \b
    Examples:
      outlast monitor feeds:app
      outlast monitor feeds:app --profile blog --every 10m --per-host 1
      outlast monitor feeds:app --once --json | jq .failed
      outlast monitor feeds:blogs --json-logs --health-port 8788
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.loader import load_monitor  # noqa: PLC0415  # not for --help
    from outlast.config import configure  # noqa: PLC0415  # not for --help

    if as_json and not once:
        message = "--json goes with --once; for a log in JSON there is --json-logs"
        raise click.UsageError(message)
    set_up_logs(log_level, as_json=json_logs)
    quiet_clients(log_level)
    config = configure()
    chosen = load_monitor(reference, profile)
    made = chosen.monitor
    try:
        _apply_options(made, changes)
        reached = _check_store(chosen, once=once)  # before a start is told
        life = ProcessState(lambda: made.last_beat, lambda: made.stopping)
        with serve_health(chosen.app, life, health_port, health_host):
            if reached:
                _log_start(chosen, config)
            if once:
                _run_once(chosen, as_json=as_json)
            else:
                _run_until_stopped(made)
    finally:
        chosen.app.close()


def _check_store(chosen: "LoadedMonitor", *, once: bool) -> bool:
    """See that it can begin; tell whether that could be seen, for a monitor waits for a store that is not there yet."""
    from outlast.run.store_wait import is_store_outage  # noqa: PLC0415  # not for --help

    try:
        chosen.app.store.check_schema()
        chosen.monitor.check()
    except Exception as error:
        if once or not is_store_outage(error):
            raise
        return False
    return True


def _apply_options(made: "Monitor", changes: dict[str, Any]) -> None:
    """Have the monitor do as the options say, and have changes logged that nobody else looks at."""
    given = {name: value for name, value in changes.items() if value is not None}
    if given.get("every") == 0:
        message = "without a pause sources would be polled on and on; give a span above 0, such as 15m"
        raise click.BadParameter(message, param_hint="--every")
    if made.settings.on_change is None:
        given["on_change"] = _log_change
    made.settings = made.settings._replace(**given)


async def _log_change(changed: "Changed") -> None:
    from outlast.sources.announcements import redacted_source_url  # noqa: PLC0415  # not for --help

    url, entries = redacted_source_url(changed.source), len(changed.fetched.entries)
    news = f"{entries} new {'entry' if entries == 1 else 'entries'}" if entries else "something new"
    log.info(
        "source %d has %s%s: %s",
        changed.source.id,
        news,
        ", seen for the first time" if changed.first else "",
        url,
        extra={"source_id": changed.source.id, "url": url, "first": changed.first, "entries": entries},
    )


def _log_start(chosen: "LoadedMonitor", config: "Config") -> None:
    from outlast.cli.app_options import store_label  # noqa: PLC0415  # not for --help
    from outlast.cli.output import count_text  # noqa: PLC0415  # not for --help

    made, settings = chosen.monitor, chosen.monitor.settings
    counts = {str(state): count for state, count in chosen.app.sources.health(made.profile.name).items() if count}
    channels = [channel.name for channel in chosen.deliverer.channels]
    where, number = store_label(chosen.app), sum(counts.values())
    log.info(
        "monitor %s: profile %s; %s%s; every %g s; concurrency %d, per host %d; store %s; alerts go to %s%s",
        made.name,
        made.profile.name,
        count_text(number, "source"),
        f" ({', '.join(f'{state} {count}' for state, count in counts.items())})" if counts else "",
        settings.every,
        settings.concurrency,
        settings.per_host,
        where,
        ", ".join(channels) or "the log alone",
        f"; settings {config.source}" if config.source else "",
        extra={
            "monitor": made.name,
            "profile": made.profile.name,
            "sources": counts,
            "every": settings.every,
            "concurrency": settings.concurrency,
            "per_host": settings.per_host,
            "store": where,
            "channels": channels,
        },
    )
    if not number:
        log.warning(
            "there are no sources of the profile %s; add some: outlast sources add https://… --profile %s%s, or "
            "outlast sources import feeds.opml",
            made.profile.name,
            made.profile.name,
            f" --app {chosen.app_reference}" if chosen.app_reference else "",
        )


def _run_until_stopped(made: "Monitor") -> None:
    began = time.monotonic()
    try:
        made.run()
    finally:
        log.info("monitor %s ended after %.1f s", made.name, time.monotonic() - began)


def _run_once(chosen: "LoadedMonitor", *, as_json: bool) -> None:
    from outlast.cli.output import print_json  # noqa: PLC0415  # not for --help
    from outlast.cli.sources import cycle_summary_data, print_cycle_summary  # noqa: PLC0415  # not for --help

    made = chosen.monitor
    summary = made.cycle()
    stopped = summary is None and made.stopping
    if as_json:
        print_json(cycle_summary_data(made.profile.name, summary, stopped=stopped))
    else:
        print_cycle_summary(made.profile.name, summary, stopped=stopped)
    if stopped or _is_outage(summary) or (summary is not None and summary.broken_callbacks):
        click.get_current_context().exit(EXIT_FAILED)


def _is_outage(summary: "CycleSummary | None") -> bool:
    return summary is not None and summary.cycle.outage_since is not None
