"""Feeds that are made to keep a processor busy: they fail as `data`, and no other feed notices."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from integration.fetching import run, source_of
from integration.monitoring import QUICK, add, feed, lines, opened, outcomes
from outlast.classify import classify
from outlast.errors import ContentError
from outlast.sources import feed as feed_module
from outlast.sources.feed import _end_idle_parsers, fetch_feed
from servers.feeds import Answer, FeedServer, atom, rss

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of CPU time are Unix's")

LENGTH = 240_000


def document(content):
    return f"<?xml version='1.0'?><rss version='2.0'><channel><title>T</title>{content}</channel></rss>".encode()


def item(content):
    return document(f"<item>{content}</item>")


def attributes(length=LENGTH):
    return item("<x" + "".join(f" a{n:x}=''" for n in range(length // 9)) + "/>")


def nesting(length=LENGTH):
    return item("<a base='a/'>" * (length // 17) + "</a>" * (length // 17))


def flood(length=1_000_000):
    return document("<item/>" * (length // 7))


def style(length):
    return item(f"<description>&lt;p style='{' ' * length}'&gt;</description>")


def hidden_style(length):
    html = base64.b64encode(f"<p style='{' ' * length}'>".encode()).decode()
    content = f"<content type='text/html' mode='base64'>{html}</content>"
    return f"<feed xmlns='http://www.w3.org/2005/Atom'><entry>{content}</entry></feed>".encode()


def author(length):
    """Cubic time: the text is searched again for each empty element."""
    return item(f"<author>{'a' * (length * 2 // 3)}</author><x>{'<author/>' * (length // 27)}</x>")


def entities(length, refs):
    doctype = f'<!DOCTYPE rss>\n<!ENTITY a "{" " * length}">\n'
    text = f"<description>&lt;p style='{'&a;' * refs}'&gt;</description>"
    return f"<?xml version='1.0'?>\n{doctype}".encode() + item(text).partition(b"?>")[2]


def used_cpu():
    """Return seconds of CPU time of this process and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def parsers():
    """Return the process ids of our feed parsers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"outlast.sources.feed_parser" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


async def first_parser():
    """Wait for a feed parser to start; return its process id."""
    for _ in range(3_000):
        if found := parsers():
            return found[0]
        await asyncio.sleep(0.02)
    raise TimeoutError


@pytest.fixture(autouse=True)
def _no_idle_parsers():
    """End what other tests of this process have left waiting: tests look for the parser of their own feed."""
    _end_idle_parsers()


@pytest.fixture
def server():
    with FeedServer() as server:
        yield server
    feed_module._end_idle_parsers()  # as at the end of a program
    assert parsers() == []


def fetched(server, body, **about):
    return run(httpx2, fetch_feed, source_of(server.script("/feed", Answer(body=body)), **about))


@pytest.mark.timeout(300)
def test_eight_hostile_feeds_leave_fifty_good_ones_alone(tmp_path, server):
    hostile = [*[attributes()] * 3, *[nesting()] * 3, *[flood()] * 2]
    bad, good = [], []
    for number, body in enumerate(hostile):
        server.script(f"/bad{number}", Answer(body=body))
        bad.append(server.host_url(2 + number, f"/bad{number}"))
    for number in range(50):
        server.script(f"/good{number}", [feed(60 if number % 5 == 0 else 3), feed(61), feed(62)])
        good.append(server.host_url(10 + number % 10, f"/good{number}"))
    with opened(f"sqlite:///{tmp_path}/outlast.db") as app:
        bad, good = add(app, bad), add(app, good)
        monitor = app.monitor(QUICK.replace(threshold=2), timeout=100)  # not 30 s: the machine may be busy
        before = used_cpu()
        for _ in range(2):
            cycle = monitor.cycle().cycle
            assert (cycle.polled, cycle.changed, cycle.failed) == (58, 50, 8)
        assert used_cpu() - before < 2 * (6 * 2 + 50 * 0.5)  # of which 6 * 2 are the limits
        assert monitor.cycle().cycle.polled == 50
        for number in good:
            assert outcomes(app, number) == ["changed"] * 3
        for number in bad:
            failed = [each for each in lines(app, number) if each.attempts]
            assert [(each.outcome, each.category) for each in failed] == [("failed", "data")] * 2
            assert app.sources.get(number).state == "disabled"
        assert {lines(app, number)[0].error for number in bad} == {
            "ContentError: the feed needs more than 2 s of CPU time to parse",
            "ContentError: the feed has more than 50,000 entries",
        }
    assert len(parsers()) <= 10


@pytest.mark.parametrize(
    "body",
    [
        style(100_000),
        hidden_style(100_000),
        author(60_000),
        entities(1_000, 250),
        b"\n" * 100_000 + rss(),
        item(f"<author>{'a' * 100_000}</author>"),
    ],
    ids=["style", "base64", "author", "entities", "newlines", "email"],
)
def test_what_takes_too_long_is_refused(server, body):
    with pytest.raises(ContentError, match="more than 2 s of CPU time") as caught:
        fetched(server, body)
    failure = classify(caught.value)
    assert (failure.category, failure.retryable) == ("data", False)


def test_what_needs_too_much_memory_is_refused(server):
    with pytest.raises(ContentError, match="more than 512 MiB of memory"):
        fetched(server, entities(200_000, 60_000).replace(b"&lt;p style='", b"").replace(b"'&gt;", b""))


def test_a_long_base_address_in_every_link_is_refused(server):
    entry = "<entry><id>{}</id><link href='l'/><summary type='html'>&lt;a href='y'&gt;</summary></entry>"
    base = "http://a.example/" + "x" * 50_000
    body = (
        f"<feed xmlns='http://www.w3.org/2005/Atom' xml:base='{base}/'>{''.join(map(entry.format, range(1000)))}</feed>"
    )
    with pytest.raises(ContentError, match="more than 40 MiB"):
        fetched(server, body.encode())


def test_a_limit_that_the_parent_ignores_counts(server):
    before = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        with pytest.raises(ContentError, match="CPU time"):
            fetched(server, style(100_000))
    finally:
        signal.signal(signal.SIGPROF, before)


def test_feeds_of_failing_sources_have_their_turn(server):
    source = source_of(server.script("/feed", Answer(body=rss(2_000))))
    failing = source._replace(health=source.health._replace(consecutive_failures=1))
    assert len(run(httpx2, fetch_feed, failing).entries) == 2_000


@pytest.mark.parametrize("write", [rss, atom])
def test_a_feed_is_the_same_in_this_process_and_in_another(server, write):
    """2 KiB is the border."""
    body = write(3, title="Grüße \udcff".encode("utf-8", "replace").decode())
    short = fetched(server, body)
    long = fetched(server, body + b"<!-- " + b"x" * 4096 + b" -->")
    assert short.content == long.content
    assert short.hash == long.hash
    assert len(short.entries) == 3


def test_a_fetch_that_is_cancelled_kills_its_parser(server):
    async def course():
        source = source_of(server.script("/feed", Answer(body=style(100_000))))
        async with httpx2.AsyncClient(trust_env=False) as client:
            fetch = asyncio.create_task(fetch_feed(source, client))
            await first_parser()
            fetch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetch

    asyncio.run(course())
    assert parsers() == []


def test_one_parser_reads_one_feed_after_another(server):
    for length in (61, 62, 63):
        assert len(fetched(server, rss(length)).entries) == length
    (only,) = parsers()
    with pytest.raises(ContentError, match="CPU time"):
        fetched(server, style(100_000))
    assert parsers() == []
    assert len(fetched(server, rss(64)).entries) == 64
    assert parsers() != [only]


def test_a_parser_that_waited_too_long_ends_by_itself(server, monkeypatch):
    monkeypatch.setattr(feed_module, "_IDLE_SECONDS", 0.2)
    assert len(fetched(server, rss(61)).entries) == 61
    ended_by(time.monotonic() + 30, lambda: not running(parsers()))
    assert len(fetched(server, rss(62)).entries) == 62


PROGRAM = """
import os, signal, sys, time
from outlast.sources import feed
feed._IDLE_SECONDS = 600
parser = feed._ParserProcess()
print(parser._process.pid, flush=True)
if sys.argv[1] == "busy":
    body = b"<?xml version='1.0'?><rss version='2.0'><channel><item><author>" + b"a" * 100_000 + b"</author></item></channel></rss>"
    head = b'["feed", 1, %d, {"content-type": "application/xml; charset=utf-8"}]' % len(body)
    parser._process.stdin.write(head + b"\\n" + body)
    parser._process.stdin.flush()
    time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("work", ["idle", "busy"])
def test_no_parser_outlives_a_program_that_is_killed(work):
    done = subprocess.run([sys.executable, "-c", PROGRAM, work], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    ended_by(time.monotonic() + 60, lambda: not running([int(done.stdout)]))


def running(numbers):
    """Return which of these processes run; one that has ended and is not waited for does not."""
    found = []
    for number in numbers:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
            found += [number] * (state != "Z")
    return found


def ended_by(deadline, check):
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "category"), [(signal.SIGTERM, "system"), (signal.SIGKILL, "system"), (signal.SIGSEGV, "data")]
)
def test_a_parser_that_is_killed_does_not_count_against_the_source(server, number, category):
    async def course():
        source = source_of(server.script("/feed", Answer(body=style(100_000))))
        async with httpx2.AsyncClient(trust_env=False) as client:
            fetch = asyncio.create_task(fetch_feed(source, client))
            os.kill(await first_parser(), number)
            await fetch

    with pytest.raises(Exception, match="parser") as caught:
        asyncio.run(course())
    assert classify(caught.value).category == category
