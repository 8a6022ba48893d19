"""How many tasks a worker takes at a time: few when they are slow, many when they are quick."""

__all__ = ["Pace"]

_AHEAD = 0.02  # seconds of work whose start is marked with the claim
_HELD = 0.1  # seconds of work that is held in reserve, its start not marked
_MOST = 500
_SPAN = 0.02  # seconds over which is measured at least: what ends together by chance is no pace
_FIRST = 50  # tasks that end within one span are a pace by themselves, and need not be seen to go on


class Pace:
    """Tasks per second, as measured, and what follows from it.

    A start is marked before the call, so that a crash tells what was running. To mark each by itself would cost a
    commit; what is going to begin within milliseconds anyway is therefore marked with its claim.

    Args:
        concurrency: How many tasks run at once.
        now: The time, in seconds by any clock.
    """

    def __init__(self, concurrency: int, now: float) -> None:
        """Begin slowly."""
        self.concurrency = concurrency
        self.rate = 0.0
        self._since, self._count = now, 0

    def finished(self, tasks: int, now: float) -> None:
        """Take in how many tasks were finished by now."""
        self._count += tasks
        span = now - self._since
        if span >= _SPAN or self._count >= _FIRST:
            self.rate = self._count / max(span, 0.001)
            self._since, self._count = now, 0

    def stalled(self, now: float) -> None:
        """Take in that nothing was finished for long."""
        self.rate, self._since, self._count = 0.0, now, 0

    @property
    def ahead(self) -> int:
        """How many tasks beyond those that run may have their start marked."""
        return min(_MOST, int(self.rate * _AHEAD))

    @property
    def held(self) -> int:
        """How many more may be held without a start."""
        return min(_MOST, int(self.rate * _HELD), self.concurrency) if self.ahead < self.concurrency else 0
