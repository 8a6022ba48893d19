"""Reasons that APIs state in the body of an error: where they are, and what they mean.

A reason is a name such as ``quota_exceeded`` in a field for names: `error.code`, `error.type`, `errors[].reason`,
`errors[].extensions.code`, `__type`, the `type` of a problem document, `<Code>` in XML. Spelling differs between
APIs, so case and punctuation do not count; the name has to match as a whole.
"""

from enum import Enum
from itertools import islice

from outlast.classify.codes import judge_code, parse_names
from outlast.failure import RETRYABLE, Category
from outlast.patterns import compiled, has_word, word_set

_C = Category

REASONS = parse_names("""
    rate_limit: ratelimit ratelimited ratelimits ratelimitexceeded ratelimiterror ratelimitreached ratelimitederror
      userratelimitexceeded apiratelimitexceeded apilimitreached toomanyrequests toomanyrequestserror throttled
      throttling throttlingerror throttlingexception throttledexception requestthrottled slowdown
      concurrencylimitexceeded concurrentlimitexceeded concurrentrequestslimitexceeded toomanyconcurrentrequests
      floodwait limitexceededpersecond limitexceededperminute
    quota_exhausted: quotaexceeded quotaexhausted quotaerror insufficientquota overquota resourcequotaexceeded
      storagequotaexceeded dailylimitexceeded dailyquotaexceeded monthlylimitexceeded monthlyquotaexceeded
      usagelimitexceeded usagelimitreached usagecapexceeded usagecapped spendinglimitreached spendinglimitexceeded
      billinghardlimitreached billingnotactive billingerror insufficientfunds insufficientcredits insufficientbalance
      notenoughcredits outofcredits creditsexhausted paymentrequired planlimitexceeded planlimitreached
      accountlimitexceeded
    authentication: unauthorized unauthorised unauthenticated notauthenticated notauthorized notauthed
      usernotauthorized authenticationerror authenticationfailed authenticationfailure authenticationrequired
      authenticationexception autherror authfailed authfailure authrequired invalidauth authorizationerror
      authorizationfailed invalidapikey invalidapikeys apikeyinvalid apikeyexpired missingapikey invalidkey
      invalidaccesskeyid invalidcredentials invalidcredential badcredentials wrongcredentials invalidpassword
      wrongpassword invalidlogin loginfailed loginrequired notloggedin invalidtoken tokeninvalid tokenexpired
      tokenrevoked expiredtoken missingtoken invalidaccesstoken accesstokenexpired expiredaccesstoken
      accesstokenscopeinsufficient invalidsession invalidsessionid sessionexpired invalidsignature
      signaturedoesnotmatch invalidclient invalidgrant unauthorizedclient accessdenied interactionrequired
      consentrequired insufficientscope missingscope insufficientpermissions insufficientprivileges permissiondenied
      permissionerror accountinactive accountsuspended accountdisabled userdisabled securityexception
    access_denied: forbidden
    not_found: notfound resourcenotfound resourcemissing objectnotfound doesnotexist gone nosuchkey nosuchbucket
      nosuchentity nosuchresource notfounderror
    invalid_parameters: badrequest badrequesterror badrequestexception badinput baduserinput invalidrequest
      invalidrequesterror invalidargument invalidarguments invalidparameter invalidparameters invalidparams
      invalidparametervalue invalidinput invalidvalue invalidfield invalidquery missingparameter missingfield
      parameterinvalid parametermissing requiredfieldmissing missingrequiredfield missingrequiredparameter
      validationerror validationfailed validationexception graphqlvalidationfailed graphqlparsefailed syntaxerror
      usererror malformedquery malformedrequest malformedid unprocessable unprocessableentity methodnotallowed
      conflict alreadyexists resourcealreadyexists unsupportedmediatype payloadtoolarge requesttoolarge
      requestentitytoolarge contextlengthexceeded stringabovemaxlength contentpolicyviolation contentfilter
      unsupportedgranttype unsupportedresponsetype invalidscope
    configuration: accessnotconfigured servicedisabled apidisabled billingdisabled insecuretransport
      redirecturimismatch invalidredirecturi misconfigured configurationerror
    integrity: uniqueviolation duplicatekey duplicateentry duplicatevalue constraintviolation
    database_busy: unabletolockrow locktimeout rowlocktimeout deadlock deadlockdetected locknotavailable
      databaselocked databasebusy serializationfailure writeconflict transactionconflict queryqueuefull
      toomanyconnections
    system: nospaceleftondevice nospaceleft diskfull outofdisk outofdiskspace outofmemory
    api_temporary: serviceunavailable serviceunavailableerror serviceunavailableexception temporarilyunavailable
      unavailable servererror internalservererror internalerror internalfailure internalexception backenderror
      overloaded overloadederror serveroverloaded engineoverloaded serverbusy servicebusy busy temporaryerror
      transienterror tryagain tryagainlater badgateway gatewaytimeout upstreamerror upstreamunavailable maintenance
      undermaintenance plannedmaintenance authorizationpending institutiondown institutionnotresponding
    network: timeout timedout connectionerror connectiontimeout deadlineexceeded networkerror networkconnection
""")
"""Category by reason, in lowercase and without punctuation."""

