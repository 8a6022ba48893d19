"""What commands say of an app whose tasks are Celery's."""

import sys

import pytest

from cli_world import in_one_line, make_world  # noqa: F401  # a fixture
from outlast.engines.celery.attempt import AttemptRecorder
from outlast.engines.celery.message_codec import CELERY_PART
from outlast.queue.task_failure import task_failure_of
from outlast.web.task_view import task_view

SHOP = """
import celery
import outlast
from outlast.engines.celery import attach

celery_app = celery.Celery("shop", broker="memory://", set_as_current=False)
app = outlast.App("sqlite:///outlast.db")
attach(celery_app, app)
"""
START = "its tasks run in Celery: celery -A MODULE:CELERY_APP worker"
OWN = """
@app.task
def own(): ...
"""


@pytest.fixture
def shopping(world):
    (world.folder / "theshop.py").write_text(SHOP)
    (world.folder / "bothshop.py").write_text(SHOP + OWN)
    world.run("db", "init", "--url", "sqlite:///outlast.db")
    yield world
    for name in ("theshop", "bothshop"):
        if (module := sys.modules.pop(name, None)) is not None:
            module.app.close()


def test_what_starts_a_worker(shopping):
    assert f"no workers; {START}\n" in shopping.run("status", "--app", "theshop:app").stdout
    both = " ".join(shopping.run("status", "--app", "bothshop:app").stdout.split())
    assert f"no workers; outlast worker MODULE:APP starts one; {START.replace('its', 'other')}" in both


def test_a_worker_of_ours_says_that_it_has_nothing_to_do(shopping):
    said = shopping.run("worker", "theshop:app", "--drain").stderr
    assert f"the app has no tasks of its own; {START}" in said
    assert "check that its module imports" not in said
    assert "Celery" not in shopping.run("worker", "bothshop:app", "--drain").stderr


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("theshop:app", "its tasks are Celery's and are sent by your program"),
        ("bothshop:app", "it has: own; other tasks are Celery's and are sent by your program"),
    ],
)
def test_what_is_not_enqueued_here(shopping, reference, said):
    assert said in in_one_line(shopping.run("enqueue", reference, "shop.send_mail", code=2).stderr)


def test_a_dead_letter_is_shown_by_its_arguments_and_its_end(shop, world):
    rules = shop.engine.rules(shop.flaky)
    verdict = task_failure_of(ValueError("no good"), rules.policy)
    AttemptRecorder(shop.engine).record_failure(shop.flaky, shop.request(), rules, None, verdict)
    [row], where = shop.rows(), ("--url", f"sqlite:///{world.folder}/shop.db")
    assert row.next_run_after > row.failed_at

    assert " in " not in world.run("tasks", "list", *where).stdout
    for words in (["tasks", "show", row.id], ["dlq", "show", 1]):
        assert '{"times":1} ' in (text := world.run(*words, *where).stdout)
        assert CELERY_PART not in text
        assert world.json(*words, *where)["parameters"][CELERY_PART]["id"] == "abc"
    view = task_view(shop.store, row)
    assert view.payload == '{\n  "times": 1\n}'
    assert "of work" not in view.drawn.summary
    assert [each.seconds for each in view.attempts] == [None]
