"""Empty stores for tests: an app on one of its own, and a PostgreSQL database that is dropped afterwards."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from outlast.app import App
from outlast.sources.monitor import SharedCooldownTracker

if TYPE_CHECKING:
    from outlast.ports.store import Store


class AppMaker(Protocol):
    """What the fixture ``outlast_app`` is: gives an app on the test's own, empty store."""

    def __call__(self, app: App | None = None, **settings: Any) -> App:
        """Have your app use the test's store until the test ends; without one, make an app with these settings."""


@contextmanager
def on_store(app: App, url: "str | Store") -> Iterator[App]:
    """Have an app use another store for as long as the block runs; its tasks and jobs go with it.

    Args:
        app: Your app. Workers and monitors that it has made already stay where they are.
        url: Of the other store, whose tables are created.
    """
    with ExitStack() as stack:
        other = App(url)
        stack.callback(other.close)
        other.create_schema()
        stack.callback(_replace_attribute(app, "settings", app.settings._replace(spool=other.settings.spool)))
        cooling = SharedCooldownTracker(other.store)
        stack.callback(_replace_attribute(app, "cooling", cooling))  # what is known of hosts stays behind
        before = app.store
        for holder in (*vars(app).values(), *app.jobs_by_name.values(), app):
            for name, value in list(getattr(holder, "__dict__", {}).items()):
                if value is before:
                    stack.callback(_replace_attribute(holder, name, other.store))
        stack.callback(cooling.close)
        yield app


def _replace_attribute(holder: object, name: str, value: object) -> Callable[[], None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    return lambda: setattr(holder, name, before)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """Create a database on a PostgreSQL server, give its URL, and drop it at the end.

    Args:
        server: URL of a database there, with a user who may create others.
    """
    import psycopg  # noqa: PLC0415  # the extra ``postgres``
    from psycopg import sql  # noqa: PLC0415

    name = f"outlast_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
