"""py-amqp, pika, kombu and Celery: against a broker that closes with every reply code, and by their own classes."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from corpus.case import Case, World, caught
from outlast import Category as C
from outlast import Origin
from servers.amqp_stub import broker
from servers.wire import talking, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable

RETRIED = {C.NETWORK, C.API_TEMPORARY, C.SYSTEM}

# Reply code, text, when the broker closes, category.
REPLIES: dict[str, tuple[int, str, str, C]] = {
    "311 content too large": (311, "CONTENT_TOO_LARGE - message is 99 MB", "channel", C.INVALID_PARAMETERS),
    "313 no consumers": (313, "NO_CONSUMERS", "channel", C.API_TEMPORARY),
    "320 broker shuts down": (320, "CONNECTION_FORCED - broker forced connection closure", "command", C.API_TEMPORARY),
    "402 invalid path": (402, "INVALID_PATH - no such virtual host", "open", C.CONFIGURATION),
    "403 login refused": (403, "ACCESS_REFUSED - Login was refused using PLAIN", "login", C.AUTHENTICATION),
    "403 no right to the queue": (403, "ACCESS_REFUSED - access to queue 'q' refused", "channel", C.AUTHENTICATION),
    "404 no queue": (404, "NOT_FOUND - no queue 'q' in vhost '/'", "channel", C.NOT_FOUND),
    "405 exclusive elsewhere": (405, "RESOURCE_LOCKED - cannot obtain exclusive access", "channel", C.API_TEMPORARY),
    "406 declared otherwise": (406, "PRECONDITION_FAILED - inequivalent arg", "channel", C.INVALID_PARAMETERS),
    "501 frame error": (501, "FRAME_ERROR - malformed frame", "command", C.DATA),
    "503 command invalid": (503, "COMMAND_INVALID - unimplemented method", "command", C.INVALID_PARAMETERS),
    "504 channel error": (504, "CHANNEL_ERROR - expected 'channel.open'", "command", C.INVALID_PARAMETERS),
    "506 out of resources": (506, "RESOURCE_ERROR - free disk space too low", "command", C.API_TEMPORARY),
    "530 vhost not found": (530, "NOT_ALLOWED - vhost nothing not found", "open", C.CONFIGURATION),
    "530 no right to the vhost": (
        530, "NOT_ALLOWED - access to vhost 'x' refused for user 'guest'", "open", C.AUTHENTICATION,
    ),
    "530 too many connections": (
        530, "NOT_ALLOWED - access to vhost 'x' refused for user 'u': connection limit (9) is reached", "open",
        C.API_TEMPORARY,
    ),
    "540 not implemented": (540, "NOT_IMPLEMENTED - immediate=true", "command", C.CONFIGURATION),
    "541 internal error": (541, "INTERNAL_ERROR", "command", C.API_TEMPORARY),
}  # fmt: skip


def by_amqp(address: tuple[str, int]) -> None:
    import amqp

    with amqp.Connection("{}:{}".format(*address), connect_timeout=2, read_timeout=2) as connection:
        connection.channel().queue_declare("q", passive=True)


def by_pika(address: tuple[str, int], use: Callable[[Any], object] | None = None, **options: Any) -> None:
    import pika

    settings = {"socket_timeout": 2, "stack_timeout": 2, "blocked_connection_timeout": 2, **options}
    with pika.BlockingConnection(pika.ConnectionParameters(*address, **settings)) as connection:
        channel = connection.channel()
        use(channel) if use else channel.queue_declare("q", passive=True)


def by_kombu(address: tuple[str, int]) -> None:
    connection = _kombu(address)
    try:
        connection.default_channel.queue_declare("q", passive=True)
    finally:
        connection.release()


def _kombu(address: tuple[str, int], timeout: float = 2) -> Any:
    import kombu

    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
    return kombu.Connection("amqp://{}:{}//".format(*address), connect_timeout=timeout, transport_options=once)


def refusing(world: World) -> tuple[str, int]:
    host, _, port = world.faults.refused_url.removeprefix("http://").rstrip("/").partition(":")
    return host, int(port)


def answered(client: Callable[[tuple[str, int]], None], code: int, text: str, at: str, _: World) -> BaseException:
    with talking(broker(code, text, at=at)) as address:
        return caught(client, address)


def pika_silent(_: World) -> BaseException:
    with talking(lambda incoming, _: wait_for_end(incoming)) as address:
        return caught(by_pika, address, stack_timeout=0.1)


def pika_misuse(use: Callable[[Any], object], _: World) -> BaseException:
    with talking(broker(404, "NOT_FOUND - no queue 'q'", at="channel")) as address:
        return caught(by_pika, address, use)


def _use_closed(channel: Any) -> None:
    channel.close()
    channel.basic_publish("", "q", b"1")


def silent(_: World) -> BaseException:
    with talking(lambda incoming, _: wait_for_end(incoming)) as address:
        return caught(lambda: _kombu(address, timeout=0.05).default_channel)


def undecodable(body: Any, kind: str, _: World) -> BaseException:
    from kombu.serialization import loads

    return caught(loads, body, kind, "utf-8", accept={"application/json"})


def unencodable(_: World) -> BaseException:
    from kombu.serialization import dumps

    return caught(dumps, {1: object()}, "json")


@cache
def by_celery() -> Any:
    """Return an app whose broker and backend live in memory, with a task that nobody runs."""
    from celery import Celery

    app = Celery("corpus", broker="memory://", backend="cache+memory://", set_as_current=False)

    @app.task(name="corpus.idle")
    def idle() -> None:
        pass

    return app, idle


def celery_fault(fault: Callable[[Any, Any], object], _: World) -> BaseException:
    app, task = by_celery()
    return caught(fault, app, task)


def celery_class(name: str, *args: Any, **fields: Any) -> Callable[[World], BaseException]:
    def build(_: World) -> BaseException:
        import celery.exceptions

        error: BaseException = getattr(celery.exceptions, name)(*args, **fields)
        return error

    return build


def store_failed(_: World) -> BaseException:
    """The result backend's server is gone: what Celery raises when its own retries are used up."""
    from celery.exceptions import BackendStoreError

    def store() -> None:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as error:
            raise BackendStoreError("failed to store result on the backend", task_id="1", state="SUCCESS") from error

    return caught(store)


