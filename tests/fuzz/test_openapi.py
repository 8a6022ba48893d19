"""The JSON API does what its OpenAPI document says: no status, media type or shape that is not documented, and no 5xx."""

import pytest
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fuzz.fuzzing import SOAK, fuzz
from outlast.operations.table import OPERATIONS
from outlast.stores.postgres.store import PostgresStore
from outlast.web.openapi import openapi_document
from outlast.web.server import serve
from outlast.web.site import PAGES
from web_hostile import make_hostile

TOKENS = {
    "operator": "the-operators-secret-for-tests-0123456789",
    "reader": "the-readers-secret-for-tests-0123456789",
}
# A cookie beside a token would look like a request of another site; NUL is refused.
CONFIG = SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False, "allow-x00": False}})
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
DOCUMENT = openapi_document(PAGES, OPERATIONS, cookie="session")
ENDPOINTS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
SCHEMA_NAME = "described"


@pytest.fixture(scope="module", params=["sqlite", *(["postgres"] if SOAK else [])])
def hostile(request, tmp_path_factory):
    if request.param == "sqlite":
        made = make_hostile(f"sqlite:///{tmp_path_factory.mktemp('described') / 'x.db'}")
    else:
        server = request.getfixturevalue("postgres_server")
        server.execute(f"DROP SCHEMA IF EXISTS {SCHEMA_NAME} CASCADE")
        made = make_hostile(PostgresStore(server.url, schema=SCHEMA_NAME))
    yield made
    made.app.close()


@pytest.fixture(scope="module")
def server(hostile):
    with serve(hostile.app, port=0, token=TOKENS["operator"], read_token=TOKENS["reader"]) as running:
        yield running


@pytest.fixture(scope="module", params=TOKENS)
def caller(request, server):
    """Somebody with a token, and the document as they get it."""
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKENS[request.param]}"
        document = session.get(f"{server.url}/api/openapi.json", timeout=30).json()
        yield request.param, session, schemathesis.openapi.from_dict(document, config=CONFIG)


@pytest.fixture(scope="module")
def known(hostile):
    """Values of path variables that lead somewhere."""
    found = {name: value for values in hostile.paths.values() for name, value in values.items()}
    return {**found, "queue": "default"}


@pytest.mark.parametrize(("path", "method"), ENDPOINTS, ids=lambda each: each)
@fuzz(4, st.data())
def test_every_response_is_documented(caller, server, known, path, method, data):
    role, session, schema = caller
    operation = schema[path][method]
    valid = data.draw(st.booleans())
    case = data.draw(operation.as_strategy(GenerationMode.POSITIVE if valid else GenerationMode.NEGATIVE))
    if data.draw(st.booleans()):
        case.path_parameters = {name: known.get(name, each) for name, each in (case.path_parameters or {}).items()}
    response = case.call(base_url=server.url, session=session, timeout=30)
    case.validate_response(response, checks=CHECKS)
    if role == "reader" and method == "post":
        assert response.status_code in {400, 403}, "400: a path that no endpoint could have, whoever asks"
    else:
        assert response.status_code != 403
