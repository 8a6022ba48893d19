"""``outlast monitor``: poll sources."""

import logging
import time
from typing import TYPE_CHECKING, Any

import click

from outlast.cli.app_options import flag, option, reaches_store
from outlast.cli.errors import exit_failed
from outlast.cli.formats import DURATION
from outlast.cli.health_endpoints import ProcessState, serve_health, with_health_options
from outlast.cli.logs import with_log_options
from outlast.cli.output import print_json
from outlast.cli.sources import cycle_summary_data, print_cycle_summary
from outlast.config import configure
from outlast.report.text_format import counted
from outlast.sources.announcements import redacted_source_url

if TYPE_CHECKING:
    from outlast.cli.loader import LoadedMonitor
    from outlast.config import Config
    from outlast.sources.fetchers import Changed
    from outlast.sources.monitor import Monitor


log = logging.getLogger("outlast.monitor")


@click.command()
@click.argument("reference", metavar="MODULE:APP")
@option("--profile", "NAME", "Profile of the sources: blog, feed or your own. Default: feed.")
@flag("--once", "Poll all active sources once, print a summary and exit; for cron.")
@option("--every", "SPAN", "Interval between two polls of a source: seconds, or 90s, 15m, 2h.", type=DURATION)
@option("--concurrency", "N", "Concurrent requests.", type=click.IntRange(min=1))
@option("--per-host", "N", "Concurrent requests per host.", type=click.IntRange(min=1))
@flag("--json", "With --once: print a JSON object.", "as_json")
@with_log_options("info")
@with_health_options
def monitor(  # its options
    reference: str,
    *,
    profile: str | None,
    once: bool,
    as_json: bool,
    health_port: int | None,
    health_host: str,
    **changes: Any,
) -> None:
    """Poll the sources of an app until stopped.

    MODULE:APP names the app: feeds:app for the variable app in feeds.py, also in the current folder. If the module has
    a monitor of the app, made by app.monitor(…), it is used, with its on_change and its settings; if it has several,
    name one: feeds:blogs. Without a monitor, changes are logged. Options override the settings of the monitor.

    SIGTERM or Ctrl-C stops it: running requests may finish, other sources are released. A second signal ends it at
    once.

    With --once the exit code is 1 if many sources failed together (an outage), if on_change failed, or if it was
    stopped.

    \b
    Examples:
      outlast monitor feeds:app
      outlast monitor feeds:app --profile blog --every 10m --per-host 1
      outlast monitor feeds:app --once --json | jq .failed
      outlast monitor feeds:blogs --json-logs --health-port 8788
    """  # noqa: D301  # click reads the control character, not a backslash
    from outlast.cli.loader import load_monitor  # noqa: PLC0415  # not for --help

    if as_json and not once:
        raise click.UsageError("--json needs --once; for a log in JSON use --json-logs")
    config = configure()
    loaded = load_monitor(reference, profile)
    made = loaded.monitor

    def check() -> None:
        loaded.app.store.check_schema()
        made.check()

    try:
        _apply_options(made, changes)
        reached = reaches_store(check, required=once)  # before the start is logged
        state = ProcessState(lambda: made.last_beat, lambda: made.stopping)
        with serve_health(loaded.app, state, health_port, health_host):
            if reached:
                _log_start(loaded, config)
            if once:
                _run_once(loaded, as_json=as_json)
            else:
                began = time.monotonic()
                try:
                    made.run()
                finally:
                    log.info("monitor %s ended after %.1f s", made.name, time.monotonic() - began)
    finally:
        loaded.app.close()


def _apply_options(made: "Monitor", changes: dict[str, Any]) -> None:
    """Apply the options to the monitor's settings; log changes if it has no on_change."""
    settings = {name: value for name, value in changes.items() if value is not None}
    if settings.get("every") == 0:
        raise click.BadParameter("the interval must be above 0, such as 15m", param_hint="--every")
    if made.settings.on_change is None:
        settings["on_change"] = _log_change
    made.settings = made.settings._replace(**settings)


async def _log_change(changed: "Changed") -> None:
    url, entries = redacted_source_url(changed.source), len(changed.fetched.entries)
    news = f"{entries} new {'entry' if entries == 1 else 'entries'}" if entries else "new content"
    log.info(
        "source %d has %s%s: %s",
        changed.source.id,
        news,
        ", polled for the first time" if changed.first else "",
        url,
        extra={"source_id": changed.source.id, "url": url, "first": changed.first, "entries": entries},
    )


def _log_start(loaded: "LoadedMonitor", config: "Config") -> None:
    made, settings = loaded.monitor, loaded.monitor.settings
    counts = {str(state): count for state, count in loaded.app.sources.health(made.profile.name).items() if count}
    channels = [channel.name for channel in loaded.deliverer.channels]
    where, number = loaded.app.store.location, sum(counts.values())
    log.info(
        "monitor %s: profile %s; %s%s; every %g s; concurrency %d, per host %d; store %s; alerts go to %s%s",
        made.name,
        made.profile.name,
        counted(number, "source"),
        f" ({', '.join(f'{state} {count}' for state, count in counts.items())})" if counts else "",
        settings.every,
        settings.concurrency,
        settings.per_host,
        where,
        ", ".join(channels) or "the log only",
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
            "the profile %s has no sources; add some: outlast sources add https://… --profile %s%s, or "
            "outlast sources import feeds.opml",
            made.profile.name,
            made.profile.name,
            f" --app {loaded.app_reference}" if loaded.app_reference else "",
        )


def _run_once(loaded: "LoadedMonitor", *, as_json: bool) -> None:
    made = loaded.monitor
    summary = made.cycle()
    stopped = summary is None and made.stopping
    if as_json:
        print_json(cycle_summary_data(made.profile.name, summary, stopped=stopped))
    else:
        print_cycle_summary(made.profile.name, summary, stopped=stopped)
    if stopped or (summary is not None and (summary.broken_callbacks or summary.cycle.outage_since is not None)):
        exit_failed()