def _real(name: str, make: Callable[[World], BaseException], category: C, **fields: Any) -> Case:
    return Case(name, make, category, category in RETRIED, **fields)


_CELERY: dict[str, tuple[Callable[[Any, Any], object], C, float | None]] = {
    "result not there in time": (lambda app, task: task.delay().get(timeout=0.02), C.NETWORK, None),
    "to be retried": (lambda app, task: task.retry(countdown=7), C.API_TEMPORARY, None),
    "task not registered": (lambda app, task: app.tasks["corpus.nothing"], C.CONFIGURATION, None),
    "queue not configured": (
        lambda app, task: _strict().send_task("x", queue="nothing"),
        C.CONFIGURATION, None,
    ),
}  # fmt: skip


def _strict() -> Any:
    from celery import Celery

    return Celery("strict", broker="memory://", task_create_missing_queues=False, set_as_current=False)


_BUILT: dict[str, tuple[Callable[[World], BaseException], C, float | None]] = {
    "Retry with when": (celery_class("Retry", "later", when=30), C.API_TEMPORARY, 30),
    "MaxRetriesExceededError": (celery_class("MaxRetriesExceededError", "Can't retry x[1]"), C.UNKNOWN, None),
    "SoftTimeLimitExceeded": (celery_class("SoftTimeLimitExceeded"), C.NETWORK, None),
    "TimeLimitExceeded": (celery_class("TimeLimitExceeded", 30), C.NETWORK, None),
    "WorkerLostError": (celery_class("WorkerLostError", "Worker exited: signal 9 (SIGKILL)"), C.SYSTEM, None),
    "Terminated": (celery_class("Terminated", 15), C.UNKNOWN, None),
    "Reject": (celery_class("Reject", "poison", requeue=False), C.UNKNOWN, None),
    "Reject and requeue": (celery_class("Reject", "busy", requeue=True), C.API_TEMPORARY, None),
    "Ignore": (celery_class("Ignore"), C.UNKNOWN, None),
    "TaskRevokedError": (celery_class("TaskRevokedError", "revoked"), C.UNKNOWN, None),
    "ImproperlyConfigured": (celery_class("ImproperlyConfigured", "no broker"), C.CONFIGURATION, None),
    "InvalidTaskError": (celery_class("InvalidTaskError", "no args"), C.INVALID_PARAMETERS, None),
    "SecurityError": (celery_class("SecurityError", "signature mismatch"), C.AUTHENTICATION, None),
    "BackendStoreError": (store_failed, C.NETWORK, None),
}

