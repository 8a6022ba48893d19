"""The table of operations: one row and one function are enough for a command, a form, a JSON endpoint and an audit entry."""

import json

import click
import pytest
from click.testing import CliRunner

import outlast
from outlast.cli import cli
from outlast.cli import operations as commands
from outlast.operations import COUNT, WHY, InvalidValueError, Parameter, parse_values, table, text_kind
from outlast.operations.actions import OperationResult
from outlast.operations.table import OPERATIONS, Operation, request_schema, response_schema
from outlast.ports.rows import QueueRow
from outlast.web.access.callers import Role
from outlast.web.access.hook import HookAccess
from outlast.web.access.token_access import TokenAccess, Tokens
from outlast.web.rendering import Assets, Renderer
from outlast.web.routing import PageRoute
from outlast.web.site import PAGES, build_site
from web_asking import Client

FORM = ("Content-Type", "application/x-www-form-urlencoded")


def paint(_app, values, _who):
    name, coats = values["thing"], values["coats"]
    if name == "glass":
        raise LookupError(f"thing {name} does not exist")
    return OperationResult(f"thing {name} has {coats} coats", {"thing": name, "coats": coats}, ok=coats > 0)


PAINT = Operation(
    "paint_thing",
    "Paint things.",
    paint,
    (
        Parameter("thing", text_kind(20), "The thing.", required=True, argument="THING..."),
        Parameter("coats", COUNT, "How many coats.", default="1"),
        WHY,
    ),
    "thing:{thing}".format_map,
    "/queues/{thing}/paint",
    {"thing": "string", "coats": "integer"},
    "things paint",
    "door --coats 2",
    page="/queues",
)


@pytest.fixture
def app(tmp_path):
    made = outlast.App(f"sqlite:///{tmp_path / 'outlast.db'}")
    made.create_schema()
    yield made
    made.close()


@pytest.fixture
def added(monkeypatch):
    """The table with one more row."""
    rows = (*OPERATIONS, PAINT)
    monkeypatch.setattr(table, "OPERATIONS", rows)
    monkeypatch.setattr(commands, "OPERATIONS", rows)
    return rows


def run(app, *words):
    group = commands.add_operations(click.Group("things"), "things")
    return CliRunner().invoke(group, ["paint", *words, "--url", f"sqlite:///{app.store.db.path}"])


