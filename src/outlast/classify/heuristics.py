"""Weak evidence for errors of unknown libraries: well-known attributes, and words in class names.

Attributes are only read, never called. A value that is not a status, a code or a time is ignored, so a mock, a property
that raises or a ``status = "abc"`` changes nothing.
"""

from enum import Enum
from os import strerror

from outlast.classify.codes import ERRNOS, judge_code, judge_evidence, name_of_errno, parse_names
from outlast.classify.data_errors import CLASS_NAMES
from outlast.classify.libraries import entry_of
from outlast.classify.reasons import category_of_reason, reason_in, reason_name, text_in
from outlast.classify.retry_after import wait_in_attributes
from outlast.classify.rpc_status import RPC_STATUSES
from outlast.classify.safe_access import (
    BODY_LIMIT,
    instance_attribute,
    read_headers,
    read_response,
    safe_getattr,
    safe_int,
    status_of,
    text_of,
)
from outlast.classify.statuses import refusal_in
from outlast.classify.vendor_codes import family_words, is_mail_reply
from outlast.failure import RETRYABLE, Category, Evidence
from outlast.patterns import compiled, has_word

_RESPONSE_ATTRIBUTES = ("response", "resp", "http_resp", "http_response", "raw_response")
_STATUS_ATTRIBUTES = ("status_code", "http_status", "response_code", "http_code", "status", "code")
_NUMBERS_OF_ANY_PROTOCOL = frozenset({"status", "code"})
_CODE_ATTRIBUTES = (
    *("code", "error_code", "error_name", "reason", "reasons", "error", "error_type", "description"),
    *("type", "status", "status_code", "http_status"),
)
_BODY_ATTRIBUTES = (
    *("body", "json_body", "json", "response_body", "error_body", "content", "text", "errors", "error", "details"),
    *("detail", "data", "extensions"),
)
_HEADER_ATTRIBUTES = ("headers", "resp_headers", "response_headers", "http_headers")
_SQLSTATE_ATTRIBUTES = ("sqlstate", "pgcode", "sql_state", "gql_status")
_RETRYABLE_ATTRIBUTES = ("retryable", "retriable", "is_retryable", "should_retry")
_HTTP_SIGNS = (*_RESPONSE_ATTRIBUTES, *_HEADER_ATTRIBUTES, "url", "uri", "request", "reason", "body")
_HTTP_STATUSES = frozenset(
    {*range(400, 419), *range(421, 427), 428, 429, 431, 451, *range(500, 509), 510, 511}  # as registered
)
_FAILURE_STATUSES = range(400, 600)
_MIN_ERRNO = 32  # smaller numbers are too often codes of a library
_SQLSTATE_LENGTH = 5
_POSTGRES_STATE = r"[0-9][0-9A-Z]P[0-9]{2}"  # such as 40P01, which no other code looks like
# Protocol by a word in the names of classes and packages; its three-digit numbers are not HTTP statuses.
_PROTOCOLS = {
    **dict.fromkeys(("smtp", "lmtp"), "mail"),
    "ftp": "ftp",
    **dict.fromkeys(("amqp", "stomp", "mqtt", "xmpp", "nntp", "sip"), "other"),
    **dict.fromkeys(("databaseerror", "operationalerror", "programmingerror", "interfaceerror"), "other"),
    **dict.fromkeys(("postgres", "postgresql"), "other"),
}
_NAMES_OF_STATUSES = "InternalServerError BadGateway GatewayTime ServiceUnavailable TooManyRequests RateLimit"

