"""Watch blogs: ``python -m examples.blog_monitor``. Needs the extra ``feeds``; all of it happens on this machine.

What is on loopback here and not in your program stands in ``blogs.py`` and ``examples/scenery.py``.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

import holdfast as hf
from examples.blog_monitor.blogs import blogs, slack
from examples.scenery import ask, seconds, stopping
from holdfast.health import HealthChecker, HealthServer
from holdfast.ports.source_rows import NewSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.blog_monitor.blogs import Blog

# The profile 'blog' retries what may pass (timeouts, 5xx, names that do not resolve) up to three times within one poll,
# counts what will not (404, 410, …), tells people at the fifth in a row, and never switches a blog off by itself.
# Here people are told at the third, and the waits of 2 and 4 seconds are a tenth of that, so that nobody falls asleep.
PROFILE = hf.profile("blog").replace(threshold=3, policy=hf.preset("blog").replace(base_delay=0.2))

ENOUGH = 6
"""Times that each blog has been asked when there is nothing new to see."""


def changed(news: hf.Changed) -> None:
    """Say what is new. It may raise: then it is called again at the next poll, and no blog is blamed for it."""
    what = "first seen" if news.first else "CHANGED"
    print(f"    {what:8} {news.source.name}: {news.fetched.content}")


def main() -> int:
    """Watch the blogs until all is seen, for as long as asked, or for ever."""
    parser = argparse.ArgumentParser(prog="python -m examples.blog_monitor", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--for", dest="length", type=seconds, metavar="TIME", help="go on for so long: 20s or 2m")
    length.add_argument("--serve", action="store_true", help="go on until Ctrl-C")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="    %(levelname)-8s %(message)s")
    end = float("inf") if options.serve else None if options.length is None else time.monotonic() + options.length
    with tempfile.TemporaryDirectory() as folder, blogs() as watched, slack() as webhook:
        # A real program says notify="https://hooks.slack.com/services/…" and needs no notify_private: that one lets
        # messages go to private addresses, such as this machine's.
        app = hf.App(f"sqlite:///{folder}/blogs.db", notify=f"slack+{webhook}", notify_private=True)
        try:
            watch(app, watched, end)
            summed_up(app, watched)
        finally:
            app.close()
    return 0


def watch(app: hf.App, watched: Sequence[Blog], end: float | None) -> None:
    """Add the blogs, and poll each of them once a second."""
    print("Mistakes are found before the first request is made, all of them at once:\n")
    try:
        app.sources.add_many(
            [
                NewSource("htp://typo.example", "blog"),
                NewSource("https://fine.example", "blog", selector="h1["),
            ]
        )
    except hf.errors.ConfigError as error:
        print(_indented(str(error)))
    for blog in watched:
        app.sources.add(blog.site.url, profile="blog", name=blog.name, selector=blog.selector)

    monitor = app.monitor(PROFILE, on_change=changed, every=1)
    checker = HealthChecker(db=app, scheduler=monitor)
    with HealthServer(checker, port=0) as health:  # a real one names a port: HealthServer(checker, port=8787)
        url = f"http://{health.host}:{health.port}/health"

        def is_over() -> bool:
            return all(blog.site.hits >= ENOUGH for blog in watched) if end is None else time.monotonic() >= end

        print(f"\n{len(watched)} blogs, one poll a second. Whether the program is well, {url} tells.\n")
        with stopping(monitor, is_over, before=lambda: print(f"\nhealth, while it runs:  {ask(url)}")):
            monitor.run()  # SIGTERM and Ctrl-C stop it too: running requests may finish
        time.sleep(1.1)  # an answer is kept for a second
        print(f"health, when it ended:  {ask(url)}\n")
    app.courier().deliver()  # alerts wait in the database; the monitor may have ended before the last was sent


def summed_up(app: hf.App, watched: Sequence[Blog]) -> None:
    """Print where every blog stands, and see that all requests are accounted for."""
    print(
        f"    {'blog':14}{'state':9}{'failures in a row':>18}{'polls':>7} ={'changed':>8} +{'same':>5} +{'failed':>7}",
        end="",
    )
    print(f"{'put off':>9}{'requests':>10}")
    total: Counter[str] = Counter()
    for source in app.sources.list(profile="blog"):
        history = app.sources.history(source.id, limit=1000)
        found = Counter(poll.outcome for poll in history)
        polls = found["changed"] + found["unchanged"] + found["failed"]
        requests = sum(poll.attempts for poll in history)
        total += Counter(polls=polls, requests=requests, **{name: found[name] for name in OUTCOMES})
        print(f"    {source.name:14}{source.state:9}{source.consecutive_failures:18}{_row(found, polls, requests)}")
    print(f"    {'together':14}{'':9}{'':18}{_row(total, total['polls'], total['requests'])}")
    print(f"\n    The blogs themselves have counted {sum(blog.site.hits for blog in watched)} requests.")
    print("    failed: nothing that a second or third request within the same poll could mend")
    print("    put off: the blog said 429 and for how long; all of its host is left alone, and nothing is counted")


OUTCOMES = ("changed", "unchanged", "failed", "deferred")


def _row(found: Counter[str], polls: int, requests: int) -> str:
    numbers = f"{found['changed']:8} +{found['unchanged']:5} +{found['failed']:7}{found['deferred']:9}"
    return f"{polls:7} ={numbers}{requests:10}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