class TestOneRowMore:
    def test_the_command(self, app, added):
        done = run(app, "door", "glass", "wall", "--coats", "2", "--why", "rust")
        assert done.output == "thing door has 2 coats\nthing glass does not exist\nthing wall has 2 coats\n"
        assert done.exit_code == 1, "one was not done"
        data = json.loads(run(app, "door", "--json").output)
        assert data == [{"thing": "door", "coats": 1, "ok": True, "message": "thing door has 1 coats"}]
        assert run(app, "door", "--coats", "0").exit_code == 1
        assert "coats is 'many'; give a whole number" in run(app, "door", "--coats", "many").output
        help_text = run(app, "--help").output
        assert "THING..." in help_text
        assert "How many coats." in help_text
        assert "outlast things paint door --coats 2" in help_text

    def test_a_subject_that_is_not_valid_is_refused_before_the_first_change(self, app, added):
        done = run(app, "door", "glass", "x" * 21, "wall")
        assert (done.exit_code, "thing has 21 characters" in done.output) == (2, True)
        assert app.store.audits() == []

    def test_the_page_and_its_form(self, app, added):
        access = TokenAccess(Tokens())
        site = build_site(app, access, operations=added)
        client = Client(site, ("Cookie", f"{access.cookie}={access.sessions.begin(Role.OPERATOR, 'ann')}"))
        answer = client.ask("POST", "/queues/door/paint", FORM, body=b"coats=3")
        assert (answer.status, answer.header("location")) == (303, "/queues")
        assert "thing door has 3 coats" in client.after(answer).get("/queues").text
        reader = Client(site, ("Cookie", f"{access.cookie}={access.sessions.begin(Role.READER, 'bob')}"))
        assert reader.ask("POST", "/queues/door/paint", FORM, body=b"coats=3").status == 403
        source = '{% import "_parts.html" as ui with context %}{{ ui.operation_form("paint_thing", "Paint", {"thing": "door"}) }}'
        renderer = Renderer((), added, Assets(), "Outlast")
        renderer._environment.loader.mapping = {}
        form = renderer._environment.from_string(source).render(
            operations={each.name: each for each in added}, post=lambda name, **_: f"/{name}", role_operator=True
        )
        assert 'action="/paint_thing"' in form
        assert '<input name="coats" value="1" inputmode="decimal"' in form
        assert 'placeholder="How many coats."' in form
        assert 'name="thing"' not in form

    def test_the_json_endpoint_and_its_schema(self, app, added):
        access = TokenAccess(Tokens("the-operators-secret-for-tests-0123456789"))
        site = build_site(app, access, operations=added)
        client = Client(site, ("Authorization", "Bearer the-operators-secret-for-tests-0123456789"), origin=None)
        sent = ("Content-Type", "application/json")
        answer = client.ask("POST", "/api/queues/door/paint", sent, body=b'{"coats": 2}')
        assert answer.json() == {"thing": "door", "coats": 2, "ok": True, "message": "thing door has 2 coats"}
        assert client.ask("POST", "/api/queues/door/paint", sent, body=b'{"coats": 2.0}').json()["coats"] == 2
        assert client.ask("POST", "/api/queues/door/paint", sent, body=b'{"coats": "x"}').status == 400
        assert client.ask("POST", "/api/queues/glass/paint", sent, body=b"{}").status == 404
        schema = request_schema(PAINT)["properties"]["coats"]
        assert schema == {
            "type": "integer",
            "minimum": 0,
            "maximum": 1_000_000,
            "description": "How many coats.",
            "default": 1,
        }
        assert set(response_schema(PAINT)["properties"]) == {"ok", "message", "thing", "coats"}

    def test_the_openapi_document(self, app, added):
        token = "the-readers-secret-for-tests-0123456789"
        page = PageRoute(
            "things", "/things/{thing}", "x.html", lambda _: {}, PAINT.parameters[:2], {"rows": list[QueueRow]}
        )
        site = build_site(app, TokenAccess(Tokens(reader=token)), operations=added, pages=(*PAGES, page))
        assert Client(site).get("/api/openapi.json").status == 401
        document = Client(site, ("Authorization", f"Bearer {token}")).get("/api/openapi.json").json()
        painted = document["paths"]["/api/queues/{thing}/paint"]["post"]
        assert painted["operationId"] == "paint_thing"
        assert painted["security"] == [{"token": ["operator"]}, {"session": ["operator"]}]
        assert painted["requestBody"]["content"]["application/json"]["schema"]["properties"]["coats"]["default"] == 1
        read = document["paths"]["/api/things/{thing}"]["get"]
        assert [(each["name"], each["in"], each["required"]) for each in read["parameters"]] == [
            ("thing", "path", True),
            ("coats", "query", False),
        ]
        rows = read["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["rows"]
        assert rows == {"type": "array", "items": {"$ref": "#/components/schemas/QueueRow"}}
        assert document["components"]["schemas"]["QueueRow"]["properties"]["paused"] == {"type": "boolean"}

    def test_a_page_takes_the_values_of_its_parameters(self, app):
        seen = []
        page = PageRoute(
            "things", "/things/{thing}", "x.html", lambda asked: seen.append(asked.values) or {}, PAINT.parameters[:2]
        )
        site = build_site(app, HookAccess(lambda _: "reader"), pages=(*PAGES, page))
        assert Client(site).get("/api/things/door?coats=2&colour=red").status == 200
        assert seen == [{"thing": "door", "coats": 2}]
        assert Client(site).get("/api/things/door?coats=many").status == 400
        assert Client(site).get(f"/api/things/{'x' * 21}").status == 404

    def test_the_audit_entry(self, app, added):
        run(app, "door", "--coats", "2", "--why", "rust")
        (entry,) = app.store.audits()
        assert (entry.action, entry.subject, entry.reason) == ("paint_thing", "thing:door", "rust")
        assert entry.detail["coats"] == 2


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_row_is_complete(operation):
    assert operation.help.endswith(".")
    assert operation.parameters[-1] is WHY
    assert operation.role == "operator"
    assert operation.path.startswith("/")
    json.dumps([request_schema(operation), response_schema(operation)])
    variables = {part[1:-1] for part in operation.path.split("/") if part.startswith("{")}
    assert variables <= {each.name for each in operation.parameters}
    assert bool(operation.command) == bool(operation.example)


def test_names_and_paths_are_unique():
    for names in ([each.name for each in OPERATIONS], [each.path for each in OPERATIONS]):
        assert len(names) == len(set(names))


def test_a_value_names_its_parameter(app):
    with pytest.raises(InvalidValueError) as raised:
        parse_values(app, PAINT.parameters, {"thing": ["x" * 21]})
    assert raised.value.parameter == "thing"
    with pytest.raises(InvalidValueError, match="'colour' is not a field here"):
        parse_values(app, PAINT.parameters, {"thing": ["x"], "colour": ["red"]}, is_strict=True)
    with pytest.raises(InvalidValueError, match="no thing was given"):
        parse_values(app, PAINT.parameters, {"thing": [" "]})


def outlast_command(app, *words):
    done = CliRunner().invoke(cli, [*words, "--url", f"sqlite:///{app.store.db.path}"])
    return done.exit_code, done.output.strip()


def test_a_deploy_is_marked_with_who_did_it(app):
    assert outlast_command(app, "mark", "deploy", "v1.2", "--why", "hotfix") == (
        0,
        "deploy v1.2 is marked on the charts",
    )
    (mark,) = app.store.chart_marks(window=60.0)
    (entry,) = app.store.audits()
    assert (mark.kind, mark.text, mark.who) == ("deploy", "v1.2", entry.who)
    assert (entry.action, entry.subject, entry.reason) == ("mark_deploy", "deploy:v1.2", "hotfix")


def test_periodic_tasks_are_paused_from_a_shell(app):
    app.store.set_periodic({"nightly": 60.0})
    code, output = outlast_command(app, "periodic", "pause", "nightly", "hourly")
    assert code == 1
    assert output.splitlines() == [
        "periodic task nightly is paused for all workers: runs that were enqueued before continue",
        "periodic task hourly does not exist; a worker registers it when it starts",
    ]
    assert outlast_command(app, "periodic", "run-now", "nightly") == (
        1,
        "this program has no periodic task nightly; name the app that defines it with --app MODULE:APP",
    )
    assert outlast_command(app, "periodic", "resume", "nightly") == (0, "periodic task nightly is resumed")
    assert [row.paused for row in app.store.periodic()] == [False]


def test_a_program_names_its_periodic_tasks_if_another_one_is_asked_for(app):
    @app.periodic(every=60)
    def nightly() -> None: ...

    row = next(each for each in OPERATIONS if each.name == "run_periodic_now")
    with pytest.raises(LookupError, match=r"has no periodic task hourly; it has: nightly$"):
        table.perform(app, row, {"periodic": "hourly", "why": None})


def test_closing_a_breaker_that_nobody_knows_is_not_done(app):
    assert outlast_command(app, "breakers", "close", "api") == (
        1,
        "no process has a breaker named api; if there was an order to open it, it is withdrawn",
    )
    assert outlast_command(app, "breakers", "open", "api")[0] == 0, "the order is kept for a process that has one"
    assert outlast_command(app, "breakers", "close", "api")[0] == 0, "the order is withdrawn"


def test_selected_tasks_that_do_not_wait_stay(app):
    @app.task
    def greet() -> None: ...

    first, second = (greet.enqueue(delay=60.0).id for _ in range(2))
    app.store.cancel([second])
    row = next(each for each in OPERATIONS if each.name == "cancel_tasks")
    done = table.perform(app, row, {"task_id": [first, second], "why": None})
    assert (done.ok, done.message) == (False, "1 task cancelled; 1 other did not wait")
    assert done.data == {"changed": [first], "unchanged": [second]}
