"""``--health-port`` of ``worker`` and ``monitor``: the endpoints that tell whether the process is well."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.health import Finding, HealthChecker, HealthReport
    from outlast.queue.worker import Worker


F = TypeVar("F", bound=Callable[..., Any])

TOKEN_VARIABLE = "OUTLAST_HEALTH_TOKEN"  # noqa: S105  # its name
_LOCAL_HOST = "127.0.0.1"
_MAX_PORT = 65_535
_MAX_LOOP_SECONDS = 30.0  # seconds; a loop that takes longer is stuck
log = logging.getLogger("outlast.health")


class ProcessState(NamedTuple):
    """What tells how a loop is.

    Attributes:
        last_beat: Returns when it last came round, on the monotonic clock.
        is_stopping: Returns whether it was told to stop.
        queues: Whose tasks it runs, where it runs any; None for all.
        checks: Further checks by name.
    """

    last_beat: Callable[[], float]
    is_stopping: Callable[[], bool]
    queues: Sequence[str] | None = None
    checks: "dict[str, Callable[[], bool | Finding]]" = {}  # noqa: RUF012  # never changed


def with_health_options(command: F) -> F:
    """Give a command the options ``--health-port`` and ``--health-host``."""
    port = click.option(
        "--health-port",
        type=click.IntRange(0, _MAX_PORT),
        metavar="PORT",
        help="Answer /health and /ready there, and /metrics with the token; 0 picks a free port, which the log tells.",
    )
    host = click.option(
        "--health-host",
        metavar="HOST",
        default=_LOCAL_HOST,
        show_default=True,
        help=f"Where to listen for that; 0.0.0.0 lets everybody ask. Reasons are told to who shows ${TOKEN_VARIABLE}.",
    )
    return port(host(command))


@contextmanager
def serve_health(app: "App", life: ProcessState, port: int | None, host: str) -> Iterator[None]:
    """Answer ``/health`` and ``/ready`` within the block, and ``/metrics`` with the token; without a port, do nothing.

    Args:
        app: Whose store is looked at.
        life: How the loop is.
        port: Where to listen.
        host: On which address.

    Raises:
        ConfigError: If nobody can listen there, or the token cannot be used.
    """
    if port is None:
        yield
        return
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help
    from outlast.health import HealthServer  # noqa: PLC0415  # only where it is asked for

    token = os.environ.get(TOKEN_VARIABLE)
    with ExitStack() as stack:
        metrics, word = (None, "") if not token else _metrics(app, stack)
        try:
            server = HealthServer(_checker(app, life), port, host, token, metrics)
        except ConfigError as error:
            message = f"{error} ({TOKEN_VARIABLE})" if str(error).startswith("token") else str(error)
            raise ConfigError(message) from None
        stack.enter_context(server)
        shown = f"[{server.host}]" if ":" in server.host else server.host
        log.info(
            "health: http://%s:%d/health and /ready%s",
            shown,
            server.port,
            word,
            extra={"health_host": server.host, "health_port": server.port},
        )
        yield


def _metrics(app: "App", stack: ExitStack) -> "tuple[Callable[[], tuple[bytes, str]] | None, str]":
    """Return what tells the figures while the stack lasts, and a word on them for the log."""
    from outlast.errors import ConfigError  # noqa: PLC0415  # not for --help
    from outlast.observe.prometheus import exposing  # noqa: PLC0415  # only where it is asked for

    try:
        return stack.enter_context(exposing(app)), "; /metrics for who shows the token"
    except ConfigError as error:  # an extra that is not there
        return None, f"; no /metrics: {error}"


def heartbeat_check(app: "App", made: "Worker") -> "Callable[[], Finding]":
    """Return the check that a worker's sign of life reaches the store."""
    from outlast.health import Finding  # noqa: PLC0415  # only where it is asked for

    def check() -> Finding:
        if not made.id:
            return Finding(ok=True, detail="it begins")
        row = next((each for each in app.tasks.workers() if each.id == made.id), None)
        if row is None:
            return Finding(ok=False, detail="the store does not know this worker")
        age = (app.store.now() - row.heartbeat_at).total_seconds()
        return Finding(row.alive, f"last sign of life {age:.1f} s ago, the lease is {made.settings.lease:g} s")

    return check


def _checker(app: "App", life: ProcessState) -> "HealthChecker":
    from outlast import clock  # noqa: PLC0415  # only where it is asked for
    from outlast.health import Finding, HealthChecker  # noqa: PLC0415  # only where it is asked for

    class Checker(HealthChecker):
        """Is not ready from the moment at which the stop begins, whatever was found a second before."""

        def readiness(self, report: "HealthReport") -> "HealthReport":
            if life.is_stopping():
                self.stopping()
            return super().readiness(report)

    def loop() -> Finding:
        age = clock.monotonic() - life.last_beat()
        return Finding(age < _MAX_LOOP_SECONDS, f"last round {age:.1f} s ago, the limit is {_MAX_LOOP_SECONDS:g} s")

    return Checker.for_app(app, queues=life.queues, checks={"loop": loop, **life.checks})
