"""When a worker claims nothing because its machine is not well: full disk, no memory, too many files."""

from outlast.decide.backoff import DoublingPause

__all__ = ["ClaimPause"]

_PAUSES = (5.0, 300.0)  # seconds after the first failure, and at most


class ClaimPause:
    """Waits that double while the machine stays unwell; after each, one task is let through as a probe.

    Attributes:
        until: Time before which nothing is claimed, on the caller's clock.
        reason: Why, for people; empty while all is well.
    """

    def __init__(self) -> None:
        """Begin well."""
        self.until = 0.0
        self.reason = ""
        self._pause = DoublingPause(*_PAUSES)

    def failed(self, now: float, reason: str) -> float:
        """Take in that something failed for want of resources; return the seconds of the pause."""
        if now < self.until:
            return self.until - now
        seconds = self._pause.grow()
        self.until, self.reason = now + seconds, reason
        return seconds

    def succeeded(self, now: float) -> None:
        """Take in a success: once the pause is over, all is well again."""
        if self.reason and now >= self.until:
            self.until, self.reason = 0.0, ""
            self._pause.reset()

    def limit(self, now: float, limit: int) -> int:
        """Return how many tasks may be claimed: none during the pause, one as a probe, then all."""
        if not self.reason:
            return limit
        return 0 if now < self.until else min(1, limit)