CLASS_NAME_PATTERNS: tuple[tuple[Category, str, str], ...] = (
    (
        Category.INVALID_PARAMETERS,  # about a setting with that name
        "Connection RateLimit Timeout",
        "^(?:Invalid|Missing|Unsupported|Negative)\\w*(?:Timeout|RateLimit|Connection)|^(?:Bad|Unknown|No)(?:Timeout|RateLimit)|"
        "(?:Timeout|RateLimit|Connection)\\w*(?:NotSupported|NotSet|NotAllowed|NotPositive|OutOfRange|Settings?|Preference|Parameter|Option)",
    ),
    (
        Category.QUOTA_EXHAUSTED,
        "BillingLimit InsufficientFunds PaymentRequired QuotaE",
        "Quota(?:Exceeded|Exhausted|Error)|BillingLimit\\w*|InsufficientFunds|PaymentRequired",
    ),
    (
        Category.AUTHENTICATION,
        "Auth Unauthori Unauthenticated Invalid Expired Signature Credential HostKey Login Password",
        "Unauthori[sz]ed|Unauthenticated|NotAuthenticated|Auth(?:entication|orization)?(?:Error|Failed|Failure|Exception|Required)|"
        "Invalid(?:Credentials?|Token|ApiKey|APIKey|Password)|(?:Token|Credentials?|Signature|Session)Expired|BadSignature|BadCredentials|HostKey(?:Not\\w+|Mismatch)|Expired(?:Token|Credentials?)|Login(?:Error|Required|Fail(?:ed|ure))|"
        "Credentials?(?:Unavailable|NotAvailable)|WrongPassword|PasswordRequired",
    ),
    (
        Category.ACCESS_DENIED,
        "AccessDenied Forbidden Legal PermissionDenied PermissionError",
        "Forbidden|AccessDenied|PermissionDenied|PermissionError|UnavailableForLegal",
    ),
    (
        Category.NOT_FOUND,
        "DoesNotExist Gone InvalidPath LookupError NoSuch NotAvailable NotFound Unavailable",
        "(?<!Delimiter)(?<!Footer)(?<!Header)(?<!Magic)(?<!Marker)NotFound|DoesNotExist|NoSuch[A-Z]|Gone(?:Error|Exception)?$|[a-z]LookupError$|^InvalidPath|(?:Content|Item|Page|Product|Video)(?:NotA|Una)vailable",
    ),
    (
        Category.INTEGRITY,
        "AlreadyExists Constraint Duplicate IntegrityError UniqueViolation",
        "Duplicate|AlreadyExists|UniqueViolation|IntegrityError|Constraint(?:Violation|Error)",
    ),
    (
        Category.CONFIGURATION,
        "Config InsecureTransport InvalidU KeyExchangeFailed Misconfigured NotAvailable NotSupported Unavailable Unknown Unsupported",
        "Configuration(?:Error|Exception)|(?:Protocol|Version|Algorithm)NotSupported|KeyExchangeFailed|Config(?:Error|Exception)|Misconfigured|ImproperlyConfigured|InvalidU[Rr][LI]|InsecureTransport|"
        "^NotSupportedError$|(?:Unsupported|Unknown)(?:Protocol|Scheme|Driver|Dialect)|(?:Country|Dependency|Driver|Feature|Function|Language|Library|Module|Option|Package|Plugin|Region)s?(?:NotA|Una)vailable",
    ),
    (
        Category.INVALID_PARAMETERS,
        "BadRequest Conflict Invalid Malformed MethodNotAllowed Unprocessable Validation",
        "BadRequest|Validation(?:Error|Exception|Failed)|Invalid(?:Argument|Parameter|Params|Request|Input|Value)|"
        "Unprocessable|(?<!Serialization)(?<!Transaction)(?<!Write)Conflict|MethodNotAllowed|Malformed(?:Request|Query)|RequestMalformed",
    ),
    (
        Category.DATA,
        "Parse Parsing Decod Deseriali Malformed Schema Scanner Lexer Tokeni Composer Constructor Unp Unmarshal ompress Format Codec Charset Conversion Coercion Compute Shape Data Empty Pdf XLRD CompDoc YAML Yaml TOML Toml LZ Zstd Snappy Brotli Avro Parquet GEOS WK Exif Truncated Checksum CRC Bad Delimiter Footer Header Invalid Magic Marker OutOfBounds XMLSyntax Corrupt Broken Not Unidentified Encoding PDF PSEOF PSSyntax JSONDecode",
        CLASS_NAMES,
    ),
    (
        Category.INVALID_PARAMETERS,
        "Argument Command Cron Illegal Invalid Option Payload ProgrammingError Query Subject Syntax TooLarge Undefined Unknown",
        r"^ProgrammingError$|(?:Template|Query|Filter|S[Qq][Ll]|GraphQL|Expression|Selector|XPath|Statement)\w*Syntax\w*|Undefined(?:Error|Variable)|"
        r"Bad(?:Subject|Cron|Command|Option|Argument|Query)\w*|Illegal(?:Input|Argument|State)\w*|Unknown(?:Command|Type|Operation)|"
        r"Invalid(?:Filter|Query|Name|\w+Name|Operation|Expression|Subject|Topic|Key)(?:Error|Exception)?$|Max(?:imum)?Payload|TooLarge",
    ),
    (
        Category.RATE_LIMIT,
        "FloodWait RateLimit RetryAfter SlowDown Throttl TooManyRequests",
        "Throttl|RateLimit|TooManyRequests|SlowDown|FloodWait|RetryAfter",
    ),
    (
        Category.DATABASE_BUSY,
        "Conflict Locked Deadlock LockNotAvailable LockTimeout Serialization TooManyConnections",
        "Deadlock|LockTimeout|LockNotAvailable|SerializationFailure|(?:Serialization|Transaction|Write)Conflict|(?:Database|Document|File|Record|Resource|Row|Table)Locked|TooManyConnections",
    ),
    (
        Category.SYSTEM,
        "DiskFull NoSpaceLeft OutOfMemory TooManyOpenFiles",
        "OutOfMemory|DiskFull|NoSpaceLeft|TooManyOpenFiles",
    ),
    (
        Category.API_TEMPORARY,
        "Unavailable NotAvailable Overloaded ServerError BadGateway Busy Maintenance Temporar Transient TryAgain Retr Down NoResponders Leader",
        "(?<!Permanently)Unavailable|NotAvailable(?:Error|Exception)?$|Overloaded|"
        "NoResponders|NotLeader|LeaderChanged|(?:Server|Service|Node|Cluster|Broker|Vault)Down|(?<!By)(?<!SQL)ServerError|BadGateway|(?:Broker|Channel|Device|Producer|Queue|Resource|Server|Service)Busy|UnderMaintenance|(?<!Non)(?<!Not)(?:Temporar(?:y(?!Dir|File|Table)|ily)|Transient)|TryAgain|(?<!Non)(?<!Not)Retr[iy]able(?:Error|Exception)",
    ),
    (
        Category.NETWORK,
        "Available Brokers Closed CommunicationError Connect DeadlineExceeded Disconnect Hosts NameResolution Network NeverReceived Nodes Servers Socket Terminated Time UnexpectedClose Unreachable",
        "Time(?:d)?[Oo]ut|Connect(?:ion)?(?:Error|Exception|Failed|Failure|Loss|Lost|Closed|Reset|Refused|Aborted|Timeout)|"
        "Disconnect(?:ed|ion)?|(?:Session|Connection)Terminated|UnexpectedClose|(?:Stream|Transport)Closed|NotConnected|Network(?:Error|Failure|Exception)|NameResolution|Unreachable|DeadlineExceeded|"
        "No(?:Servers|Hosts|Nodes|Brokers)(?:Error|Exception)?$|No(?:Server|Host|Node|Broker)s?Available|Socket(?:Open|Closed|Receive|Send)\\w*|CommunicationError|NeverReceived",
    ),
)
"""Category, parts of which a class name must have one, and a pattern; the permanent categories come first."""

