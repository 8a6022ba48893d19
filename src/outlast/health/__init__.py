"""Whether a program is well: checks, and the endpoints that tell it to Docker, Kubernetes or whoever watches.

>>> checker = HealthChecker(db=db, scheduler=scheduler)
>>> checker.check().to_dict()
{'status': 'healthy', 'checks': {'database': True, 'scheduler': True}}
"""

from outlast.health.checker import HealthChecker, SchedulerProtocol
from outlast.health.checks import (
    DatabaseProtocol,
    DeadLetterGrowth,
    DiskSpace,
    Finding,
    HealthCheckResult,
    HealthReport,
    HealthStatus,
    Heartbeat,
    OldestReadyTask,
)
from outlast.health.endpoints import health_app, health_handler
from outlast.health.server import HealthServer

__all__ = [
    "DatabaseProtocol",
    "DeadLetterGrowth",
    "DiskSpace",
    "Finding",
    "HealthCheckResult",
    "HealthChecker",
    "HealthReport",
    "HealthServer",
    "HealthStatus",
    "Heartbeat",
    "OldestReadyTask",
    "SchedulerProtocol",
    "health_app",
    "health_handler",
]
