"""The bus: events go to subscribers, and a subscriber that raises is logged, no more."""

from outlast.errors import ConfigError
from outlast.record.log_text import traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from outlast.record.events import Event

    Handler = Callable[[Any], object]


_handlers: "tuple[tuple[tuple[type[Event], ...], Handler], ...]" = ()


def subscribe(handler: "Handler", *kinds: "type[Event]") -> "Callable[[], None]":
    """Have a function called with events.

    Args:
        handler: Called in the thread in which the event happens; it should be quick.
        kinds: The event classes to be told of; none for all.

    Returns:
        A function that ends the subscription.

    Raises:
        ConfigError: If the handler cannot be called, or a kind is no event class.
    """
    global _handlers  # noqa: PLW0603  # replaced as a whole, so that a publisher never sees half a change
    _check_subscription(handler, kinds)
    entry = (kinds, handler)
    _handlers = (*_handlers, entry)

    def unsubscribe() -> None:
        global _handlers  # noqa: PLW0603  # the same
        _handlers = tuple(each for each in _handlers if each is not entry)

    return unsubscribe


def _check_subscription(handler: object, kinds: tuple[object, ...]) -> None:
    from outlast.record.events import Event  # noqa: PLC0415  # only subscribers need it

    if not callable(handler):
        message = f"{handler!r} cannot be subscribed; give a function of the event"
        raise ConfigError(message)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            message = f"{kind!r} is no kind of event; give classes from outlast.events"
            raise ConfigError(message)


def has_subscribers() -> bool:
    """Tell whether anybody listens; events nobody hears need not be made."""
    return bool(_handlers)


def publish(event: "Event") -> None:
    """Tell the subscribers. What one of them raises is logged and stops nobody."""
    for kinds, handler in _handlers:
        if not kinds or isinstance(event, kinds):
            try:
                handler(event)
            except Exception as error:  # noqa: BLE001  # a subscriber must not replace the error at hand
                _log_handler_error(event, error)


def _log_handler_error(event: "Event", error: Exception) -> None:
    import logging  # noqa: PLC0415  # only a broken subscriber needs it

    try:
        logging.getLogger("outlast").error("a subscriber failed on %s\n%s", type(event).__name__, traceback_of(error))
    except Exception:  # noqa: BLE001  # a handler that raises must not replace the error at hand
        return
