"""What is told of dead letters: every new group, growth, age. Pitfall 59, on all stores."""

import threading

import pytest

import outlast
from conformance.acting import NOTE, bury, task
from conformance.conftest import another, place, postgres_place, store  # noqa: F401  # fixtures
from crash.processes import until
from outlast.ports.rows import DeadLetterFilter
from outlast.ports.source_rows import NewAlert
from outlast.queue import failure_groups, heartbeat
from outlast.queue.dead_letters import DeadLetterBox
from outlast.queue.failure_groups import AGE_KEY, GroupAlerts, growth_step

DAY = 86400.0


class Outbox:
    """What a watch raises, look by look."""

    def __init__(self, where, age=None):
        self.store, self.box, self.watch = where, DeadLetterBox(where), GroupAlerts(where, age)

    def look(self, watch=None):
        """Look once; return what is new in the outbox, oldest first."""
        before = {alert.id for alert in self.store.alerts(limit=1000)}
        (watch or self.watch).check_groups()
        found = [alert for alert in reversed(self.store.alerts(limit=1000)) if alert.id not in before]
        return [(alert.key, alert.state, str(alert.kind)) for alert in found]

    def bury(self, count=1, group="f1", **more):
        for _ in range(count):
            bury(self.store, task(), note=NOTE._replace(fingerprint=group, **more))


@pytest.fixture
def outbox(store):  # noqa: F811  # a fixture
    return Outbox(store)


class TestNewGroups:
    def test_pitfall_59_every_new_group_is_told_not_only_the_first(self, outbox):
        assert outbox.look() == []
        outbox.bury()
        assert outbox.look() == [("group:f1", "new", "first")]
        assert outbox.look() == []
        outbox.bury(group="f2")
        assert outbox.look() == [("group:f2", "new", "first")], (
            "the dead letters are not 0 any more, it is news all the same"
        )
        outbox.bury(3)
        assert outbox.look() == [], "nor is the same told twice"

    def test_many_at_once(self, outbox):
        for number in range(30):
            outbox.bury(group=f"g{number}")
        assert len(outbox.look()) == 30
        assert outbox.look() == []

    def test_a_group_that_only_retries_is_told_too(self, outbox, store):  # noqa: F811  # a fixture
        store.record_observed([("sync", "retry", "network", "f9", "TimeoutError", "timed out")])
        assert outbox.look() == [("group:f9", "new", "first")]

    def test_what_is_told_has_no_secret_and_no_end(self, outbox, store):  # noqa: F811  # a fixture
        outbox.bury(error_message="password=hunter2 " + "x" * 5000)
        outbox.look()
        (alert,) = store.alerts()
        assert alert.title.startswith("new failure: scrape: TimeoutError: password=***")
        assert len(alert.title) < 250
        assert "hunter2" not in alert.title + alert.text
        assert "outlast dlq list --group f1" in alert.text


class TestGrowth:
    def test_pitfall_59_growth_is_told_step_by_step(self, outbox):
        outbox.bury(9)
        assert outbox.look() == [("group:f1", "new", "first")]
        outbox.bury()
        assert outbox.look() == [("growth:f1", "10", "first")]
        outbox.bury(5)
        assert outbox.look() == []
        outbox.bury(85)
        assert outbox.look() == [("growth:f1", "100", "changed")]

    def test_a_group_that_shrinks_is_no_news_until_nothing_is_left(self, outbox, store):  # noqa: F811  # a fixture
        outbox.bury(12)
        outbox.look()
        numbers = [each.id for each in store.dead_letters(DeadLetterFilter())]
        for number in numbers[:8]:
            store.discard(number)
        assert outbox.look() == []
        for number in numbers[8:]:
            store.discard(number)
        assert outbox.look() == [("growth:f1", None, "recovered")]
        outbox.bury(10)
        assert outbox.look() == [("growth:f1", "10", "first")], "and it may begin anew"

    @pytest.mark.parametrize(
        ("dead", "step"), [(0, None), (9, None), (10, 10), (99, 10), (100, 100), (123_456, 100_000), (10**9, 10**9)]
    )
    def test_the_steps(self, dead, step):
        assert growth_step(dead) == step