_ENDINGS = (
    ("notfound", _C.NOT_FOUND),  # model_not_found
    ("loginrequired", _C.AUTHENTICATION),
    ("unavailable", _C.API_TEMPORARY),
    ("notready", _C.API_TEMPORARY),
    ("notresponding", _C.API_TEMPORARY),
    ("isdown", _C.API_TEMPORARY),
    ("queuefull", _C.DATABASE_BUSY),
)
"""Category by the end of a reason, after the name of any resource."""

_TEMPORARY = frozenset({_C.API_TEMPORARY, _C.NETWORK, _C.SYSTEM})
# With a 4xx, other temporary reasons are about the request: a slot is 'unavailable', a field has the name 'timeout'.
_TEMPORARY_WITH_4XX = word_set(
    "temporarilyunavailable authorizationpending tryagainlater institutiondown institutionnotresponding "
    "nospaceleftondevice diskfull outofdiskspace"
)

_EXACT = {"REQUEST_LIMIT_EXCEEDED": _C.QUOTA_EXHAUSTED}  # requests of a day; AWS means a rate by RequestLimitExceeded

# These repeat a status in words, so they say nothing more than the status does.
_STATUS_NAMES = word_set(
    "badrequest unauthorized paymentrequired forbidden notfound methodnotallowed conflict gone "
    "unprocessableentity toomanyrequests internalservererror serviceunavailable badgateway gatewaytimeout"
)
_REFUSALS = frozenset({"accessdenied", "permissiondenied", "permissionerror"})  # a 403 in words: credentials decide
_LONGEST_REASON = 100
_NOT_A_NAME = r"[^A-Za-z0-9]+"


def reason_name(value: object) -> str | None:
    """Return a reason as a name: the last part of a URI, a path or a qualified name; None if it is not a name."""
    if isinstance(value, Enum):
        value = value.name
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_REASON or " " in value.strip():
        return None
    return value.strip().rstrip("/#").replace("#", "/").rpartition("/")[2]


def category_of_reason(value: object, status: int | None = None) -> Category | None:
    """Return the category of a reason, or None if it is unknown or says less than the status.

    Args:
        value: The reason, or any other object.
        status: The HTTP status it came with. A reason for a limit, a lock or a refusal is more specific than a status;
            'invalid request' is not more specific than a 404.
    """
    name = reason_name(value)
    if name is None:
        return None
    plain = compiled(_NOT_A_NAME).sub("", name.replace(":", ".").rpartition(".")[2]).lower()
    if status is not None and plain in _STATUS_NAMES:
        return None
    exact = _EXACT.get(name) or judge_code(name)
    category = exact or REASONS.get(plain)
    if category is None:
        category = next((each for ending, each in _ENDINGS if plain.endswith(ending)), None)
    if category in _TEMPORARY and exact is None and status is not None and status < 500:  # noqa: PLR2004
        return category if plain in _TEMPORARY_WITH_4XX else None
    return category if category is None or status is None or _is_more_specific(category, plain, status) else None


def _is_more_specific(category: Category, plain: str, status: int) -> bool:
    if status == 429:  # noqa: PLR2004  # 'quota exceeded' alone may be a limit per minute
        return category is _C.QUOTA_EXHAUSTED and plain != "quotaexceeded"
    if category is _C.RATE_LIMIT or category is _C.QUOTA_EXHAUSTED:
        return True
    if category is _C.INVALID_PARAMETERS:
        return status == 400 or status >= 500  # noqa: PLR2004
    if status == 403 and plain in _REFUSALS:  # noqa: PLR2004
        return False
    return status not in {401, 402, 404, 407, 410}


