"""When a worker runs a suspect alone, and when the others get their turn: neither waits for ever."""

__all__ = ["Alone"]

_WAIT = 10.0  # seconds for which a worker lets its tasks end so that a suspect can run alone
_REST = 30.0  # seconds until it tries that again
_LEAST = 1.0  # seconds that the others have after a suspect, however short it was


class Alone:
    """The turns of suspects and of all other tasks.

    Attributes:
        task: The suspect that runs.
    """

    def __init__(self) -> None:
        """Begin with nobody's turn."""
        self.task: int | None = None
        self._since: float | None = None
        self._wait = _WAIT
        self._rests_until = 0.0

    def waits(self, now: float, *, due: bool) -> bool:
        """Tell whether to let tasks end so that a suspect can run alone.

        Args:
            now: The time.
            due: Whether there is one.
        """
        if not due or now < self._rests_until:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since <= self._wait:
            return True
        self._since, self._rests_until = None, now + _REST
        self._wait *= 2  # their tasks take longer than we waited
        return False

    def ended(self, now: float) -> None:
        """Take in that a suspect has ended, or that there was none to be had: others have as long as that took."""
        taken = 0.0 if self._since is None else now - self._since
        self.skip_rest()
        self.task, self._rests_until = None, now + max(_LEAST, taken)

    def skip_rest(self) -> None:
        """Take in that nobody else waits: no reason to let suspects wait."""
        self._since, self._wait, self._rests_until = None, _WAIT, 0.0
