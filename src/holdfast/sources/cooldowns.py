"""Cooldowns of an app: shared by its processes, and told of when a host asks for too long again and again."""

from holdfast.ports.source_rows import NewAlert
from holdfast.ports.store import Store
from holdfast.run.cooling import Cooling

__all__ = ["SharedCooling"]

_TOLD_AT = 2  # answers in a row that ask for longer than the cap


class SharedCooling(Cooling):
    """What an app's processes know of cooldowns; it is its ``app.cooling``.

    Args:
        store: Shares them.
    """

    def __init__(self, store: Store) -> None:
        """Begin without a thread."""
        super().__init__(store)
        self._outbox = store

    def cool(self, scope: str, seconds: float, reason: str, capped: bool = False) -> int:  # noqa: FBT001, FBT002  # as a row says it
        """Leave a scope alone from now on; the second time in a row that it asks for too long is told."""
        times = super().cool(scope, seconds, reason, capped)
        if times >= _TOLD_AT:
            title = f"{scope}: asks to be left alone for longer than an hour, again"
            self._tell(NewAlert(f"cooldown:{scope}", "capped", title, reason))
        return times

    def warm(self, scope: str) -> None:
        """Tell that a scope answers again."""
        super().warm(scope)
        self._tell(NewAlert(f"cooldown:{scope}", None, f"{scope}: answers again"))

    def _tell(self, alert: NewAlert) -> None:
        try:
            self._outbox.raise_alerts([alert])
        except Exception as error:  # noqa: BLE001  # whatever the database says: the work goes on
            self._warn(error)