_CONTAINERS = word_set(
    "error errors fault faults detail details extensions root_cause exception Error Errors Fault Response"
)
_FIELDS = (
    ("reason",),
    ("code", "errorCode", "error_code", "errorcode", "Code", "ErrorCode", "faultcode", "faultCode"),
    ("error", "errorName", "error_name"),
    ("__type", "type", "errorType", "error_type"),
    ("status",),
)
"""Names of the fields for reasons, the most specific first."""
_TOP_FIELDS = ("name", "title")  # inside a list of errors they name a field or an object
_NODE_LIMIT = 40
_TEXT_LIMIT = 4096
_XML_FIELD = r"<(?:\w{1,20}:)?(?:[Cc]ode|[Ee]rrorCode|faultcode|[Rr]eason)>\s*([\w.:-]{1,100})\s*</"
_JSON_FIELD = (
    r"\"(?:reason|code|error_?[Cc]ode|Code|error|error_?[Nn]ame|__type|error_?[Tt]ype|type|title|status)\""
    r"\s*:\s*\"([^\"\s]{1,100})\""
)


def _values_by_field(body: object) -> tuple[list[list[str]], bool]:
    """Return the values of the fields for reasons, the most specific field first, and whether the body was whole."""
    if isinstance(body, str):
        start = body[:64].lstrip()[:1]
        if start not in {"{", "["}:
            found = compiled(_XML_FIELD).finditer(body[:_TEXT_LIMIT]) if start == "<" else ()
            return [[match[1] for match in found]], True
        decoded = _decode_json(body)
        if decoded is None:  # cut off
            return [[match[1] for match in compiled(_JSON_FIELD).finditer(body[:_TEXT_LIMIT])]], False
        body = decoded
    nodes = _nodes_in(body)
    fields = [[node.get(name) for node in nodes for name in names] for names in _FIELDS]
    fields.append([node.get(name) for node in nodes[:1] for name in _TOP_FIELDS])
    return [[value for value in values if isinstance(value, str)][:_NODE_LIMIT] for values in fields], True


def _decode_json(text: str) -> object:
    import json  # noqa: PLC0415  # most errors have no body

    try:
        return json.loads(text) if len(text) <= _TEXT_LIMIT else None
    except (ValueError, RecursionError):
        return None


def reason_in(body: object, status: int | None = None) -> tuple[Category, str] | None:
    """Return category and name of the most specific reason in a body that says more than the status, or None.

    Of several values of one field, such as the codes of several errors, a permanent one decides. In a body that was cut
    off, a field may belong to input that the server repeats, so no retryable reason is taken from it.

    Args:
        body: A decoded JSON document, or a text in JSON or XML; a long one is read to a limit.
        status: The HTTP status it came with.
    """
    fields, whole = _values_by_field(body)
    for values in fields:
        judged = ((category_of_reason(value, status), value) for value in values)
        found = [(category, value) for category, value in judged if category and (whole or category not in RETRYABLE)]
        if found:
            category, value = min(found, key=lambda pair: pair[0] in RETRYABLE)
            return category, reason_name(value) or ""
    return None


def _nodes_in(body: object) -> "list[dict[object, object]]":
    """Return the dictionaries that describe the error: the body, and what is in its fields for errors."""
    nodes: list[dict[object, object]] = []
    waiting = [body]
    for each in waiting:
        if len(nodes) >= _NODE_LIMIT:
            break
        if type(each) is list or type(each) is tuple:
            waiting.extend(each[: _NODE_LIMIT - min(len(waiting), _NODE_LIMIT)])
        elif isinstance(each, dict):
            nodes.append(each)
            waiting.extend(each[name] for name in islice(each, _NODE_LIMIT) if name in _CONTAINERS)
    return nodes


def text_in(body: object) -> str:
    """Return the texts and the named waits in a decoded body, up to a limit; no object is asked for its text."""
    texts: list[str] = []
    waiting, size = [body], 0
    for each in waiting:
        if size > _TEXT_LIMIT or len(waiting) > _NODE_LIMIT * 4:
            break
        if isinstance(each, str):
            texts.append(each[:_TEXT_LIMIT])
            size += len(each)
        elif isinstance(each, dict):
            fields = list(islice(each.items(), _NODE_LIMIT))
            waiting.extend(value for _, value in fields)
            texts.extend(f'"{name}": {value}' for name, value in fields if _is_wait(name, value))
        elif isinstance(each, list | tuple):
            waiting.extend(each[:_NODE_LIMIT])
    return " ".join(texts)[:_TEXT_LIMIT]


def _is_wait(name: object, value: object) -> bool:
    """Return whether a field says how long to wait; without its name, the number would say nothing."""
    if not isinstance(name, str) or not has_word(name[:_LONGEST_REASON].lower(), "retry backoff"):
        return False
    return type(value) in {int, float} or (isinstance(value, str) and len(value) <= _LONGEST_REASON)
