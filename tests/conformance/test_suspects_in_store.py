"""Suspects in the books of every store: how they are settled, and how many run at once. Pitfall 40."""

from datetime import timedelta

import pytest

from conformance.acting import NOTE, add, claim, die, register, settle, task
from outlast.ports.rows import DeadLetterFilter, Kind, Reason, Status
from outlast.report.doctor import ledger_findings

ALL = DeadLetterFilter()


class TestSettling:
    def make_suspect(self, store):
        (number,) = add(store, task("killer", '{"a":1}'))
        register(store, "w0")
        claim(store, "w0")
        die(store, "w0")
        store.rescue(3)
        register(store)
        return number

    def test_a_crash_has_it_run_alone_again(self, store):
        number = self.make_suspect(store)
        (claimed,) = claim(store, limit=1, suspect=True)
        assert (claimed.suspect, claimed.crash_count) == (True, 0)

        assert settle(store, claimed, Kind.CRASH, note=NOTE) == []

        found = store.get(number)
        assert (found.status, found.suspect, found.crash_count, found.retry_count) == (Status.QUEUED, True, 1, 0)
        assert (found.attempt, found.next_run_after, found.failed_at) == (2, found.updated_at, None)
        assert found.last_error == NOTE.error_message
        last = store.attempts(number)[-1]
        assert (last.outcome, last.attempt, last.worker_id, last.delay) == ("lost", 2, "w1", None)
        assert (last.error_type, last.error_message, last.fingerprint) == (*NOTE[:2], "f1")
        assert claim(store) == []
        (claimed,) = claim(store, limit=1, suspect=True)
        assert claimed.crash_count == 1

    def test_after_a_wait(self, store):
        number = self.make_suspect(store)
        (claimed,) = claim(store, limit=1, suspect=True)

        assert settle(store, claimed, Kind.CRASH, note=NOTE, delay=60.0) == []

        found = store.get(number)
        assert (found.next_run_after - found.updated_at, found.suspect) == (timedelta(minutes=1), True)
        assert claim(store, limit=1, suspect=True) == []

    @pytest.mark.parametrize("kind", [Kind.RETRY, Kind.DEFER])
    @pytest.mark.parametrize("stays", [True, False])
    def test_a_retry_or_deferral_says_whether_it_stays_one(self, store, kind, stays):
        number = self.make_suspect(store)
        (claimed,) = claim(store, limit=1, suspect=True)

        assert settle(store, claimed, kind, note=NOTE, suspect=stays) == []

        assert store.get(number).suspect is stays
        assert [each.id for each in claim(store, suspect=stays)] == [number]

    def test_with_a_reason_it_is_a_dead_letter(self, store):
        number = self.make_suspect(store)
        (claimed,) = claim(store, limit=1, suspect=True)

        assert settle(store, claimed, Kind.CRASH, note=NOTE, reason=Reason.CRASH) == []

        found = store.get(number)
        assert (found.status, found.suspect, found.crash_count, found.retry_count) == (Status.FAILED, False, 1, 0)
        assert found.failed_at is not None
        (letter,) = store.dead_letters(ALL)
        assert (letter.original_task_id, letter.reason, letter.crash_count) == (number, Reason.CRASH, 1)
        assert (letter.error_type, letter.traceback, letter.parameters) == (NOTE.error_type, NOTE.traceback, '{"a":1}')
        assert [each.outcome for each in store.attempts(number)] == ["lost", "lost"]
        assert all(finding.ok for finding in ledger_findings(*store.counter_check()))

    @pytest.mark.parametrize("reason", [None, Reason.CRASH])
    def test_said_twice_it_counts_once_and_said_too_late_not_at_all(self, store, reason):
        number = self.make_suspect(store)
        (claimed,) = claim(store, limit=1, suspect=True)
        assert settle(store, claimed, Kind.CRASH, note=NOTE, reason=reason) == []

        assert settle(store, claimed, Kind.CRASH, note=NOTE, reason=reason) == []
        assert settle(store, claimed._replace(epoch=1), Kind.CRASH, note=NOTE, reason=reason) == [number]

        assert store.get(number).crash_count == 1
        assert len(store.attempts(number)) == 2
        assert len(store.dead_letters(ALL)) == (reason is not None)

    def test_a_crash_that_nobody_described(self, store):
        number = self.make_suspect(store)
        (claimed,) = claim(store, limit=1, suspect=True)

        assert settle(store, claimed, Kind.CRASH) == []

        assert store.get(number).crash_count == 1
        assert [each.outcome for each in store.attempts(number)] == ["lost", "lost"]


class TestTurns:
    """Whoever runs a suspect runs nothing else: some workers go on with the rest."""

    def queue(self, store, count):
        add(store, *[task("killer") for _ in range(count)])
        register(store, "w0")
        claim(store, "w0", count)
        die(store, "w0")
        assert len(store.rescue(3)) == count

    @pytest.mark.parametrize(("workers", "most"), [(1, 1), (2, 1), (3, 1), (4, 2)])
    def test_half_of_the_workers_run_suspects_while_others_wait(self, store, workers, most):
        self.queue(store, 4)
        add(store, task("plain"))
        for n in range(workers):
            register(store, f"w{n + 1}")
        for n in range(most):
            assert store.suspects_due(["default"])
            claim(store, f"w{n + 1}", 1, suspect=True)
        assert not store.suspects_due(["default"])

    def test_all_of_them_where_nobody_waits(self, store):
        self.queue(store, 3)
        add(store, task("plain", delay=60))
        for name in ("w1", "w2", "w3"):
            register(store, name)
            assert store.suspects_due(["default"])
            claim(store, name, 1, suspect=True)
        assert not store.suspects_due(["default"]), "there is none any more"

    def test_workers_of_other_queues_and_dead_ones_do_not_count(self, store):
        self.queue(store, 3)
        add(store, task("plain"))
        for name, queues in (
            ("w1", ("default",)),
            ("w2", ("default",)),
            ("w3", ("other",)),
            ("w4", ("other", "third")),
        ):
            register(store, name, queues=queues)
        register(store, "w5")
        die(store, "w5")
        claim(store, "w1", 1, suspect=True)
        assert not store.suspects_due(["default"])
        assert not store.suspects_due(["other"])
