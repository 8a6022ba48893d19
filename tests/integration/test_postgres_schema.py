"""The schema of the tables on PostgreSQL: which one is used, what is left alone, and what keeps two of them apart."""

import re
import threading
from itertools import count
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

import outlast
from cli_world import cli
from outlast.errors import NetworkError, SchemaError
from outlast.stores.move.move import MoveNames, move, open_source, open_target, preview
from outlast.stores.postgres.store import PostgresStore
from outlast.worker import BaseWorker, ErrorHandler

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-postgresql.md"
_numbers = count(1)


@pytest.fixture
def server(postgres_server):
    """The server, and a role without rights whose search path does not lead to the schema outlast."""
    for role in ("shop", "worker"):
        with psycopg.connect(postgres_server.dsn, autocommit=True) as admin:
            admin.execute(
                f"DO $$ BEGIN CREATE ROLE {role} LOGIN PASSWORD 'p'; EXCEPTION WHEN duplicate_object THEN END $$"
            )
    return postgres_server


@pytest.fixture
def url(server):
    """A new database as its administrator."""
    name = f"schemas{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name}")
    return f"{server.url.rpartition('/')[0]}/{name}"


def as_role(url, role):
    return re.sub(r"//.*@", f"//{role}:p@", url)


def execute(url, *statements):
    with psycopg.connect(url, autocommit=True) as connection:
        return [connection.execute(each) for each in statements]


