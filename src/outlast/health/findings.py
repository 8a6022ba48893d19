"""What a health check finds, and what is told of it: little to everybody, more to those who show a token."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "HealthCheckResult", "HealthReport", "HealthStatus"]


class HealthStatus(StrEnum):
    """What everybody may know."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthCheckResult:
    """The answer for everybody: no reasons, no texts of errors.

    Attributes:
        status: Healthy when every check is True.
        checks: What was looked at, and whether it is well.
    """

    status: HealthStatus
    checks: dict[str, bool]

    def to_dict(self) -> dict[str, object]:
        """Return it as it goes over the wire."""
        return {"status": self.status.value, "checks": dict(self.checks)}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check may return in place of True or False.

    Attributes:
        ok: Whether it is well enough to go on.
        detail: In words, for those who show the token; secrets are masked, but do not put any there.
        degraded: Whether somebody should look at it although it goes on.
    """

    ok: bool
    detail: str
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The answer for those who show the token.

    Attributes:
        checks: What each check found.
    """

    checks: Mapping[str, Finding]

    @property
    def status(self) -> str:
        """``unhealthy`` when a check is not ok, else ``degraded`` when one is degraded, else ``healthy``."""
        if not all(found.ok for found in self.checks.values()):
            return "unhealthy"
        return "degraded" if any(found.degraded for found in self.checks.values()) else "healthy"

    @property
    def result(self) -> HealthCheckResult:
        """What of it everybody may know; what is degraded is healthy there."""
        checks = {name: found.ok for name, found in self.checks.items()}
        return HealthCheckResult(HealthStatus.HEALTHY if all(checks.values()) else HealthStatus.UNHEALTHY, checks)

    def to_dict(self) -> dict[str, object]:
        """Return it as it goes over the wire."""
        checks = {
            name: {"ok": found.ok, "degraded": found.degraded, "detail": found.detail}
            for name, found in self.checks.items()
        }
        return {"status": self.status, "checks": checks}
