"""The waits of a policy, as data and as a small chart."""

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.decide.policy import RetryPolicy
    from outlast.failure import Failure


_WIDTH = 40
_MAX_LINES = 20


@dataclass(frozen=True)
class ScheduledWait:
    """One wait of a schedule, in seconds.

    Attributes:
        after: Number of the attempt it follows.
        least: Its minimum.
        most: Its maximum.
        total: The sum of the maximum waits up to this one. Beyond the deadline, this wait happens only if earlier ones
            were shorter.
    """

    after: int
    least: float
    most: float
    total: float


@dataclass(frozen=True)
class Schedule:
    """The waits of a policy if calls fail immediately and the server asks for no wait.

    Attributes:
        max_attempts: Maximum number of calls.
        deadline: Seconds for all attempts and waits together, or None.
        waits: One between each two attempts. Waits that cannot end before the deadline, however short the earlier ones
            are, are left out.
    """

    max_attempts: int
    deadline: float | None
    waits: tuple[ScheduledWait, ...]

    @classmethod
    def of(cls, policy: "RetryPolicy", failure: "Failure | None" = None) -> "Schedule":
        """Return the schedule of a policy.

        Args:
            policy: The policy.
            failure: How every call fails; by default in a way for which the policy has no other waits.
        """

        def wait(attempt: int, previous: float | None, chance: "Callable[[], float]") -> float:
            if failure is None:
                return policy.get_delay(attempt, previous=previous, chance=chance)
            return policy.delay_after(failure, attempt, previous=previous, chance=chance)

        waits: list[ScheduledWait] = []
        soonest = latest = 0.0
        shortest: float | None = None
        longest: float | None = None
        for attempt in range(1, policy.max_attempts):
            shortest, longest = wait(attempt, shortest, lambda: 0.0), wait(attempt, longest, lambda: 1.0)
            soonest, latest = soonest + shortest, latest + longest
            if policy.deadline is not None and soonest >= policy.deadline:
                break
            waits.append(ScheduledWait(attempt, shortest, longest, latest))
        return cls(policy.max_attempts, policy.deadline, tuple(waits))

    def __str__(self) -> str:
        """Return the chart."""
        limit = "" if self.deadline is None else f", {self.deadline:g} s in all"
        plural = "" if self.max_attempts == 1 else "s"
        lines = [f"{self.max_attempts} attempt{plural}{limit}"]
        longest = max((wait.most for wait in self.waits), default=0.0) or 1.0
        for wait in self.waits[:_MAX_LINES]:
            solid = round(_WIDTH * wait.least / longest)
            light = max(round(_WIDTH * wait.most / longest) - solid, 0)
            shown = f"{wait.most:g} s" if wait.least == wait.most else f"{wait.least:g} to {wait.most:g} s"
            may_be_cut = self.deadline is not None and wait.total >= self.deadline
            more = ", if there is time" if may_be_cut else ""
            lines.append(f"  {wait.after} → {wait.after + 1}  {'█' * solid}{'░' * light} {shown}{more}")
        if len(self.waits) > _MAX_LINES:
            lines.append(f"  … and {len(self.waits) - _MAX_LINES} more")
        return "\n".join(lines)
