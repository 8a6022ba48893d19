"""The OpenAPI document of the JSON endpoints, made from the tables of pages and operations."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from http import HTTPStatus
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import outlast
from outlast.operations import Parameter
from outlast.operations.table import Operation, parameter_schema, request_schema, response_schema
from outlast.web.routing import PageRoute

OPENAPI_PATH = "/api/openapi.json"
"""Path of the document."""
_DESCRIPTION = (
    "Reads what the dashboard shows, and changes what it can change. Times are ISO 8601 in UTC, durations are seconds. "
    "Integers beyond 2**53 - 1 are texts. Secrets in texts are masked. A text with a NUL returns 400. A GET endpoint "
    "also supports HEAD; any other method returns 405. A POST with a session needs an Origin that matches Host."
)
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", datetime: "string"}
_BODY_TYPES = ("application/json", "application/x-www-form-urlencoded")
_PROBLEMS = (400, 401, 403, 404, 413, 415, 429, 503)
_BODY_PROBLEMS = {413, 415}
_PLAIN_TEXT_PROBLEMS = {400, 503}  # of requests that are refused before their path is known


def openapi_document(
    pages: Iterable[PageRoute], operations: Iterable[Operation], *, prefix: str = "", cookie: str | None = None
) -> dict[str, Any]:
    """Return the document.

    Args:
        pages: The pages; each has a JSON endpoint for reading.
        operations: The operations; each has a JSON endpoint.
        prefix: Mount path of the dashboard; may be empty.
        cookie: Name of the session cookie; None if the surrounding site decides about access.
    """
    schemas: dict[str, Any] = {"Problem": _object({"ok": {"const": False}, "message": {"type": "string"}})}
    token, session = {"type": "http", "scheme": "bearer"}, {"type": "apiKey", "in": "cookie", "name": cookie}
    access = {} if cookie is None else {"token": token, "session": session}
    paths = {OPENAPI_PATH: {"get": _endpoint("read_openapi", "This document.", OPENAPI_PATH, (), {"type": "object"})}}
    for page in pages:
        data = _object({name: _schema(kind, schemas) for name, kind in page.returns.items()})
        read = _endpoint(f"read_{page.name}", f"The data of the page {page.path}.", page.path, page.parameters, data)
        paths[f"/api{page.path.rstrip('/')}"] = {"get": read}
    for each in operations:
        variables = [one for one in each.parameters if one not in each.fields]
        change = _endpoint(each.name, each.help, each.path, variables, response_schema(each), request_schema(each))
        paths[f"/api{each.path}"] = {"post": {**change, "security": [{name: [each.role]} for name in access]}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Outlast", "version": outlast.__version__, "description": _DESCRIPTION},
        "servers": [{"url": prefix or "/"}],
        "security": [{name: []} for name in access],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {f"Problem{status}": _problem(status) for status in _PROBLEMS},
            "securitySchemes": access,
        },
    }


def _endpoint(
    name: str, summary: str, path: str, parameters: Sequence[Parameter], data: Any, body: Any = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "parameters": [_parameter(each, path) for each in parameters],
        "responses": {"200": {"description": "Done.", "content": {_BODY_TYPES[0]: {"schema": data}}}},
    }
    for status in _PROBLEMS:
        if body is not None or status not in _BODY_PROBLEMS:
            found["responses"][str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    if body is not None:
        content = {kind: {"schema": body} for kind in _BODY_TYPES}
        found["requestBody"] = {"required": "required" in body, "content": content}
    return found


def _parameter(parameter: Parameter, path: str) -> dict[str, Any]:
    place = "path" if f"{{{parameter.name}}}" in path else "query"
    about = {"name": parameter.name, "in": place, "required": parameter.required, "description": parameter.help}
    return {**about, "schema": parameter_schema(parameter)}


def _problem(status: int) -> dict[str, Any]:
    content: dict[str, Any] = {_BODY_TYPES[0]: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if status in _PLAIN_TEXT_PROBLEMS:
        content["text/plain"] = {"schema": {"type": "string"}}
    return {"description": HTTPStatus(status).phrase, "content": content}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type; that of a row is added to `schemas` and referred to."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _TYPES:
        return {"type": _TYPES[kind], **({"format": "date-time"} if kind is datetime else {})}
    if NoneType in arguments:
        return {"anyOf": [_schema(each, schemas) for each in arguments]}
    if origin in {list, tuple}:
        return {"type": "array", "items": _schema(arguments[0], schemas)}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": _schema(arguments[1], schemas)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    if not hasattr(kind, "_fields"):
        return {}
    if kind.__name__ not in schemas:
        schemas[kind.__name__] = {}  # a row may have rows of its own kind
        schemas[kind.__name__] = _object({name: _schema(each, schemas) for name, each in get_type_hints(kind).items()})
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
