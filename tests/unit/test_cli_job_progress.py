"""How far a run is, how fast, and how long it takes yet."""

import pytest

from outlast.cli import job
from outlast.decide.gate import Gate
from outlast.jobs.tally import RunLimits, RunTally
from outlast.jobs.target import TargetResult
from outlast.ports.job_rows import TargetDone, TargetStatus


class TestPace:
    @pytest.fixture
    def tally(self):
        return RunTally(RunLimits(Gate(0.5)))

    def add(self, tally, number):
        tally.add([TargetResult(TargetDone("x", TargetStatus.SUCCESS))] * number)

    def test_rate_and_time_left(self, tally, monkeypatch):
        now = [100.0]
        monkeypatch.setattr("outlast.clock.monotonic", lambda: now[0])
        pace = job.ProgressRate()
        tally.total = 1000
        assert str(pace.figures(tally)) == "0/1000  0.0/s  failed 0  deferred 0"
        self.add(tally, 100)
        now[0] += 10
        assert str(pace.figures(tally)) == "100/1000  10.0/s  failed 0  deferred 0  1:30 left"
        assert pace.figures(tally).seconds_left == 90

    def test_it_is_the_pace_of_late_that_counts(self, tally, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("outlast.clock.monotonic", lambda: now[0])
        pace = job.ProgressRate()
        for _ in range(100):
            now[0] += 1
            self.add(tally, 1000)
            pace.figures(tally)
        for _ in range(40):
            now[0] += 1
            self.add(tally, 2)
            figures = pace.figures(tally)

        assert figures.rate == 2
        assert str(figures) == "100080 done  2.0/s  failed 0  deferred 0"

    @pytest.mark.parametrize(("seconds", "told"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05"), (1e12, "99:59:59")])
    def test_time_left(self, seconds, told):
        assert str(job.ProgressFigures(1, 2, 0, 0, 250.0, seconds)) == f"1/2  250/s  failed 0  deferred 0  {told} left"