CLASSES = parse_names("""
    data: py7zr.PasswordRequired rarfile.PasswordRequired rarfile.RarWrongPassword pypdf.WrongPasswordError
    database_busy: ZODB.ConflictError
    network: kazoo.SessionExpiredError neo4j.SessionExpired
    not_found: kazoo.NoNodeError
""")
"""Category by package and name of classes that mean something else than their name does elsewhere."""


def read_flag(error: BaseException) -> bool | None:
    """Return what an error says about retrying, such as ``retriable=False``; None if it says nothing."""
    stated = next((value for name in _RETRYABLE_ATTRIBUTES if type(value := safe_getattr(error, name)) is bool), None)
    return False if stated is None and safe_getattr(error, "non_retryable") is True else stated


def read_attributes(error: BaseException) -> tuple[Category, str, Evidence] | None:
    """Return category, rule name and evidence from the attributes of an error, or None."""
    evidence = evidence_in(error)
    verdict = judge_evidence(evidence)
    if evidence.code is not None and judge_code(evidence.code) is None:
        category = _judge_any_code(evidence.code, evidence.http_status)
        verdict = (category, f"code {evidence.code}") if category else verdict
    flag = read_flag(error)
    if flag is not None:
        evidence = evidence.replace(retryable=flag)
    if verdict is not None:
        if verdict[0] in RETRYABLE and evidence.code is None and (words := refusal_in(text_of(error))):
            return Category.AUTHENTICATION, f"text: {words}", evidence
        return verdict[0], f"attribute: {verdict[1]}", evidence
    if "retry-after" in evidence.headers:
        return Category.RATE_LIMIT, "attribute: retry_after", evidence
    return None


