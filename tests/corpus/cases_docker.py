"""The Docker SDK: its real client against answers of the daemon, which says 500 for whatever a registry refused."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from corpus.case import Case, World, caught
from outlast import RETRYABLE, Origin
from outlast import Category as C
from servers.s3_stub import answering

# Status, the daemon's message, category.
ANSWERS: dict[str, tuple[int, str, C]] = {
    "pull limit": (500, "toomanyrequests: You have reached your pull rate limit.", C.RATE_LIMIT),
    "429": (429, "toomanyrequests: You have reached your unauthenticated pull rate limit.", C.RATE_LIMIT),
    "not logged in": (500, "unauthorized: authentication required", C.AUTHENTICATION),
    "no rights": (500, "denied: requested access to the resource is denied", C.AUTHENTICATION),
    "wrong password": (401, "unauthorized: incorrect username or password", C.AUTHENTICATION),
    "no such image": (404, "pull access denied for acme/etl, repository does not exist", C.NOT_FOUND),
    "no such container": (404, "No such container: etl", C.NOT_FOUND),
    "name in use": (409, 'Conflict. The container name "/etl" is already in use', C.INVALID_PARAMETERS),
    "bad reference": (400, "invalid reference format", C.INVALID_PARAMETERS),
    "registry not resolved": (
        500, 'Get "https://registry.test/v2/": dial tcp: lookup registry.test: no such host', C.NETWORK,
    ),
    "registry too slow": (500, 'Get "https://registry.test/v2/": net/http: TLS handshake timeout', C.NETWORK),
    "disk full": (500, "write /var/lib/docker/tmp/blob: no space left on device", C.SYSTEM),
    "port taken": (500, "Bind for 0.0.0.0:80 failed: port is already allocated", C.CONFIGURATION),
    "500": (500, "something went wrong", C.API_TEMPORARY),
    "503": (503, "This node is not a swarm manager yet", C.API_TEMPORARY),
}  # fmt: skip


def _client(url: str, **options: Any) -> Any:
    import docker

    return docker.DockerClient(
        base_url=url.replace("http://", "tcp://"), **{"version": "1.44", "timeout": 2, **options}
    )


def pull(status: int, message: str, _: World) -> BaseException:
    with answering(status, json.dumps({"message": message}).encode(), {"Content-Type": "application/json"}) as url:
        return caught(_client(url).images.pull, "acme/etl", tag="1")


def no_daemon(world: World) -> BaseException:
    return caught(_client, world.faults.refused_url, version="auto")


def daemon_away(world: World) -> BaseException:
    return caught(_client(world.faults.refused_url).ping)


def old_version(_: World) -> BaseException:
    return caught(_client, "http://127.0.0.1:1", version="1.10")


def null_resource(_: World) -> BaseException:
    return caught(_client("http://127.0.0.1:1").containers.get, "")


CASES: list[Case] = [
    *(
        Case(
            f"docker/{name}",
            partial(pull, status, message),
            category,
            category in RETRYABLE,
            http_status=status,
            origin=Origin.HTTP,
        )
        for name, (status, message, category) in ANSWERS.items()
    ),
    Case("docker/no daemon", no_daemon, C.NETWORK, True),
    Case("docker/daemon away", daemon_away, C.NETWORK, True),
    Case("docker/version too old", old_version, C.CONFIGURATION, False),
    Case("docker/no name", null_resource, C.INVALID_PARAMETERS, False, origin=Origin.HTTP),
]
