"""Load the app, job or monitor that a reference such as ``jobs:app`` names; errors say what the module has instead."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NamedTuple, TypeVar

from outlast.app import App
from outlast.cli.errors import InvalidUsageError
from outlast.cli.output import print_user_traceback
from outlast.errors import ConfigError
from outlast.jobs.job import Job
from outlast.observe.alert_delivery import Deliverer
from outlast.sources.monitor import Monitor

T = TypeVar("T")


def load_app(reference: str) -> App:
    """Import a module, also from the current folder, and return the app in it.

    Args:
        reference: Such as ``jobs:app`` or ``shop.jobs:Jobs.app``.

    Raises:
        ConfigError: If the app does not exist; the message names the apps of the module.
    """
    return load_object(reference, App)[1]


def load_object(reference: str, *kinds: type[T]) -> tuple[ModuleType, T]:
    """Import a module, also from the current folder; return it and the object that the reference names.

    Args:
        reference: Such as ``jobs:app``.
        kinds: Classes that the object may have.

    Raises:
        ConfigError: If the object does not exist; the message names those that the module has.
    """
    name, colon, path = reference.partition(":")
    _check_reference(reference, name)
    module = _import_module(name)
    if not colon or not path:
        raise ConfigError(f"{reference!r} does not name an app; write MODULE:APP{_alternatives_text(module, kinds)}")
    found: object = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(f"module {name} has no {path!r}{_alternatives_text(module, kinds)}") from None
    if not isinstance(found, kinds):
        raise ConfigError(
            f"{reference} is {_describe(found)}, not an {_kind_names(kinds)}{_alternatives_text(module, kinds)}"
        )
    return module, found


def _check_reference(reference: str, name: str) -> None:
    file = Path(name)
    if file.suffix == ".py" or "/" in name:
        parts = file.with_suffix("").parts if file.name else ()  # a folder alone has no name
        module = ".".join(part for part in parts if part not in {"/", ".", ".."}) or "MODULE"
        raise ConfigError(f"{reference!r} names a file; write the module as in an import: {module}:APP")
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(
            f"{reference!r} is not a valid MODULE:APP; write the module as in an import, such as jobs:app"
        )


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_failure(name, error) from error
        raise ConfigError(
            f"module {error.name!r} was not found; it is neither in {here} nor installed: run this command in the "
            "module's folder, or install it"
        ) from None
    except Exception as error:
        raise _import_failure(name, error) from error


def _import_failure(name: str, error: Exception) -> InvalidUsageError:
    """Print the traceback from the module's first own line on, and return the error that ends the command."""
    print_user_traceback(error, _trim_traceback(error.__traceback__))
    return InvalidUsageError(
        f"module {name} cannot be imported: {type(error).__name__}: {_error_text(error)}", "the lines above show where"
    )


def _error_text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # the class is the user's
        return "its message cannot be read"


def _trim_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that starts in the module itself."""
    ours = {__file__, importlib.__file__}
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in ours and not file.startswith("<frozen importlib"):
            return trace
        trace = trace.tb_next
    return None


def objects_in_module(module: ModuleType, *kinds: type[T]) -> dict[str, T]:
    """Return a module's objects of some classes, by ``MODULE:NAME``; an object with two names is listed once."""
    found = {f"{module.__name__}:{name}": value for name, value in vars(module).items() if isinstance(value, kinds)}
    firsts = {id(value): name for name, value in reversed(found.items())}
    return {name: value for name, value in found.items() if firsts[id(value)] == name}


def _alternatives_text(module: ModuleType, kinds: tuple[type[object], ...]) -> str:
    names = objects_in_module(module, *kinds)
    if names:
        return f"; it has {', '.join(names)}"
    return f"; {module.__name__} has no variable that holds an {_kind_names(kinds)}"


