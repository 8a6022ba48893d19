"""Transports for httpx and httpx2 that try again, wait as the server asks, and leave cooling hosts alone.

They wrap whatever transport a client has, so no call site changes. A request that succeeds at once passes through with
a look at its status; everything else is decided by the policy, as in every other loop of Outlast.
"""

import contextlib
import threading
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from outlast import backends, clock
from outlast.errors import ConfigError
from outlast.http.course import FAILING, Course
from outlast.http.library import Library, library_of
from outlast.http.settings import IDEMPOTENT, Settings

__all__ = ["AsyncRetryTransport", "RetryTransport"]

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from outlast.decide.policy import RetryPolicy
    from outlast.http.scopes import Scope
    from outlast.run.cooling import Cooling

    _Base: Any
else:
    _Base = object


class _Transport(_Base):  # type: ignore[misc]  # it stands in for the base class of either library
    """What both transports share."""

    _default = ""

    def __init__(  # noqa: PLR0913  # its settings
        self,
        transport: Any = None,
        *,
        policy: "RetryPolicy | None" = None,
        cooling: Any = None,
        scope: "str | Scope" = "host",
        patience: "float | timedelta | None" = None,
        methods: Iterable[str] = IDEMPOTENT,
        keys: bool = False,
        max_body: int | None = None,
        raises: bool = True,
    ) -> None:
        """Wrap a transport."""
        self.wrapped = transport
        self.settings = Settings(
            policy,
            cooling=cooling,
            scope=scope,
            patience=patience,
            methods=methods,
            keys=keys,
            max_body=max_body,
            raises=raises,
        )
        self._making = threading.Lock()
        self._made_of: Library | None = None

    def _begun(self, request: Any) -> tuple[Library, Any, Course]:
        """Make a request ready to be sent more than once."""
        library, inner = library_of(request), self.wrapped
        if inner is None:  # which library it is, the first request tells
            with self._making:
                if self.wrapped is None:
                    self.wrapped = getattr(library.module, self._default)()
                    self._made_of = library
                inner = self.wrapped
        if self._made_of is not None and self._made_of is not library:
            names = self._made_of.module.__name__, library.module.__name__
            message = f"this transport has sent requests of {names[0]}; make another one for {names[1]}"
            raise ConfigError(message)
        library.prepare(request, self.settings)
        settings = self.settings
        by_host = settings.by_host
        scope = library.host(request) if by_host else settings.scope(str(request.url), request.headers)
        return library, inner, Course(settings, library, request, scope)


