"""The names by which workers know failure handling: the classifier, the backoffs, the error handler and the worker."""

from outlast.worker.base import BaseWorker
from outlast.worker.classifying import ErrorClassifier
from outlast.worker.handler import ErrorHandler, HandledError
from outlast.worker.strategies import ExponentialBackoffStrategy, LinearBackoffStrategy, RetryStrategyProtocol
from outlast.worker.task import WorkerTask

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
