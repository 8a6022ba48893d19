"""Errors of Elasticsearch and OpenSearch as their clients raise them, from a server on loopback that answers as they do."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from corpus.case import Case, World, caught, caught_async
from outlast import Category as C
from outlast import Origin
from servers.s3_stub import answering

if TYPE_CHECKING:
    from collections.abc import Callable

HEADERS = {"Content-Type": "application/json", "X-Elastic-Product": "Elasticsearch"}
OPTIONS: dict[str, Any] = {"max_retries": 0, "request_timeout": 5}


def get(client: Any) -> object:
    return client.get(index="orders", id="7")


def index(client: Any) -> object:
    return client.index(index="orders", id="7", document={"name": "a"})


def bulk(client: Any) -> object:
    from elasticsearch import helpers

    return helpers.bulk(client, [{"_index": "orders", "_id": str(number), "name": "a"} for number in range(2)])


def refusal(kind: str, reason: str, *, root: str = "") -> dict[str, Any]:
    """What Elasticsearch writes into the body of an error."""
    causes = [{"type": root or kind, "reason": reason}]
    return {"error": {"root_cause": causes, "type": kind, "reason": reason}}


def items(*faults: tuple[int, str, str]) -> dict[str, Any]:
    """What Elasticsearch answers to a bulk request some of whose documents failed."""
    done = [
        {"index": {"_index": "orders", "_id": "7", "status": status, "error": {"type": kind, "reason": reason}}}
        for status, kind, reason in faults
    ]
    return {"took": 1, "errors": True, "items": done}


def ask(
    status: int, body: dict[str, Any] | str, headers: dict[str, str], use: Callable[[Any], object], _: World
) -> BaseException:
    from elasticsearch import Elasticsearch

    sent = (body if isinstance(body, str) else json.dumps(body)).encode()
    with answering(status, sent, {**HEADERS, **headers}) as url, Elasticsearch(url, **OPTIONS) as client:
        return caught(use, client)


def at(url: Callable[[Any], str], world: World, **options: Any) -> BaseException:
    """Ask a server that misbehaves in another way."""
    from elasticsearch import Elasticsearch

    parts = urlsplit(url(world.faults))
    with Elasticsearch(f"{parts.scheme}://{parts.netloc}", **{**OPTIONS, **options}) as client:
        return caught(client.perform_request, "GET", parts.path, headers={"accept": "application/json"})


def get_by_opensearch(client: Any) -> object:
    return client.get(index="orders", id="7")


def bulk_by_opensearch(client: Any) -> object:
    from opensearchpy import helpers

    return helpers.bulk(client, [{"_index": "orders", "_id": str(number), "name": "a"} for number in range(2)])


def ask_opensearch(status: int, body: dict[str, Any] | str, use: Callable[[Any], object], _: World) -> BaseException:
    sent = (body if isinstance(body, str) else json.dumps(body)).encode()
    with answering(status, sent, HEADERS) as url:
        return caught(use, _opensearch(url))


def opensearch_at(url: Callable[[Any], str], world: World, **options: Any) -> BaseException:
    parts = urlsplit(url(world.faults))
    client = _opensearch(f"{parts.scheme}://{parts.netloc}", **options)
    return caught(client.transport.perform_request, "GET", parts.path)


def _opensearch(url: str, **options: Any) -> Any:
    from opensearchpy import OpenSearch

    return OpenSearch(url, **{"max_retries": 0, "timeout": 5, **options})


def opensearch_async(_: World) -> BaseException:
    from opensearchpy import AsyncOpenSearch

    async def fetch(url: str) -> None:
        async with AsyncOpenSearch(url, max_retries=0) as client:
            await client.get(index="orders", id="7")

    body = json.dumps(refusal("rejected_execution_exception", "rejected execution of coordinating operation"))
    with answering(429, body.encode(), HEADERS) as url:
        return caught_async(lambda: fetch(url))


def opensearch_scan(_: World) -> BaseException:
    from opensearchpy import helpers

    shards = {"total": 5, "successful": 4, "skipped": 0, "failed": 1}
    body = {"_scroll_id": "x", "_shards": shards, "hits": {"hits": [{"_id": "7"}]}}
    with answering(200, json.dumps(body).encode(), HEADERS) as url:
        return caught(lambda: list(helpers.scan(_opensearch(url), index="orders", clear_scroll=False)))


def asynchronous(_: World) -> BaseException:
    from elasticsearch import AsyncElasticsearch

    async def fetch(url: str) -> None:
        async with AsyncElasticsearch(url, **OPTIONS) as client:
            await client.get(index="orders", id="7")

    body = json.dumps(refusal("es_rejected_execution_exception", "rejected execution of coordinating operation"))
    with answering(429, body.encode(), HEADERS) as url:
        return caught_async(lambda: fetch(url))


def scan(_: World) -> BaseException:
    """Read on in a scroll of which a shard has failed."""
    from elasticsearch import Elasticsearch, helpers

    shards = {"total": 5, "successful": 4, "skipped": 0, "failed": 1}
    body = {"_scroll_id": "x", "_shards": shards, "hits": {"hits": [{"_id": "7"}]}}
    with answering(200, json.dumps(body).encode(), HEADERS) as url, Elasticsearch(url, **OPTIONS) as client:
        return caught(lambda: list(helpers.scan(client, index="orders", clear_scroll=False)))


_WAIT = {"Retry-After": "7"}

# Status, body, more headers, what is asked; category, whether to try again, code, seconds to wait.
_Row = tuple[
    int, "dict[str, Any] | str", dict[str, str], "Callable[[Any], object]", C, bool, "str | None", "float | None"
]
ANSWERED: dict[str, _Row] = {
    "parsing": (
        400, refusal("parsing_exception", "unknown query [mach]"), {}, get,
        C.INVALID_PARAMETERS, False, "parsing_exception", None,
    ),
    "mapping": (
        400, refusal("document_parsing_exception", "failed to parse field [price] of type [long]"), {}, index,
        C.INVALID_PARAMETERS, False, "document_parsing_exception", None,
    ),
    "index closed": (
        400, refusal("index_closed_exception", "closed"), {}, get, C.CONFIGURATION, False, "index_closed_exception", None,
    ),
    "401": (
        401, refusal("security_exception", "unable to authenticate user [app] for REST request"), {}, get,
        C.AUTHENTICATION, False, "security_exception", None,
    ),
    "403": (
        403, refusal("security_exception", "action [indices:data/read/get] is unauthorized for user [app]"), {}, get,
        C.AUTHENTICATION, False, "security_exception", None,
    ),
    "403 for a licence": (
        403, refusal("security_exception", "current license is non-compliant for [ml]"), {}, get,
        C.CONFIGURATION, False, "security_exception", None,
    ),
    "403 by somebody before it": (403, "", {"Content-Type": "text/html"}, get, C.ACCESS_DENIED, False, None, None),
    "403 while the disk is full": (
        403, refusal("cluster_block_exception", "index [orders] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];"),
        {}, index, C.SYSTEM, True, "cluster_block_exception", None,
    ),
    "429 while the disk is full": (
        429, refusal("cluster_block_exception", "index [orders] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"),
        {}, index, C.SYSTEM, True, "cluster_block_exception", None,
    ),
    "403 on a read-only index": (
        403, refusal("cluster_block_exception", "index [orders] blocked by: [FORBIDDEN/5/index read-only (api)];"),
        {}, index, C.CONFIGURATION, False, "cluster_block_exception", None,
    ),
    "no such index": (
        404, refusal("index_not_found_exception", "no such index [orders]"), {}, get,
        C.NOT_FOUND, False, "index_not_found_exception", None,
    ),
    "no such document": (
        404, {"_index": "orders", "_id": "7", "found": False}, {}, get, C.NOT_FOUND, False, None, None,
    ),
    "scroll ended": (
        404, refusal("search_phase_execution_exception", "No search context found for id [1]", root="search_context_missing_exception"),
        {}, get, C.DATABASE_BUSY, True, "search_phase_execution_exception", None,
    ),
    "changed since it was read": (
        409, refusal("version_conflict_engine_exception", "[7]: version conflict, required seqNo [1], primary term [1]"),
        {}, index, C.DATABASE_BUSY, True, "version_conflict_engine_exception", None,
    ),
    "exists already": (
        409, refusal("version_conflict_engine_exception", "[7]: version conflict, document already exists (current version [1])"),
        {}, index, C.INTEGRITY, False, "version_conflict_engine_exception", None,
    ),
    "too large": (413, "", {}, index, C.INVALID_PARAMETERS, False, None, None),
    "queue full": (
        429, refusal("es_rejected_execution_exception", "rejected execution of coordinating operation"), {}, index,
        C.RATE_LIMIT, True, "es_rejected_execution_exception", None,
    ),
    "429 with a hint": (429, {"error": "too many requests"}, _WAIT, get, C.RATE_LIMIT, True, None, 7),
    "circuit breaker": (
        429, refusal("circuit_breaking_exception", "[parent] Data too large, data for [<http_request>]"), {}, get,
        C.RATE_LIMIT, True, "circuit_breaking_exception", None,
    ),
    "500": (
        500, refusal("node_closed_exception", "node closed"), {}, get, C.API_TEMPORARY, True, "node_closed_exception", None,
    ),
    "502": (502, "<html>Bad Gateway</html>", {"Content-Type": "text/html"}, get, C.API_TEMPORARY, True, None, None),
    "no master": (
        503, refusal("master_not_discovered_exception", "no known master node"), {}, get,
        C.API_TEMPORARY, True, "master_not_discovered_exception", None,
    ),
    "not recovered yet": (
        503, refusal("cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];"),
        {}, get, C.API_TEMPORARY, True, "cluster_block_exception", None,
    ),
    "503 with a hint": (503, "", _WAIT, get, C.API_TEMPORARY, True, None, 7),
    "504": (504, {"message": "backend closed connection"}, {}, get, C.API_TEMPORARY, True, None, None),
    "bulk, bad document": (
        200, items((429, "es_rejected_execution_exception", "rejected"), (400, "document_parsing_exception", "failed")), {},
        bulk, C.INVALID_PARAMETERS, False, "document_parsing_exception", None,
    ),
    "bulk, queue full": (
        200, items((429, "es_rejected_execution_exception", "rejected")), {}, bulk,
        C.RATE_LIMIT, True, "es_rejected_execution_exception", None,
    ),
    "bulk, exists already": (
        200, items((409, "version_conflict_engine_exception", "[7]: version conflict, document already exists")), {},
        bulk, C.INTEGRITY, False, "version_conflict_engine_exception", None,
    ),
    "answer is no JSON": (200, '{"found": tru', {}, get, C.DATA, False, None, None),
    "unfit document": (
        200, {}, {}, lambda client: client.index(index="orders", document={"a": object()}),
        C.INVALID_PARAMETERS, False, None, None,
    ),
}  # fmt: skip

# Status, body, what is asked; category, whether to try again, code.
_OpenSearchRow = tuple[int, "dict[str, Any] | str", "Callable[[Any], object]", C, bool, "str | None"]
OPENSEARCH: dict[str, _OpenSearchRow] = {
    "syntax": (400, refusal("parsing_exception", "unknown query [mach]"), get_by_opensearch, C.INVALID_PARAMETERS, False, "parsing_exception"),
    "index closed": (400, refusal("index_closed_exception", "closed"), get_by_opensearch, C.CONFIGURATION, False, "index_closed_exception"),
    "wrong password": (401, "Unauthorized", get_by_opensearch, C.AUTHENTICATION, False, None),
    "no rights": (
        403, refusal("security_exception", "no permissions for [indices:data/read/get] and User [name=app]"),
        get_by_opensearch, C.AUTHENTICATION, False, "security_exception",
    ),
    "403 by somebody before it": (403, "<html>Forbidden</html>", get_by_opensearch, C.ACCESS_DENIED, False, None),
    "no such index": (
        404, refusal("index_not_found_exception", "no such index [orders]"), get_by_opensearch,
        C.NOT_FOUND, False, "index_not_found_exception",
    ),
    "no such document": (404, {"_index": "orders", "_id": "7", "found": False}, get_by_opensearch, C.NOT_FOUND, False, None),
    "changed since it was read": (
        409, refusal("version_conflict_engine_exception", "[7]: version conflict, required seqNo [1]"),
        get_by_opensearch, C.DATABASE_BUSY, True, "version_conflict_engine_exception",
    ),
    "exists already": (
        409, refusal("version_conflict_engine_exception", "[7]: version conflict, document already exists (current version [1])"),
        get_by_opensearch, C.INTEGRITY, False, "version_conflict_engine_exception",
    ),
    "disk full": (
        403, refusal("cluster_block_exception", "index [orders] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];"),
        get_by_opensearch, C.SYSTEM, True, "cluster_block_exception",
    ),
    "queue full": (
        429, refusal("rejected_execution_exception", "rejected execution of coordinating operation"), get_by_opensearch,
        C.RATE_LIMIT, True, "rejected_execution_exception",
    ),
    "throttled": (429, {"message": "Too Many Requests"}, get_by_opensearch, C.RATE_LIMIT, True, None),
    "no cluster manager": (
        503, refusal("cluster_manager_not_discovered_exception", ""), get_by_opensearch,
        C.API_TEMPORARY, True, "cluster_manager_not_discovered_exception",
    ),
    "502": (502, "<html>Bad Gateway</html>", get_by_opensearch, C.API_TEMPORARY, True, None),
    "bulk, bad document": (
        200, items((429, "rejected_execution_exception", "rejected"), (400, "mapper_parsing_exception", "failed")),
        bulk_by_opensearch, C.INVALID_PARAMETERS, False, "mapper_parsing_exception",
    ),
    "bulk, queue full": (
        200, items((429, "rejected_execution_exception", "rejected")), bulk_by_opensearch,
        C.RATE_LIMIT, True, "rejected_execution_exception",
    ),
    "answer is no JSON": (200, '{"found": tru', get_by_opensearch, C.DATA, False, None),
    "unfit document": (
        200, {}, lambda client: client.index(index="orders", body={"a": object()}), C.INVALID_PARAMETERS, False, None,
    ),
}  # fmt: skip


def _case(name: str, produce: Any, category: C, retryable: bool, **more: Any) -> Case:
    return Case(f"elasticsearch/{name}", produce, category, retryable, origin=Origin.DB, **more)


def _opensearch_case(name: str, produce: Any, category: C, retryable: bool, **more: Any) -> Case:
    return Case(f"opensearch/{name}", produce, category, retryable, origin=Origin.DB, **more)


def _answered() -> list[Case]:
    cases = []
    for name, (status, body, headers, use, category, retryable, code, wait) in ANSWERED.items():
        make = partial(ask, status, body, headers, use)
        seen = status if status >= 400 else None  # what a bulk request answers is no failure itself
        cases.append(_case(name, make, category, retryable, http_status=seen, code=code, retry_after=wait))
    return cases


CASES: list[Case] = [
    *_answered(),
    _case("async, queue full", asynchronous, C.RATE_LIMIT, True, http_status=429),
    _case("shards failed in a scroll", scan, C.API_TEMPORARY, True),
    _case("refused", partial(at, lambda s: s.refused_url), C.NETWORK, True),
    _case("unresolvable", partial(at, lambda s: "http://nothing.invalid:9200/"), C.NETWORK, True),
    _case("reset", partial(at, lambda s: s.fault("reset")), C.NETWORK, True),
    _case("closed", partial(at, lambda s: s.fault("close")), C.NETWORK, True),
    _case("timeout", partial(at, lambda s: s.fault("stall"), request_timeout=0.1), C.NETWORK, True),
    _case("tls untrusted", partial(at, lambda s: s.tls("untrusted")), C.NETWORK, True),
    _case("tls handshake", partial(at, lambda s: s.tls("handshake-close")), C.NETWORK, True),
    _case("not elasticsearch", partial(at, lambda s: s.url("/")), C.CONFIGURATION, False),
    *(
        _opensearch_case(
            name,
            partial(ask_opensearch, status, body, use),
            category,
            retryable,
            http_status=status if status >= 400 else None,
            code=code,
        )
        for name, (status, body, use, category, retryable, code) in OPENSEARCH.items()
    ),
    _opensearch_case("async, queue full", opensearch_async, C.RATE_LIMIT, True, http_status=429),
    _opensearch_case("shards failed in a scroll", opensearch_scan, C.API_TEMPORARY, True),
    _opensearch_case("refused", partial(opensearch_at, lambda s: s.refused_url), C.NETWORK, True),
    _opensearch_case("unresolvable", partial(opensearch_at, lambda s: "http://nothing.invalid:9200/"), C.NETWORK, True),
    _opensearch_case("reset", partial(opensearch_at, lambda s: s.fault("reset")), C.NETWORK, True),
    _opensearch_case("timeout", partial(opensearch_at, lambda s: s.fault("stall"), timeout=0.1), C.NETWORK, True),
    _opensearch_case("tls untrusted", partial(opensearch_at, lambda s: s.tls("untrusted")), C.NETWORK, True),
]