CASES: list[Case] = [
    *(
        _real(
            f"amqp/{name}",
            partial(answered, by_amqp, code, text, at),
            category,
            code=str(code),
            origin=Origin.MESSAGING,
        )
        for name, (code, text, at, category) in REPLIES.items()
    ),
    *(
        _real(
            f"kombu/{name}",
            partial(answered, by_kombu, code, text, at),
            category,
            code=str(code),
            origin=Origin.MESSAGING,
        )
        for name, (code, text, at, category) in REPLIES.items()
        if at != "channel" and code in {320, 403}
    ),
    *(
        _real(
            f"pika/{name}",
            partial(answered, by_pika, code, text, at),
            category,
            code=str(code),
            origin=Origin.MESSAGING,
        )
        for name, (code, text, at, category) in REPLIES.items()
    ),
    _real("pika/hangs up", partial(answered, by_pika, 0, "", "hang up"), C.NETWORK, origin=Origin.MESSAGING),
    _real("pika/refused", lambda world: caught(by_pika, refusing(world)), C.NETWORK, origin=Origin.MESSAGING),
    _real("pika/unresolvable", lambda _: caught(by_pika, ("nothing.invalid", 5672)), C.NETWORK),
    _real("pika/no answer in time", pika_silent, C.NETWORK, origin=Origin.MESSAGING),
    _real("pika/closed channel", partial(pika_misuse, _use_closed), C.NETWORK, origin=Origin.MESSAGING),
    _real(
        "pika/queue name too long",
        partial(pika_misuse, lambda channel: channel.queue_declare("q" * 300)),
        C.INVALID_PARAMETERS,
    ),
    _real("amqp/hangs up", partial(answered, by_amqp, 0, "", "hang up"), C.NETWORK),
    _real("kombu/hangs up", partial(answered, by_kombu, 0, "", "hang up"), C.NETWORK),
    _real("kombu/refused", lambda world: caught(by_kombu, refusing(world)), C.NETWORK, origin=Origin.MESSAGING),
    _real("kombu/no answer in time", silent, C.NETWORK),
    _real("kombu/not JSON", partial(undecodable, b"{no", "application/json"), C.DATA, origin=Origin.MESSAGING),
    _real("kombu/pickle refused", partial(undecodable, b"x", "application/x-python-serialize"), C.CONFIGURATION),
    _real("kombu/cannot encode", unencodable, C.INVALID_PARAMETERS),
    *(
        _real(f"celery/{name}", partial(celery_fault, fault), category, retry_after=wait)
        for name, (fault, category, wait) in _CELERY.items()
    ),
    *(
        _real(f"celery/{name}", make, category, retry_after=wait, constructed=True)
        for name, (make, category, wait) in _BUILT.items()
    ),
]
