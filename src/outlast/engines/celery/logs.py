"""Where the engine says what it does; failed attempts are told of as a worker of ours tells of them."""

import logging

__all__ = ["log"]

log = logging.getLogger("outlast.celery")
