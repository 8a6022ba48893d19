"""Write the pages of docs/reference that are generated from the code; the end of cli.md is one of them.

tools/reference.py            write them
tools/reference.py --check    write nothing; exit with 1 if a page on disk differs
"""

import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from reference_api import NOTICE, api, attribute_doc
from reference_cli import commands
from reference_docstrings import first, item
from reference_settings import events, settings

from outlast import Category, Evidence, rate_limit_hint
from outlast.classify import classifier, codes, statuses, texts
from outlast.classify import codes as errnos
from outlast.classify import codes as sqlstates
from outlast.classify.libraries import FILES, entry_of, load
from outlast.classify.quota import CERTAIN, PLAIN, UNLESS_SHORT
from outlast.classify.retry_after import MAX_RETRY_AFTER_SECONDS
from outlast.operations.table import OPERATIONS
from outlast.web.openapi import OPENAPI_PATH, openapi_document
from outlast.web.site import PAGES as WEB_PAGES

ROOT = Path(__file__).resolve().parents[1]
MADE_WITH = (3, 11)
PAGES = ROOT / "docs" / "reference"

# Meaning of each category, what a call does, what a batch job does with its target, what it means for a source.
MEANINGS = {
    Category.NETWORK: (
        "The server could not be reached, or the connection broke.",
        "retried",
        "target fails",
        "not counted",
    ),
    Category.RATE_LIMIT: (
        "Too many requests.",
        "retried after the hint",
        "target fails",
        "not counted; host cools down",
    ),
    Category.API_TEMPORARY: ("The service is available but failing.", "retried", "target fails", "not counted"),
    Category.DATABASE_BUSY: ("Locked, deadlocked, or out of connections.", "retried", "target fails", "-"),
    Category.SYSTEM: (
        "This machine (or the database's) is out of disk, memory or files.",
        "retried; a worker pauses claiming",
        "job stops after a few",
        "-",
    ),
    Category.ACCESS_DENIED: (
        "Refused without asking for credentials.",
        "raised; some profiles try briefly",
        "**job stops**",
        "counted",
    ),
    Category.NOT_FOUND: ("It does not exist, or no longer exists.", "raised", "target fails", "counted"),
    Category.INVALID_PARAMETERS: ("The request or the input is wrong.", "raised", "target fails", "counted"),
    Category.AUTHENTICATION: ("The credentials were refused.", "raised", "**job stops**", "counted"),
    Category.QUOTA_EXHAUSTED: (
        "The quota is exhausted.",
        "raised; deferred if the reset time is known",
        "**job stops**; target is deferred if the reset time is known",
        "not counted",
    ),
    Category.CONFIGURATION: ("A key, URL, table or setting is missing or wrong.", "raised", "**job stops**", "-"),
    Category.INTEGRITY: ("A constraint was violated, or stored data is damaged.", "raised", "**job stops**", "-"),
    Category.DATA: ("The response arrived but cannot be used.", "raised", "target fails", "counted"),
    Category.UNKNOWN: ("Nothing matched, or the match is not conclusive.", "raised", "target fails", "counted"),
}

ORDER = """\
1. **Your own rules**, in their order (`Rule`, or `[[classify.rules]]` in `outlast.toml`).
2. **The error itself**: the exceptions of `outlast.errors`, or an attribute `outlast_category`.
3. **Exact evidence**: what its library's file reads in the error, else the meaning of its class; for an unknown
   library, its attributes (`status_code`, `response`, `code`, `error_code`, `reason`, `body`, `errors`, …). Evidence is
   classified by error code, then SQLSTATE, then a reason in the body (`error.code`, `error.type`, `errors[].reason`,
   `errors[].extensions.code`, `__type`, the type of a problem document, `<Code>`), then HTTP status, then error number.
   The causes (`__cause__`) follow, nearest first.
4. **Weak evidence**: the name of its class, a built-in base class, and its text; then those of its causes. A permanent
   reading wins. Text does not make a 5xx, an error number or a lost connection permanent, except if it refuses
   credentials.
5. **Its context** (`__context__`), in the same way, unless `raise … from None` suppresses it.

The first match decides; `outlast.explain(error)` shows all of them. A number in `code` or `status` is an HTTP status
only if it is a registered one or the error has a response, headers or a URL, and its class does not belong to another
protocol. A flag such as `retriable = False` decides whether to retry, not which category it is. A class inherits the
meaning of its bases. `KeyboardInterrupt` and similar exceptions pass through. For an exception group, the worst leaf
decides: a permanent error before one that may recover, and then in this order:

{worst}"""

INTRODUCTION = """\
How Outlast classifies an error. Search this page for a status, an SQLSTATE, an error code or a class name; a class that
is not listed is classified like its nearest listed base."""

