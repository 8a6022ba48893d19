"""`health_handler` by the seed's name, in aiohttp and in Starlette."""

import asyncio
import json
import subprocess
import sys
import types
import warnings

import aiohttp
import pytest
from aiohttp import web
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from outlast.errors import ConfigError
from outlast.health import HealthChecker, health_handler


def checker(well=True):
    return HealthChecker(checks={"database": lambda: well})


async def served(app, path="/health", method="GET"):
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{port}{path}") as response,
        ):
            return response.status, response.headers, await response.read()
    finally:
        await runner.cleanup()


def aiohttp_app(**keys):
    app = web.Application()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # aiohttp prefers keys of its own kind; the seed's is a text
        for key, value in keys.items():
            app[key] = value
    app.router.add_get("/health", health_handler)
    return app


@pytest.mark.parametrize(("well", "status", "word"), [(True, 200, "healthy"), (False, 503, "unhealthy")])
def test_in_aiohttp(well, status, word):
    got, headers, body = asyncio.run(served(aiohttp_app(health_checker=checker(well))))
    assert got == status
    assert json.loads(body) == {"status": word, "checks": {"database": well}}
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Type"].startswith("application/json")


def test_head_in_aiohttp():
    status, _, body = asyncio.run(served(aiohttp_app(health_checker=checker()), method="HEAD"))
    assert (status, body) == (200, b"")


def test_the_checker_of_an_app_around_it_in_aiohttp():
    outer = aiohttp_app(health_checker=checker())
    outer.add_subapp("/inner", aiohttp_app())
    assert asyncio.run(served(outer, "/inner/health"))[0] == 200


def test_an_app_of_aiohttp_without_a_checker(caplog):
    status, _, body = asyncio.run(served(aiohttp_app()))
    assert status == 500
    assert b"health_checker" not in body
    assert 'set app["health_checker"] = HealthChecker' in caplog.text


def in_starlette(path="/health", **state):
    app = Starlette(
        routes=[Route("/health", health_handler), Mount("/inner", routes=[Route("/health", health_handler)])]
    )
    for name, value in state.items():
        setattr(app.state, name, value)
    return TestClient(app).get(path)


@pytest.mark.parametrize(("well", "status", "word"), [(True, 200, "healthy"), (False, 503, "unhealthy")])
def test_in_starlette(well, status, word):
    for path in ("/health", "/inner/health"):
        got = in_starlette(path, health_checker=checker(well))
        assert got.status_code == status
        assert got.json() == {"status": word, "checks": {"database": well}}
        assert got.headers["Cache-Control"] == "no-store"
        assert got.headers["Content-Type"] == "application/json"


def test_head_in_starlette():
    app = Starlette(routes=[Route("/health", health_handler)])
    app.state.health_checker = checker()
    got = TestClient(app).head("/health")
    assert got.status_code == 200


def test_a_class_of_ones_own_above_starlettes():
    class Mine(Request):
        pass

    app = Starlette()
    app.state.health_checker = checker()
    got = asyncio.run(health_handler(Mine({"type": "http", "app": app, "headers": []})))
    assert type(got) is JSONResponse
    assert got.status_code == 200


def test_an_app_of_starlette_without_a_checker():
    with pytest.raises(ConfigError, match=r"set app\.state\.health_checker"):
        in_starlette()
    with pytest.raises(ConfigError, match=r"set app\.state\.health_checker"):
        in_starlette(health_checker="no checker")


def test_a_request_of_another_library():
    with pytest.raises(ConfigError, match=r"aiohttp or Starlette, not types\.SimpleNamespace"):
        asyncio.run(health_handler(types.SimpleNamespace()))


def test_importing_outlast_health_imports_no_web_framework():
    program = (
        "import sys, outlast.health; print(sorted({'aiohttp', 'starlette', 'trio', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
