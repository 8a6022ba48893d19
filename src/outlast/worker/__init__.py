"""The names by which workers know failure handling: the classifier, the backoffs, the error handler and the worker."""

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
