"""Empty stores for tests: moves an app to another store, and creates temporary PostgreSQL databases."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from outlast.app import App
from outlast.sources.monitor import SharedCooldownTracker
from outlast.testing.queue_drain import override_attribute

if TYPE_CHECKING:
    from outlast.ports.store import Store


class AppMaker(Protocol):
    """Type of the fixture ``outlast_app``: returns an app on the empty store of the test."""

    def __call__(self, app: App | None = None, **settings: Any) -> App:
        """Let your app use the store of the test until it ends; without an app, create one with these settings."""


@contextmanager
def on_store(app: App, url: "str | Store") -> Iterator[App]:
    """Let an app use another store while the block runs, together with its tasks and jobs.

    Args:
        app: Your app. Workers and monitors that it has already created keep their store.
        url: URL of the other store, whose tables are created; or the store itself.
    """
    with ExitStack() as stack:
        other = App(url)
        stack.callback(other.close)
        other.create_schema()
        stack.enter_context(override_attribute(app, "settings", app.settings._replace(spool=other.settings.spool)))
        cooling = SharedCooldownTracker(other.store)
        stack.enter_context(override_attribute(app, "cooling", cooling))  # without the cooldowns of the old store
        previous = app.store
        for holder in (*vars(app).values(), *app.jobs_by_name.values(), app):
            for name, value in list(getattr(holder, "__dict__", {}).items()):
                if value is previous:
                    stack.enter_context(override_attribute(holder, name, other.store))
        stack.callback(cooling.close)
        yield app


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """Create a database on a PostgreSQL server, yield its URL, and drop it at the end.

    Args:
        server: URL of a database on the server, with a user who may create databases.
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
