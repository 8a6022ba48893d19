"""From ``MODULE:APP`` or ``MODULE:MONITOR`` to the monitor that is meant, and to what the command line needs of it."""

from typing import TYPE_CHECKING, NamedTuple

from outlast.app import App
from outlast.cli.loading import find, names_of
from outlast.errors import ConfigError
from outlast.observe.courier import Courier
from outlast.sources.monitor import Monitor

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Chosen", "load_monitor"]

_DEFAULT = "feed"
_KINDS: tuple[type[App | Monitor], ...] = (App, Monitor)


class Chosen(NamedTuple):
    """A monitor, and where it belongs.

    Attributes:
        monitor: As the user made it, or made for an app of theirs.
        app: Whose store it looks into; one of our own around the same store where theirs is not to be found.
        app_reference: Where their app is, to be put behind ``--app``; None where it is not to be found.
    """

    monitor: Monitor
    app: App
    app_reference: str | None

    @property
    def courier(self) -> Courier:
        """What brings its alerts to people."""
        own = self.monitor.delivery
        return own if isinstance(own, Courier) else self.app.courier()


def load_monitor(reference: str, profile: str | None) -> Chosen:
    """Return the monitor that is meant.

    One that is named is taken. Of an app it is the one that the module has of it, and of the profile if one is given;
    if it has none, one is made.

    Args:
        reference: Such as ``feeds:app`` or ``feeds:monitor``.
        profile: Whose sources are polled; None for ``feed``, or for what a monitor says that was found.

    Raises:
        ConfigError: If there is no such thing, or several could be meant.
    """
    module, found = find(reference, *_KINDS)
    if isinstance(found, Monitor):
        if profile is not None and profile != found.profile.name:
            message = (
                f"{reference} polls the sources of {found.profile.name}, not of {profile}; "
                "leave --profile out, or name an app"
            )
            raise ConfigError(message)
        return _of(found, module)
    theirs = {
        name: each
        for name, each in names_of(module, Monitor).items()
        if each.store is found.store and profile in {None, each.profile.name}
    }
    if len(theirs) > 1:
        told = ", ".join(f"{name} ({each.profile.name})" for name, each in theirs.items())
        message = f"several monitors of {reference} could be meant; name one of them: {told}"
        raise ConfigError(message)
    if theirs:
        return Chosen(next(iter(theirs.values())), found, reference)
    chosen = profile or _DEFAULT
    return Chosen(found.monitor(found.sources.profiles.get(chosen, chosen)), found, reference)


def _of(monitor: Monitor, module: "ModuleType") -> Chosen:
    store = monitor.store
    for name, app in names_of(module, App).items():
        if app.store is store:
            return Chosen(monitor, app, name)
    return Chosen(monitor, App(store), None)  # type: ignore[arg-type]  # an app's store, and it was made by one