WAITING = """\
The wait is read from the first of these headers that is present. A reset counts only if nothing remains, and no header
can ask for more than {most} s. The examples are read at 1700000000 (2023-11-14 22:13:20 UTC), for a 429:"""

LIBRARIES = """\
No library is imported; classes are matched by package and name. The evidence that a reader finds takes precedence over
the meaning of the class. A silent class has no meaning of its own: its causes and its text are classified."""

# Responses whose meaning is settled by more than the status; the verdicts are computed when the page is made.
SETTLED = (
    (
        "403, body names a quota (`quotaExceeded`, `insufficient_quota`, …)",
        {"http_status": 403, "body": "quotaExceeded"},
    ),
    ("403 with `Retry-After`", {"http_status": 403, "headers": {"retry-after": "60"}}),
    (
        "403, nothing remains (`X-RateLimit-Remaining: 0`)",
        {"http_status": 403, "headers": {"x-ratelimit-remaining": "0"}},
    ),
    ("403, body mentions a rate limit", {"http_status": 403, "body": "API rate limit exceeded"}),
    (
        "403, body speaks of the caller's key, token or scope",
        {"http_status": 403, "body": "Resource not accessible by personal access token"},
    ),
    ("403, credentials were sent", {"http_status": 403, "credentials_sent": True}),
    ("403, no credentials were sent", {"http_status": 403, "credentials_sent": False}),
    ("403, unknown whether credentials were sent", {"http_status": 403}),
    ("429, body names an exhausted quota", {"http_status": 429, "body": "insufficient_quota"}),
    ("503, nothing remains, or body mentions a rate limit", {"http_status": 503, "body": "Please reduce; SlowDown"}),
    ("409 with `Retry-After`", {"http_status": 409, "headers": {"retry-after": "5"}}),
    (
        "409 about concurrent writes, body asks for another try",
        {"http_status": 409, "body": "Another update is in progress. Please try again."},
    ),
    ("413 with `Retry-After`", {"http_status": 413, "headers": {"retry-after": "5"}}),
    ("418 with `Retry-After`", {"http_status": 418, "headers": {"retry-after": "5"}}),
)

# Headers as they come, read at 2023-11-14 22:13:20 UTC (1700000000).
HINTS = (
    ("seconds", {"Retry-After": "120"}),
    ("HTTP-date, relative to `Date` if present", {"Retry-After": "Tue, 14 Nov 2023 22:14:20 GMT"}),
    ("milliseconds", {"Retry-After-Ms": "1500"}),
    ("milliseconds", {"X-Ms-Retry-After-Ms": "250"}),
    ("IETF draft, one header", {"RateLimit": "limit=10, remaining=0, reset=30"}),
    ("IETF draft, structured", {"RateLimit": '"default";r=0;t=30'}),
    ("IETF draft, separate headers", {"RateLimit-Reset": "30", "RateLimit-Remaining": "0"}),
    ("epoch seconds", {"X-RateLimit-Reset": "1700000090"}),
    ("epoch milliseconds", {"X-RateLimit-Reset": "1700000090000"}),
    ("relative seconds", {"X-RateLimit-Reset": "45"}),
    ("relative seconds", {"X-RateLimit-Reset-After": "1.5"}),
    ("duration", {"X-RateLimit-Reset-Requests": "6m0s"}),
    ("something remains: no hint", {"X-RateLimit-Reset": "45", "X-RateLimit-Remaining": "3"}),
)


