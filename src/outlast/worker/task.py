"""A task as a worker's code sees it."""

import json
from dataclasses import dataclass, field
from typing import Any

from outlast.errors import PayloadError
from outlast.ports.rows import Claimed

__all__ = ["WorkerTask"]


@dataclass(frozen=True)
class WorkerTask:
    """A task in a worker's hands.

    Attributes:
        id: The same for every attempt.
        task_type: Name of the task.
        parameters: Its arguments.
        retry_count: Failed attempts before this one.
        attempt: Number of this attempt, from 1: what `ErrorHandler.handle_error` asks for.
        resource: What it depends on.
        expires_in: Seconds after which it was not worth starting, as of the claim; None for never.
    """

    id: int
    task_type: str
    parameters: dict[str, Any]
    retry_count: int
    attempt: int
    resource: str | None
    expires_in: float | None
    claimed: Claimed = field(repr=False, compare=False)

    @classmethod
    def of(cls, claimed: Claimed) -> "WorkerTask":
        """Return a claim as a task.

        Raises:
            PayloadError: If its parameters are no JSON object.
        """
        try:
            parameters = json.loads(claimed.parameters)
        except (ValueError, RecursionError) as error:
            message = f"the parameters of task {claimed.id} are no JSON: {error}"
            raise PayloadError(message) from error
        if not isinstance(parameters, dict):
            message = f"the parameters of task {claimed.id} are a JSON {type(parameters).__name__}; give an object"
            raise PayloadError(message)
        return cls(
            id=claimed.id,
            task_type=claimed.task_type,
            parameters=parameters,
            retry_count=claimed.retry_count,
            attempt=claimed.retry_count + 1,
            resource=claimed.resource,
            expires_in=claimed.expires_in,
            claimed=claimed,
        )
