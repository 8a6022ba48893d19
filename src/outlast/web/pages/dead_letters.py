"""Dead letters: which there are, why, and what is done with them."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from outlast.ports.read_rows import DeadLetterLine
from outlast.ports.reads import MOST_LOOKED_AT
from outlast.ports.rows import DeadLetterFilter
from outlast.queue.dead_letters import Handled
from outlast.report.lines import REASONS, command, facets, handled_text
from outlast.report.replays import given_of, what_text
from outlast.web.dead_letter_filter import NAMES, which_of
from outlast.web.narrowing import chosen_numbers, line_of, way_back
from outlast.web.routing import Action, Asked, Done, Page
from outlast.web.task_view import masked_line

__all__ = ["ACTIONS", "PAGES"]

_PATH = "/dead-letters"
_ROWS = 40
_MOST_STAYED = 50  # numbers that an address has room for


def read_dead_letters(asked: Asked) -> Mapping[str, Any]:
    """Return a page of dead letters, newest first, and what they could be narrowed to."""
    store, query = asked.app.store, asked.query
    which = which_of(query, store.now(), _ROWS)
    found = store.dead_letter_lines(which)
    tasks, categories, whole = facets(store.dead_letter_counts(), task=which.task_type, category=which.category)
    given = given_of(which)
    counted = not given.keys() - {"task", "category"}  # the books know of no more
    if not counted:
        tasks, categories = ([each._replace(size=None) for each in some] for some in (tasks, categories))
    return {
        "rows": [_line(row) for row in found.rows],
        "next": found.next,
        "looked": found.looked,
        "stopped": found.next is not None and len(found.rows) < _ROWS,
        "given": given,
        "first_page": which.before is None,
        "tasks": tasks,
        "categories": categories,
        "whole": whole if counted else None,
        "counted": counted,
        "stayed": _stayed(query),
        "_what": what_text(given),
        "_look": MOST_LOOKED_AT,
        "_reasons": REASONS,
        "_back": urlencode(given),
        "_commands": [command(verb, _typed(which), asked.reference) for verb in ("replay", "discard")],
    }


def _typed(which: DeadLetterFilter) -> dict[str, str]:
    """Return what narrows, as it is typed into a shell."""
    times = {"since": which.since, "until": which.until}
    return given_of(which) | {name: at.isoformat() for name, at in times.items() if at is not None}


def _line(row: DeadLetterLine) -> DeadLetterLine:
    return row._replace(error_message=masked_line(row.error_message))


def _stayed(query: Mapping[str, str]) -> list[int]:
    """Return the dead letters that the action before this page could not replay."""
    texts = query.get("stayed", "").split(",")[:_MOST_STAYED]
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20]  # noqa: PLR2004  # digits


def replay_chosen(asked: Asked) -> Done:
    """Queue the tasks of the chosen dead letters again, each in a transaction of its own."""
    box = asked.app.dead_letters
    return _each(asked, "replayed", partial(box.replay, who=asked.who, why=line_of(asked.form, "why")))


def discard_chosen(asked: Asked) -> Done:
    """Remove the chosen dead letters for good."""
    box = asked.app.dead_letters
    return _each(asked, "discarded", partial(box.discard, who=asked.who, why=line_of(asked.form, "why")))


def _each(asked: Asked, word: str, act: Callable[[int], Iterable[Handled]]) -> Done:
    numbers = chosen_numbers(asked.form, "dead letter")
    handled = [each for chosen in numbers for each in act(chosen)]
    outcomes: dict[str, list[int]] = {word: [], "conflict": [], "gone": []}
    for each in handled:
        outcomes[each.outcome].append(each.id)
    stayed = ",".join(str(each) for each in outcomes["conflict"][:_MOST_STAYED])
    to = way_back(asked.form, _PATH, NAMES, {"stayed": stayed} if stayed else {})
    return Done(handled_text(word, handled), to, outcomes, ok=len(outcomes[word]) == len(numbers))


PAGES = (Page("dead_letters", _PATH, "dead_letters.html", read_dead_letters),)
ACTIONS = (
    Action("replay_dead_letters", f"{_PATH}/replay", replay_chosen),
    Action("discard_dead_letters", f"{_PATH}/discard", discard_chosen),
)
