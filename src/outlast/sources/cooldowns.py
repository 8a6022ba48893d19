"""Cooldowns of an app: shared by its processes, and told of when a host asks for too long again and again."""

from outlast.ports.source_rows import NewAlert
from outlast.ports.store import Store
from outlast.run.cooling import Cooling

__all__ = ["SharedCooling"]


class SharedCooling(Cooling):
    """What an app's processes know of cooldowns; it is its ``app.cooling``.

    Args:
        store: Shares them.
    """

    def __init__(self, store: Store) -> None:
        """Begin without a thread."""
        super().__init__(store)
        self._outbox = store

    def _capped_again(self, scope: str, times: int, reason: str) -> None:
        title = f"{scope}: asks to be left alone for longer than an hour, again"
        self._outbox.raise_alerts([NewAlert(f"cooldown:{scope}", "capped", title, reason)])
        super()._capped_again(scope, times, reason)

    def _calmed(self, scope: str, *, answers: bool) -> None:
        how = "answers again" if answers else "no longer asks for more than an hour"
        self._outbox.raise_alerts([NewAlert(f"cooldown:{scope}", None, f"{scope}: {how}")])