def evidence_in(error: BaseException) -> Evidence:
    """Return the evidence in the attributes of an error."""
    protocol = _protocol_of(error)
    found = _response_in(error) or (read_response(error) if protocol is None else None) or Evidence()
    facts: dict[str, object] = {}
    status = found.http_status
    if status is None or not _is_http_number(error, status, protocol):
        facts["http_status"] = status = _status_in(error, protocol)
    facts |= _reason_in(error, status, found)
    if not found.body and "body" not in facts and status is not None:
        facts["body"] = text_of(error)[:BODY_LIMIT]
    state = _sqlstate_in(error, protocol)
    if state is not None:
        facts["sqlstate"] = state
    if (number := _errno_in(error)) is not None:
        facts["errno"] = number
    headers = found.headers or _headers_in(error)
    wait = wait_in_attributes(error)
    if wait is not None and "retry-after" not in headers:
        headers = {**headers, "retry-after": f"{wait:.3f}"}  # as a header, so that it is capped
    if headers:
        facts["headers"] = headers
    return found.replace(**facts)


def _response_in(error: BaseException) -> Evidence | None:
    request = safe_getattr(error, "request")
    for name in _RESPONSE_ATTRIBUTES:
        response = safe_getattr(error, name)
        if response is not None and (found := read_response(response, request)) is not None:
            return found
    return None


def _headers_in(error: BaseException) -> dict[str, str]:
    for name in _HEADER_ATTRIBUTES:
        headers = safe_getattr(error, name)
        if headers is not None and (found := read_headers(headers)):
            return found
    return {}


def _protocol_of(error: BaseException) -> str | None:
    """Return the protocol that is not HTTP and that the names of the classes show, or None."""
    words = family_words(type(error).__mro__[:-2])
    protocol = next((protocol for word, protocol in _PROTOCOLS.items() if word in words), None)
    if protocol is not None:
        return protocol
    return "mail" if is_mail_reply(error) else None


def _three_digits(value: object) -> int | None:
    """Return a number from 400 to 599, also from a text such as "503"; else None."""
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():  # "503"
        value = int(value)
    number = status_of(value)
    return number if number in _FAILURE_STATUSES else None


def _is_http_number(error: BaseException, number: int, protocol: str | None) -> bool:
    """Return whether a number is an HTTP status: a registered one, or the object has a response, headers or a URL."""
    if protocol is not None or number not in _FAILURE_STATUSES:
        return False
    return number in _HTTP_STATUSES or any(safe_getattr(error, name) is not None for name in _HTTP_SIGNS)


def _status_in(error: BaseException, protocol: str | None) -> int | None:
    for name in _STATUS_ATTRIBUTES:
        number = _three_digits(safe_getattr(error, name))
        if number is None:
            continue
        if name not in _NUMBERS_OF_ANY_PROTOCOL or _is_http_number(error, number, protocol):
            return number
    args = error.args
    number = _three_digits(args[0]) if protocol is None and len(args) > 1 else None  # (503, "text"), (503, {…})
    if number is None or number not in _HTTP_STATUSES:
        return None
    return number if _speaks_of_http(error, number, args[1]) else None


