"""The settings of a policy by name, for type checkers: ``**settings: Unpack[PolicySettings]``.

Outlast does not import this module at run time: `typing` costs more to import than everything described here.
"""

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from outlast.decide.backoff import Backoff, Jitter
    from outlast.decide.policy import RetryOn, RetryPolicy


class TaskPolicySettings(TypedDict, total=False):
    """The settings of `RetryPolicy` that ``@app.task`` takes."""

    max_attempts: int | None
    max_retries: int | None
    retry_on: "RetryOn"
    backoff: "Backoff"
    base_delay: "float | timedelta"
    max_delay: "float | timedelta"
    jitter: "Jitter"
    overrides: "Mapping[Any, RetryPolicy | Mapping[str, Any]] | None"


class PolicySettings(TaskPolicySettings, total=False):
    """The settings of `RetryPolicy`, `retry`, `with_policy` and `RetryPolicy.replace`; a test compares the names."""

    deadline: "float | timedelta | None"
    attempt_timeout: "float | timedelta | None"
    resource: str | None
    nested: bool
