"""Whether a program is well: checks, and the endpoints that tell it to Docker, Kubernetes or whoever watches.

>>> checker = HealthChecker(db=db, scheduler=scheduler)
>>> checker.check().to_dict()
{'status': 'healthy', 'checks': {'database': True, 'scheduler': True}}
"""

from holdfast.health.asgi import health_app
from holdfast.health.checker import HealthChecker, SchedulerProtocol
from holdfast.health.checks import DeadLetterGrowth, DiskSpace, Heartbeat, OldestReadyTask
from holdfast.health.database import DatabaseProtocol
from holdfast.health.findings import Finding, HealthCheckResult, HealthReport, HealthStatus
from holdfast.health.handler import health_handler
from holdfast.health.server import HealthServer

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
