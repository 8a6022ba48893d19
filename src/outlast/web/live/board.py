"""What the overview shows beside the pulse: the groups that fail, and what waits for what.

It is read one statement at a time, so that whoever keeps pages live can spend one statement on every tick.
"""

from collections import deque
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from outlast.ports.read_rows import BreakerRow, FailureFilter, FailureGroup, FlowPoint
from outlast.queue.masking import masked_text
from outlast.report.breakers import by_resource
from outlast.report.flow import series_of, steps_of
from outlast.web.task_view import masked_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.ports.rows import Cooldown
    from outlast.ports.store import Store

__all__ = ["DAY", "HALF_HOUR", "Board", "BoardReading", "GroupLine", "Wait", "group_lines", "read_board"]

DAY, HALF_HOUR = 86_400.0, 1_800.0
_LOOKED_AT = 40
_GROUPS = 6
_WAITS = 5


class GroupLine(NamedTuple):
    """A group of failures as a list shows it; its texts are masked.

    Attributes:
        standing: ``open``, ``acknowledged`` or ``snoozed``.
        trend: Failures in each half hour of the last day, the oldest first.
    """

    fingerprint: str
    task_type: str
    error_type: str
    error_category: str
    error_message: str
    first_seen: datetime
    last_seen: datetime
    failures: int
    dead: int
    note: str
    acknowledged_at: datetime | None
    acknowledged_by: str
    snoozed_until: datetime | None
    standing: str
    trend: tuple[int, ...]

    @property
    def lately(self) -> int:
        """Failures in the last hour or a little less."""
        return sum(self.trend[-2:])


class Wait(NamedTuple):
    """A resource that is left alone.

    Attributes:
        resource: Its name, masked.
        how: ``cooldown`` or ``breaker``.
        until: When it is tried again; None where nobody knows.
        reason: Why, masked.
        tasks: How many queued tasks depend on it.
    """

    resource: str
    how: str
    until: datetime | None
    reason: str
    tasks: int


class Board(NamedTuple):
    """All of it."""

    groups: tuple[GroupLine, ...]
    waits: tuple[Wait, ...]


class BoardReading:
    """Reads a board step by step, each of which is one statement.

    Args:
        store: Where it is read.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._now = datetime.min.replace(tzinfo=UTC)  # each step says what time it is
        self._groups: list[FailureGroup] = []
        self._flows: dict[str, list[FlowPoint]] = {}
        self._cooldowns: list[Cooldown] = []
        self._waits: list[Wait] = []
        self._steps: deque[Callable[[], None]] = deque([self._read_groups, self._read_flows, self._read_cooldowns])

    def step(self, now: datetime) -> Board | None:
        """Read on; return the board when all is read.

        Args:
            now: The store's time, which the trends end with.
        """
        self._now = now
        if self._steps:
            self._steps[0]()  # it stays if it fails, and is tried again
            self._steps.popleft()
        if self._steps:
            return None
        lines = group_lines(self._groups, self._flows, now)
        lines.sort(key=lambda line: (-line.lately, -line.last_seen.timestamp()))
        return Board(tuple(lines[:_GROUPS]), tuple(self._waits))

    def _read_groups(self) -> None:
        self._groups = self._store.failures(FailureFilter(limit=_LOOKED_AT)).rows

    def _read_flows(self) -> None:
        names = [group.fingerprint for group in self._groups]
        self._flows = self._store.failure_flow(names, window=DAY, step=HALF_HOUR) if names else {}

    def _read_cooldowns(self) -> None:
        self._cooldowns = self._store.cooldowns()
        self._steps.append(self._read_breakers)

    def _read_breakers(self) -> None:
        cooling = [_Left(row.resource, "cooldown", row.until, row.reason) for row in self._cooldowns]
        left = [*cooling, *_open(self._store.breakers(), self._now)][:_WAITS]
        self._steps.extend(partial(self._count, each) for each in left)

    def _count(self, left: "_Left") -> None:
        number = self._store.waiting_for(left.resource)
        self._waits.append(Wait(masked_line(left.resource), left.how, left.until, masked_line(left.reason), number))


def read_board(store: "Store", now: datetime) -> Board:
    """Return the board, read at once."""
    reading = BoardReading(store)
    while (board := reading.step(now)) is None:
        pass
    return board


def group_lines(groups: list[FailureGroup], flows: dict[str, list[FlowPoint]], now: datetime) -> list[GroupLine]:
    """Return groups with their trends, masked."""
    steps = steps_of(now, DAY, HALF_HOUR)
    return [
        GroupLine(
            *group[:4],
            masked_text(group.error_message),
            *group[5:9],
            masked_text(group.note),
            *group[10:],
            group.standing(now),
            series_of(flows.get(group.fingerprint, []), steps, HALF_HOUR),
        )
        for group in groups
    ]


class _Left(NamedTuple):
    resource: str
    how: str
    until: datetime | None
    reason: str


def _open(rows: list[BreakerRow], now: datetime) -> list[_Left]:
    """Return resources whose breaker is open in any process that still tells of it, each once."""
    found = [
        next(row for row in each.processes if row.state == "open")
        for each in by_resource(rows, now)
        if each.state == "open"
    ]
    return [_Left(row.resource, "breaker", row.until, row.reason) for row in found]
