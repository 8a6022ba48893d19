"""What became of a task by hand: who changed its arguments, when and why, without its secrets."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.queue.masking import masked_text
from outlast.queue.triage import masked_edit

if TYPE_CHECKING:
    from outlast.ports.store import Store
    from outlast.ports.triage_rows import PayloadEdit

__all__ = ["AskedView", "Changed", "EditView", "by_hand", "lineage_of"]

_MOST = 20  # edits of a task that are shown
_MOST_CHANGED = 30  # values of one edit
_LONGEST = 300  # characters of a value
_MOST_ASKED = 20  # entries of the audit log
_EDIT = "edit_dead_letter"  # which is told with what was changed
_NOTHING = object()


class Changed(NamedTuple):
    """A value that an edit has changed, masked; None for what was not there before, or is not there any more."""

    path: str
    before: str | None
    after: str | None


class EditView(NamedTuple):
    """An edit as pages show it.

    Attributes:
        changed: What is other than it was; what is masked on both sides is named from the patch.
        more: How many further values are.
    """

    at: datetime
    who: str
    reason: str
    changed: tuple[Changed, ...]
    more: int


class AskedView(NamedTuple):
    """Something that somebody asked for, from the audit log."""

    at: datetime
    who: str
    action: str
    reason: str


def by_hand(store: "Store", *subjects: str) -> list[AskedView]:
    """Return what was asked for about a task and its dead letter but edits, newest first."""
    found = [entry for subject in subjects for entry in store.audits(subject=subject, limit=_MOST_ASKED)]
    return [
        AskedView(entry.at, entry.who, entry.action.replace("_", " "), masked_text(entry.reason))
        for entry in sorted(found, key=lambda entry: -entry.id)
        if entry.action != _EDIT
    ]


def lineage_of(store: "Store", task_id: int) -> list[EditView]:
    """Return the edits of a task, newest first."""
    return [_view(masked_edit(edit)) for edit in reversed(store.edits(task_id)[-_MOST:])]


def _view(edit: "PayloadEdit") -> EditView:
    changed = [*_differences(_read(edit.before), _read(edit.after), "")]
    told = {each.path for each in changed}
    for operation in _operations(edit.patch):
        path = str(operation.get("path", ""))
        if path not in told and not any(each.startswith(f"{path}/") for each in told):
            changed.append(Changed(path, "masked", "masked"))  # it was replaced, and neither value is shown
    shown = tuple(each._replace(path=masked_text(each.path)) for each in changed[:_MOST_CHANGED])
    return EditView(edit.at, edit.who, masked_text(edit.reason), shown, len(changed) - len(shown))


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _operations(text: str) -> list[dict[str, Any]]:
    value = _read(text)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _differences(before: Any, after: Any, path: str) -> Iterator[Changed]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _differences(before.get(key, _NOTHING), after.get(key, _NOTHING), f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif before != after or type(before) is not type(after):
        yield Changed(path, _text(before), _text(after))


def _text(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
