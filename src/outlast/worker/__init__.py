"""A base class for your own workers, with its error handler, error classifier and retry strategies."""

from outlast.worker.base_worker import BaseWorker, WorkerTask
from outlast.worker.error_handler import ErrorClassifier, ErrorHandler, HandledError
from outlast.worker.settings import ExponentialBackoffStrategy, LinearBackoffStrategy, RetryStrategyProtocol

__all__ = [
    "BaseWorker",
    "ErrorClassifier",
    "ErrorHandler",
    "ExponentialBackoffStrategy",
    "HandledError",
    "LinearBackoffStrategy",
    "RetryStrategyProtocol",
    "WorkerTask",
]
