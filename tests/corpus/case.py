"""What a case of the labelled corpus is, and the world it is produced in.

A case names an error that really happens, the function that makes it happen, and the verdict a person would give. Labels
come from meaning (DESIGN's table of categories), never from what the classifier happens to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from outlast import Category, Evidence, Origin


@dataclass(frozen=True)
class Case:
    """One labelled error.

    Attributes:
        id: ``library/fault``, unique in the corpus.
        produce: Makes the fault happen and returns the error that the library raised (or an Evidence).
        category: The right category.
        retryable: Whether trying again may help.
        retry_after: Seconds the other side asked for.
        capped: Whether it asked for more than the cap.
        http_status: Status the failure has to carry, where there is one.
        code: Code the failure has to carry, where there is one.
        origin: What was talked to; None where it does not matter.
        needs: Server that the case needs ("postgres", "s3", "redis", …); cases of one server run in one process.
        constructed: True where no real fault can be made here and the error is built by hand.
    """

    id: str
    produce: Callable[[World], BaseException | Evidence]
    category: Category
    retryable: bool
    retry_after: float | None = None
    capped: bool = False
    http_status: int | None = None
    code: str | None = None
    origin: Origin | None = None
    needs: str = ""
    constructed: bool = False


class World:
    """The servers that cases talk to, each started when the first case asks for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stops: list[Callable[[], object]] = []

    def close(self) -> None:
        for stop in reversed(self._stops):
            stop()

    @cached_property
    def faults(self) -> Any:
        from servers.faults import FaultServer

        return self._started(FaultServer())

    @cached_property
    def postgres(self) -> Any:
        from servers.postgres import PostgresServer

        return self._started(PostgresServer(self.folder / "postgres"))

    @cached_property
    def s3(self) -> Any:
        from servers.s3 import S3Server

        return self._started(S3Server())

    @cached_property
    def rpc(self) -> Any:
        from servers.rpc import RpcServer

        return self._started(RpcServer())

    @cached_property
    def http2(self) -> Any:
        from servers.http2 import Http2Server

        return self._started(Http2Server())

    @cached_property
    def redis(self) -> Any:
        from servers.redis import RedisServer

        return self._started(RedisServer())

    @cached_property
    def redis_cluster(self) -> Any:
        from servers.redis import RedisServer

        return self._started(RedisServer(cluster=True))

    def _started(self, server: Any) -> Any:
        server.start()
        self._stops.append(server.stop)
        return server


def caught(function: Callable[..., object], *args: Any, **kwargs: Any) -> BaseException:
    """Return the error that a call raises; a call that succeeds is a mistake in the case."""
    try:
        function(*args, **kwargs)
    except BaseException as error:
        return error
    message = f"{function} raised nothing"
    raise AssertionError(message)


def caught_async(make: Callable[[], Any]) -> BaseException:
    """Return the error that a coroutine raises; `make` creates it."""
    import asyncio

    async def run() -> BaseException:
        try:
            await make()
        except Exception as error:
            return error
        message = f"{make} raised nothing"
        raise AssertionError(message)

    return asyncio.run(run())
