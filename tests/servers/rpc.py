"""A real gRPC server on loopback that ends every call as its name asks, without generated code.

server = RpcServer()
server.start()
server.end("UNAVAILABLE", "later", {"grpc-retry-pushback-ms": "500"})   # a method that ends so
server.stop()

Besides these: `/faults/boom` raises, `/faults/late` answers late, `/faults/large` answers more than a client may want,
and every other method is not there.
"""

from __future__ import annotations

import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "127.0.0.1"
_LATE = 5.0


class RpcServer:
    """Listens on one port without TLS, and on one for clients on this machine that bring call credentials.

    Attributes:
        target: Address of the port without TLS.
        local_target: Address of the port that takes `grpc.local_channel_credentials`.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[Any, str, tuple[tuple[str, str | bytes], ...]]] = []
        self._stopping = threading.Event()
        self.target = self.local_target = ""

    def start(self) -> None:
        """Open the ports."""
        self._server = grpc.server(
            futures.ThreadPoolExecutor(4, thread_name_prefix="rpc"), handlers=[_Handler(self._serve)]
        )
        self.target = f"{HOST}:{self._server.add_insecure_port(f'{HOST}:0')}"
        local = self._server.add_secure_port(f"{HOST}:0", grpc.local_server_credentials())
        self.local_target = f"{HOST}:{local}"
        self._server.start()

    def stop(self) -> None:
        """End every call and wait for the threads."""
        self._stopping.set()
        self._server.stop(None).wait(2)

    def end(self, status: str, words: str = "", trailing: Mapping[str, str | bytes] | None = None) -> str:
        """Return the name of a method that ends with this status, these words and this trailing metadata."""
        self._ends.append((grpc.StatusCode[status], words, tuple((trailing or {}).items())))
        return f"/faults/{len(self._ends) - 1}"

    def _serve(self, method: str, context: Any) -> bytes:
        name = method.rpartition("/")[2]
        if name == "boom":
            raise LookupError("the handler went wrong")
        if name == "late":
            self._stopping.wait(_LATE)
        elif name.isdigit():
            status, words, trailing = self._ends[int(name)]
            context.set_trailing_metadata(trailing)
            context.abort(status, words)
        return b"x" * 10_000


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, serve: Any) -> None:
        self._serve = serve

    def service(self, call: Any) -> Any:
        def unary(_: bytes, context: Any) -> bytes:
            return self._serve(call.method, context)

        def stream(_: bytes, context: Any) -> Any:
            yield b"the beginning"
            yield self._serve(call.method, context)

        service, _, name = call.method.strip("/").partition("/")
        if service == "streams":
            return grpc.unary_stream_rpc_method_handler(stream)
        known = name.isdigit() or name in {"boom", "late", "large"}
        return grpc.unary_unary_rpc_method_handler(unary) if known else None
