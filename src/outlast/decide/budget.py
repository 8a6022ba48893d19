"""The retry budget as a pure token bucket: when everything fails, retries stop long before calls do."""

from outlast.decide.backoff import is_number, shown
from outlast.errors import ConfigError

__all__ = ["Budget"]


class Budget:
    """Retries that may still be made. Not thread-safe by itself.

    Args:
        capacity: Retries that may come at once; at least 1.
        per_second: How many come back each second.

    Raises:
        ConfigError: If a number is not valid.
    """

    __slots__ = ("_filled", "capacity", "per_second", "tokens")

    def __init__(self, capacity: float = 100.0, per_second: float = 10.0) -> None:
        """Begin full."""
        for name, value, least in (("capacity", capacity, 1), ("per_second", per_second, 0)):
            if not is_number(value) or value < least:
                message = f"{name} is {shown(value)}; give a number, {least} or more"
                raise ConfigError(message)
        self.capacity = float(capacity)
        self.per_second = float(per_second)
        self.tokens = float(capacity)
        self._filled: float | None = None

    def take(self, now: float) -> bool:
        """Take one retry; False if none is left."""
        if self._filled is not None:
            self.tokens = min(self.capacity, self.tokens + max(0.0, now - self._filled) * self.per_second)
        self._filled = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True
