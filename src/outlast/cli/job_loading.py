"""From ``MODULE:JOB``, or ``MODULE:APP`` and a name, to the job that is meant."""

from typing import TYPE_CHECKING, NamedTuple

from outlast.app import App
from outlast.cli.loading import find, names_of
from outlast.errors import ConfigError
from outlast.jobs.job import Job

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Chosen", "load_job"]

_KINDS: tuple[type[App | Job], ...] = (App, Job)


class Chosen(NamedTuple):
    """A job, and where it belongs.

    Attributes:
        job: As the user made it.
        words: What names it on the command line.
        app: Whose store its runs are kept in; None where they are kept nowhere.
    """

    job: Job
    words: tuple[str, ...]
    app: App | None

    def check_tables(self) -> None:
        """See that the store has the tables that are needed; SQLite gets them."""
        if self.app is not None:
            self.app.store.check_schema()

    def close(self) -> None:
        """Give connections back."""
        if self.app is not None:
            self.app.close()


def load_job(reference: str, name: str | None) -> Chosen:
    """Return the job that is meant.

    Args:
        reference: Such as ``etl:items``, or ``etl:app``.
        name: Of a job of the app; it need not be given where there is but one.

    Raises:
        ConfigError: If there is no such job, or several could be meant.
    """
    module, found = find(reference, *_KINDS)
    if isinstance(found, Job):
        if name is not None and name != found.name:
            message = f"{reference} is the job {found.name}, not {name}; leave --name out, or name an app"
            raise ConfigError(message)
        return Chosen(found, (reference,), _app_of(found, module))
    jobs = found.jobs_by_name
    if not jobs:
        message = (
            f"{reference} has no jobs; @app.job(…) makes one of a function. "
            "Is the module that defines them imported by the one of the app?"
        )
        raise ConfigError(message)
    if name is None:
        if len(jobs) > 1:
            message = f"{reference} has several jobs; say which: {', '.join(f'--name {each}' for each in jobs)}"
            raise ConfigError(message)
        name = next(iter(jobs))
    if name not in jobs:
        message = f"{reference} has no job {name!r}; it has: {', '.join(jobs)}"
        raise ConfigError(message)
    return Chosen(jobs[name], (reference, "--name", name), found)


def _app_of(job: Job, module: "ModuleType") -> App | None:
    if job.store is None:
        return None
    for app in names_of(module, App).values():
        if app.store is job.store:
            return app
    return App(job.store)  # type: ignore[arg-type]  # the store of an app, which made the job