def _speaks_of_http(error: BaseException, number: int, said: object) -> bool:
    """Return whether what comes with a number shows that it is a status: a decoded body, or the words of the status."""
    if isinstance(said, dict):
        return True
    words = said[:BODY_LIMIT].lower() if isinstance(said, str) else ""
    from http import HTTPStatus  # noqa: PLC0415  # few errors need it

    phrase = HTTPStatus(number).phrase.lower()
    return phrase in words or "http" in words or any(safe_getattr(error, name) is not None for name in _HTTP_SIGNS)


def _reason_in(error: BaseException, status: int | None, found: Evidence) -> dict[str, object]:
    """Return the code and the body of an error: names in attributes, then names in a body."""
    facts: dict[str, object] = {}
    for name in _CODE_ATTRIBUTES:
        value = safe_getattr(error, name)
        if isinstance(value, list | tuple) and value:
            value = value[0]
        if value is not None and not callable(value) and _judge_any_code(value, status) is not None:
            facts["code"] = reason_name(value)
            break
    bodies = [instance_attribute(error, name) for name in _BODY_ATTRIBUTES]
    bodies += [each for each in error.args[:3] if isinstance(each, dict | list)]
    for body in bodies:
        if isinstance(body, bytes | bytearray):
            body = bytes(body[:BODY_LIMIT]).decode("utf-8", "replace")  # noqa: PLW2901  # the same body, as text
        if not isinstance(body, str | dict | list) or not body:
            continue
        if "code" not in facts and (reason := reason_in(body, status)):
            facts["code"] = reason[1]
        if not found.body and "body" not in facts:
            facts["body"] = body[:BODY_LIMIT] if isinstance(body, str) else text_in(body)
    return facts


def _sqlstate_in(error: BaseException, protocol: str | None) -> str | None:
    names = (*_SQLSTATE_ATTRIBUTES, "code") if protocol == "other" else _SQLSTATE_ATTRIBUTES
    for name in names:
        state = safe_getattr(error, name)
        if isinstance(state, str) and len(state) == _SQLSTATE_LENGTH and state.isascii() and state.isalnum():
            return state
    code = safe_getattr(error, "code")
    return code if isinstance(code, str) and compiled(_POSTGRES_STATE).fullmatch(code) else None


def _errno_in(error: BaseException) -> int | None:
    """Return an errno that means a lost connection, or whose standard words are in the text; None for other numbers."""
    number = safe_int(error, "errno")
    category = ERRNOS.get(name_of_errno(number) or "")
    if number is None or category is None:
        return None
    if category is Category.NETWORK and number >= _MIN_ERRNO:
        return number
    return number if strerror(number) in text_of(error)[:BODY_LIMIT] else None


def _judge_any_code(code: object, status: int | None) -> Category | None:
    """Return the category of an API code, a gRPC status, an errno name or a reason such as ``rate_limited``."""
    if isinstance(code, Enum):
        code = code.name
    if not isinstance(code, str):
        return None
    if status is None:
        return RPC_STATUSES.get(code) or ERRNOS.get(code) or category_of_reason(code)
    return judge_code(code) or category_of_reason(code, status)


def stands_for_status(name: str) -> bool:
    """Return whether a class name is that of a retryable HTTP status; words decide against it as little as against one."""
    return has_word(name, _NAMES_OF_STATUSES)


def read_name(kind: type) -> tuple[Category, str] | None:
    """Return category and class name from the first name in the class hierarchy that matches, or None.

    Classes in the library files, also those listed as saying nothing, end the search.
    """
    for each in kind.__mro__:
        module: object = each.__module__
        try:
            if not isinstance(module, str) or entry_of(module.partition(".")[0], each.__name__) is not None:
                return None
        except OSError:  # the file cannot be opened at the moment
            return None
        known = CLASSES.get(f"{module.partition('.')[0]}.{each.__name__}")
        if known is not None:
            return known, each.__name__
        for category, parts, pattern in CLASS_NAME_PATTERNS:
            if has_word(each.__name__, parts) and compiled(pattern).search(each.__name__):
                return category, each.__name__
    return None
