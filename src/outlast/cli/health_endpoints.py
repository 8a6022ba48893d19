"""``--health-port`` of ``worker`` and ``monitor``: HTTP endpoints for health, readiness and metrics."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from outlast import clock
from outlast.cli.app_options import F, option
from outlast.errors import ConfigError

if TYPE_CHECKING:
    from outlast.app import App
    from outlast.health import Finding, HealthChecker, HealthReport
    from outlast.queue.worker import Worker


TOKEN_VARIABLE = "OUTLAST_HEALTH_TOKEN"  # noqa: S105  # the name of the variable
_LOCAL_HOST = "127.0.0.1"
_MAX_PORT = 65_535
_MAX_LOOP_SECONDS = 30.0  # a loop that takes longer is stuck
log = logging.getLogger("outlast.health")


class ProcessState(NamedTuple):
    """The state of a worker's or monitor's loop.

    Attributes:
        last_beat: Returns the time of the last iteration, on the monotonic clock.
        is_stopping: Returns whether the process is stopping.
        queues: The queues whose tasks it runs; None for all.
        checks: More checks by name.
    """

    last_beat: Callable[[], float]
    is_stopping: Callable[[], bool]
    queues: Sequence[str] | None = None
    checks: "dict[str, Callable[[], bool | Finding]]" = {}  # noqa: RUF012  # never changed


def with_health_options(command: F) -> F:
    """Add the options ``--health-port`` and ``--health-host`` to a command."""
    port = option(
        "--health-port",
        "PORT",
        "Serve /health and /ready on this port, and /metrics with a token; 0 picks a free port and logs it.",
        type=click.IntRange(0, _MAX_PORT),
    )
    host = option(
        "--health-host",
        "HOST",
        f"Address to listen on; 0.0.0.0 allows everybody. Reasons are shown to requests with ${TOKEN_VARIABLE}.",
        default=_LOCAL_HOST,
    )
    return port(host(command))


@contextmanager
def serve_health(app: "App", state: ProcessState, health_port: int | None, health_host: str) -> Iterator[None]:
    """Serve ``/health`` and ``/ready`` within the block, and ``/metrics`` with the token; without a port, do nothing.

    Args:
        app: The app whose store is checked.
        state: The state of the loop.
        health_port: Port to listen on, or None.
        health_host: Address to listen on.

    Raises:
        ConfigError: If the server cannot listen there, or the token cannot be used.
    """
    if health_port is None:
        yield
        return
    from outlast.health import HealthServer  # noqa: PLC0415  # only with --health-port

    token = os.environ.get(TOKEN_VARIABLE)
    with ExitStack() as stack:
        metrics, note = (None, "") if not token else _metrics(app, stack)
        try:
            server = HealthServer(_checker(app, state), health_port, health_host, token, metrics)
        except ConfigError as error:
            raise ConfigError(f"{error} ({TOKEN_VARIABLE})" if str(error).startswith("token") else str(error)) from None
        stack.enter_context(server)
        shown = f"[{server.host}]" if ":" in server.host else server.host
        log.info(
            "health: http://%s:%d/health and /ready%s",
            shown,
            server.port,
            note,
            extra={"health_host": server.host, "health_port": server.port},
        )
        yield


def _metrics(app: "App", stack: ExitStack) -> "tuple[Callable[[], tuple[bytes, str]] | None, str]":
    """Return the function that renders the metrics until the stack closes, and a note for the log."""
    from outlast.observe.prometheus import exposing  # noqa: PLC0415  # only with --health-port

    try:
        return stack.enter_context(exposing(app)), "; /metrics with the token"
    except ConfigError as error:  # the extra is not installed
        return None, f"; no /metrics: {error}"


def heartbeat_check(app: "App", worker: "Worker") -> "Callable[[], Finding]":
    """Return the check that a worker's heartbeat reaches the store."""
    from outlast.health import Finding  # noqa: PLC0415  # only with --health-port

    def check() -> Finding:
        if not worker.id:
            return Finding(ok=True, detail="starting")
        row = next((each for each in app.tasks.workers() if each.id == worker.id), None)
        if row is None:
            return Finding(ok=False, detail="the store does not know this worker")
        age = (app.store.now() - row.heartbeat_at).total_seconds()
        return Finding(row.alive, f"last heartbeat {age:.1f} s ago, the lease is {worker.settings.lease:g} s")

    return check


def _checker(app: "App", state: ProcessState) -> "HealthChecker":
    from outlast.health import Finding, HealthChecker  # noqa: PLC0415  # only with --health-port

    class Checker(HealthChecker):
        """Not ready as soon as the process is stopping, even if a cached result says otherwise."""

        def readiness(self, report: "HealthReport") -> "HealthReport":
            if state.is_stopping():
                self.stopping()
            return super().readiness(report)

    def loop() -> Finding:
        age = clock.monotonic() - state.last_beat()
        return Finding(age < _MAX_LOOP_SECONDS, f"last iteration {age:.1f} s ago, the limit is {_MAX_LOOP_SECONDS:g} s")

    return Checker.for_app(app, queues=state.queues, checks={"loop": loop, **state.checks})