def _kind_names(kinds: tuple[type[object], ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def _describe(found: object) -> str:
    if isinstance(found, ModuleType | type) or callable(found):
        return f"a {type(found).__name__}"
    return f"of type {type(found).__name__}"


_JOB_KINDS: tuple[type[App | Job], ...] = (App, Job)


class LoadedJob(NamedTuple):
    """A job and its app.

    Attributes:
        job: The user's job.
        words: Arguments that name the job on the command line.
        app: The app whose store keeps the runs; None if they are not stored.
    """

    job: Job
    words: tuple[str, ...]
    app: App | None

    def check_tables(self) -> None:
        """Check that the store has the tables; SQLite creates them."""
        if self.app is not None:
            self.app.store.check_schema()

    def close(self) -> None:
        """Close the connections of the app."""
        if self.app is not None:
            self.app.close()


def load_job(reference: str, name: str | None) -> LoadedJob:
    """Return the job that a reference and a name select.

    Args:
        reference: Such as ``etl:items`` or ``etl:app``.
        name: Name of a job of the app; not needed if it has only one.

    Raises:
        ConfigError: If the job does not exist, or the app has several.
    """
    module, found = load_object(reference, *_JOB_KINDS)
    if isinstance(found, Job):
        if name is not None and name != found.name:
            raise ConfigError(f"{reference} is the job {found.name}, not {name}; leave --name out, or name an app")
        return LoadedJob(found, (reference,), None if found.store is None else _app_with_store(found.store, module)[1])
    jobs = found.jobs_by_name
    if not jobs:
        raise ConfigError(
            f"{reference} has no jobs; @app.job(…) makes a function a job. "
            "Check that the app's module imports the module that defines the jobs"
        )
    if name is None:
        if len(jobs) > 1:
            raise ConfigError(
                f"{reference} has several jobs; choose one: {', '.join(f'--name {each}' for each in jobs)}"
            )
        name = next(iter(jobs))
    if name not in jobs:
        raise ConfigError(f"{reference} has no job {name!r}; it has: {', '.join(jobs)}")
    return LoadedJob(jobs[name], (reference, "--name", name), found)


def _app_with_store(store: object, module: ModuleType) -> tuple[str | None, App]:
    """Return the app of a module that has this store, and its reference; without one, None and a new app."""
    own = ((name, app) for name, app in objects_in_module(module, App).items() if app.store is store)
    return next(own, None) or (None, App(store))  # type: ignore[arg-type]  # the store of the app that made the object


_DEFAULT_PROFILE = "feed"
_MONITOR_KINDS: tuple[type[App | Monitor], ...] = (App, Monitor)


class LoadedMonitor(NamedTuple):
    """A monitor and its app.

    Attributes:
        monitor: The user's monitor, or a new one for the user's app.
        app: The user's app, or a new one with the same store if the module has none.
        app_reference: The value of ``--app`` for the user's app; None if the module has none.
    """

    monitor: Monitor
    app: App
    app_reference: str | None

    @property
    def deliverer(self) -> Deliverer:
        """Delivers the alerts of the monitor."""
        own = self.monitor.delivery
        return own if isinstance(own, Deliverer) else self.app.deliverer()


def load_monitor(reference: str, profile: str | None) -> LoadedMonitor:
    """Return the monitor that a reference selects.

    For an app, this is the monitor in its module with the same store and the profile; without one, a new monitor.

    Args:
        reference: Such as ``feeds:app`` or ``feeds:monitor``.
        profile: Name of the profile whose sources to poll; None for the profile of the monitor, else ``feed``.

    Raises:
        ConfigError: If the object does not exist, or the app has several monitors.
    """
    module, found = load_object(reference, *_MONITOR_KINDS)
    if isinstance(found, Monitor):
        if profile is not None and profile != found.profile.name:
            raise ConfigError(
                f"{reference} polls the sources of {found.profile.name}, not of {profile}; "
                "leave --profile out, or name an app"
            )
        name, app = _app_with_store(found.store, module)
        return LoadedMonitor(found, app, name)
    monitors = {
        name: each
        for name, each in objects_in_module(module, Monitor).items()
        if each.store is found.store and profile in {None, each.profile.name}
    }
    if len(monitors) > 1:
        names = ", ".join(f"{name} ({each.profile.name})" for name, each in monitors.items())
        raise ConfigError(f"{reference} has several monitors; name one of them: {names}")
    if monitors:
        return LoadedMonitor(next(iter(monitors.values())), found, reference)
    chosen = profile or _DEFAULT_PROFILE
    return LoadedMonitor(found.monitor(found.sources.profiles.get(chosen, chosen)), found, reference)
