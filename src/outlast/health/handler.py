"""The handler for aiohttp and Starlette by its well-known name; neither is imported unless its request comes in."""

from importlib import import_module
from typing import Any

from outlast.errors import ConfigError
from outlast.health.checker import HealthChecker

__all__ = ["health_handler"]

_KEY = "health_checker"
_HEADERS = {"Cache-Control": "no-store"}


async def health_handler(request: Any) -> Any:
    """Answer a request for the health: 200 or 503, with what everybody may know.

    Args:
        request: Of aiohttp, whose app has the checker as ``app["health_checker"]``; or of Starlette or FastAPI, whose
            app has it as ``app.state.health_checker``.

    Returns:
        A response of the same library.

    Raises:
        ConfigError: If the app has no checker, or the request is of another library.
    """
    library = _library_of(request)
    checker = _of_aiohttp(request) if library == "aiohttp" else _of_starlette(request)
    if not isinstance(checker, HealthChecker):
        where = f'app["{_KEY}"]' if library == "aiohttp" else f"app.state.{_KEY}"
        message = f"the app has no health checker; set {where} = HealthChecker(…)"
        raise ConfigError(message)
    result = (await checker.report_async()).result
    status = 200 if all(result.checks.values()) else 503
    if library == "aiohttp":
        return import_module("aiohttp.web").json_response(result.to_dict(), status=status, headers=_HEADERS)
    responses = import_module("starlette.responses")
    return responses.JSONResponse(result.to_dict(), status_code=status, headers=_HEADERS)


def _library_of(request: object) -> str:
    for kind in type(request).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in {"aiohttp", "starlette"}:
            return library
    kind = type(request)
    message = f"health_handler takes a request of aiohttp or Starlette, not {kind.__module__}.{kind.__qualname__}"
    raise ConfigError(message)


def _of_aiohttp(request: Any) -> object:
    own = request.app.get(_KEY)
    return request.config_dict.get(_KEY) if own is None else own  # those of the apps around it


def _of_starlette(request: Any) -> object:
    return getattr(request.app.state, _KEY, None)
