"""Health checks of a program, and HTTP endpoints for Docker, Kubernetes or a load balancer.

>>> checker = HealthChecker(db=db, scheduler=scheduler)
>>> checker.check().to_dict()
{'status': 'healthy', 'checks': {'database': True, 'scheduler': True}}
"""

from outlast.health.checker import (
    DatabaseProtocol,
    DeadLetterGrowth,
    DiskSpace,
    Finding,
    HealthChecker,
    HealthCheckResult,
    HealthReport,
    HealthStatus,
    Heartbeat,
    OldestReadyTask,
    SchedulerProtocol,
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
