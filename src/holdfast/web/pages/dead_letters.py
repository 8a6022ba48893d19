"""Dead letters: which there are, why, and what is done with them."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from holdfast.failure import Category
from holdfast.ports.read_rows import DeadLetterLine
from holdfast.ports.reads import MOST_LOOKED_AT
from holdfast.ports.rows import DeadLetter, DeadLetterFilter, Reason
from holdfast.queue.dead_letters import Handled
from holdfast.queue.masking import masked_text
from holdfast.report.lines import REASONS, command, facets, handled_text
from holdfast.web.narrowing import before_of, choice_of, chosen_numbers, moment_of, text_of, way_back
from holdfast.web.routing import Action, Asked, Done, NotThereError, Page, number
from holdfast.web.task_view import masked_line, payload_text, task_view

__all__ = ["ACTIONS", "PAGES"]

_PATH = "/dead-letters"
_NAMES = ("category", "task", "group", "reason", "queue", "since", "until", "text")
_ROWS = 50
_MOST_STAYED = 50  # numbers that an address has room for


def read_dead_letters(asked: Asked) -> Mapping[str, Any]:
    """Return a page of dead letters, newest first, and what they could be narrowed to."""
    store, query = asked.app.store, asked.query
    which = _which(query, store.now())
    found = store.dead_letter_lines(which)
    tasks, categories, whole = facets(store.dead_letter_counts(), task=which.task_type, category=which.category)
    given = _given(which)
    return {
        "rows": [_line(row) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": given,
        "first_page": which.before is None,
        "tasks": tasks,
        "categories": categories,
        "whole": whole,
        "counted": not given.keys() - {"task", "category"},
        "stayed": _stayed(query),
        "_look": MOST_LOOKED_AT,
        "_reasons": REASONS,
        "_back": urlencode(given),
        "_commands": [command(verb, _typed(which)) for verb in ("replay", "discard")],
    }


def _which(query: Mapping[str, str], now: datetime) -> DeadLetterFilter:
    """Return what was asked for.

    Raises:
        RefusedError: If something in it cannot be meant.
    """
    return DeadLetterFilter(
        task_type=text_of(query, "task"),
        queue=text_of(query, "queue"),
        category=choice_of(query, "category", Category),
        reason=choice_of(query, "reason", Reason),
        fingerprint=text_of(query, "group"),
        since=moment_of(query, "since", now),
        until=moment_of(query, "until", now),
        text=text_of(query, "text"),
        before=before_of(query),
        limit=_ROWS,
    )


def _given(which: DeadLetterFilter) -> dict[str, str]:
    """Return what narrows, as the form shows it and links carry it on; times are UTC."""
    values = {
        "category": which.category,
        "task": which.task_type,
        "group": which.fingerprint,
        "reason": which.reason,
        "queue": which.queue,
        "since": _form_time(which.since),
        "until": _form_time(which.until),
        "text": which.text,
    }
    return {name: value for name, value in values.items() if value}


def _typed(which: DeadLetterFilter) -> dict[str, str]:
    """Return what narrows, as it is typed into a shell."""
    times = {"since": which.since, "until": which.until}
    return _given(which) | {name: at.isoformat() for name, at in times.items() if at is not None}


def _form_time(at: datetime | None) -> str | None:
    return None if at is None else at.replace(tzinfo=None).isoformat(timespec="seconds" if at.second else "minutes")


def _line(row: DeadLetterLine) -> DeadLetterLine:
    return row._replace(error_message=masked_line(row.error_message))


def _stayed(query: Mapping[str, str]) -> list[int]:
    """Return the dead letters that the action before this page could not replay."""
    texts = query.get("stayed", "").split(",")[:_MOST_STAYED]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20]  # noqa: PLR2004  # digits


def read_dead_letter(asked: Asked) -> Mapping[str, Any]:
    """Return a dead letter with the history of its task.

    Raises:
        NotThereError: If there is none of that number (any more).
    """
    store = asked.app.store
    letter = _letter(asked)
    task = store.get(letter.original_task_id)
    payload, cut = payload_text(letter.parameters)
    last = letter.failure
    return {
        "letter": letter._replace(
            parameters="",
            failure={},
            traceback=masked_text(letter.traceback),
            error_message=masked_text(letter.error_message),
            resource=None if letter.resource is None else masked_text(letter.resource),
            unique_key=None if letter.unique_key is None else masked_text(letter.unique_key),
        ),
        "payload": payload,
        "payload_cut": cut,
        "rule": masked_text(str(last.get("rule") or "")),
        "http_status": last.get("http_status"),
        "location": masked_text(str(last.get("location") or "")),
        "history": None if task is None else task_view(store, task),
        "why": REASONS.get(letter.reason, ""),
        "shell": f"holdfast dlq replay {letter.id} --app MODULE:APP",
    }


def _letter(asked: Asked) -> DeadLetter:
    letter = asked.app.store.dead_letter(number(asked.path["number"]))
    if letter is None:
        message = f"there is no dead letter {asked.path['number']} (any more): it was replayed, discarded or pruned"
        raise NotThereError(message)
    return letter


def replay_one(asked: Asked) -> Done:
    """Queue the task of a dead letter again."""
    letter = _letter(asked)
    outcome = asked.app.dead_letters.replay(letter.id)[0].outcome
    data = {"outcome": outcome, "number": letter.id, "task": letter.original_task_id}
    if outcome == "conflict":
        message = f"dead letter {letter.id} stayed: its unique key is taken by another live task"
        return Done(message, f"{_PATH}/{letter.id}", data, ok=False)
    if outcome == "gone":
        message = f"dead letter {letter.id} is not there any more: somebody else was faster"
        raise NotThereError(message)
    message = f"dead letter {letter.id} was replayed: task {letter.original_task_id} is queued again, with its history"
    return Done(message, f"/tasks/{letter.original_task_id}", data)


def discard_one(asked: Asked) -> Done:
    """Remove a dead letter for good."""
    letter = _letter(asked)
    outcome = asked.app.dead_letters.discard(letter.id)[0].outcome
    if outcome == "gone":
        message = f"dead letter {letter.id} is not there any more: somebody else was faster"
        raise NotThereError(message)
    data = {"outcome": outcome, "number": letter.id, "task": letter.original_task_id}
    return Done(f"dead letter {letter.id} was discarded", _PATH, data)


def replay_chosen(asked: Asked) -> Done:
    """Queue the tasks of the chosen dead letters again, each in a transaction of its own."""
    return _each(asked, "replayed", asked.app.dead_letters.replay)


def discard_chosen(asked: Asked) -> Done:
    """Remove the chosen dead letters for good."""
    return _each(asked, "discarded", asked.app.dead_letters.discard)


def _each(asked: Asked, word: str, act: Callable[[int], Iterable[Handled]]) -> Done:
    numbers = chosen_numbers(asked.form, "dead letter")
    handled = [each for chosen in numbers for each in act(chosen)]
    outcomes: dict[str, list[int]] = {word: [], "conflict": [], "gone": []}
    for each in handled:
        outcomes[each.outcome].append(each.id)
    stayed = ",".join(str(each) for each in outcomes["conflict"][:_MOST_STAYED])
    to = way_back(asked.form, _PATH, _NAMES, {"stayed": stayed} if stayed else {})
    return Done(handled_text(word, handled), to, outcomes, ok=len(outcomes[word]) == len(numbers))


PAGES = (
    Page("dead_letters", _PATH, "dead_letters.html", read_dead_letters),
    Page("dead_letter", f"{_PATH}/{{number}}", "dead_letter.html", read_dead_letter),
)
ACTIONS = (
    Action("replay_dead_letters", f"{_PATH}/replay", replay_chosen),
    Action("discard_dead_letters", f"{_PATH}/discard", discard_chosen),
    Action("replay_dead_letter", f"{_PATH}/{{number}}/replay", replay_one),
    Action("discard_dead_letter", f"{_PATH}/{{number}}/discard", discard_one),
)
