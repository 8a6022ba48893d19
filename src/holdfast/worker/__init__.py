"""The names by which workers know failure handling: the classifier, the backoffs, the error handler and the worker."""

from holdfast.worker.base import BaseWorker
from holdfast.worker.classifying import ErrorClassifier
from holdfast.worker.handler import ErrorHandler, HandledError
from holdfast.worker.strategies import ExponentialBackoffStrategy, LinearBackoffStrategy, RetryStrategyProtocol
from holdfast.worker.task import WorkerTask

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
