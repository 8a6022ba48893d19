"""The clients of Elasticsearch and OpenSearch: a status with the error type of the server, or a connection error."""

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import (
    BODY_LIMIT,
    read_headers,
    safe_getattr,
    safe_item,
    safe_list,
    status_of,
    text_of,
)
from outlast.classify.statuses import judge_status
from outlast.failure import RETRYABLE, Category, Evidence, Origin

TYPES: dict[str, Category] = {
    "security_exception": Category.AUTHENTICATION,
    "search_context_missing_exception": Category.DATABASE_BUSY,  # the scroll or point in time has expired; start again
    "index_closed_exception": Category.CONFIGURATION,
}
"""Category by Elasticsearch's error type, if the status is not specific; a few more depend on the reason."""

_CODE_LIMIT = 100


def read_api_error(error: object) -> Found:
    """The status and headers, and the type and reason of the error in the response body."""
    return _read_failure(
        safe_getattr(error, "meta", "status"), safe_getattr(error, "body"), safe_getattr(error, "meta", "headers")
    )


def read_transport_error(error: BaseException) -> Found:
    """The status and the body of OpenSearch's response, which are its arguments; the headers are not kept."""
    status, text, body = (*error.args[:3], None, None, None)[:3]
    return _read_failure(status, body if isinstance(safe_item(body, "error"), dict) else {"error": text}, None)


def read_bulk(error: object) -> Found:
    """The errors of the single documents; a permanent one decides before retryable ones."""
    items = [item for item in safe_list(safe_getattr(error, "errors")) if isinstance(item, dict)]
    results = [result for item in items for result in item.values()]
    found = [_read_failure(safe_item(result, "status"), result, None) for result in results]
    return min(filter(None, found), key=_is_temporary, default=None)


def _is_temporary(evidence: Evidence) -> bool:
    verdict = (evidence.category, "") if evidence.category else judge_status(evidence)
    return verdict is not None and verdict[0] in RETRYABLE


def read_serialization(error: object) -> Found:
    """Whether the request could not be serialised or the response could not be deserialised."""
    if "Unable to serialize" in text_of(error)[:BODY_LIMIT]:
        return Evidence(category=Category.INVALID_PARAMETERS)
    return None


def _read_failure(status: object, body: object, headers: object) -> Evidence | None:
    status = status_of(status)
    if status is None:
        return None
    details = safe_item(body, "error")
    root = next(iter(safe_list(safe_item(details, "root_cause"))), None)
    kinds = [kind for each in (details, root) if isinstance(kind := safe_item(each, "type"), str)]
    reason = str(
        safe_item(root, "reason") or safe_item(details, "reason") or (details if isinstance(details, str) else "")
    )[:BODY_LIMIT]
    judged = [category for kind in kinds if (category := _by_reason(kind, reason, status) or TYPES.get(kind))]
    return Evidence(
        category=judged[0] if judged else None,
        code=kinds[0][:_CODE_LIMIT] if kinds else None,
        http_status=status,
        headers=read_headers(headers),
        body=reason,
    )


def _by_reason(kind: str, reason: str, status: int) -> Category | None:
    if kind == "version_conflict_engine_exception":  # created by another client, or changed since it was read
        return Category.INTEGRITY if "already exists" in reason else Category.DATABASE_BUSY
    if kind == "cluster_block_exception" and status < 500:  # with a 5xx, the cluster has no master yet
        full = "/12/" in reason or "flood-stage" in reason  # Elasticsearch blocks writes while its disk is full
        return Category.SYSTEM if full else Category.CONFIGURATION
    if kind == "security_exception" and "license is non-compliant" in reason:
        return Category.CONFIGURATION
    return None


LIBRARY = Library(
    title="Elasticsearch, elastic-transport and OpenSearch",
    packages="elasticsearch",
    origin=Origin.DB,
    categories={
        Category.NETWORK: (
            "elastic_transport.ConnectionError elastic_transport.ConnectionTimeout elastic_transport.SniffingError "
            "opensearchpy.ConnectionError"
        ),
        Category.API_TEMPORARY: "ScanError opensearchpy.ScanError",
        Category.DATA: "elastic_transport.SerializationError opensearchpy.SerializationError",
        Category.CONFIGURATION: "UnsupportedProductError opensearchpy.ImproperlyConfigured",
        Category.INVALID_PARAMETERS: (
            "IllegalOperation UnknownDslObject ValidationException opensearchpy.IllegalOperation "
            "opensearchpy.UnknownDslObject opensearchpy.ValidationException"
        ),
    },
    readers={
        "elastic_transport.ApiError ApiError": read_api_error,
        "opensearchpy.TransportError": read_transport_error,
        "BulkIndexError opensearchpy.BulkIndexError": read_bulk,
        "elastic_transport.ConnectionError elastic_transport.ConnectionTimeout opensearchpy.ConnectionError": (
            read_connection_errno
        ),
        "elastic_transport.SerializationError opensearchpy.SerializationError": read_serialization,
    },
    says_nothing=(
        "elastic_transport.ApiError elastic_transport.TransportError ApiError BulkIndexError ElasticsearchDslException "
        "opensearchpy.OpenSearchException opensearchpy.TransportError opensearchpy.BulkIndexError "
        "opensearchpy.OpenSearchDslException"
    ),
)
