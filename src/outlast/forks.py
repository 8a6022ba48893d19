"""Callbacks around ``os.fork``: a child gets new locks and does not touch its parent's threads and connections.

On systems without fork, such as Windows, nothing is called.
"""

import os
import sys
from itertools import count
from types import MethodType
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CAN_FORK = hasattr(os, "register_at_fork")
_numbers = count()
_methods: "dict[int, tuple[ref[Any], Callable[[Any], object]]]" = {}
"""Methods as their object and their function; `WeakMethod` prints errors at the end of a process on Python 3.11."""


def after_fork(callback: "Callable[[], object]") -> None:
    """Call a function in every forked child. A bound method is referenced weakly."""
    if isinstance(callback, MethodType):
        number, methods = next(_numbers), _methods
        methods[number] = ref(callback.__self__, lambda _: methods.pop(number, None)), callback.__func__
    elif _CAN_FORK:
        os.register_at_fork(after_in_child=callback)


def around_fork(
    *, before: "Callable[[], object]", in_parent: "Callable[[], object]", in_child: "Callable[[], object]"
) -> None:
    """Call functions at every fork: one before it, then one in the parent and one in the child."""
    if _CAN_FORK:
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def _call_methods() -> None:
    for reference, function in list(_methods.values()):
        owner = reference()
        if owner is not None:
            try:
                function(owner)
            except Exception as error:  # noqa: BLE001  # the other methods must be called too
                sys.excepthook(type(error), error, error.__traceback__)


after_fork(_call_methods)
