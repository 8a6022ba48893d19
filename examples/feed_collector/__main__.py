"""Collect feeds: ``python -m examples.feed_collector``. Needs the extra ``feeds``; all of it happens on this machine.

What your program would not have, servers on loopback, is in ``feeds.py`` and ``examples/scenery.py``.
"""

from __future__ import annotations

import argparse
import logging
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import outlast
from examples.feed_collector.feeds import feeds
from examples.scenery import seconds, stopping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.feed_collector.feeds import Feed
    from outlast.observe.messages import Message

# The profile 'feed' asks again after a 403, three times: it may be a firewall in a bad mood. What stays (403, 404, an
# answer that is no feed) counts, and five in a row disable a feed. What is the network's or the host's trouble (5xx,
# timeouts, names that do not resolve) does not count, and a 429 has the whole host left alone for as long as it says.
# A disabled feed is probed, after a day at first; one success and another bring it back.
# The waits of 1, 2 and 4 seconds are a twentieth of that here, and the day is a second: an example has to end.
PROFILE = outlast.profile("feed").replace(policy=outlast.preset("feed").replace(base_delay=0.05), first_probe=1.0)


class Entries:
    """What was collected: a table of the program's own, which Outlast knows nothing of.

    Args:
        file: A SQLite file.
    """

    def __init__(self, file: Path) -> None:
        """Create the table."""
        self._file = file
        with closing(sqlite3.connect(file)) as db, db:
            db.execute("CREATE TABLE entries (feed TEXT, id TEXT, title TEXT, PRIMARY KEY (feed, id))")

    def keep(self, news: outlast.Changed) -> None:
        """Keep what is new in a feed; the monitor calls it in a thread.

        A feed counts as seen when this has returned. If it raises, or the program dies on the way, it is called again
        with the same entries: so it has to do no harm the second time.
        """
        rows = [(news.source.name, entry.id, entry.title) for entry in news.fetched.entries]
        with closing(sqlite3.connect(self._file)) as db, db:
            db.executemany("INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def counts(self) -> Counter[str]:
        """Return how many there are of each feed."""
        with closing(sqlite3.connect(self._file)) as db:
            return Counter(dict(db.execute("SELECT feed, count(*) FROM entries GROUP BY feed").fetchall()))


def alert(message: Message) -> None:
    """Send an alert. If it raises, the alert counts as not delivered and is sent again later."""
    print(f"    ALERT  {message.title}\n", end="")  # one write: events are printed by another thread


def main() -> int:
    """Collect until all is seen, for as long as asked, or until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.feed_collector", description="Collect feeds that fail.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--for", dest="length", type=seconds, metavar="TIME", help="collect for so long: 20s or 2m")
    length.add_argument("--serve", action="store_true", help="collect until Ctrl-C")
    parser.add_argument("--log", action="store_true", help="show the log too: every attempt that failed, and why")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="    LOG    %(levelname)s %(message)s")
    logging.getLogger("outlast").setLevel(logging.WARNING if options.log else logging.CRITICAL)
    end = float("inf") if options.serve else None if options.length is None else time.monotonic() + options.length
    with tempfile.TemporaryDirectory() as folder, feeds() as collected:
        app = outlast.App(f"sqlite:///{folder}/feeds.db", notify=alert)  # or a Slack webhook, or what Apprise can reach
        entries = Entries(Path(folder) / "entries.db")
        try:
            add(app, collected)
            collect(app, collected, entries, end)
            sum_up(app, collected, entries)
        finally:
            app.close()
    return 0


def add(app: outlast.App, collected: Sequence[Feed]) -> None:
    """Add the feeds to the app's sources; ``app.sources.import_file`` would read them from OPML or a plain list."""
    print(f"{len(collected)} feeds:\n")
    for feed in collected:
        source = app.sources.add(feed.url, profile="feed", name=feed.name)
        print(f"    source {source.id:2}  {feed.name:10} {feed.url:24} {feed.story}")


def collect(app: outlast.App, collected: Sequence[Feed], entries: Entries, end: float | None) -> None:
    """Poll each feed twice a second, and say what becomes of it."""
    names = {source.id: source.name for source in app.sources.list(profile="feed")}

    def tell(event: outlast.events.SourceChanged) -> None:
        name, failures = names[event.source_id], event.consecutive_failures
        print(f"    STATE  {name}: {event.before} → {event.after}, failures in a row: {failures}\n", end="")

    def told() -> bool:
        return all(feed.hits >= feed.enough for feed in collected)

    print("\nEach is polled twice a second. What changes from one state to another:\n")
    monitor = app.monitor(PROFILE, on_change=entries.keep, every=0.5, timeout=5)
    unsubscribe = outlast.subscribe(tell, outlast.events.SourceChanged)
    with stopping(monitor, told, end):
        monitor.run()  # until SIGTERM or Ctrl-C comes, or monitor.stop() is called
    unsubscribe()
    app.deliverer().deliver()  # alerts wait in the database, and the last may not have been sent yet


def sum_up(app: outlast.App, collected: Sequence[Feed], entries: Entries) -> None:
    """Print where every feed stands, how its polls ended (the last 200 are kept), and what was collected."""
    kept = entries.counts()
    head = f"{'polls':>7} ={'changed':>8} +{'same':>5} +{'failed':>7} +{'deferred':>9}{'requests':>10}{'entries':>9}"
    print(f"\n    {'feed':11}{'state':10}{'failures in a row':>17}{head}  last error")
    together: Counter[str] = Counter()
    nowhere = 0
    for feed, source in zip(collected, app.sources.list(profile="feed"), strict=True):
        history = app.sources.history(source.id, limit=1000)
        counts = Counter(dict.fromkeys(("changed", "unchanged", "failed", "deferred"), 0))
        counts.update(poll.outcome for poll in history if poll.outcome in counts)  # other lines tell a new state
        counts["polls"] = counts.total()
        counts["requests"] = sum(poll.attempts for poll in history)
        counts["entries"] = kept[source.name]
        together += counts
        nowhere += counts["requests"] if feed.site is None else 0
        trouble = (source.last_error or "").partition("\n")[0]
        health = f"{source.state:10}{source.consecutive_failures:17}"
        print(f"    {source.name:11}{health}{_row(counts)}  {trouble}".rstrip())
    print(f"    {'together':11}{'':10}{'':17}{_row(together)}\n")
    arrived, shown = sum(feed.hits for feed in collected), sum(feed.published for feed in collected)
    print(f"    {arrived} requests arrived at the feeds; {nowhere} went nowhere, for a name does not exist.")
    print(f"    The feeds have shown {shown} entries; {together['entries']} are in the table.")
    states = [f"{count} {state}" for state, count in app.sources.health("feed").items() if count]
    print(f"    States: {', '.join(states)}.")


def _row(counts: Counter[str]) -> str:
    ends = f"{counts['changed']:8} +{counts['unchanged']:5} +{counts['failed']:7} +{counts['deferred']:9}"
    return f"{counts['polls']:7} ={ends}{counts['requests']:10}{counts['entries']:9}"


if __name__ == "__main__":
    sys.exit(main())
