"""The schedule of a policy as data and as a small chart."""

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.decide.policy import RetryPolicy

__all__ = ["Schedule", "Wait"]

_WIDTH = 40
_MOST_LINES = 20
_SPREAD = {"full": (0.0, 1.0), "equal": (0.5, 1.0)}


@dataclass(frozen=True)
class Wait:
    """One wait of a schedule, in seconds.

    Attributes:
        after: Number of the attempt it follows.
        least: The shortest it can be.
        most: The longest it can be.
        total: All waits so far at their longest.
    """

    after: int
    least: float
    most: float
    total: float


@dataclass(frozen=True)
class Schedule:
    """What a policy's waits will be, where the other side asks for nothing.

    Attributes:
        max_attempts: Calls in all.
        deadline: Seconds for everything together, or None.
        waits: One between each two attempts; those that the deadline leaves no room for are left out.
    """

    max_attempts: int
    deadline: float | None
    waits: tuple[Wait, ...]

    @classmethod
    def of(cls, policy: "RetryPolicy") -> "Schedule":
        """Return the schedule of a policy."""
        waits, total = [], 0.0
        for attempt in range(1, policy.max_attempts):
            least, most = _range(policy, attempt)
            total += most
            if policy.deadline is not None and total - most + least > policy.deadline:
                break
            waits.append(Wait(attempt, least, most, total))
        return cls(policy.max_attempts, policy.deadline, tuple(waits))

    def __str__(self) -> str:
        """Return the chart."""
        limit = "" if self.deadline is None else f", {self.deadline:g} s in all"
        plural = "" if self.max_attempts == 1 else "s"
        lines = [f"{self.max_attempts} attempt{plural}{limit}"]
        longest = max((wait.most for wait in self.waits), default=0.0) or 1.0
        for wait in self.waits[:_MOST_LINES]:
            solid = round(_WIDTH * wait.least / longest)
            light = max(round(_WIDTH * wait.most / longest) - solid, 0)
            shown = f"{wait.most:g} s" if wait.least == wait.most else f"{wait.least:g} to {wait.most:g} s"
            lines.append(f"  {wait.after} → {wait.after + 1}  {'█' * solid}{'░' * light} {shown}")
        if len(self.waits) > _MOST_LINES:
            lines.append(f"  … and {len(self.waits) - _MOST_LINES} more")
        return "\n".join(lines)


def _range(policy: "RetryPolicy", attempt: int) -> tuple[float, float]:
    least = policy.get_delay(attempt, previous=0.0, chance=lambda: 0.0)
    most = policy.get_delay(attempt, previous=policy.max_delay, chance=lambda: 1.0)
    return min(least, most), most