class TestPeople:
    def test_a_snoozed_group_is_not_told_of(self, outbox):
        outbox.bury(9)
        outbox.look()
        outbox.box.snooze("f1", 3600)
        outbox.bury(2)
        assert outbox.look() == []
        outbox.box.reopen("f1")
        assert ("growth:f1", "10", "first") in outbox.look()

    def test_nor_is_one_that_somebody_sees_to_until_it_fails_again(self, outbox, store):  # noqa: F811  # a fixture
        outbox.bury(9)
        outbox.look()
        group = outbox.box.acknowledge("f1", who="ann")
        assert group.standing(store.now()) == "acknowledged"
        assert outbox.look() == []
        until(lambda: store.now() > group.acknowledged_at, 5, "another millisecond")
        outbox.bury()
        told = outbox.look()
        assert told[0] == ("growth:f1", "10", "first")
        assert told[1][0] == "group:f1"
        assert told[1][2] == "changed", "it is open again by itself, and that is told"
        outbox.bury()
        assert outbox.look() == []

    def test_a_snoozed_group_hides_no_other(self, outbox):
        outbox.bury(group="f1")
        outbox.box.snooze("f1", 3600)
        outbox.bury(group="f2")
        assert outbox.look() == [("group:f2", "new", "first")]


class TestManyAlerts:
    """More of other matters than anybody reads at once."""

    def drown(self, where):
        where.raise_alerts([NewAlert(f"source:{number}", "down", "t") for number in range(1001)])

    def test_a_group_that_fails_again_is_told_of(self, outbox, store):  # noqa: F811  # a fixture
        outbox.bury()
        outbox.look()
        self.drown(store)
        group = outbox.box.acknowledge("f1")
        until(lambda: store.now() > group.acknowledged_at, 5, "another millisecond")
        outbox.bury()
        GroupAlerts(store, None).check_groups()
        (alert,) = store.last_alerts(["group:f1"]).values()
        assert (alert.state, alert.kind) == (f"again after {group.acknowledged_at.isoformat()}", "changed")

    def test_growth_goes_no_step_back(self, outbox, store):  # noqa: F811  # a fixture
        outbox.bury(100)
        outbox.look()
        self.drown(store)
        for letter in store.dead_letters(DeadLetterFilter(limit=70)):
            store.discard(letter.id)
        GroupAlerts(store, None).check_groups()
        assert store.last_alerts(["growth:f1"])["growth:f1"].state == "100"

    def test_that_a_group_is_over_is_told_however_many_came_after_it(self, outbox, store, monkeypatch):  # noqa: F811  # a fixture
        monkeypatch.setattr(failure_groups, "_PAGE", 3)
        names = [f"g{number}" for number in range(10)]
        for name in names:
            store.record_observed([("sync", "retry", "network", name, "TimeoutError", "timed out")])
        for _ in range(4):
            outbox.look()
        assert set(store.last_alerts([f"group:{name}" for name in names])) == {f"group:{name}" for name in names}
        self.drown(store)
        monkeypatch.setattr(failure_groups, "_QUIET", failure_groups.timedelta(seconds=-1))
        watch = GroupAlerts(store, None)
        for _ in range(5):
            watch.check_groups()
        told = store.last_alerts([f"group:{name}" for name in names]).values()
        assert [alert.state for alert in told] == [None] * len(names)


class TestOver:
    def test_groups_that_are_over_before_they_are_told_hold_nothing_up(self, outbox, store, monkeypatch):  # noqa: F811  # a fixture
        monkeypatch.setattr(failure_groups, "_PAGE", 3)
        for number in range(5):
            store.record_observed([("sync", "retry", "network", f"o{number}", "TimeoutError", "timed out")])
        monkeypatch.setattr(failure_groups, "_QUIET", failure_groups.timedelta(seconds=-1))
        outbox.bury()
        for rolled_up in (False, True):
            found = [group.fingerprint for group in store.unannounced_groups(3, quiet=-1)]
            assert found == ["f1"], rolled_up
            assert len(store.unannounced_groups(quiet=DAY)) == len(store.unannounced_groups()) == 6
            store.roll_up()
        assert outbox.look() == [("group:f1", "new", "first")]
        assert outbox.look() == []
        monkeypatch.undo()
        assert len(outbox.look()) == 5, "one that comes back is news"


