"""What there is to see in the live tour, in order, and when it has happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from outlast.ports.rows import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    import outlast
    from outlast.ports.rows import Task

_OUTAGE = "policy=worker&rate=5/s&duration=8m&down_at=1m&down_for=4m&latency=0.1"  # the form, filled in
_LOOKED_AT = 200  # tasks among which an example is looked for


class Sight(NamedTuple):
    """Something to look at.

    Attributes:
        path: The page that shows it.
        text: What is to be seen there.
    """

    path: str
    text: str


class Guide:
    """Looks around, and says what is new, each thing once.

    Args:
        app: Whose store is looked into.
    """

    def __init__(self, app: outlast.App) -> None:
        """Begin with everything unseen."""
        self._app = app
        self.cooled: set[str] = set()
        self._unseen: list[Callable[[], Sight | None]] = [
            self._stream, self._retried, self._cooldown, self._breaker, self._why, self._dead, self._source, self._job,
            self._lost, self._simulation,
        ]  # fmt: skip

    @property
    def is_over(self) -> bool:
        """Whether all was seen."""
        return not self._unseen

    def look(self) -> Sight | None:
        """Return the next thing that has happened, if one has."""
        self.cooled.update(row.resource for row in self._app.tasks.cooldowns())
        for sight in self._unseen:
            found = sight()
            if found is not None:
                self._unseen.remove(sight)
                return found
        return None

    def _stream(self) -> Sight | None:
        done = self._app.tasks.counts()["DONE"]
        return Sight("/", f"tasks come in, run and fail; {done} are done, and the charts move") if done else None

    def _retried(self) -> Sight | None:
        task = self._task(lambda task: bool(task.retry_count), Status.DONE)
        if task is None:
            return None
        times = "once" if task.retry_count == 1 else f"{task.retry_count} times"
        return Sight(f"/tasks/{task.id}", f"{task.task_type} failed {times}, waited, and went through: every attempt")

    def _cooldown(self) -> Sight | None:
        for row in self._app.tasks.cooldowns():
            if row.reason.startswith("rate_limit"):
                return Sight("/waits", f"{row.resource} answered 429 with Retry-After: what is for it waits, unspent")
        return None

    def _breaker(self) -> Sight | None:
        rows = [row for row in self._app.store.breakers() if row.state == "open"]
        return (
            Sight("/waits", f"the breaker of {rows[0].resource} is open; close it by hand, if you like")
            if rows
            else None
        )

    def _why(self) -> Sight | None:
        groups = self._app.dead_letters.groups(50)
        return (
            Sight("/failures", f"{len(groups)} kinds of failures; click one: why did it fail?")
            if len(groups) > 2
            else None
        )

    def _dead(self) -> Sight | None:
        count = self._app.dead_letters.count()
        return (
            Sight("/dead-letters", f"{count} tasks have failed for good; choose some and replay them")
            if count > 3
            else None
        )

    def _source(self) -> Sight | None:
        found = self._app.sources.list(state="disabled", limit=10)
        for source in found:
            if source.name == "moved":
                return Sight(
                    f"/sources/{source.id}", "three failures in a row have disabled a feed; probe it: it has healed"
                )
        return None

    def _job(self) -> Sight | None:
        ended = [run for run in self._app.store.runs(None, 5) if run.summary is not None and run.summary["exit_code"]]
        return (
            Sight(f"/jobs/{ended[0].id}", "a batch job: its gate has failed the run, and says why") if ended else None
        )

    def _lost(self) -> Sight | None:
        task = self._task(lambda task: task.task_type == "poison", Status.FAILED)
        return (
            Sight(
                f"/tasks/{task.id}",
                "a task has killed its worker time and again, and is out; its neighbours lost no attempt",
            )
            if task
            else None
        )

    def _simulation(self) -> Sight | None:
        if self._dead in self._unseen:  # the policy is in question once tasks have failed for good
            return None
        return Sight(f"/simulate?{_OUTAGE}", "what would a policy do in an outage? Change it, and simulate again")

    def _task(self, is_meant: Callable[[Task], bool], status: Status) -> Task | None:
        found = self._app.tasks.list(status=status, limit=_LOOKED_AT)
        return next((task for task in found if is_meant(task)), None)
