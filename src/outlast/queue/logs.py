"""The log records of a worker: a success is an info line, a retry a warning, a dead letter an error.

The traceback of a retry is logged at debug level. At most ten lines a second are written about successes and ten about
retries and deferrals. Errors are always written, and events are published for all of them.
"""

import logging
from contextlib import suppress

from outlast.decide.decision import Defer, Fail, Retry
from outlast.decide.policy import RetryPolicy
from outlast.failure import first_line
from outlast.ports.rows import Claimed
from outlast.queue.definition import Definition
from outlast.queue.task_failure import TaskFailure
from outlast.run.logs import LineLimit
from outlast.units import format_seconds

log = logging.getLogger("outlast.worker")
_done_lines = LineLimit(logging.INFO, "tasks done")
_retry_lines = LineLimit(logging.WARNING, "retries and deferrals")


def log_done(name: str, task_id: int, attempt: int, seconds: float) -> None:
    """Log that a task is done, and how long its last attempt took."""
    if not log.isEnabledFor(logging.INFO):
        return
    with suppress(Exception):  # a handler that raises must not end the worker
        if _done_lines.allows(log):
            keys = {"task_id": task_id, "task_type": name, "attempt": attempt, "duration": round(seconds, 6)}
            log.info("%s %d done in %s", name, task_id, format_seconds(seconds), extra=keys)


def log_crash(definition: Definition, claimed: Claimed, task_failure: TaskFailure, crash_limit: int) -> None:
    """Log that a suspect crashed its process and runs again."""
    failure = task_failure.failure
    keys = {"task_id": claimed.id, "task_type": definition.name, **failure.log_keys()}
    with suppress(Exception):  # a handler that raises must not end the worker
        log.warning(
            "%s %d: crash %d of %d, it runs isolated again: %s",
            definition.name, claimed.id, claimed.crash_count + 1, crash_limit, first_line(failure.message), extra=keys,
        )  # fmt: skip


def log_failure(
    name: str,
    policy: RetryPolicy,
    task_id: int,
    attempt: int,
    task_failure: TaskFailure,
    decision: Retry | Defer | Fail,
) -> None:
    """Log a failed attempt and the decision about it. Arguments of the task are never logged."""
    failure, about = task_failure.failure, f"{name} {task_id}"
    category, most = failure.category.value, policy.for_category(failure.category).max_attempts
    text = failure.summary
    keys = {"task_id": task_id, "task_type": name, "attempt": attempt, "max_attempts": most, **failure.log_keys()}
    with suppress(Exception):  # a handler that raises must not end the worker
        if not isinstance(decision, Fail) and not _retry_lines.allows(log):
            return
        match decision:
            case Retry(delay):
                log.warning(
                    "%s: attempt %d of %d failed (%s), retrying in %s: %s",
                    about, attempt, most, category, format_seconds(delay), text, extra=keys | {"delay": delay},
                )  # fmt: skip
                log.debug("%s: traceback of attempt %d\n%s", about, attempt, task_failure.traceback)
            case Defer(delay):
                log.warning(
                    "%s: deferred for %s, no attempt used (%s): %s",
                    about, format_seconds(delay), category, text, extra=keys | {"delay": delay},
                )  # fmt: skip
            case Fail(reason):
                log.error(
                    "%s: dead letter (%s) after attempt %d of %d (%s): %s\n%s",
                    about, reason, attempt, most, category, text, task_failure.traceback,
                    extra=keys | {"reason": reason},
                )  # fmt: skip
