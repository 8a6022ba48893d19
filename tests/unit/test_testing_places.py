"""An app on a store of a test's own."""

import pytest

import outlast
from outlast.jobs.job import Job
from outlast.testing import drain, fresh_database, on_store

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def app(tmp_path):
    app = outlast.App(f"sqlite:///{tmp_path}/production.db")
    yield app
    app.close()


def holders(app):
    """Return all that can be reached from an app and has a store in its hands."""
    things = [app, *vars(app).values(), *app.jobs_by_name.values()]
    return {
        (type(each).__name__, name): value
        for each in things
        for name, value in getattr(each, "__dict__", {}).items()
        if type(value).__name__ == "SqliteStore"
    }


def test_tasks_and_jobs_go_with_the_app(app, tmp_path):
    @app.task
    def scrape(n: int) -> None: ...

    @app.job("pages", max_failure_rate=0.5)
    def pages(context: outlast.JobContext, target: str) -> None: ...

    scrape.enqueue(n=1)
    before, spool = holders(app), app.settings.spool
    with on_store(app, f"sqlite:///{tmp_path}/test.db") as moved:
        assert moved is app
        assert len(set(map(id, holders(app).values()))) == 1
        assert app.store is not before["App", "store"]
        assert app.settings.spool != spool
        assert drain(app).done == 0, "what is in production is not seen"
        scrape.enqueue(n=2)
        pages.run(["a", "b"])
        assert drain(app).done == 1
        assert len(app.store.runs("pages")) == 1
    assert holders(app) == before
    assert app.settings.spool == spool
    assert app.tasks.counts()["QUEUED"] == 1
    assert app.store.runs("pages") == []
    assert isinstance(pages, Job)


def test_everything_is_put_back_after_an_error(app, tmp_path):
    before = holders(app)
    with pytest.raises(KeyError), on_store(app, f"sqlite:///{tmp_path}/test.db"):
        raise KeyError
    assert holders(app) == before
    assert app.tasks.counts()["QUEUED"] == 0


def test_cooldowns_of_before_are_not_known(app, tmp_path):
    app.cooling.start_cooldown("example.com", 60, "asked to")
    with on_store(app, f"sqlite:///{tmp_path}/test.db"):
        assert app.cooling.left("example.com") == 0
    assert app.cooling.left("example.com") > 0


def test_a_database_is_there_for_the_block_and_gone_after_it(postgres_server):
    with fresh_database(postgres_server.url) as url, fresh_database(postgres_server.url) as other:
        assert url != other
        app = outlast.App(url)
        app.create_schema()
        assert app.tasks.counts()["QUEUED"] == 0
        app.close()
        left_open = psycopg.connect(url)
    left_open.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_the_options_of_the_url_are_kept(postgres_server):
    with fresh_database(f"{postgres_server.url}?application_name=mine") as url:
        assert url.endswith("?application_name=mine")
        with psycopg.connect(url) as connection:
            assert connection.info.dbname.startswith("outlast_test_")
