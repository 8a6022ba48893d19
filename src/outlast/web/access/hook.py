"""Access where the dashboard is mounted in somebody's own site: that site says who may do what. Without it, nobody."""

import asyncio
import inspect
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread
from starlette.requests import Request

from outlast.web.access.callers import Caller, Role

if TYPE_CHECKING:
    from starlette.types import Scope


Hook = Callable[[Any], "str | Awaitable[str | None] | None"]
"""Takes the request of Starlette; returns ``operator``, ``reader``, or None for nobody.

A coroutine function is awaited. Any other is called in a thread: it may look into a database, and the site goes on."""
RECHECK_SECONDS = 30.0
"""Seconds after which a stream is asked about again, and after which no answer to that is a no."""
_THREADS = 8
log = logging.getLogger("outlast.web")


class HookAccess:
    """Asks the site around the dashboard.

    Args:
        hook: What to ask; None lets nobody in.
    """

    def __init__(self, hook: Hook | None) -> None:
        """Keep the hook."""
        self._hook = hook
        self._limiter = anyio.CapacityLimiter(_THREADS)  # one that hangs takes no thread from the site around us

    async def caller(self, scope: "Scope") -> Caller | None:
        """Return who asks, as the hook says. One that fails lets nobody in, and so does a word that is no role."""
        role = await self._role(scope)
        if role is None:
            return None
        return Caller(role, str(role), _StillAllowed(self, scope, role))

    async def _role(self, scope: "Scope") -> Role | None:
        if self._hook is None:
            return None
        try:
            said: object = await self._said(self._hook, Request(scope))
        except Exception as error:  # noqa: BLE001  # the hook is a foreign one
            from outlast.classify import classify  # noqa: PLC0415  # only trouble needs it

            log.error("auth= of the dashboard failed, nobody is let in: %s", classify(error))  # noqa: TRY400  # a traceback may hold secrets
            return None
        if said is None:
            return None
        if isinstance(said, str) and said in set(Role):
            return Role(said)
        log.error(
            "auth= of the dashboard returned neither 'operator', 'reader' nor None, but a %s", type(said).__name__
        )
        return None

    async def _said(self, hook: Hook, request: Request) -> object:
        if inspect.iscoroutinefunction(hook):
            return await cast("Awaitable[object]", hook(request))
        said: object = await anyio.to_thread.run_sync(hook, request, abandon_on_cancel=True, limiter=self._limiter)
        return await said if inspect.isawaitable(said) else said


class _StillAllowed:
    """Whether a caller still may; the hook is asked again from time to time, aside from whoever wants to know."""

    def __init__(self, access: HookAccess, scope: "Scope", role: Role) -> None:
        self._access, self._scope, self._role = access, scope, role
        self._allowed, self._asking = True, False
        self._next: float | None = None

    def __call__(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.time() + RECHECK_SECONDS
        elif not self._asking and loop.time() >= self._next:
            self._asking = True
            self._task = loop.create_task(self._ask())
        return self._allowed and not _is_stopping()

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(RECHECK_SECONDS):
                self._allowed = await self._access._role(self._scope) == self._role  # noqa: SLF001  # of the same file
        except TimeoutError:
            log.warning("auth= of the dashboard did not answer within %g s, a stream is ended", RECHECK_SECONDS)
            self._allowed = False
        self._next, self._asking = asyncio.get_running_loop().time() + RECHECK_SECONDS, False


def _is_stopping() -> bool:
    """Tell whether the uvicorn around us was told to stop.

    It waits until all answers are complete, and says so to nobody; a stream would keep it for minutes. It can be found
    by its handler of the signal. Of other servers nothing is known.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
