"""The event bus: publishes events to subscribers. An error in a subscriber is logged and ignored."""

from outlast.errors import ConfigError
from outlast.record.log_text import traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.record.events import Event

    Handler = Callable[[Any], object]


subscribers: "tuple[tuple[tuple[type[Event], ...], Handler], ...]" = ()
"""The functions that are called with events. Without any, events need not be created."""


def subscribe(handler: "Handler", *kinds: "type[Event]") -> "Callable[[], None]":
    """Call a function with every published event.

    Args:
        handler: Called in the thread in which the event happens; it should be quick.
        kinds: The event classes to receive; by default all.

    Returns:
        A function that ends the subscription.

    Raises:
        ConfigError: If the handler is not callable, or a kind is not an event class.
    """
    global subscribers  # noqa: PLW0603  # replaced as a whole, so that a publisher never sees half a change
    _check_subscription(handler, kinds)
    entry = (kinds, handler)
    subscribers = (*subscribers, entry)

    def unsubscribe() -> None:
        global subscribers  # noqa: PLW0603  # as above
        subscribers = tuple(each for each in subscribers if each is not entry)

    return unsubscribe


def _check_subscription(handler: object, kinds: tuple[object, ...]) -> None:
    from outlast.record.events import Event  # noqa: PLC0415  # only subscribers need it

    if not callable(handler):
        raise ConfigError(f"{handler!r} is not a function; give a function that takes the event")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigError(f"{kind!r} is not an event class; give classes from outlast.events")


def publish(event: "Event") -> None:
    """Call the subscribers. An error in one of them is logged and does not stop the others."""
    for kinds, handler in subscribers:
        if not kinds or isinstance(event, kinds):
            try:
                handler(event)
            except Exception as error:  # noqa: BLE001  # a subscriber must not replace the current error
                _log_handler_error(event, error)


def _log_handler_error(event: "Event", error: Exception) -> None:
    import logging  # noqa: PLC0415  # only a broken subscriber needs it

    try:
        logging.getLogger("outlast").error("a subscriber failed on %s\n%s", type(event).__name__, traceback_of(error))
    except Exception:  # noqa: BLE001  # a log handler must not replace the current error
        return
