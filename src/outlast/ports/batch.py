"""Many tasks that differ in nothing but their arguments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from outlast.ports.rows import NewTask

__all__ = ["Batch"]


class Batch(Sequence[NewTask]):
    """Reads as a list of tasks. The text of the arguments is made when it is read: a store may send some meanwhile.

    Args:
        alike: What they have in common.
        calls: The arguments of each.
        encode: Makes the text of arguments; what it raises reaches whoever reads.
    """

    def __init__(
        self, alike: NewTask, calls: Sequence[Mapping[str, Any]], encode: Callable[[Mapping[str, Any]], str]
    ) -> None:
        """Make nothing yet."""
        self.alike, self._calls, self._encode = alike, calls, encode

    def texts(self, begin: int = 0, end: int | None = None) -> list[str]:
        """Return the arguments of some of them as text."""
        return [*map(self._encode, self._calls[begin:end])]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._calls)

    @overload
    def __getitem__(self, place: int) -> NewTask: ...
    @overload
    def __getitem__(self, place: slice) -> list[NewTask]: ...
    def __getitem__(self, place: int | slice) -> NewTask | list[NewTask]:
        """Return one, or some."""
        if isinstance(place, slice):
            return [self._task(call) for call in self._calls[place]]
        return self._task(self._calls[place])

    def __iter__(self) -> Iterator[NewTask]:
        """Return one after the other."""
        return map(self._task, self._calls)

    def _task(self, call: Mapping[str, Any]) -> NewTask:
        return self.alike._replace(parameters=self._encode(call))
