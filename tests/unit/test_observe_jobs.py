"""Jobs that are only observed: each target once, nothing ends the run, and what would have happened is told."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import outlast
from outlast import errors
from outlast.cli.job import print_run_summary
from outlast.errors import ConfigError
from outlast.ports.rows import DeadLetterFilter
from outlast.record.events import Observed
from outlast.report.job_runs import gate_line
from outlast.testing import fake_clock

apart = outlast.App("memory://")


@apart.job("apart", max_failure_rate=0.0, mode="observe", ledger=False)
def in_another_process(context, target):
    """Stand in a module, to be found there by other processes."""
    if target == 2:
        raise errors.AuthenticationError("revoked")


@pytest.fixture
def app():
    app = outlast.App("memory://")
    yield app
    app.close()


@pytest.fixture
def told():
    events = []
    end = outlast.subscribe(events.append, Observed)
    yield events
    end()


@pytest.fixture(params=["one", "threads", "loop", "executor", "awaited"])
def run(request, app):
    """Run a handler over targets, with a clock on which nobody may wait; each target is called once."""

    def run(handler, targets, *, told=None, **settings):
        calls = Counter()

        def counted(context, target):
            calls[target] += 1
            return handler(context, target)

        async def counted_async(context, target):
            return counted(context, target)

        way = request.param
        given = counted_async if way in {"loop", "awaited"} else counted
        job = app.job("job", **{"max_failure_rate": 0.0, "mode": "observe", **settings})(given)
        with fake_clock() as clock:
            if way == "executor":
                with ThreadPoolExecutor(2) as pool:
                    summary = job.run(targets, executor=pool, **(told or {}))
            elif way == "awaited":
                summary = asyncio.run(job.run_async(targets, concurrency=3, **(told or {})))
            else:
                summary = job.run(targets, concurrency=3 if way == "threads" else 1, **(told or {}))
        assert clock.waits == []
        assert calls == Counter(targets), "every target once"
        return summary

    return run


def decided(events):
    return Counter((each.name, each.decision) for each in events)


def rows(app, summary):
    """Return what the ledger has, by target."""
    return {row.source_id: row for row in app.store.targets(summary.run_id)}


class TestNothingEndsIt:
    @pytest.mark.parametrize(
        ("error", "word"),
        [
            (errors.AuthenticationError("revoked"), "authentication"),
            (errors.ConfigurationError("no such table"), "configuration"),
            (errors.AbortJob("the shop is closed"), "the shop is closed"),
        ],
    )
    def test_what_would_have_aborted_it(self, app, run, told, error, word):
        def handler(context, target):
            if target == 4:
                raise error

        summary = run(handler, range(1, 11))
        assert (summary.exit_code, summary.state, summary.reasons) == (0, "done", ())
        assert (summary.success_targets, summary.failed_targets, summary.not_attempted) == (9, 1, 0)
        assert decided(told) == {("job", "abort"): 1}
        assert summary.would_do == {"abort": 1}
        assert summary.would_exit_code == 1
        assert summary.would[0].startswith("would have ended at target ")
        assert word in summary.would[0]
        kept = app.store.run(summary.run_id)
        assert (str(kept.state), kept.exit_code) == ("done", 0)
        assert kept.summary["would"] == list(summary.would)

    def test_the_number_of_the_target(self, app):
        @app.job("items", entity="item", mode="observe")
        def items(context, target):
            if target in {37, 40}:
                raise errors.AuthenticationError("revoked")

        summary = items.run(range(1, 101), concurrency=1)
        assert summary.would[0] == "would have ended at target 37: authentication: AuthenticationError: revoked"
        assert summary.would[1:] == ("the gate would have passed it",)
        assert "would have ended at target 37" in str(summary)
        assert "observed, exit code 0" in str(summary)
        assert "would have ended at target 37" in summary.to_markdown()

    def test_breakers_early_stop_and_trouble_of_this_machine(self, run):
        def handler(context, target):
            raise OSError(28, "No space left on device")

        summary = run(handler, list(range(20)), early_stop=True, max_failure_rate=0.5)
        assert (summary.exit_code, summary.failed_targets, summary.not_attempted) == (0, 20, 0)
        assert "would have ended at target 3: 3 targets in a row failed because of this machine" in summary.would[0]

    def test_a_breaker_of_the_job(self, app):
        @app.job("puts", max_failure_rate=1, breakers={"network": 2}, mode="observe")
        def puts(context, target):
            raise ConnectionRefusedError(111, "Connection refused")

        summary = puts.run(range(5), concurrency=1)
        assert summary.would[0] == "would have ended at target 2: 2 targets in a row failed at network"
        assert (summary.exit_code, summary.failed_targets) == (0, 5)

    def test_a_stop_is_still_a_stop(self, app):
        """What ends the run itself is no decision of the policy, and stays what it is."""

        def targets():
            yield 1
            raise ConnectionError("the list is gone")

        @app.job("items", max_failure_rate=1, mode="observe")
        def items(context, target):
            pass

        summary = items.run(targets(), concurrency=1)
        assert (summary.exit_code, summary.state) == (1, "aborted")
        assert "the targets could not be read" in summary.reasons[0]


class TestWhatIsTold:
    def test_each_decision(self, app, run, told):
        raised = {
            1: ConnectionError("refused"),
            2: errors.ResourceNotFoundError("gone"),
            3: errors.RateLimitError("slowly", retry_after=86400),
            4: errors.SkipTarget("not today"),
            5: errors.AuthenticationError("revoked"),
        }

        def handler(context, target):
            if target in raised:
                raise raised[target]

        summary = run(handler, range(8))
        expected = {"retry": 1, "fail": 1, "defer": 1, "skip": 1, "abort": 1}
        assert decided(told) == {("job", name): count for name, count in expected.items()}
        assert summary.would_do == expected
        assert (summary.success_targets, summary.failed_targets, summary.skipped_targets) == (3, 4, 1)
        assert summary.deferred_targets == 0, "it failed; nobody put it off"
        assert summary.total_targets == 8
        assert {row.status for key, row in rows(app, summary).items() if key in {"1", "2", "3", "5"}} == {"failed"}
        assert {row.attempts for row in rows(app, summary).values()} == {1}
        assert summary.attempts == 8

    def test_the_verdict_of_the_gate(self, run):
        def handler(context, target):
            if target < 3:
                raise errors.ResourceNotFoundError("gone")

        summary = run(handler, range(10), max_failure_rate=0.2)
        assert (summary.exit_code, summary.would_exit_code, summary.failure_rate) == (0, 1, 0.3)
        assert summary.would == ("the gate would have failed it: 3 of 10 targets failed (at most 20 % allowed)",)

    def test_a_gate_that_lets_pass_what_was_put_off(self, run):
        def handler(context, target):
            raise errors.RateLimitError("slowly", retry_after=86400)

        summary = run(handler, range(3), defer_ok=True)
        assert (summary.would_exit_code, summary.failed_targets) == (0, 3)
        assert summary.would == ("the gate would have passed it",)

    def test_what_would_have_been_tried_again_counts_as_failed_and_is_said(self, run):
        def handler(context, target):
            if target == 1:
                raise ConnectionError("refused")

        summary = run(handler, range(3))
        assert summary.would_exit_code == 1
        assert summary.would[-1].startswith("1 target would have been retried")

    def test_the_page_and_the_command_line_say_it(self, app, capsys):
        @app.job("items", max_failure_rate=0, mode="observe")
        def items(context, target):
            raise errors.ResourceNotFoundError("gone")

        summary = items.run([1])
        why = "the gate would have failed it: 1 of 1 target failed (at most 0 % allowed)"
        kept = app.store.run(summary.run_id)
        assert gate_line(kept, "done", {}, items.gate) == (f"Observed only: {why}.", "info")
        print_run_summary(kept.summary)
        assert f"observed: {why}" in capsys.readouterr().out

    def test_a_job_that_acts_says_nothing_of_it(self, app):
        @app.job("items", max_failure_rate=1)
        def items(context, target):
            raise errors.ResourceNotFoundError("gone")

        summary = items.run([1])
        assert (summary.would_do, summary.would_exit_code, summary.would) == ({}, None, ())
        assert "passed, exit code 0" in str(summary)

    def test_the_log_keeps_the_traceback(self, run, caplog):
        def handler(context, target):
            raise errors.ResourceNotFoundError("gone")

        run(handler, [1])
        (record,) = [each for each in caplog.records if each.name == "outlast.jobs" and each.levelno == logging.ERROR]
        assert "failed (observed) after attempt 1" in record.getMessage()
        assert "ResourceNotFoundError" in record.getMessage()

    def test_a_broken_predicate_harms_nobody(self, app, run, told):
        def predicate(error):
            raise ValueError(error)

        def handler(context, target):
            raise ConnectionError("refused")

        summary = run(handler, range(3), policy=outlast.RetryPolicy(retry_on=predicate))
        assert (summary.exit_code, summary.failed_targets) == (0, 3)
        assert decided(told) == {("job", "fail"): 3}

    def test_other_processes_are_told_of_here(self, told):
        with ProcessPoolExecutor(1) as pool:
            summary = in_another_process.run([1, 2, 3], executor=pool)
        assert (summary.exit_code, summary.success_targets, summary.failed_targets) == (0, 2, 1)
        assert decided(told) == {("apart", "abort"): 1}


class TestNothingIsChanged:
    def test_no_time_limit_is_in_force(self, app):
        @app.job(
            "slow", max_failure_rate=0, mode="observe", policy=outlast.RetryPolicy(attempt_timeout=0.01, deadline=0.01)
        )
        async def slow(context, target):
            assert context.time_left is None
            await asyncio.sleep(0.05)

        summary = slow.run([1])
        assert (summary.success_targets, summary.would) == (1, ("the gate would have passed it",))

    def test_nothing_is_handed_over(self, app):
        @app.task
        def later(target):
            pass

        @app.job("items", max_failure_rate=1, hand_over=later, mode="observe")
        def items(context, target):
            raise errors.ResourceNotFoundError("gone")

        assert items.run([1, 2]).failed_targets == 2
        assert app.tasks.counts().get("QUEUED", 0) == 0
        assert list(app.store.dead_letters(DeadLetterFilter())) == []

    def test_the_rest_of_it_can_be_done_by_one_that_acts(self, app):
        well = []

        @app.job("items", max_failure_rate=0, mode="observe")
        def items(context, target):
            if not well:
                raise ConnectionError("refused")

        first = items.run([1, 2, 3])
        well.append(True)
        items.mode = "act"
        second = items.run(only_failed=first.run_id)
        assert (second.success_targets, second.would_exit_code) == (3, None)


def test_another_mode_is_refused(app):
    for mode in ("shadow", None, []):
        with pytest.raises(ConfigError, match="choose act or observe"):
            app.job(f"job {mode}", max_failure_rate=1, mode=mode)(lambda context, target: None)
