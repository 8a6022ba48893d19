"""What a doctor makes of two counts and a clock."""

import pytest

from outlast.ports.rows import Status
from outlast.report.doctor import DoctorFinding, clock_finding, finding_text, ledger_findings

NONE = {str(status): 0 for status in Status} | {"dead_letters": 0}


def counted(**given):
    return NONE | given


def test_nothing_was_ever_enqueued():
    (finding,) = ledger_findings(NONE, NONE)

    assert finding.ok is True
    assert finding.text == "0 tasks = 0 done + 0 dead + 0 live + 0 cancelled + 0 discarded; the counters match"
    assert finding.todo == ""


def test_books_that_are_right_add_up():
    there = counted(
        QUEUED=1200, RUNNING=30, PARKED=4, DONE=1_000_000, FAILED=3, CANCELLED=2, DISCARDED=1, dead_letters=3
    )
    (finding,) = ledger_findings(there, dict(there))

    assert finding.ok is True
    assert finding.text == (
        "1,001,240 tasks = 1,000,000 done + 3 dead + 1,234 live + 2 cancelled + 1 discarded; the counters match"
    )


@pytest.mark.parametrize(
    ("books", "there", "said"),
    [
        ({"DONE": 5}, {"DONE": 4}, "1 task DONE is missing: the counter says 5, the tables have 4"),
        ({"DONE": 1}, {}, "1 task DONE is missing: the counter says 1, the tables have 0"),
        ({"QUEUED": 2}, {"QUEUED": 2002}, "2,000 tasks QUEUED are too many: the counter says 2, the tables have 2,002"),
        ({"QUEUED": -1}, {}, "1 task QUEUED is too many: the counter says -1, the tables have 0"),
        ({"CANCELLED": 3}, {"CANCELLED": 1}, "2 tasks cancelled are missing: the counter says 3, the tables have 1"),
        ({"DISCARDED": 1}, {}, "1 task discarded is missing: the counter says 1, the tables have 0"),
    ],
)
def test_one_count_is_off(books, there, said):
    (finding,) = ledger_findings(counted(**books), counted(**there))

    assert (finding.check, finding.ok, finding.text) == ("ledger", False, said)
    assert "--repair" in finding.todo


def test_a_dead_letter_without_its_task_is_off_twice():
    found = ledger_findings(counted(FAILED=2, dead_letters=2), counted(FAILED=1, dead_letters=2))

    assert [(each.check, each.ok, each.text) for each in found] == [
        ("ledger", False, "1 task failed for good is missing: the counter says 2, the tables have 1"),
        ("pairs", False, "1 task failed for good, but there are 2 dead letters"),
    ]


def test_pairs_are_seen_where_the_books_agree_with_both():
    off = counted(FAILED=2, dead_letters=1)
    (finding,) = ledger_findings(off, off)

    assert (finding.check, finding.ok) == ("pairs", False)


def test_a_task_that_changed_behind_their_back_is_off_in_both_places():
    found = ledger_findings(counted(QUEUED=5), counted(QUEUED=4, DONE=1))

    assert [each.text.partition(":")[0] for each in found] == ["1 task QUEUED is missing", "1 task DONE is too many"]


@pytest.mark.parametrize(
    ("seconds", "ok", "said"),
    [
        (0.0, True, "0.0 s apart"),
        (-4.9, True, "4.9 s apart"),
        (5.0, True, "5.0 s apart"),
        (5.2, False, "this machine is 5.2 s ahead of the store"),
        (-3600.0, False, "this machine is 3600.0 s behind the store"),
    ],
)
def test_clocks(seconds, ok, said):
    finding = clock_finding(seconds)

    assert (finding.check, finding.ok, bool(finding.todo)) == ("clock", ok, not ok)
    assert finding.text.endswith(said)


@pytest.mark.parametrize(("ok", "sign"), [(True, "✓"), (False, "✗"), (None, "•")])
def test_how_a_finding_is_printed(ok, sign):
    assert finding_text(DoctorFinding("disk", "all of it", ok=ok)) == f"{sign} disk         all of it"
    first, second = finding_text(DoctorFinding("disk", "all of it", "Do this.", ok)).splitlines()
    assert first.startswith(sign)
    assert second.index("Do") == first.index("all"), "what to do stands beneath what is so"
