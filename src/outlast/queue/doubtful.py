"""The failures that may need a rule, as they may be shown: the largest groups, each with samples."""

from collections.abc import Mapping
from typing import Any

from outlast.failure import Category
from outlast.ports.read_rows import FailureFilter, FailureGroup
from outlast.ports.rows import Attempt
from outlast.ports.store import Store
from outlast.queue.masking import masked_text

__all__ = ["LARGEST", "sampled_groups"]

LARGEST = 100
"""Groups that are looked at: so many of unknown ones, and so many of all."""
_SAMPLES = 3


def sampled_groups(store: Store) -> list[tuple[FailureGroup, list[Attempt]]]:
    """Return the largest groups of failures, unknown ones in any case, with their last attempts; all masked."""
    unknown = store.failures(FailureFilter(category=str(Category.UNKNOWN), largest=True, limit=LARGEST)).rows
    every = store.failures(FailureFilter(largest=True, limit=LARGEST)).rows
    groups = {group.fingerprint: group for group in (*unknown, *every)}
    return [
        (
            group._replace(error_message=masked_text(group.error_message)),
            [_masked(attempt) for attempt in store.failure_samples(group.fingerprint, _SAMPLES)],
        )
        for group in groups.values()
    ]


def _masked(attempt: Attempt) -> Attempt:
    return attempt._replace(
        error_message=masked_text(attempt.error_message),
        traceback=masked_text(attempt.traceback),
        failure=_masked_failure(attempt.failure),
    )


def _masked_failure(failure: Mapping[str, Any]) -> dict[str, Any]:
    return {name: masked_text(value) if isinstance(value, str) else value for name, value in failure.items()}
