"""The log records of a worker: a retry is a warning with the traceback at debug level, a dead letter is an error."""

import logging
from contextlib import suppress
from typing import Any

from outlast.decide.decision import Defer, Fail, Retry
from outlast.ports.rows import Claimed
from outlast.queue.definition import TaskDefinition
from outlast.queue.task_failure import TaskFailure
from outlast.record.log_text import failure_keys, first_line, format_seconds

log = logging.getLogger("outlast.worker")


def log_crash(definition: TaskDefinition[Any, Any], claimed: Claimed, verdict: TaskFailure, crash_limit: int) -> None:
    """Tell that a suspect took its process down, and is to be tried again."""
    failure = verdict.failure
    keys = {"task_id": claimed.id, "task_type": definition.name, **failure_keys(failure)}
    with suppress(Exception):  # a handler that raises must not end the worker
        log.warning(
            "%s %d: crash %d of %d, it runs isolated again: %s",
            definition.name, claimed.id, claimed.crash_count + 1, crash_limit, first_line(failure.message), extra=keys,
        )  # fmt: skip


def log_failure(
    definition: TaskDefinition[Any, Any], claimed: Claimed, verdict: TaskFailure, decision: Retry | Defer | Fail
) -> None:
    """Tell what became of a failed attempt. Arguments of the task are never logged."""
    failure, attempt = verdict.failure, claimed.retry_count + 1
    most = definition.policy.for_category(failure.category).max_attempts
    about = f"{definition.name} {claimed.id}"
    text = f"{failure.exception_name}: {first_line(failure.message)}"
    keys: dict[str, Any] = {
        "task_id": claimed.id,
        "task_type": definition.name,
        "attempt": attempt,
        "max_attempts": most,
        **failure_keys(failure),
    }
    try:
        match decision:
            case Retry(delay):
                keys["delay"] = delay
                log.warning(
                    "%s: attempt %d of %d failed (%s), retrying in %s: %s",
                    about, attempt, most, failure.category.value, format_seconds(delay), text, extra=keys,
                )  # fmt: skip
                log.debug("%s: traceback of attempt %d\n%s", about, attempt, verdict.traceback)
            case Defer(delay):
                keys["delay"] = delay
                log.warning(
                    "%s: deferred for %s, no attempt used (%s): %s",
                    about, format_seconds(delay), failure.category.value, text, extra=keys,
                )  # fmt: skip
            case Fail(reason):
                keys["reason"] = reason
                log.error(
                    "%s: dead letter (%s) after attempt %d of %d (%s): %s\n%s",
                    about, reason, attempt, most, failure.category.value, text, verdict.traceback, extra=keys,
                )  # fmt: skip
    except Exception:  # noqa: BLE001  # a handler that raises must not end the worker
        return
