"""Provoke the errors again and write `cases/`. Needs the libraries of requirements.txt: in `tests`,
`python -m heldout.record [subject] [prefix]`."""
# ruff: noqa: T201 (it prints its report)

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import re
import signal
import sys
import sysconfig
import tempfile
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from .rebuild import rebuild
from .snapshot import describe
from .world import Case, relative

FOLDER = Path(__file__).parent / "cases"
SUBJECTS = ("http_sdks", "http_services", "databases", "brokers_mail", "file_formats", "network")
DESCRIBED = {
    "imaplib",
    "zipfile",
    "xml",
    "json",
    "ssl",
    "socket",
    "httpx",
    "httpx2",
    "requests",
    "urllib3",
    "urllib",
    "aiohttp",
    "httplib2",
    "grpc",
    "botocore",
    "redis",
    "sqlalchemy",
    "psycopg",
    "asyncpg",
}
"""Packages whose own errors say nothing about how well other libraries are judged."""
APART = ("pymssql/",)
"""Libraries whose errors depend on the errors before, so each case has a process of its own."""
LIMIT = 40
"""Seconds for one case."""


def main() -> None:
    warnings.simplefilter("ignore")
    faulthandler.enable()
    wanted = sys.argv[1:2] or SUBJECTS
    prefix = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = 0
    for subject in wanted:
        path = FOLDER / f"{subject}.json"
        old = {record["id"]: record for record in json.loads(path.read_text())} if path.exists() else {}
        found = {}
        for case in import_module(f".record_{subject}", __package__).CASES.cases:
            if not case.id.startswith(prefix) and case.id in old:
                found[case.id] = old[case.id] | _label(case)
                continue
            if not case.id.startswith(prefix):
                continue
            try:
                assert case.id not in found, "twice"
                found[case.id] = _apart(case) if case.id.startswith(APART) else _record(case)
                print(
                    f"{case.id:50} {found[case.id]['error']['class']:60} {found[case.id]['error']['str'][:150]!r}",
                    flush=True,
                )
            except BaseException as problem:
                failed += 1
                print(f"{case.id:50} NOT PROVOKED {type(problem).__name__}: {str(problem)[:300]}", flush=True)
                if not isinstance(problem, NotProvokedError):
                    traceback.print_exc(limit=-3)
        path.write_text(
            "[\n" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in found.values()) + "\n]\n"
        )
        print(subject, len(found), "cases,", failed, "not provoked", flush=True)


def _apart(case: Case) -> dict[str, Any]:
    """Record in a child process."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=lambda: there.send(_record(case)))
    child.start()
    there.close()
    try:
        return dict(here.recv())
    except EOFError:
        raise NotProvokedError("the child process sent nothing") from None
    finally:
        child.join()


class NotProvokedError(BaseException):
    """The call went well, or took too long. Not an Exception, so that no library catches it."""


def _label(case: Case) -> dict[str, Any]:
    label = {"category": case.label.category, "retry": case.label.retry, "retry_after": case.label.retry_after}
    return {"label": label | {"also": list(case.label.also), "reason": case.label.reason}}


def _record(case: Case) -> dict[str, Any]:
    def late(*_args: object) -> None:
        raise NotProvokedError("took too long")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        case.provoke()
    except NotProvokedError:
        raise
    except BaseException as error:
        signal.alarm(0)
        if type(error).__module__.partition(".")[0] in DESCRIBED:
            raise NotProvokedError(f"{type(error)} belongs to a library that Outlast describes") from error
        described = describe(error)
        _check(error, described)
        text = _without_paths(json.dumps(relative(described), ensure_ascii=False))
        return {"id": case.id, "library": case.id.partition("/")[0], **_label(case), "error": json.loads(text)}
    finally:
        signal.alarm(0)
    raise NotProvokedError("no error")


def _check(error: BaseException, described: dict[str, Any]) -> None:
    """Whether the rebuilt error is like the real one: text, classes, plain attributes, chain."""
    again = rebuild(json.loads(json.dumps(described)))
    assert str(again) == described["str"], ("str", str(again), described["str"])
    assert [f"{c.__module__}:{c.__qualname__}" for c in type(again).__mro__] == described["mro"], "mro"
    for name, value in list(vars(error).items()):
        if type(value) in (int, str, bool, float, bytes, type(None)) and name in described.get("attributes", {}):
            assert getattr(again, name) == value or len(str(value)) > 5000, (name, getattr(again, name), value)
    for name in described.get("properties", {}):
        getattr(again, name)
    assert (error.__cause__ is None) == (again.__cause__ is None), "cause"
    assert (error.__context__ is None) == (again.__context__ is None), "context"
    assert len(again.args) == len(error.args), "args"


def _without_paths(text: str) -> str:
    """Leave out where this machine keeps its libraries and temporary files."""
    for place in {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}:
        text = text.replace(place, "/usr/lib/python3.11/site-packages")
    text = text.replace(sysconfig.get_paths()["stdlib"], "/usr/lib/python3.11")
    text = text.replace("heldout.record_databases", "app.models").replace(sys.base_prefix, "/usr")
    text = text.replace(sys.prefix, "/usr").replace(str(Path(__file__).parents[2]), "/srv/app")
    return re.sub(re.escape(tempfile.gettempdir()) + r"/heldout-\w+", "/srv/data", text)


if __name__ == "__main__":
    main()
