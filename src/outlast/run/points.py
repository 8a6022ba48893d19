"""Named points of a program at which a test can make it fail or end.

Outside of tests, ``outlast.point("after-upload")`` does nothing. With `outlast.testing`, a test can make the call fail
there, or kill the process there.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[str], object]


_listeners: "tuple[Listener, ...]" = ()


def point(name: str) -> None:
    """Mark a point at which a test can make the program fail or end. Otherwise it does nothing.

    Args:
        name: A name without dots, such as ``after-upload``. Names with dots refer to functions.
    """
    for listener in _listeners:
        listener(name)


def add_listener(listener: "Listener") -> "Callable[[], None]":
    """Have a function called with the name of every point that is passed; what it raises, the point raises.

    Returns:
        A function that ends it.
    """
    global _listeners  # noqa: PLW0603  # replaced as a whole, so that a point never sees half a change
    _listeners = (*_listeners, listener)

    def end() -> None:
        global _listeners  # noqa: PLW0603  # the same
        _listeners = tuple(each for each in _listeners if each is not listener)

    return end


if "OUTLAST_CRASH" in os.environ:  # this process was started by a test that ends it at a point
    from outlast.run.crashes import crash_from_json

    _crash = crash_from_json(os.environ["OUTLAST_CRASH"])
    if _crash is not None:
        add_listener(_crash)
