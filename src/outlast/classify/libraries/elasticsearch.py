"""The Elasticsearch client and its transport: a status with Elasticsearch's error type, or a connection error."""

from outlast.classify.codes import read_connection_errno
from outlast.classify.libraries.library import Library
from outlast.classify.safe_access import BODY_LIMIT, read_headers, safe_getattr, status_of, text_of
from outlast.classify.statuses import judge_status
from outlast.failure import RETRYABLE, Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.classify.libraries.library import Found

TYPES: dict[str, Category] = {
    "security_exception": Category.AUTHENTICATION,
    "search_context_missing_exception": Category.DATABASE_BUSY,  # the scroll or point in time has expired; start again
    "index_closed_exception": Category.CONFIGURATION,
}
"""Category by Elasticsearch's error type, if the status is not specific; a few more depend on the reason."""

_CODE_LIMIT = 100
_ITEM_LIMIT = 1000


def read_api_error(error: object) -> "Found":
    """The status and headers, and the type and reason of the error in the response body."""
    return _read_failure(
        safe_getattr(error, "meta", "status"), safe_getattr(error, "body"), safe_getattr(error, "meta", "headers")
    )


def read_bulk(error: object) -> "Found":
    """The errors of the single documents; a permanent one decides before retryable ones."""
    items = safe_getattr(error, "errors")
    found: list[Evidence] = []
    for item in items[:_ITEM_LIMIT] if isinstance(items, list) else []:
        for result in item.values() if isinstance(item, dict) else []:
            evidence = _read_failure(_part(result, "status"), result, None)
            if evidence is not None:
                found.append(evidence)
    return min(found, key=_is_temporary, default=None)


def _is_temporary(evidence: Evidence) -> bool:
    verdict = (evidence.category, "") if evidence.category else judge_status(evidence)
    return verdict is not None and verdict[0] in RETRYABLE


def read_serialization(error: object) -> "Found":
    """Whether the request could not be serialised or the response could not be deserialised."""
    if "Unable to serialize" in text_of(error)[:BODY_LIMIT]:
        return Evidence(category=Category.INVALID_PARAMETERS)
    return None


def _read_failure(status: object, body: object, headers: object) -> Evidence | None:
    status = status_of(status)
    if status is None:
        return None
    details = _part(body, "error")
    roots = _part(details, "root_cause")
    root = roots[0] if isinstance(roots, list) and roots else None
    kinds = [kind for each in (details, root) if isinstance(kind := _part(each, "type"), str)]
    reason = str(_part(root, "reason") or _part(details, "reason") or (details if isinstance(details, str) else ""))[
        :BODY_LIMIT
    ]
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


def _part(thing: object, key: str) -> object:
    return thing.get(key) if isinstance(thing, dict) else None


LIBRARY = Library(
    title="Elasticsearch and elastic-transport",
    origin=Origin.DB,
    categories={
        Category.NETWORK: (
            "elastic_transport.ConnectionError elastic_transport.ConnectionTimeout elastic_transport.SniffingError"
        ),
        Category.API_TEMPORARY: "elasticsearch.ScanError",
        Category.DATA: "elastic_transport.SerializationError",
        Category.CONFIGURATION: "elasticsearch.UnsupportedProductError",
        Category.INVALID_PARAMETERS: (
            "elasticsearch.IllegalOperation elasticsearch.UnknownDslObject elasticsearch.ValidationException"
        ),
    },
    readers={
        "elastic_transport.ApiError": read_api_error,
        "elasticsearch.ApiError": read_api_error,
        "elasticsearch.BulkIndexError": read_bulk,
        "elastic_transport.ConnectionError": read_connection_errno,
        "elastic_transport.ConnectionTimeout": read_connection_errno,
        "elastic_transport.SerializationError": read_serialization,
    },
    says_nothing=(
        "elastic_transport.ApiError elastic_transport.TransportError elasticsearch.ApiError elasticsearch.BulkIndexError "
        "elasticsearch.ElasticsearchDslException"
    ),
)