class TestAge:
    def test_what_waits_too_long_is_told_and_that_it_is_over(self, store):  # noqa: F811  # a fixture
        outbox = Outbox(store, age=0.0)
        outbox.bury()
        until(lambda: (store.oldest_dead_letter() or 0) > 0, 5, "some age")
        assert (AGE_KEY, "old", "first") in outbox.look()
        assert outbox.look() == []
        outbox.box.acknowledge("f1")
        assert outbox.look() == [(AGE_KEY, None, "recovered")], "somebody sees to it"

    def test_what_is_young_is_not(self, store):  # noqa: F811  # a fixture
        outbox = Outbox(store, age=DAY)
        outbox.bury()
        assert outbox.look() == [("group:f1", "new", "first")]


class TestManyWorkers:
    def test_they_tell_it_once(self, store, another):  # noqa: F811  # fixtures
        outbox = Outbox(store)
        others = [GroupAlerts(each, None) for each in (another, store, another)]
        outbox.bury(10)
        told = [each for watch in others for each in outbox.look(watch)]
        assert sorted(told) == [("group:f1", "new", "first"), ("growth:f1", "10", "first")]

    def test_one_that_begins_later_knows_what_was_told(self, store):  # noqa: F811  # a fixture
        outbox = Outbox(store)
        outbox.bury(100)
        outbox.look()
        for letter in store.dead_letters(DeadLetterFilter(limit=70)):
            store.discard(letter.id)
        assert outbox.look(GroupAlerts(store, None)) == [], "100 was told; 30 are no growth"
        for letter in store.dead_letters(DeadLetterFilter()):
            store.discard(letter.id)
        assert outbox.look(GroupAlerts(store, None)) == [("growth:f1", None, "recovered")]

    def test_a_group_that_is_silent_for_days_is_over(self, store, monkeypatch):  # noqa: F811  # a fixture
        outbox = Outbox(store)
        outbox.bury()
        outbox.look()
        store.discard(store.dead_letters(DeadLetterFilter())[0].id)
        assert outbox.look() == []
        monkeypatch.setattr(failure_groups, "_QUIET", failure_groups.timedelta(seconds=-1))
        assert outbox.look() == [("group:f1", None, "recovered")]
        monkeypatch.undo()
        outbox.bury()
        assert outbox.look() == [("group:f1", "new", "first")], "it has come back"


def test_a_worker_looks_by_itself_and_people_hear_of_it(store, tmp_path, monkeypatch):  # noqa: F811  # a fixture
    monkeypatch.setattr(heartbeat, "GROUP_ALERT_EVERY", 0.05)
    heard = []
    app = outlast.App(store, spool=tmp_path / "spool", notify=heard.append)

    @app.task
    def first():
        raise ZeroDivisionError("a bug")

    @app.task
    def second():
        raise KeyError("another")

    working = app.worker()
    thread = threading.Thread(target=working.run)
    thread.start()
    try:
        first.enqueue()
        until(lambda: len(heard) == 1, 20, "the first group")
        second.enqueue()
        until(lambda: len(heard) == 2, 20, "the second group")
    finally:
        working.stop()
        thread.join(20)
    assert [message.title.partition(":")[0] for message in heard] == ["new failure"] * 2


class TestSettings:
    def test_of_the_app(self):
        assert outlast.App("memory://").settings.alert_age == DAY
        assert outlast.App("memory://", alert_age=60).settings.alert_age == 60.0
        assert outlast.App("memory://", alert_age=None).settings.alert_age is None
        with pytest.raises(outlast.errors.ConfigError, match="alert_age"):
            outlast.App("memory://", alert_age=-1)
