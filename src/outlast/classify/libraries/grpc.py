"""grpc and grpc.aio: a status with a message, and trailing metadata that may contain a wait and google.rpc details."""

from collections.abc import Collection
from itertools import islice

from outlast.classify import rpc_status
from outlast.classify.libraries.library import Library, wrapped
from outlast.classify.rpc_status import details_on_wire, read_rpc
from outlast.classify.safe_access import read_headers, safe_getattr, safe_str
from outlast.failure import Category, Evidence, Origin

STATUSES = rpc_status.RPC_STATUSES
"""Category by status, if its message and details are not more specific."""

_PAIRS_LIMIT = 200
_DETAILS = "grpc-status-details-bin"
_PUSHBACK = "grpc-retry-pushback-ms"


def read_call(error: object) -> Evidence | None:
    """Status, message and trailing metadata stored in the error; its methods are not called, since those of a stream block."""
    # A blocking call or stream keeps them in its state, an error of grpc.aio in itself.
    state = safe_getattr(error, "_state")
    holder, prefix = (error, "_") if state is None else (state, "")
    status = safe_str(holder, f"{prefix}code", "name")
    if status not in STATUSES:
        return None
    words = safe_getattr(holder, f"{prefix}details")
    if isinstance(words, bytes):
        words = words.decode("utf-8", "replace")
    metadata = _pairs(safe_getattr(holder, f"{prefix}trailing_metadata"))
    encoded = metadata.get(_DETAILS)
    details = details_on_wire(encoded) if isinstance(encoded, bytes) else None
    headers = read_headers(metadata)
    pushback = metadata.get(_PUSHBACK)
    if isinstance(pushback, str):
        headers["retry-after-ms"] = pushback
    evidence = read_rpc(status, words if isinstance(words, str) else "", details, headers)
    if str(pushback).startswith("-"):  # the server forbids a retry
        return evidence.replace(retryable=False)
    return evidence


def _pairs(metadata: object) -> dict[str, object]:
    """Return metadata by name, from a tuple of pairs or a grpc.aio object that yields pairs."""
    pairs: dict[str, object] = {}
    if isinstance(metadata, Collection):
        for pair in islice(metadata, _PAIRS_LIMIT):
            if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str):
                pairs.setdefault(pair[0].lower(), pair[1])
    return pairs


LIBRARY = Library(
    title="grpc",
    packages="grpc",
    origin=Origin.RPC,
    categories={
        Category.NETWORK: "FutureTimeoutError TimeoutError ExpirationError NetworkError",
        Category.API_TEMPORARY: "RemoteShutdownError",
        Category.INVALID_PARAMETERS: "NoSuchMethodError",
        Category.UNKNOWN: "FutureCancelledError CancelledError CancellationError Abandoned",
    },
    readers={
        "RpcError": read_call,
        "_FailureOutcome": wrapped("_exception"),
    },
    says_nothing=(
        "RpcError BaseError InternalError ExecuteBatchError AbortError AioRpcStatus UsageError AbortionError "
        "LocalError LocalShutdownError RemoteError _FailureOutcome _RequestCallError _ServerStoppedError "
        "_WatchConnectivityFailed"
    ),
)
