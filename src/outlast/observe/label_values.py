"""Values of labels: few, whatever comes in, as each one costs memory here and in whatever keeps the figures."""

import re
from collections.abc import Collection

from outlast.ports.texts import storable

__all__ = ["MOST_NAMES", "OTHER", "LabelValues", "call_name"]

MOST_NAMES = 100
"""Different names that a label gets at most; those that come later are `OTHER`."""
OTHER = "other"
_LONGEST = 200  # characters
_ADDRESS = re.compile(r"([A-Za-z]+) [a-z0-9+.-]+://([^/?#\s]*)")


class LabelValues:
    """The values of the labels that hold names.

    Args:
        own_tasks: Names of the app's own tasks, which may grow; None where no app is known.
    """

    def __init__(self, own_tasks: Collection[str] | None = None) -> None:
        """Begin with no name."""
        self._own_tasks = own_tasks
        self._known: dict[str, dict[str, str]] = {}

    def task(self, name: str) -> str:
        """Return a task's name if it is one of the app's own."""
        if self._own_tasks is None:
            return self.name("task", name)
        return storable(name, _LONGEST) if name in self._own_tasks else OTHER

    def name(self, label: str, name: str) -> str:
        """Return a name, if it is among the first ones that came for this label.

        Args:
            label: Which label; each has its own first names.
            name: Anything.
        """
        text = call_name(name) if label == "call" else name
        known = self._known.setdefault(label, {})
        value = known.get(text)
        if value is None:
            if len(known) >= MOST_NAMES:  # two threads may both pass here; one name more does no harm
                return OTHER
            value = known[text] = storable(text, _LONGEST)
        return value


def call_name(name: str) -> str:
    """Return what is called in few words: of a request its method and host, as paths have no end."""
    request = _ADDRESS.match(name)
    return f"{request[1]} {request[2].rpartition('@')[2]}" if request else name
