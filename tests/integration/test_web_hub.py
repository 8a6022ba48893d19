"""Live updates: one read per tick whatever the number of those who look, none while nobody does, and streams that end."""

import asyncio
import json
import threading
import time
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest

import outlast
from conformance.acting import register
from outlast.operations.table import OPERATIONS
from outlast.web.live import LiveHub
from outlast.web.rendering import Assets, Renderer
from outlast.web.site import PAGES

TICK = 0.02
PATIENCE = 30.0


class World:
    """An app on SQLite whose every statement is counted, and a hub."""

    def __init__(self, folder):
        self.app = outlast.App(f"sqlite:///{folder / 'outlast.db'}")
        self.app.create_schema()

        @self.app.task
        def scrape(text):
            raise ValueError(text)

        self.scrape = scrape
        self.app.store.counts()
        self.statements = []
        self.app.store.db._reader.set_trace_callback(self.statements.append)
        self.hub = self.make()

    def make(self, **more):
        hub = LiveHub(self.app, Renderer(PAGES, OPERATIONS, Assets(), "Outlast").render, tick=TICK, **more)
        self.beats, beat = [], hub._tick_once

        def counted():
            begun = len(self.statements)
            beat()
            self.beats.append(len(self.statements) - begun)

        hub._tick_once = counted
        return hub

    def fail(self, *texts):
        for text in texts:
            self.scrape.enqueue(text)
        self.app.worker(concurrency=1).drain()


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.hub.close()
    until(lambda: made.hub._thread is None)
    made.app.close()


def until(condition):
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < PATIENCE, "it did not come about"
        time.sleep(0.005)


async def soon(condition):
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < PATIENCE, "it did not come about"
        await asyncio.sleep(0.005)


class Viewer:
    """Somebody with a page open."""

    def __init__(self, hub, view, prefix, allowed):
        self.texts, self.over = [], False
        self._stream = hub.stream(view, prefix, allowed)

    async def look(self):
        async with aclosing(self._stream) as stream:
            async for text in stream:
                self.texts.append(text)
        self.over = True

    def told(self, name):
        found = [text for text in self.texts if text.startswith(f"event: {name}\n")]
        assert all(text.endswith("\n\n") and text.count("\n") == 3 for text in found), "an event is one line of data"
        return [json.loads(text.partition("data: ")[2]) for text in found]


@asynccontextmanager
async def looking(hub, view="page", prefix="", allowed=lambda: True):
    viewer = Viewer(hub, view, prefix, allowed)
    task = asyncio.create_task(viewer.look())
    try:
        yield viewer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def run(scene):
    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def test_nobody_looks_and_nothing_is_read(world):
    assert world.hub.badges() is None
    assert world.statements == []
    assert world.hub._thread is None


@pytest.mark.parametrize("viewers", [1, 25])
def test_a_tick_is_one_statement_whatever_the_number_of_those_who_look(world, viewers):
    world.fail("broken")
    world.statements.clear()
    rolled, roll_up = [], world.app.store.roll_up
    world.app.store.roll_up = lambda: rolled.append(len(world.beats)) or roll_up()

    async def scene():
        async with AsyncExitStack() as stack:
            views = ["overview", "page", "dead_letters", "nothing of ours", "overview-10m", "replays", "replay-1"]
            crowd = [
                await stack.enter_async_context(looking(world.hub, views[number % 7])) for number in range(viewers)
            ]
            await soon(lambda: len(world.beats) >= 20 and all(each.told("pulse") for each in crowd))

    run(scene)
    assert rolled == [], "nothing is old enough"
    assert set(world.beats) == {1}


def test_a_replay_is_watched(world):
    world.fail("one", "two", "three")
    replay = world.app.dead_letters.replay_later(all=True, who="ada", why="<i>again</i>")

    async def scene():
        async with (
            looking(world.hub, f"replay-{replay.id}") as viewer,
            looking(world.hub, "replays", "/admin") as other,
        ):
            await soon(lambda: viewer.told("parts") and other.told("parts"))
            claimed = world.app.store.claim_replay("w", 15.0)
            world.app.store.replay_step(replay.id, claimed.epoch, 1, stage=0, canary=True)
            await soon(lambda: "1 of 3 dead letters queued again" in viewer.told("parts")[-1])
            world.app.dead_letters.stop_replay(replay.id)
            await soon(lambda: 'data-replay="cancelled"' in viewer.told("parts")[-1])
            await soon(lambda: "cancelled" in other.told("parts")[-1])
            assert f'href="/admin/replays/{replay.id}"' in other.told("parts")[-1]
            assert "&lt;i&gt;again&lt;/i&gt;" in other.told("parts")[-1]
            assert "<form" not in viewer.told("parts")[-1], "not all who look may press anything"

    run(scene)


def test_a_replay_that_nobody_looks_at_is_not_read(world):
    world.app.store.replay_runs = None  # a call would be an error, and told as trouble

    async def scene():
        async with looking(world.hub, "overview-10m") as viewer:
            await soon(lambda: len(world.beats) >= 10)
            assert viewer.told("trouble") == []
            assert "10 minutes" in "".join(viewer.told("parts"))

    run(scene)


def test_what_nobody_adds_up_is_added_up_here_whoever_is_alive(world):
    """Such as where only workers of a program's own making, or none, are there."""
    world.fail("broken")
    register(world.app.store, "alive")
    world.app.store.db.write(lambda own: own.execute("UPDATE task_flow SET at = at - 3600000 WHERE span = 0"))
    assert world.app.store.pulse().not_rolled_up > 3600

    async def scene():
        async with looking(world.hub, "overview"):
            await soon(lambda: (world.app.store.pulse().not_rolled_up or 0) < 60)

    run(scene)