def table(head: str, rows: list[tuple[object, ...]]) -> str:
    """Return a Markdown table; the head's columns are separated by bars."""
    columns = head.split("|")
    lines = [columns, ["---"] * len(columns), *([str(cell).replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names(found: object) -> str:
    """Return names as code, in alphabetical order; accelerator modules by their public name."""
    return ", ".join(f"`{name.removeprefix('_')}`" for name in sorted(found, key=lambda name: name.lower().lstrip("_")))


def by_category(verdicts: dict[str, Category]) -> str:
    """Return one list item per category with all that has it."""
    groups = {category: [name for name, said in verdicts.items() if said is category] for category in Category}
    return "\n".join(item(f"**{category}**: {names(found)}") for category, found in groups.items() if found)


def comments(module: ModuleType) -> dict[str, str]:
    """Return the comments beside the rows of a module's tables, by key."""
    rows = re.findall(r"^ +\"?(\w+)\"?: _C\.\w+,  # (.*)$", inspect.getsource(module), re.MULTILINE)
    return dict(rows)


def classification() -> str:
    """Return the page on classification."""
    parts = [
        f"# Classification\n\n{NOTICE}\n\n{INTRODUCTION}",
        "## Categories",
        table(
            "category|meaning|retryable|a call|a batch job|a source's streak",
            [(f"`{c}`", MEANINGS[c][0], "yes" if c.retryable else "no", *MEANINGS[c][1:]) for c in Category],
        ),
        "## Order of evidence",
        ORDER.format(worst=item(", ".join(classifier._SEVERITY_ORDER))),  # noqa: SLF001
        "## HTTP statuses",
        table("status|category|note", http_rows()),
        "Some statuses have several meanings. The rest of the response decides:",
        table(
            "response|category|rule",
            [(what, f"`{said[0]}`", said[1]) for what, e in SETTLED if (said := statuses.judge_status(Evidence(**e)))],
        ),
        "Credentials are found in the request's headers (`Authorization`, `Cookie`, API-key headers) and its URL.",
        "## Rate-limit headers",
        WAITING.format(most=MAX_RETRY_AFTER_SECONDS),
        table(
            "headers|form|wait",
            [(", ".join(f"`{k}: {v}`" for k, v in h.items()), form, wait_of(h)) for form, h in HINTS],
        ),
        "## SQLSTATE",
        table("class or state|category|what it is", sqlstate_rows()),
        "## Error numbers of the operating system",
        by_category(errnos.ERRNOS),
        "## Error codes of APIs",
        by_category(codes.CODES),
        "A code that is not listed is classified by its ending:",
        "\n".join(item(f"**{category}**: `{pattern}`") for pattern, category in codes.CODE_SHAPES),
        "## Libraries",
        LIBRARIES,
        *(library(file) for file in ("standard", *sorted(set(FILES.values())))),
        "## Words",
        f"Used last: regular expressions over the first {texts.TEXT_LIMIT} characters, in lower case.",
        *(
            f"### Words: {category}\n\n```text\n" + "\n".join(lines.values()) + "\n```"
            for category, lines in {
                Category.QUOTA_EXHAUSTED: {**CERTAIN, **UNLESS_SHORT, **PLAIN},
                **texts.PHRASES,
            }.items()
        ),
        "### A status in a text\n\n```text\n" + "\n".join(texts.STATUS_PATTERNS.values()) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def http_rows() -> list[tuple[object, ...]]:
    """Return the rows of the table of statuses."""
    notes = comments(statuses)
    special = [(str(status), f"`{said}`", notes.get(str(status), "")) for status, said in statuses.STATUSES.items()]
    rest = [(f"other {h}xx", f"`{said}`", "") for h, said in statuses._HUNDREDS.items()]  # noqa: SLF001
    return sorted([*special, ("403", "by evidence", "see below")]) + rest


def sqlstate_rows() -> list[tuple[object, ...]]:
    """Return the rows of the table of states, each class before its exceptions."""
    notes = comments(sqlstates)
    both = {**sqlstates.SQLSTATE_CLASSES, **sqlstates.SQLSTATES}
    rows = [
        (f"`{s}`" if len(s) > 2 else f"**{s}**…", f"`{said}`", notes.get(s, "")) for s, said in sorted(both.items())
    ]
    cancelled = "query canceled: by a timeout; by a user's request it is `unknown`"
    rows.append(("`57014`", f"`{sqlstates.judge_sqlstate('57014')}`", cancelled))
    return sorted(rows, key=lambda row: re.sub(r"\W", "", row[0]))


def wait_of(headers: dict[str, str]) -> str:
    """Return the wait that the rules read from headers."""
    hint = rate_limit_hint(headers, now=lambda: 1_700_000_000.0)
    return f"{hint.seconds:g} s" if hint else "-"


def library(file: str) -> str:
    """Return the section of one library."""
    described = load(file)
    module = importlib.import_module(f"outlast.classify.libraries.{file}")
    parts = [f"### {described.title}", f"Origin: `{described.origin}`."]
    said = {name: category for category, found in described.categories.items() for name in found.split()}
    if said:
        parts.append(f"By class:\n\n{by_category(said)}")
    if described.readers:
        readers = {
            read: [name for name, each in described.readers.items() if each is read]
            for read in described.readers.values()
        }
        parts.append("Read:\n\n" + "\n".join(item(f"{names(found)}: {first(read)}") for read, found in readers.items()))
    for name, rows in vars(module).items():
        if name.isupper() and name[0] != "_" and isinstance(rows, dict):
            verdicts = {key if isinstance(key, str) else str(key): value for key, value in rows.items()}
            pairs = {f"{v[0]} ({k})": v[1] for k, v in verdicts.items() if isinstance(v, tuple)}
            parts.append(f"{attribute_doc(name, module)}\n\n{by_category(pairs or verdicts)}")
    if inherited := heirs(file):
        parts.append("Inherited:\n\n" + "\n".join(inherited))
    if described.says_nothing:
        parts.append("Silent:\n\n" + item(names(described.says_nothing.split())))
    return "\n\n".join(parts)


def heirs(file: str) -> list[str]:
    """Return a line for every described class with the public classes that are judged as it is.

    The libraries are imported for this, where they are installed. What carries an SQLSTATE of its own is left out.
    """
    packages = [each for each in FILES if FILES[each] == file and each not in sys.stdlib_module_names]
    found: dict[str, set[str]] = {}
    for module in (f"{each}{part}" for each in packages for part in ("", ".exceptions", ".exc")):
        for kind in list(vars(importlib.import_module(module)).values()) if installed(module) else ():
            ours = isinstance(kind, type) and issubclass(kind, Exception) and spelled(kind)[0] in packages
            if ours and not issubclass(kind, Warning) and not getattr(kind, "sqlstate", None):
                foreign = (each for each in kind.__mro__ if spelled(each)[0] != "builtins")
                base = next((each for each in foreign if entry_of(*spelled(each))), kind)
                if base is not kind:
                    found.setdefault(".".join(spelled(base)), set()).add(".".join(spelled(kind)))
    return [item(f"as `{base}`: {names(kinds)}") for base, kinds in sorted(found.items())]


def spelled(kind: type) -> tuple[str, str]:
    """Return package and name of a class, by which it is known."""
    return kind.__module__.partition(".")[0], kind.__name__


def installed(module: str) -> bool:
    """Tell whether a module can be imported here."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
    except ValueError:  # it is loaded and has put something else in its own place, as kombu does
        return True


JSON_API = """\
The dashboard has a JSON endpoint for each of its pages and for each action; `{path}` describes them as OpenAPI 3.1.
Send a token as `Authorization: Bearer …`. Operators may use all of them, readers only those with the method GET.
[Dashboard](web.md) has the meaning of the pages and actions, the limits, and the responses to what is refused."""
JSON_FIELDS = "A list shows the fields that always have the same type. A response may have more fields."


def json_api() -> str:
    """Return the page on the JSON API."""
    document = openapi_document(WEB_PAGES, OPERATIONS)
    parts = [f"# JSON API\n\n{NOTICE}", JSON_API.format(path=OPENAPI_PATH), JSON_FIELDS]
    for path, methods in document["paths"].items():
        for method, endpoint in methods.items():
            body = endpoint.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = {
                name: (schema, name in body.get("required", ())) for name, schema in body.get("properties", {}).items()
            }
            asked = {each["name"]: (each["schema"], each["required"]) for each in endpoint["parameters"]} | fields
            data = endpoint["responses"]["200"]["content"]["application/json"]["schema"].get("properties", {})
            parts.append(f"## {method.upper()} {path}\n\n`{endpoint['operationId']}`: {endpoint['summary']}")
            if asked:
                rows = [
                    (f"`{name}`", spelled_schema(schema), "yes" if needed else "", schema.get("description", ""))
                    for name, (schema, needed) in asked.items()
                ]
                parts.append(table("parameter|type|required|meaning", rows))
            if data:
                parts.append(
                    f"Returns {', '.join(f'`{name}` ({spelled_schema(each)})' for name, each in data.items())}."
                )
    parts.append("## Rows")
    for name, schema in document["components"]["schemas"].items():
        fields = ", ".join(f"`{each}` ({spelled_schema(kind)})" for each, kind in schema["properties"].items())
        parts.append(f"### {name}\n\n{fields}.")
    return "\n\n".join(parts) + "\n"


def spelled_schema(schema: dict[str, Any]) -> str:
    """Return a JSON Schema in a few words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(spelled_schema, schema["anyOf"]))
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    if "items" in schema:
        return f"array of {spelled_schema(schema['items'])}"
    if "format" in schema:
        return schema["format"]
    limits = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "maxLength": "at most"}
    words = [f"{word} {schema[name]:,}" for name, word in limits.items() if name in schema and schema[name] < 2**62]
    return " ".join([kind, *words])


def made() -> dict[str, str]:
    """Return all pages by their paths below docs/reference."""
    written = {"classification.md": classification(), "events.md": events(), "json-api.md": json_api()}
    return written | {"settings.md": settings(), "cli.md": commands()} | api()


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them."""
    pages = made()
    check, stale = "--check" in arguments, []
    for file, text in pages.items():
        page = PAGES / file
        if page.is_file() and page.read_text("utf-8") == text:
            continue
        stale.append(page)
        if not check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
    for page in sorted(PAGES.glob("api/*.md")):
        if f"api/{page.name}" not in pages:  # of a module that is gone
            stale.append(page)
            if not check:
                page.unlink()
    if stale and check:
        named = ", ".join(str(page.relative_to(ROOT)) for page in stale)
        print(f"out of date: {named}; run: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.version_info[:2] != MADE_WITH:  # signatures and names of errors differ between versions
        print("the reference is made with Python {}.{}; left as it is".format(*MADE_WITH))
        sys.exit()
    sys.exit(main(sys.argv[1:]))
