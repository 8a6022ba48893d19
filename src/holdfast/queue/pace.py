"""How many tasks a worker takes at a time: few when they are slow, many when they are quick."""

__all__ = ["Pace"]

_AHEAD = 0.02  # seconds of work whose start is marked with the claim
_HELD = 0.1  # seconds of work that is held in reserve, its start not marked
_MOST = 500
_OLD = 0.5  # weight of what was measured before


class Pace:
    """Tasks per second, as measured, and what follows from it.

    A start is marked before the call, so that a crash tells what was running. To mark each by itself would cost a
    commit; what is going to begin within milliseconds anyway is therefore marked with its claim.

    Args:
        concurrency: How many tasks run at once.
    """

    def __init__(self, concurrency: int) -> None:
        """Begin slowly."""
        self.concurrency = concurrency
        self.rate = 0.0

    def finished(self, tasks: int, seconds: float) -> None:
        """Take in how many tasks were finished since the last time."""
        self.rate = _OLD * self.rate + (1 - _OLD) * tasks / max(seconds, 0.0002)

    @property
    def ahead(self) -> int:
        """How many tasks beyond those that run may have their start marked."""
        return min(_MOST, int(self.rate * _AHEAD))

    @property
    def held(self) -> int:
        """How many more may be held without a start."""
        return min(_MOST, int(self.rate * _HELD), self.concurrency) if self.ahead < self.concurrency else 0