def test_with_a_worker_alive_rolling_up_is_left_to_it(world):
    worker = world.app.worker(concurrency=1, name="here")
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    until(lambda: world.app.store.pulse().workers == 1)
    rolled = []
    world.app.store.roll_up, roll_up = (
        lambda: rolled.append(threading.current_thread().name) or 0,
        world.app.store.roll_up,
    )

    async def scene():
        world.hub = world.make()
        async with looking(world.hub, "overview") as viewer:
            await soon(lambda: len(world.beats) >= 20 and viewer.told("parts"))

    run(scene)
    world.app.store.roll_up = roll_up
    worker.stop()
    thread.join()
    assert not [name for name in rolled if "hub" in name]


def test_when_the_last_one_leaves_nothing_is_read_any_more(world):
    async def scene():
        async with looking(world.hub) as viewer:
            await soon(lambda: viewer.told("pulse"))
        await soon(lambda: world.hub._thread is None)
        before = len(world.statements)
        async with looking(world.hub) as again:  # shown the last pulse at once, and then a new one
            await soon(lambda: again.told("pulse") and len(world.statements) > before)

    run(scene)
    until(lambda: world.hub._thread is None)
    assert world.hub._viewers == {}
    assert not [thread for thread in threading.enumerate() if thread.name == "outlast-web-hub" and thread.is_alive()]


def test_a_stream_ends_with_the_session_and_only_that_one(world):
    async def scene():
        allowed = {"me": True, "you": True}
        async with (
            looking(world.hub, allowed=lambda: allowed["me"]) as mine,
            looking(world.hub, allowed=lambda: allowed["you"]) as yours,
        ):
            await soon(lambda: mine.told("pulse") and yours.told("pulse"))
            allowed["me"] = False
            await soon(lambda: mine.over)
            seen, told = len(mine.texts), len(yours.told("pulse"))
            await soon(lambda: len(yours.told("pulse")) > told + 3)
            assert len(mine.texts) == seen, "nothing is told after the end"
            assert not yours.over

    run(scene)


def test_whoever_may_not_look_is_told_nothing(world):
    async def scene():
        async with looking(world.hub, allowed=lambda: False) as viewer:
            await soon(lambda: viewer.over)
            assert viewer.told("pulse") == []

    run(scene)


def test_a_stream_ends_after_a_while_so_that_no_connection_is_for_ever(world):
    async def scene():
        world.hub = world.make(longest=0.3)
        async with looking(world.hub) as viewer:
            await soon(lambda: viewer.over)
            assert viewer.texts[0] == "retry: 2000\n\n"

    run(scene)


def test_closing_ends_all_streams(world):
    async def scene():
        async with looking(world.hub) as one, looking(world.hub, "overview") as other:
            await soon(lambda: one.told("pulse") and other.told("parts"))
            await asyncio.to_thread(world.hub.close)
            await soon(lambda: one.over and other.over)
        async with looking(world.hub) as late:
            await soon(lambda: late.over)

    run(scene)


def test_every_page_is_told_the_badges_and_the_newest_numbers_as_text(world):
    world.fail("broken", "broken too")

    async def scene():
        async with looking(world.hub, "tasks") as viewer:
            await soon(lambda: viewer.told("pulse"))
            (first, *_) = viewer.told("pulse")
            assert first["newest"] == {"task": "2", "dead_letter": "2"}
            assert first["badges"]["dead_letters"] == {"text": "2", "kind": "bad", "title": "2 dead letters"}
            assert viewer.told("parts") == []
            assert world.hub.badges()["dead_letters"].text == "2"

    run(scene)


def test_the_overview_is_told_what_changed_and_only_that(world):
    async def scene():
        async with looking(world.hub, "overview") as viewer:
            await soon(lambda: any('data-part="charts"' in part for part in viewer.told("parts")))
            await soon(lambda: any('data-part="groups"' in part for part in viewer.told("parts")))
            charts = sum('data-part="charts"' in part for part in viewer.told("parts"))
            ticks = len(viewer.told("pulse"))
            await soon(lambda: len(viewer.told("pulse")) > ticks + 3)
            assert sum('data-part="charts"' in part for part in viewer.told("parts")) <= charts + 1
            await asyncio.to_thread(world.fail, "broken")
            await soon(lambda: any("1 task became a dead letter" in part for part in viewer.told("parts")))

    run(scene)


def test_fragments_are_escaped_and_lead_to_where_the_dashboard_is_mounted(world):
    world.fail("<script>alert(1)</script>\nevent: pulse\ndata: {}")

    async def scene():
        async with looking(world.hub, "overview", "/admin/outlast") as there, looking(world.hub, "overview") as here:
            await soon(lambda: any('data-part="groups"' in part for part in there.told("parts")))
            await soon(lambda: any('data-part="groups"' in part for part in here.told("parts")))
            html = "".join(there.told("parts"))
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
            assert "<script" not in html
            assert 'href="/admin/outlast/failures/' in html
            assert 'href="/failures' not in html
            assert 'href="/failures' in "".join(here.told("parts"))

    run(scene)


def test_a_store_that_does_not_answer_is_told_without_its_secrets_and_it_goes_on(world, caplog):
    pulse = world.app.store.pulse

    def broken(**_):
        raise OSError("postgresql://me:hunter2@db/x is gone")

    async def scene():
        world.app.store.pulse = broken
        async with looking(world.hub, "overview") as viewer:
            await soon(lambda: viewer.told("trouble"))
            assert set(viewer.told("trouble")) == {"The store does not answer"}
            assert viewer.told("pulse") == []
            world.app.store.pulse = pulse
            await soon(lambda: viewer.told("pulse"))

    run(scene)
    assert "hunter2" not in caplog.text
    assert "OSError" in caplog.text
