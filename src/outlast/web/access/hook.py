"""Access to a mounted dashboard: a function of the surrounding site decides who may do what."""

import asyncio
import inspect
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio.to_thread
from starlette.requests import Request
from starlette.types import Scope

from outlast.web.access.callers import Caller, Role

Hook = Callable[[Any], "str | Awaitable[str | None] | None"]
"""Takes a Starlette request; returns ``operator``, ``reader``, or None to deny access.

A coroutine function is awaited. Any other function is called in a thread, so that it may block."""
RECHECK_SECONDS = 30.0
"""Seconds between two access checks of an open stream, and the timeout of such a check."""
_THREADS = 8
log = logging.getLogger("outlast.web")


class HookAccess:
    """Access decided by a hook of the surrounding site.

    Args:
        hook: The hook; None denies access to everyone.
    """

    def __init__(self, hook: Hook | None) -> None:
        self._hook = hook
        self._limiter = anyio.CapacityLimiter(_THREADS)  # a hook that hangs takes no thread from the surrounding site

    async def caller(self, scope: Scope) -> Caller | None:
        """Return the caller with the role that the hook returns. If it fails or returns no role, access is denied."""
        role = await self._role(scope)
        if role is None:
            return None
        return Caller(role, str(role), _StillAllowed(self, scope, role))

    async def _role(self, scope: Scope) -> Role | None:
        if self._hook is None:
            return None
        try:
            role: object = await self._ask_hook(self._hook, Request(scope))
        except Exception as error:  # noqa: BLE001  # the hook is not our code
            from outlast.classify import classify  # noqa: PLC0415  # only for errors

            log.error("auth= of the dashboard failed, access is denied: %s", classify(error))  # noqa: TRY400  # a traceback may hold secrets
            return None
        if role is None:
            return None
        if isinstance(role, str) and role in set(Role):
            return Role(role)
        log.error("auth= of the dashboard must return 'operator', 'reader' or None, not a %s", type(role).__name__)
        return None

    async def _ask_hook(self, hook: Hook, request: Request) -> object:
        if inspect.iscoroutinefunction(hook):
            return await cast("Awaitable[object]", hook(request))
        role: object = await anyio.to_thread.run_sync(hook, request, abandon_on_cancel=True, limiter=self._limiter)
        return await role if inspect.isawaitable(role) else role


class _StillAllowed:
    """Returns whether a caller still has access. The hook is called again from time to time, in the background."""

    def __init__(self, access: HookAccess, scope: Scope, role: Role) -> None:
        self._access, self._scope, self._role = access, scope, role
        self._allowed, self._asking = True, False
        self._next: float | None = None

    def __call__(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.time() + RECHECK_SECONDS
        elif not self._asking and loop.time() >= self._next:
            self._asking = True
            self._task = loop.create_task(self._recheck())
        return self._allowed and not _is_stopping()

    async def _recheck(self) -> None:
        try:
            async with asyncio.timeout(RECHECK_SECONDS):
                self._allowed = await self._access._role(self._scope) == self._role  # noqa: SLF001  # of the same file
        except TimeoutError:
            log.warning("auth= of the dashboard did not return within %g s, a stream is closed", RECHECK_SECONDS)
            self._allowed = False
        self._next, self._asking = asyncio.get_running_loop().time() + RECHECK_SECONDS, False


def _is_stopping() -> bool:
    """Return whether the surrounding uvicorn is shutting down.

    It waits for all responses without notifying the app, so an open stream would delay it for minutes. Its signal
    handler leads to the server object. Other servers are not detected.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
