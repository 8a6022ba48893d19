"""Watch blogs: ``python -m examples.blog_monitor``. Needs the extra ``feeds``; all of it happens on this machine.

What your program would not have, servers on loopback, is in ``blogs.py`` and ``examples/scenery.py``.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

import outlast
from examples.blog_monitor.blogs import blogs, slack
from examples.scenery import ask, seconds, stopping
from outlast.health import HealthChecker, HealthServer
from outlast.ports.source_rows import NewSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.blog_monitor.blogs import Blog

# The profile 'blog' makes up to three requests in one poll where it may help (timeouts, 5xx, names that do not
# resolve), counts what will not pass (404, 410, …), tells people at the fifth in a row, and never switches a blog off.
# Here they are told at the third, and the waits of 2 and 4 seconds are a tenth of that: an example has to end.
PROFILE = outlast.profile("blog").replace(threshold=3, policy=outlast.preset("blog").replace(base_delay=0.2))

ENOUGH = 6
"""Requests to each blog after which there is nothing more to see."""


def changed(news: outlast.Changed) -> None:
    """Say what is new. It may raise: then it is called again at the next poll, and no blog is blamed for it."""
    what = "first seen" if news.first else "CHANGED"
    line = f"    {what:12}{news.source.name}: {news.fetched.content}\n"
    print(line, end="")  # one write: several threads call this


def main() -> int:
    """Watch the blogs until all is seen, for as long as asked, or until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.blog_monitor", description="Watch blogs that misbehave.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--for", dest="length", type=seconds, metavar="TIME", help="watch for so long: 20s or 2m")
    length.add_argument("--serve", action="store_true", help="watch until Ctrl-C")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="    %(levelname)-12s%(message)s")
    end = float("inf") if options.serve else None if options.length is None else time.monotonic() + options.length
    with tempfile.TemporaryDirectory() as folder, blogs() as watched, slack() as webhook:
        # A real program says notify="https://hooks.slack.com/services/…", and nothing of notify_private: that lets
        # messages go to private addresses, as this machine's is.
        app = outlast.App(f"sqlite:///{folder}/blogs.db", notify=f"slack+{webhook}", notify_private=True)
        try:
            add(app, watched)
            watch(app, watched, end)
            sum_up(app, watched)
        finally:
            app.close()
    return 0


def add(app: outlast.App, watched: Sequence[Blog]) -> None:
    """Add the blogs to the app's sources; what can never be polled is refused here."""
    print("Mistakes are found before any request is made, all of them at once:\n")
    wrong = [NewSource("htp://typo.example", "blog"), NewSource("https://fine.example", "blog", selector="h1[")]
    try:
        app.sources.add_many(wrong)
    except outlast.errors.ConfigError as error:
        print("\n".join(f"    {line}" for line in str(error).splitlines()))
    print("\nThese are fine, and watched:\n")
    for blog in watched:
        source = app.sources.add(blog.site.url, profile="blog", name=blog.name, selector=blog.selector)
        print(f"    source {source.id}  {source.url}  {source.name:13} {blog.story}")


def watch(app: outlast.App, watched: Sequence[Blog], end: float | None) -> None:
    """Poll each blog once a second, with a health endpoint beside it."""
    monitor = app.monitor(PROFILE, on_change=changed, every=1)
    checker = HealthChecker(db=app, scheduler=monitor)
    with HealthServer(checker, port=0) as health:  # 0 takes any port that is free; in a container say port=8787
        url = f"http://{health.host}:{health.port}/health"

        def told() -> bool:
            return all(blog.site.hits >= ENOUGH for blog in watched)

        print(f"\nEach is polled once a second. Whether this program is well, {url} tells:\n")
        with stopping(monitor, told, end, before=lambda: print(f"    HEALTH      {ask(url)}")):
            monitor.run()  # until SIGTERM or Ctrl-C comes, or monitor.stop() is called
    app.deliverer().deliver()  # alerts wait in the database, and the last may not have been sent yet


def sum_up(app: outlast.App, watched: Sequence[Blog]) -> None:
    """Print where every blog stands, and how its polls ended; the last 200 are kept."""
    head = f"{'polls':>7} ={'changed':>8} +{'same':>5} +{'failed':>7} +{'deferred':>9}{'requests':>10}"
    print(f"\n    {'blog':14}{'state':9}{'failures in a row':>17}{head}")
    together: Counter[str] = Counter()
    for source in app.sources.list(profile="blog"):
        history = app.sources.history(source.id, limit=1000)
        counts = Counter(dict.fromkeys(("changed", "unchanged", "failed", "deferred"), 0))
        counts.update(poll.outcome for poll in history if poll.outcome in counts)  # other lines tell a new state
        counts["polls"] = counts.total()
        counts["requests"] = sum(poll.attempts for poll in history)
        together += counts
        print(f"    {source.name:14}{source.state:9}{source.consecutive_failures:17}{_row(counts)}")
    print(f"    {'together':14}{'':9}{'':17}{_row(together)}\n")
    print(f"    The blogs have counted {sum(blog.site.hits for blog in watched)} requests.")
    print("    failed: nothing that a second or third request in the same poll has mended")
    print("    deferred: the server asked for a wait; that is not a failure")


def _row(counts: Counter[str]) -> str:
    ends = f"{counts['changed']:8} +{counts['unchanged']:5} +{counts['failed']:7} +{counts['deferred']:9}"
    return f"{counts['polls']:7} ={ends}{counts['requests']:10}"


if __name__ == "__main__":
    sys.exit(main())
