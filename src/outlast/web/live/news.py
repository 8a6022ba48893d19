"""What was told last to those who look, as events of a stream; each of them gets what it has not seen yet.

Only the last word is kept, so a slow reader skips what is out of date, and costs no memory.
"""

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

__all__ = ["PART", "News", "event"]

PART = "<!-- part -->"
"""Stands between the parts of a rendered fragment; those that did not change are not sent again."""
_PULSE, _TROUBLE = "pulse", "trouble"


class News:
    """The last word on everything, with a number that grows."""

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = threading.Lock()
        self._number = 0
        self._told: dict[str, tuple[int, str]] = {}

    def tell_pulse(self, data: Mapping[str, Any]) -> None:
        """Tell what every page shows; also that the store answers."""
        with self._lock:
            self._told.pop(_TROUBLE, None)
            self._tell(_PULSE, event(_PULSE, data))

    def tell_trouble(self, text: str) -> None:
        """Tell that the store does not answer."""
        with self._lock:
            self._told.pop(_PULSE, None)
            self._tell(_TROUBLE, event(_TROUBLE, text))

    def tell_parts(self, view: str, html: str) -> None:
        """Tell a fragment of a page.

        Args:
            view: Which page, and where it is mounted.
            html: Rendered; `PART` stands between its parts.
        """
        with self._lock:
            for place, part in enumerate(html.split(PART)):
                name, text = f"{view} {place}", event("parts", part.strip())
                if part.strip() and self._told.get(name, (0, ""))[1] != text:
                    self._tell(name, text)

    def forget(self) -> None:
        """Forget all: it is too old to be told to somebody who comes now."""
        with self._lock:
            self._told.clear()

    def keep(self, views: Collection[str]) -> None:
        """Forget the fragments of pages that nobody looks at any more.

        Args:
            views: Those that somebody looks at.
        """
        with self._lock:
            general = {_PULSE, _TROUBLE}
            for name in [each for each in self._told if each not in general and each.rpartition(" ")[0] not in views]:
                del self._told[name]

    def since(self, seen: dict[str, int], view: str) -> Iterator[str]:
        """Return the events that one reader has not seen, in the order in which they were told.

        Args:
            seen: The number of each that it has seen; kept up to date.
            view: Which page it looks at.
        """
        with self._lock:
            mine = {
                name: told
                for name, told in self._told.items()
                if (name in {_PULSE, _TROUBLE} or name.rpartition(" ")[0] == view) and told[0] > seen.get(name, 0)
            }
        seen.update({name: number for name, (number, _) in mine.items()})
        return iter([text for _, text in sorted(mine.values())])

    def _tell(self, name: str, text: str) -> None:
        self._number += 1
        self._told[name] = (self._number, text)


def event(name: str, data: object) -> str:
    """Return an event as a stream carries it: JSON has no line breaks of its own, so no text can end it early."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
