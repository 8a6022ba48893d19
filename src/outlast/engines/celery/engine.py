"""What a Celery app and an app of ours share once they are attached to each other."""

import os
import re
import socket
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.decide.policy import RetryPolicy
from outlast.engines.celery.aside import Aside
from outlast.errors import ConfigError
from outlast.ports.handling import Lending
from outlast.worker.places import handling_of

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["Engine", "Rules"]


class Rules(NamedTuple):
    """What holds for one task of Celery's.

    Attributes:
        name: Of the task, Celery's.
        policy: What is tried again, how often and when.
        resource: What it depends on, if anything.
    """

    name: str
    policy: RetryPolicy
    resource: str | None


class Engine:
    """A Celery app whose failures an app of ours knows of; `attach` makes it.

    Args:
        celery_app: The Celery app.
        app: Ours.
        policy: For tasks that bring none of their own.
        queue: The queue of ours in which rows of Celery's tasks wait.
        resend_after: Seconds after which a message that was sent and has not been seen is taken for lost.

    Attributes:
        worker_id: Of the Celery worker that this process is, or is a child of; empty elsewhere.
        aside: Where that Celery worker waits for the store.
    """

    def __init__(
        self, celery_app: Any, app: "App", *, policy: RetryPolicy | None, queue: str, resend_after: float
    ) -> None:
        """Keep the settings; nothing is opened yet."""
        self.celery_app, self.app = celery_app, app
        self.policy = policy or app.policy
        self.queue, self.resend_after = queue, resend_after
        self.worker_id = ""
        self.aside = Aside()
        found = handling_of(app)
        if not isinstance(found, Lending):
            message = f"the store {type(app.store).__name__} cannot lend tasks to another engine"
            raise ConfigError(message)
        self.lending: Lending = found

    def rules(self, task: Any) -> Rules:
        """Return what holds for a task."""
        policy = task.policy or self.policy
        return Rules(task.name, policy, task.resource or policy.resource)

    def begin_worker(self) -> None:
        """Have a name as a worker; the processes that it forks have the same."""
        self.worker_id = _new_id()

    def forward(self) -> int:
        """Send what is due to the broker, once, and return how many tasks that were.

        A Celery worker does it by itself. This is for a process that is none: a script, a test.
        """
        from outlast.engines.celery.bridge import Bridge  # noqa: PLC0415  # most processes need none

        return Bridge(self, _new_id()).once()


def _new_id() -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", f"celery-{socket.gethostname()}-{os.getpid()}")[:80]
    return f"{name}-{uuid.uuid4().hex[:12]}"  # also a file's name
