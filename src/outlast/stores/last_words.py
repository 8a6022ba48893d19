"""What counts where a target is given more than once."""

from collections.abc import Iterable

from outlast.ports.job_rows import TargetDone, TargetStatus

__all__ = ["last_words", "replaces"]


def replaces(new: TargetStatus, known: TargetStatus) -> bool:
    """Tell whether a result is written over one that is known: the last word counts, but a success stays one."""
    return new is TargetStatus.SUCCESS or known is not TargetStatus.SUCCESS


def last_words(targets: Iterable[TargetDone]) -> list[TargetDone]:
    """Return each target once, with what counts, by its id: neighbours in a table are written together."""
    words: dict[str, TargetDone] = {}
    for each in targets:
        known = words.get(each.source_id)
        if known is None or replaces(each.status, known.status):
            words[each.source_id] = each
    return [words[source_id] for source_id in sorted(words)]
