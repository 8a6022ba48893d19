"""What is asked for on a page is written to the audit log before it is done; the one way to every action."""

from collections.abc import Mapping
from typing import Any

from outlast.queue.auditing import write_down, written_down
from outlast.web.narrowing import MOST_CHOSEN
from outlast.web.routing import Action, Asked, Done

__all__ = ["SHOWN", "acted"]

SHOWN = frozenset(
    [
        *("all", "before", "canary", "category", "for", "group", "minutes", "name", "number", "queue", "rate"),
        *("reason", "replay", "resource", "since", "state", "task", "text", "until"),
    ]
)
"""Fields of forms whose values are written; of all others, which may hold something of a payload, the names alone."""
_WHY = "why"
_CHOSEN = "number"  # has as many values as rows were chosen
_KINDS = {
    "dead-letters": "dead_letter",
    "failures": "group",
    "queues": "queue",
    "replays": "replay",
    "sources": "source",
    "tasks": "task",
}
_CALLED = {"pause_named_queue": "pause_queue", "save_dead_letter": "edit_dead_letter"}  # as everywhere else
_NAMED = {"queues": ("queue", "name"), "waits": ("resource", "resource")}
_MOST = 50  # names of fields


def acted(action: Action, asked: Asked) -> Done:
    """Write down who asks for what, then have it done."""
    why = "".join(asked.form.get(_WHY, [])[:1])
    name = _CALLED.get(action.name, action.name)
    write_down(
        asked.app.store,
        name,
        _subject(action, asked),
        _detail(asked.form),
        who=asked.who or "somebody",
        why=why,
        most=MOST_CHOSEN,
    )
    with written_down():
        return action.act(asked)


def _subject(action: Action, asked: Asked) -> str:
    """Return what it is about: ``task:7`` where the path or the form names it, else what the path is about."""
    first = action.path.split("/")[1]
    kind = _KINDS.get(first, first)
    if asked.path:
        return f"{kind}:{next(iter(asked.path.values()))}"
    kind, field = _NAMED.get(first, (f"{kind}s", ""))
    values = asked.form.get(field, [])
    return f"{kind}:{values[0]}" if values else kind


def _detail(form: Mapping[str, list[str]]) -> dict[str, Any]:
    shown = {name: _told(name, values) for name, values in form.items() if name in SHOWN}
    others = sorted(name for name in form if name not in SHOWN and name != _WHY)[:_MOST]
    given = {name: value for name, value in shown.items() if value not in ("", [])}
    return given | ({"fields": others} if others else {})


def _told(name: str, values: list[str]) -> str | list[str]:
    """Return what counts of a field: each chosen row once, and of any other field the first value."""
    each = list(dict.fromkeys(values)) if name == _CHOSEN else values[:1]
    return each[0] if len(each) == 1 else each
