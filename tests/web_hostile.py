"""A store in which every name and every text tries to become part of the page."""

from __future__ import annotations

from typing import Any, NamedTuple

import outlast
from outlast.decide.source_health import SourceState
from outlast.ports.read_rows import FailureFilter
from outlast.ports.rows import WorkerRow
from outlast.ports.triage import ReplayState

__all__ = ["EVIL", "MARK", "SECRET", "Hostile", "make_hostile"]

MARK = "xssmark"
EVIL = f"""\"'><xss-a onxss=1>{MARK}</xss-a></script></title></textarea><svg onload=x()>{{{{7*7}}}}&lt;"""
SECRET = "hunter2-is-a-secret"


class Hostile(NamedTuple):
    """What to ask for.

    Attributes:
        app: Whose store it is.
        paths: For each variable part of a path, values that lead somewhere.
        waiting: A task that waits, and may be changed.
    """

    app: Any
    paths: dict[str, dict[str, str]]
    waiting: int


def make_hostile(url: Any) -> Hostile:
    """Fill a store."""
    app = outlast.App(url, policy=outlast.RetryPolicy(max_attempts=2, base_delay=0.0, jitter="none"))
    app.create_schema()

    class Evil(Exception):
        pass

    Evil.__name__ = Evil.__qualname__ = EVIL

    @app.task(name=EVIL, queue=EVIL, resource=EVIL)
    def fails(text: str, password: str = "", **more: str) -> None:
        raise Evil(f"{EVIL} password={SECRET}")

    @app.task(name=f"later {EVIL}", queue=f"other {EVIL}")
    def later(text: str) -> None:
        pass

    fails.enqueue(text=EVIL, password=SECRET, unique_key=EVIL, **{EVIL[:60]: EVIL})
    fails.enqueue(text="second")
    app.worker([EVIL], name=EVIL).drain()
    waiting = later.enqueue(text=EVIL, delay=3600).id
    now = app.store.now()
    app.store.register(WorkerRow("w1", EVIL, EVIL, 1, (EVIL,), 1, f"paused: {EVIL}", 0, True, now, now), 3600)
    app.tasks.pause(f"paused {EVIL}")
    app.store.set_periodic({f"periodic {EVIL}": 3600.0})
    app.store.add_chart_mark("deploy", EVIL, EVIL)
    app.store.start_cooldown(f"cold {EVIL}", 3600, EVIL)
    app.store.report_breakers(EVIL, [(f"broken {EVIL}", "open", 60.0, EVIL)])
    app.store.order_breaker(f"ordered {EVIL}", "open", None)
    source = app.sources.add(
        f"https://example.com/?q={EVIL.replace(' ', '%20')}", profile="feed", name=EVIL, selector=None
    )
    app.sources.record_failure(source.id, Evil(EVIL))
    app.sources.disable(source.id, EVIL)
    assert app.sources.get(source.id).state is SourceState.DISABLED

    @app.job(EVIL, entity=EVIL, max_failure_rate=1.0, targets=lambda: [EVIL, "well"], env=EVIL)
    def job(context: Any, target: str) -> None:
        if target == EVIL:
            raise Evil(EVIL)

    run = job.run().run_id
    group = app.store.failures(FailureFilter()).rows[0]
    letter = app.dead_letters.list()[0]
    app.dead_letters.note(group.fingerprint, f"{EVIL} password={SECRET}", who=EVIL)
    patch = [{"op": "replace", "path": "/text", "value": f"{EVIL} again"}]
    app.dead_letters.edit(letter.id, patch, definition=app.tasks_by_name[EVIL], who=EVIL, why=EVIL)
    replay = app.dead_letters.replay_later(text=EVIL, who=EVIL, why=f"{EVIL} password={SECRET}")
    app.store.end_replay(replay.id, ReplayState.STOPPED, f"{EVIL} password={SECRET}")
    app.store.audit(EVIL, EVIL, f"source:{EVIL}", {EVIL: EVIL, "password": SECRET}, EVIL)
    return Hostile(
        app,
        {
            "failure": {"fingerprint": group.fingerprint},
            "dead_letter": {"dead_letter_id": str(letter.id)},
            "dead_letter_arguments": {"dead_letter_id": str(letter.id)},
            "replay": {"replay_id": str(replay.id)},
            "task": {"task_id": str(letter.original_task_id)},
            "source": {"source_id": str(source.id)},
            "run": {"run_id": run},
        },
        waiting,
    )
