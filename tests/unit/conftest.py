"""What several unit tests share."""

import pytest


@pytest.fixture
def site(app):
    """The dashboard of a test's own `app`, as an operator's browser asks it."""
    from starlette.testclient import TestClient

    from outlast.web import dashboard

    with TestClient(dashboard(app, auth=lambda _: "operator"), base_url="http://localhost") as client:
        client.headers["Origin"] = "http://localhost"
        yield client
