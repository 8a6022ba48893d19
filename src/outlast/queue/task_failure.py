"""The failure of a task as a value that can be sent to another process."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from outlast.classify import failure_of
from outlast.classify.safe_access import contain
from outlast.decide.policy import RetryPolicy, verdict_on
from outlast.failure import Failure
from outlast.record.log_text import traceback_of
from outlast.run import logs


class TaskFailure(NamedTuple):
    """The failure of one attempt of a task.

    Attributes:
        failure: What happened.
        wanted: Whether the policy retries this kind of error; None if its predicate raised an error itself.
        traceback: Redacted and capped.
        wait: Seconds that the policy's function said to wait; None if it said none.
    """

    failure: Failure
    wanted: bool | None
    traceback: str
    wait: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as values for JSON."""
        return self._asdict() | {"failure": self.failure.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the failure of which `to_dict` returned the values."""
        return cls(Failure.from_dict(data["failure"]), data["wanted"], str(data["traceback"]), data.get("wait"))


def task_failure_of(error: BaseException, policy: RetryPolicy) -> TaskFailure:
    """Return the failure of an error that a task raised, with what the policy of the task says about it."""
    failure = failure_of(error).settled()
    wanted: bool | None
    wait: float | None
    try:
        wanted, wait = verdict_on(policy.retry_on, error, failure)
    except BaseException as mistake:  # noqa: BLE001  # a function of the user's, or code of the error at hand
        contain(mistake)
        logs.log_user_error("retry_on", failure.location or failure.exception_name, mistake)
        wanted, wait = None, None
    return TaskFailure(failure, wanted, traceback_of(error), wait)
