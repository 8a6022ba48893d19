"""What the tests of the monitor do again and again, in few words."""

from __future__ import annotations

import contextlib
import os
from itertools import count

import outlast
from outlast.ports.source_rows import NewSource
from servers.feeds import Answer, rss

KINDS = ["sqlite", "postgres"]
POLICY = outlast.preset("feed").replace(base_delay=0.01, max_delay=0.04)
QUICK = outlast.profile("feed").replace(policy=POLICY)
"""The profile of feeds, without its seconds of waiting."""
_numbers = count(1)


def new_url(request, folder, kind=None):
    """Return the address of a new database; the kind is the fixture's parameter unless it is given."""
    if (kind or request.param) == "sqlite":
        return f"sqlite:///{folder}/outlast.db"
    server = request.getfixturevalue("postgres_server")
    name = f"monitor{os.getpid()}_{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return f"{server.url.rpartition('/')[0]}/{name}"


@contextlib.contextmanager
def opened(url, **settings):
    """Open an app on a database, with its tables."""
    app = outlast.App(url, **settings)
    app.create_schema()
    try:
        yield app
    finally:
        app.close()


def add(app, urls, profile="feed"):
    """Add sources; return their numbers."""
    return [each.id for each in app.sources.add_many([NewSource(url, profile) for url in urls])]


def lines(app, number):
    """Return a source's history, oldest first."""
    return list(app.sources.history(number, 100))[::-1]


def outcomes(app, number):
    """Return what its polls gave, oldest first."""
    return [each.outcome for each in lines(app, number) if each.attempts or each.outcome in {"deferred", "withdrawn"}]


def states(app, number):
    """Return its transitions, oldest first."""
    return [(str(each.before), str(each.after)) for each in lines(app, number) if each.after is not None]


def alerts(app, key=None):
    """Return what is in the outbox, oldest first."""
    rows = app.store.alerts(limit=1000)[::-1]
    return [(each.key, str(each.kind)) for each in rows if key in {None, each.key}]


def feed(entries=3, **more):
    """Return the answer of a feed that is well: 304 for whoever has it."""
    return Answer(body=rss(entries), conditional=True, **more)