def tables(url, schema):
    return {name for (name,) in execute(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")[0]}


def make_app(url, **settings):
    app = outlast.App(url, **settings)

    @app.task
    def greet(name):
        return name

    return app


def created(url, **settings):
    app = make_app(url, **settings)
    app.create_schema()
    return app


def drain(app):
    app.worker(concurrency=1).drain()


def run(*words, code=0):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_the_tables_are_in_the_schema_outlast(url):
    app = created(url)
    app.tasks_by_name["greet"].enqueue("Ada")
    drain(app)
    assert app.tasks.counts()["DONE"] == 1
    app.close()
    assert "task_queue" in tables(url, "outlast")
    assert tables(url, "public") == set()


def test_the_url_or_the_store_names_another_schema(url):
    named = f"{url}?schema=jobs&connect_timeout=5"
    run("db", "init", "--url", named)
    assert "?schema=jobs" in run("db", "check", "--url", named)
    assert "writing" in run("doctor", "--url", named)
    app = make_app(f"{url}?connect_timeout=5&schema=jobs")
    app.tasks_by_name["greet"].enqueue("Ada")
    app.close()
    store = PostgresStore(named, schema="others")
    store.create_schema()
    store.close()
    assert tables(url, "jobs") == tables(url, "others") != set()
    assert (tables(url, "public"), tables(url, "outlast")) == (set(), set())
    with pytest.raises(outlast.errors.ConfigError, match="schema is ''"):
        outlast.App(f"{url}?schema=")


def test_tables_of_a_user_are_not_touched(url):
    execute(
        url,
        "CREATE TABLE public.task_queue (id serial, what text)",
        "INSERT INTO public.task_queue (what) VALUES ('mine')",
        "CREATE TABLE public.schema_version (version integer)",
        "INSERT INTO public.schema_version VALUES (3)",
    )
    before = tables(url, "public")
    with psycopg.connect(as_role(url, "shop")) as connection, pytest.raises(SchemaError, match="search_path"):
        ErrorHandler(connection)
    app = created(url)
    app.tasks_by_name["greet"].enqueue("Ada")
    drain(app)
    app.close()
    assert tables(url, "public") == before
    assert execute(url, "SELECT what FROM public.task_queue")[0].fetchall() == [("mine",)]


def statements_of(error):
    return str(error)[str(error).index("BEGIN;") :]


def test_tables_from_before_are_named_and_not_moved(url):
    old = created(f"{url}?schema=public")
    ticket = old.tasks_by_name["greet"].enqueue("Ada")
    execute(url, "CREATE TABLE public.mine (a integer)", "CREATE FUNCTION public.mine() RETURNS integer RETURN 1")
    app = make_app(url)
    for call in (app.create_schema, app.store.check_schema, lambda: app.tasks_by_name["greet"].enqueue("Bob")):
        with pytest.raises(SchemaError, match=r"\?schema=public") as caught:
            call()
    for words in (["db", "init"], ["db", "migrate"], ["db", "check"], ["doctor"], ["status"]):
        said = run(*words, "--url", url, code=1)
        assert "ALTER TABLE public.task_queue SET SCHEMA outlast;" in said, words
        assert "?schema=public" in said
        assert "COMMIT;" in said, "nothing is cut off"
    assert tables(url, "outlast") == set()
    before = tables(url, "public")

    execute(url, statements_of(caught.value))

    assert tables(url, "public") == {"mine"}
    assert tables(url, "outlast") == before - {"mine"}
    app.create_schema()
    app.store.check_schema()
    drain(app)
    assert app.store.get(ticket.id).status == "DONE"
    assert app.tasks_by_name["greet"].enqueue("Bob").id > ticket.id
    execute(url, "INSERT INTO outlast.task_queue (task_type, parameters) VALUES ('greet', '{}')")
    assert app.store.event_totals()["enqueued"] == 3, "the trigger counts too"
    old.close()
    app.close()


def test_tables_from_before_may_stay(url):
    created(f"{url}?schema=public").close()
    app = created(f"{url}?schema=public")
    app.tasks_by_name["greet"].enqueue("Ada")
    drain(app)
    assert app.tasks.counts()["DONE"] == 1
    app.close()
    assert tables(url, "outlast") == set()


def test_a_schema_that_is_named_is_created_beside_others(url):
    first, second = created(f"{url}?schema=public"), created(f"{url}?schema=outlast")
    assert tables(url, "public") == tables(url, "outlast")
    first.close()
    second.close()


def test_without_the_right_to_create_a_schema_the_error_has_the_statement(url):
    app = make_app(as_role(url, "shop"))
    with pytest.raises(SchemaError, match="may not create it") as caught:
        app.create_schema()
    statement = str(caught.value).partition("run: ")[2]
    assert statement == "CREATE SCHEMA outlast AUTHORIZATION shop"
    execute(url, statement)
    app.create_schema()
    app.tasks_by_name["greet"].enqueue("Ada")
    drain(app)
    assert app.tasks.counts()["DONE"] == 1
    app.close()


def test_two_schemas_do_not_mix(url):
    apps = [created(f"{url}?schema={schema}") for schema in ("first", "second")]
    woken = [threading.Event() for _ in apps]
    ends = [app.store.listen(event.set) for app, event in zip(apps, woken, strict=True)]
    try:
        assert all(event.wait(10) for event in woken)  # each listens
        for first, second in ((0, 1), (1, 0)):
            woken[0].clear()
            woken[1].clear()
            apps[first].tasks_by_name["greet"].enqueue("Ada")
            assert woken[first].wait(10)
            assert not woken[second].wait(0.1)
    finally:
        for end in ends:
            end()
    assert [app.store.lock_job("import", "a process") is None for app in apps] == [False, False]
    assert apps[0].store.lock_job("import", "another") is None
    apps[0].tasks.pause("mail")
    apps[0].store.set_periodic({"clean": 0.0})
    assert [len(app.store.due_periodic(["clean"])) for app in apps] == [1, 0]
    drain(apps[0])
    assert [app.tasks.counts()["DONE"] for app in apps] == [1, 0]
    assert [[queue.name for queue in app.tasks.queues() if queue.paused] for app in apps] == [["mail"], []]
    for app in apps:
        app.close()


class OneTask(BaseWorker):
    def process_task(self, task):
        self.stop()
        return task.parameters["name"]


_INSERT = "INSERT INTO task_queue (task_type, parameters) VALUES ('greet', '{\"name\": \"Ada\"}') RETURNING id"


@pytest.mark.parametrize("schema", ["outlast", "jobs"])
def test_worker_names_on_a_connection_whose_search_path_leads_to_the_tables(url, schema):
    app = created(f"{url}?schema={schema}")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}, public")
        number = connection.execute(_INSERT).fetchone()[0]
        assert ErrorHandler(connection).handle_error(number, NetworkError("x"), 1)["changed"]
        app.tasks.run_now(number)
        OneTask("w1", connection, {"poll_interval": 0.01}).run()
    assert app.store.get(number).status == "DONE"
    app.close()


def test_worker_names_need_no_search_path_for_the_schema_outlast(url):
    app = created(url)
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = public")
        with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute(_INSERT)
        number = connection.execute(_INSERT.replace("task_queue", "outlast.task_queue")).fetchone()[0]
        connection.commit()
        assert ErrorHandler(connection).handle_error(number, NetworkError("x"), 1)["changed"]
        app.tasks.run_now(number)
        OneTask("w1", connection, {"poll_interval": 0.01}).run()
    assert app.store.get(number).status == "DONE"
    app.close()


def test_the_schema_outlast_comes_before_the_search_path(url):
    ours, other = created(f"{url}?schema=outlast"), created(f"{url}?schema=jobs")
    number = ours.tasks_by_name["greet"].enqueue("Ada").id
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = jobs")
        assert ErrorHandler(connection).handle_error(number, NetworkError("x"), 1)["changed"]
    assert ours.store.get(number).retry_count == 1
    ours.close()
    other.close()


@pytest.mark.parametrize("schema", ["outlast", "jobs"])
def test_enqueue_in_a_transaction_of_the_caller(url, schema):
    app = created(f"{url}?schema={schema}")
    greet = app.tasks_by_name["greet"]
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = public")
        connection.execute("CREATE TABLE orders (id integer)")
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (1)")
        greet.enqueue("lost", connection=connection)
        connection.rollback()
        connection.execute("INSERT INTO orders VALUES (2)")
        greet.enqueue("Ada", connection=connection)
        greet.enqueue_many([{"name": "Bob"}, {"name": "Cid"}], connection=connection)
        connection.commit()
    assert app.tasks.counts()["QUEUED"] == 3
    app.close()


def test_the_rights_on_the_page_are_enough(url):
    app = created(url)
    page = _PAGE.read_text("utf-8").partition("## Rights")[2].partition("\n## ")[0]
    grants = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(grants) == 2
    for grant in grants:
        execute(url, grant)
    shop, worker = make_app(as_role(url, "shop")), make_app(as_role(url, "worker"))
    with psycopg.connect(as_role(url, "shop")) as connection:
        shop.tasks_by_name["greet"].enqueue("Ada", connection=connection)
        connection.execute(_INSERT.replace("task_queue", "outlast.task_queue"))
    drain(worker)
    assert app.tasks.counts()["DONE"] == 2
    for each in (app, shop, worker):
        each.close()


def test_a_move_goes_to_the_schema_of_its_url(url, tmp_path):
    source = created(f"sqlite:///{tmp_path / 'outlast.db'}")
    source.tasks_by_name["greet"].enqueue("Ada")
    source.close()
    here, names = f"sqlite:///{tmp_path / 'outlast.db'}", MoveNames("here", "there")
    created(f"{url}?schema=public").close()
    with open_source(here) as origin, open_target(url) as target:
        for step in (preview, move):
            with pytest.raises(SchemaError, match="ALTER TABLE public"):
                step(origin, target, names)
        assert origin.mark() is None, "the file is not frozen"
    with open_source(here) as origin, open_target(f"{url}?schema=jobs") as target:
        assert preview(origin, target, names)["task_queue"] == 1
        assert tables(url, "jobs") == set()
        move(origin, target, names)
    assert tables(url, "outlast") == set()
    app = make_app(f"{url}?schema=jobs")
    drain(app)
    assert app.tasks.counts()["DONE"] == 1
    app.close()
