"""Celery as the engine: Celery workers run the tasks, Outlast records each failure and decides what happens next.

A program calls only `attach`. Failed tasks wait in the store, not in the broker, and are sent to the broker when they
are due: retries, deferred tasks and replayed dead letters.
"""

try:
    import celery as _celery  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError("outlast.engines.celery needs Celery: pip install 'outlast[celery]'", name=error.name) from error
else:
    del _celery  # only checks that Celery is installed

from outlast.engines.celery.attachment import attach
from outlast.engines.celery.engine import Engine

__all__ = ["Engine", "attach"]