class RetryTransport(_Transport):
    """A transport for ``httpx.Client`` or ``httpx2.Client``: ``Client(transport=RetryTransport(policy=…))``.

    An answer that is given up after all is raised as the library's ``HTTPStatusError``, with its attempts as notes and
    the beginning of its body to be read; one that no policy would retry, such as a 404, is returned. Redirects and the
    steps of an authentication are requests of their own, each with the policy's attempts.

    What a client says about connections (``verify``, ``http2``, ``limits``, proxies) is for its own transport; with
    this one it is said to the wrapped: ``RetryTransport(httpx.HTTPTransport(http2=True))``.

    Args:
        transport: What sends; by default the library's own ``HTTPTransport()``.
        policy: Attempts and waits; these and the others are described in `Settings`.
        cooling: Where cooldowns are kept: an `App`, its `cooling`, or None for this transport alone.
        scope: What cools down: ``host``, ``url``, ``credential``, or a function of URL and headers.
        patience: Seconds that a request may wait for a cooldown or a server's hint.
        methods: Methods that are sent again.
        keys: Whether requests of other methods get an ``Idempotency-Key``.
        max_body: Bytes that an answer may have.
        raises: Whether an answer that is given up is raised; otherwise it is returned.
    """

    _default = "HTTPTransport"

    def handle_request(self, request: Any) -> Any:
        """Send a request, and send it again where the policy says so."""
        library, inner, course = self._begun(request)
        given = request.extensions
        try:
            while True:
                course.wait()
                library.limit(request, given, course.begin())
                try:
                    course.enter()
                    response = inner.handle_request(request)
                    judged = None
                    if response.status_code >= FAILING:
                        judged = library.look(request, response, course.looking())
                except Exception as error:  # the policy decides
                    delay = course.failed(error)
                    if delay is None:
                        raise
                except BaseException:
                    course.cancelled()
                    raise
                else:
                    if judged is None:
                        course.succeeded()
                        return self._answer(library, request, response)
                    delay = course.turned_away(response, judged)
                    if delay is None:
                        return self._answer(library, request, response)
                if delay > 0:
                    clock.sleep(delay)
        finally:
            request.extensions = given  # a redirect takes them over, and has its own time
            course.ended()

    def close(self) -> None:
        """Close what was wrapped."""
        if self.wrapped is not None:
            self.wrapped.close()

    def __enter__(self) -> "Self":
        """Open what was wrapped; a default one is opened by its first request."""
        if self.wrapped is not None:
            self.wrapped.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Close what was wrapped."""
        if self.wrapped is not None:
            self.wrapped.__exit__(*error)

    def _answer(self, library: Library, request: Any, response: Any) -> Any:
        if self.settings.max_body is not None:
            try:
                library.cap(request, response, self.settings.max_body)
            except BaseException:
                response.close()
                raise
        return response


class _Asking:
    """A question to the cooldowns in a thread, which goes on if nobody waits for its answer any more."""

    def __init__(self, cooling: "Cooling", scope: str) -> None:
        self._cooling, self._scope = cooling, scope
        self._lock = threading.Lock()
        self._left_alone = self._admitted = False

    def ask(self) -> float:
        left = self._cooling.admit(self._scope)
        with self._lock:
            self._admitted = left <= 0 and self._cooling.is_probing(self._scope)
            if self._admitted and self._left_alone:
                self._cooling.withdrawn(self._scope)
        return left

    def leave(self) -> None:
        """Give a probe back that nobody makes."""
        with self._lock:
            self._left_alone = True
            if self._admitted:
                self._cooling.withdrawn(self._scope)


class AsyncRetryTransport(_Transport):
    """The same for ``httpx.AsyncClient`` and ``httpx2.AsyncClient``, under asyncio and trio.

    An attempt is cancelled when its time is over, which a sync one cannot be. The settings are those of
    `RetryTransport`; by default it wraps the library's own ``AsyncHTTPTransport()``.
    """

    _default = "AsyncHTTPTransport"

    @cached_property
    def _sending(self) -> Any:
        from outlast.http.sending import Sending  # noqa: PLC0415  # brings asyncio along, which only this one needs

        return Sending(self.settings.first_limit)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, and send it again where the policy says so."""
        library, inner, course = self._begun(request)
        given = request.extensions
        try:
            while True:
                await self._wait(course)
                limit = course.begin()
                library.limit(request, given, limit)
                try:
                    course.enter()
                    response = await self._sending.send(limit, library, inner, request)
                    judged = None
                    if response.status_code >= FAILING:
                        judged = await library.look_async(request, response, course.looking())
                except Exception as error:  # the policy decides
                    delay = course.failed(error)
                    if delay is None:
                        raise
                except BaseException:
                    course.cancelled()
                    raise
                else:
                    if judged is None:
                        course.succeeded()
                        return await self._answer(library, request, response)
                    delay = await self._refused(course, response, judged)
                    if delay is None:
                        return await self._answer(library, request, response)
                if delay > 0:
                    await clock.sleep_async(delay)
        finally:
            request.extensions = given  # a redirect takes them over, and has its own time
            course.ended()

    async def aclose(self) -> None:
        """Close what was wrapped."""
        if self.wrapped is not None:
            await self.wrapped.aclose()

    async def __aenter__(self) -> "Self":
        """Open what was wrapped; a default one is opened by its first request."""
        if self.wrapped is not None:
            await self.wrapped.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close what was wrapped."""
        if self.wrapped is not None:
            await self.wrapped.__aexit__(*error)

    async def _wait(self, course: Course) -> None:
        """Wait until the scope may be called."""
        cooling, scope = self.settings.cooling, course.scope
        while (left := cooling.admit(scope) if cooling.is_quick(scope) else await self._admit(scope)) > 0:
            await clock.sleep_async(course.hold(left))
        course.admitted()

    async def _admit(self, scope: str) -> float:
        asking = _Asking(self.settings.cooling, scope)
        try:
            return await backends.in_thread(asking.ask)
        except BaseException:
            asking.leave()
            raise

    async def _refused(self, course: Course, response: Any, judged: Any) -> float | None:
        """Decide on an answer with an error's status: the wait before the next attempt, None to return the answer."""
        try:
            delay, error = course.refused(judged)
        except BaseException:
            await response.aclose()
            raise
        if error is None:
            return None
        with contextlib.suppress(Exception):  # it is thrown away; the connection knows whether it can be used again
            await response.aclose()
        try:
            if delay is None:
                raise error
        finally:
            del error  # an error whose traceback holds this frame would refer to itself
        return delay

    async def _answer(self, library: Library, request: Any, response: Any) -> Any:
        if self.settings.max_body is not None:
            try:
                library.cap(request, response, self.settings.max_body)
            except BaseException:
                await response.aclose()
                raise
        return response
