"""The live tour: the dashboard with a worker, a monitor and a job behind it, and a guide in the terminal."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import webbrowser
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from examples.scenery import Answer, Site, in_turn
from examples.tour.ending import happened
from examples.tour.flaky import flaky_server
from examples.tour.guide import Guide
from examples.tour.monitor import FEEDS
from examples.tour.processes import Processes, streaming
from outlast.web.server import Opening, Server, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    import outlast

_GLANCE = 0.25  # seconds between two looks around
_BREATH = 2.0  # seconds between two lines of the guide
_FEEDS = {**FEEDS, "moved": in_turn(*[Answer(404)] * 3, Answer(body="here we are"))}  # well again when it is probed
_LAST_WORDS = """
That was all there is to see in order; it goes on until Ctrl-C. Try for yourself:
  pause the queue mail, and see what waits for it        {url}/queues
  the same figures in another terminal                   {python} -m outlast status --watch --url {store}
"""


def lived(length: float | None, port: int, seed: int, *, browser: bool) -> None:
    """Show the dashboard, alive, until Ctrl-C.

    Args:
        length: Seconds after which it ends by itself; None for never.
        port: Of the dashboard; 0 for a free one.
        seed: Makes the stream of tasks repeatable.
        browser: Whether one is opened, where there is somebody to look at it.
    """
    begun = time.monotonic()
    with ExitStack() as stack, _ending_politely():
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-tour-", ignore_cleanup_errors=True))
        os.environ["OUTLAST_TOUR_DB"] = store = f"sqlite:///{Path(folder) / 'tour.db'}"
        os.environ["OUTLAST_TOUR_SERVER"] = stack.enter_context(flaky_server())
        from examples.tour.world import POLICY, app  # it looks for the file that is named above

        stack.callback(app.close)
        opening = stack.enter_context(Opening(webbrowser.open))
        server = stack.enter_context(serve(app, port=port, title="Outlast tour", on_link=partial(_say_next, opening)))
        _welcome(server, POLICY, opening if browser and length is None and _is_watched() else None)
        for name, answer in _FEEDS.items():
            app.sources.add(stack.enter_context(Site(answer).serving()).url, name=name)
        guide = Guide(app)
        with Processes() as processes, streaming(random.Random(seed)):
            try:
                _guided(guide, processes, server.url, store, begun + length if length is not None else None)
            except KeyboardInterrupt:
                print("\nstopping")
        print(happened(app, time.monotonic() - begun, guide.cooled, processes.deaths))


def _welcome(server: Server, policy: outlast.RetryPolicy, opening: Opening | None) -> None:
    link = server.link()
    print(f"Dashboard: {link}")
    print("The link lets one browser in, once. Ctrl-C ends the tour.\n", flush=True)
    if opening is not None:
        opening.open(link)
    print("A worker, a monitor and a batch job are starting, against servers on this machine that fail by a script.")
    print("What fails is tried again by this policy, as policy.preview() draws it:\n")
    print("".join(f"    {line}\n" for line in str(policy.preview()).splitlines()))
    print("Look at these pages, in this order:\n", flush=True)


def _say_next(opening: Opening, link: str) -> None:
    opening.forget()
    print(f"    (the link was used; for another browser: {link})", flush=True)


def _guided(guide: Guide, processes: Processes, url: str, store: str, end: float | None) -> None:
    """Say what there is to see as it happens, until the time is over."""
    begun, next_line, number = time.monotonic(), 0.0, 1
    while end is None or time.monotonic() < end:
        processes.tend()
        sight = guide.look() if time.monotonic() >= next_line and not guide.is_over else None
        if sight is not None:
            print(f"{time.monotonic() - begun:5.0f} s  {number}. {url}{sight.path}\n         {sight.text}", flush=True)
            number, next_line = number + 1, time.monotonic() + _BREATH
            if guide.is_over:
                print(_LAST_WORDS.format(url=url, store=store, python=os.path.relpath(sys.executable)), flush=True)
        time.sleep(_GLANCE)


def _is_watched() -> bool:
    """Tell whether somebody sits before a screen that a browser could be opened on."""
    if not sys.stdout.isatty() or "CI" in os.environ:
        return False
    return sys.platform in {"darwin", "win32"} or any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY"))


@contextmanager
def _ending_politely() -> Iterator[None]:
    """Within the block, SIGTERM ends the tour as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
