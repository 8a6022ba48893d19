"""Celery as the engine: its workers run the tasks, Outlast knows of each failure and decides what becomes of it.

`attach` is all that a program calls. What has failed waits in the store, not in the broker, and is sent to the broker
when it is due: retries, tasks that were put off, and dead letters that are replayed.
"""

try:
    import celery as _celery  # type: ignore[import-untyped]
except ImportError as error:
    message = "outlast.engines.celery needs Celery: pip install 'outlast[celery]'"
    raise ImportError(message, name=error.name) from error
else:
    del _celery  # whether it is there is all that was asked

from outlast.engines.celery.attachment import attach
from outlast.engines.celery.engine import Engine

__all__ = ["Engine", "attach"]
