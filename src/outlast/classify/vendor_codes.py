"""Error numbers and names that whole families of clients share: databases, brokers, directories, mail, transfers.

A family is recognised by the shape of the evidence, not by the library: a prefix in the text (``ORA-00054``), the
protocol's name in the class or module of the error (``smtp``, ``ldap``) with a number in a known attribute, or
attributes that only this family has. Attributes are only read, never called.
"""

import re
from importlib import import_module
from itertools import pairwise

from outlast.classify.codes import judge_sqlstate, judge_words, parse_named_numbers, parse_names, parse_numbers
from outlast.classify.libraries import entry_of
from outlast.classify.quota import read_quota
from outlast.classify.reasons import category_of_reason
from outlast.classify.rpc_status import RPC_STATUSES
from outlast.classify.safe_access import TEXT_LIMIT, safe_getattr, safe_int, safe_item, safe_str, text_of
from outlast.classify.statuses import refusal_in
from outlast.failure import RETRYABLE, Category, Evidence, Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    Code = tuple[str, Category]
    Found = tuple[Category, str, Evidence]
    Table = Mapping[int, Category] | str

_C = Category
_CODE_LIMIT = 100
_ENHANCED_STATUS = r"[245]\.\d{1,3}\.\d{1,3}\b"  # of a mail reply

ORACLE = parse_numbers(
    "database_busy: 18 20 51 54 60 104 1000 1033 1034 1089 1090 1092 1109 1555 2049 2391 4020 4021 4068 8176 8177 "
    "12500 12516 12518-12520 12526-12528 12540 12757 24457 24459 24496 25402 25408 30006; network: 22 28 31 45 603 "
    "609 1012 1041 2396 2399 3111 3113 3114 3122 3135 3136 12152 12153 12157 12170 12203 12525 12535 12537 12541 "
    "12543 12545 12547 12560 12570 12571 12583 12606 12608 12609 17002 17008 17410 28511 28547 29024; system: 257 "
    "376 1115 1652-1655 1683 1688 1691 4030 4031 19502 19809 27072 27146 30036; quota_exhausted: 1536; "
    "authentication: 1004 1005 1017 1031 1039 1045 1918 1950 28000 28001 28003 28009 41900; configuration: 439 904 "
    "942 959 980 1435 2019 2289 4043 4063 12154 12162 12261 12262 12504 12505 12514 12521 12533 16000 28040; "
    "integrity: 1 1400 1402 1407 2290-2292; not_found: 1403; data: 1401 1422 1426 1427 1438 1476 1489 1722 1830 "
    "1839-1843 1847 1858 1861 6502 12899 14400 31011 40441; invalid_parameters: 900-903 905-941 943-958 960-979 "
    "981-999 1008 1036 1740 1747 1756 1789 1790 1795 6550 6553; unknown: 1013"
)
"""Category by number of an Oracle error (``ORA-00054``)."""

ORACLE_DRIVER = parse_numbers(
    "network: 1001 4011 4024 4033 6000 6004 6005; database_busy: 4005; authentication: 2033; configuration: 2018 "
    "2049 2056 2058 2059 3000-3999 4000 4001 4017-4019 4021 4022 4026-4028 4030 4032 6001-6003 6006; "
    "invalid_parameters: 1003 1004 1006 2000-2017 2019-2032 2034-2048 2050-2055 2057 2060-2999 4006-4010; data: "
    "4003 4004 4012-4016 4031 4036-4042 8000-8002"
)
"""Category by number of an error of Oracle's thin driver (``DPY-6005``)."""

SQL_SERVER = parse_numbers(
    "database_busy: 615 617 669 845 921 922 927 976 982 983 1203-1205 1214 1221 1222 1807 3950 3957 3960 3961 3966 "
    "4221 6005 8628 8645 8651 17197 17809 17810 18401 18461 40020 40166 40197 40540 40613 40671 40890 41301 41302 "
    "41305 41325 41823 41839 41840 42109; rate_limit: 10928 10929 10936 40501 49918-49920; network: -2 53 64 233 "
    "258 10053 10054 10060 10061 11001 17189 17830 18056 20002-20004 20006 20008 20009 20013 20017 20047 40143; "
    "system: 701 802 823-825 945 1101 1105 3967 9002; quota_exhausted: 1132 40544; authentication: 229 230 262 297 "
    "300 916 15247 18451 18452 18456 18470 18486-18488 20014 40532; access_denied: 40615 40914; configuration: 195 "
    "207 208 911 942 978 1088 2715 2812 3701 3906 4060 4063 4064 4121 4902 15151 20012 42108; integrity: 515 547 "
    "2601 2627 3726; data: 220 232 235 241 242 244 245 248 295 296 512 517 1007 2628 8114 8115 8134 8152 8169 9420 "
    "13608 13609; invalid_parameters: 102-117 119-121 128 130 134 137 141 145 147 156 174 178 201 205 206 209 213 "
    "319 544 1038 2705 2714 3902 3903 4104 4145 8102 8116 8117 8120 8121 8127 8144-8146 8155 8156 8162 8178 8623 "
    "40549-40553"
)
"""Category by number of an SQL Server error."""

DB2 = parse_numbers(
    "database_busy: 904 911 913 923 952 1040; network: 1224 1229 30080 30081; system: 289 954 964 968; authentication: "
    "551 552 922 1092 30082; configuration: 204-206 440 805 1013 1031 30061; integrity: 407 530 531 532 545 803; "
    "data: 180 181 302 304 413 420 433 802 811; invalid_parameters: 7 10 103 104 117 199 313 408 501 601 905"
)
"""Category by number of a DB2 error (``SQL0911N``, ``SQLCODE=-911``)."""

SNOWFLAKE = parse_numbers(
    "database_busy: 625 630; api_temporary: 290500 290502-290504 370001; rate_limit: 290429; network: 250001-250003 "
    "251011 251012 252010 253002 253003; authentication: 3001 250006 390100 390101 390103 390110-390115 390138 "
    "390140 390144 390186 390191 390195 390303 390318 394300-394306; access_denied: 290403 390422; configuration: "
    "606 608 904 2003 2043 90105 90106 250004 251001 251005 251006 251008 255002 290404 390139 390189 390201; "
    "integrity: 100072; data: 100035 100038-100040 100046 100051 100069 100071 100078 100090; invalid_parameters: "
    "1003 1007 1044 2002 2028 252004 252006 252012; quota_exhausted: 90073; unknown: 604"
)
"""Category by number of a Snowflake error (``002003 (42S02)``)."""

SNOWFLAKE_REFUSAL = (
    r"[Ii]ncorrect username or password|JWT token is invalid|User access disabled|password has expired|"
    r"is not allowed to access Snowflake|[Mm]ulti-factor authentication is required|authentication is denied"
)
"""Why a login failed: older clients give these errors, too, the number of a failed connection (250001)."""

CLICKHOUSE = parse_numbers(
    "database_busy: 159 160 202 203 216 225 236 242 252 254 265 285 286 289 297 319 341 369 373 384 439 473 517 519 "
    "529 692 700 733 738 745 999; rate_limit: 364; network: 3 95 96 198 209 210 279 410 1000; system: 173 241 243 "
    "425; quota_exhausted: 201; authentication: 192-194 291 497 516 720; access_denied: 195; configuration: 16 "
    "46-48 60 81 115 139 164 199 212 217 218 344 452 472 492 511 669 701; integrity: 469; data: 6 25-27 32 33 38 40 "
    "41 69 70 72 117 130 131 153 246 271 321 349 376 407 441 467 632 636 675 676 691; invalid_parameters: 7 8 10 15 "
    "20 34-36 42-44 50 53 57 62 63 73 82 158 162 168 179 184 207 215 229 307 351 352 386 395 396 432 456 457; "
    "unknown: 394 735"
)
"""Category by number of a ClickHouse error (``Code: 60. DB::Exception``)."""

CURL = parse_numbers(
    "network: 5-7 10 12 15 16 18 28 35 51 52 55 56 60 65 80 81 83 91 92 95-97 99 101; api_temporary: 89; system: 23 "
    "27 70; authentication: 38 67 74 94; access_denied: 9 69; configuration: 1-4 45 48 49 53 54 58 59 64 66 77 82 "
    "90 98; not_found: 19 37 39 68 78; data: 8 11 13 14 47 61 63 85 86; invalid_parameters: 17 21 25 26 30 31 33 36 "
    "43 71-73 93 100; unknown: 42"
)
"""Category by libcurl's number."""

RESOLVER = parse_numbers(
    "network: 1-6 10-13; system: 14 15; configuration: 26; invalid_parameters: 7-9 17-20 25; unknown: 16 24"
)
"""Category by number of a c-ares error; a name that does not resolve is a network error, as everywhere."""

LDAP = parse_named_numbers(
    "database_busy: 3:timeLimitExceeded 51:busy; api_temporary: 52:unavailable 80:other; network: -1:serverDown "
    "81:serverDown -5:timeout 85:timeout -11:connectError 91:connectError; authentication: 8:strongerAuthRequired "
    "48:inappropriateAuthentication 49:invalidCredentials 50:insufficientAccessRights; configuration: "
    "7:authMethodNotSupported 10:referral 12:unavailableCriticalExtension 13:confidentialityRequired 54:loopDetect; "
    "not_found: 16:noSuchAttribute 32:noSuchObject 33:aliasProblem; integrity: 19:constraintViolation "
    "20:attributeOrValueExists 66:notAllowedOnNonLeaf 68:entryAlreadyExists; invalid_parameters: 2:protocolError "
    "4:sizeLimitExceeded 11:adminLimitExceeded 17:undefinedAttributeType 18:inappropriateMatching "
    "21:invalidAttributeSyntax 34:invalidDNSyntax 53:unwillingToPerform 64:namingViolation 65:objectClassViolation "
    "67:notAllowedOnRDN 69:objectClassModsProhibited 87:filterError -7:filterError -9:paramError 89:paramError"
)
"""Name and category by LDAP result code; negative ones are those of OpenLDAP's client."""

MQTT = parse_numbers(
    "network: 141 142 156 160; api_temporary: 128 131 136 137 139 152; rate_limit: 147 150 159; quota_exhausted: "
    "151; authentication: 134 135 140; access_denied: 138; configuration: 132 154 155 157 158 161 162; data: 129 130 "
    "153; invalid_parameters: 133 143-146 148 149"
)
"""Category by MQTT 5 reason code."""

MQTT_TEXTS = {
    _C.AUTHENTICATION: r"bad user ?name or password|not authori[sz]ed|authori[sz]ation failed|denied by acl",
    _C.CONFIGURATION: r"unacceptable protocol version|unsupported protocol version|feature is not supported",
    _C.INVALID_PARAMETERS: r"identifier (?:rejected|not valid)|invalid function arguments|(?:payload|packet|message) too large",
    _C.API_TEMPORARY: r"(?:server|broker) (?:is )?(?:unavailable|busy)|queue (?:is )?full",
    _C.NETWORK: r"not currently connected|connection was (?:lost|refused)|connection refused|tls error occurred|"
    r"network protocol error|in the keepalive interval",
}
"""Category by the text of the smaller numbers, which mean different things to client and broker."""

SSH = parse_numbers(
    "access_denied: 1; network: 5 6 10; configuration: 2 3 8; api_temporary: 7 12; authentication: 9 13-15; unknown: 11"
)
"""Category by reason of an SSH disconnection (RFC 4253)."""

SFTP = parse_numbers(
    "network: 6 7; not_found: 2 10; access_denied: 3 12 22; system: 13 14; quota_exhausted: 15; database_busy: 17 "
    "25 26; data: 5 28; integrity: 11; configuration: 8; invalid_parameters: 9 18-21 23 24"
)
"""Category by SFTP status code."""

JSON_RPC = parse_numbers(
    "data: -32700; invalid_parameters: -32600 -32601 -32602; rate_limit: -32005; api_temporary: -32603"
)
"""Category by number of a JSON-RPC error."""

QUERY_ENGINE = parse_names(
    "database_busy: QUERY_QUEUE_FULL CLUSTER_OUT_OF_MEMORY TRANSACTION_CONFLICT EXCEEDED_TIME_LIMIT "
    "INSUFFICIENT_RESOURCES; api_temporary: INTERNAL_ERROR EXTERNAL SERVER_STARTING_UP SERVER_SHUTTING_DOWN; "
    "authentication: PERMISSION_DENIED; not_found: NOT_FOUND; configuration: CATALOG_NOT_FOUND SCHEMA_NOT_FOUND "
    "TABLE_NOT_FOUND COLUMN_NOT_FOUND FUNCTION_NOT_FOUND PROCEDURE_NOT_FOUND TYPE_NOT_FOUND ROLE_NOT_FOUND "
    "MISSING_CATALOG_NAME MISSING_SCHEMA_NAME INVALID_SESSION_PROPERTY CONFIGURATION_INVALID NOT_SUPPORTED; "
    "integrity: CONSTRAINT_VIOLATION; data: INVALID_CAST_ARGUMENT NUMERIC_VALUE_OUT_OF_RANGE DIVISION_BY_ZERO "
    "SUBQUERY_MULTIPLE_ROWS; invalid_parameters: USER_ERROR EXCEEDED_GLOBAL_MEMORY_LIMIT "
    "EXCEEDED_LOCAL_MEMORY_LIMIT EXCEEDED_CPU_LIMIT EXCEEDED_SCAN_LIMIT EXCEEDED_SPILL_LIMIT; unknown: "
    "USER_CANCELED ADMINISTRATIVELY_KILLED ABANDONED_QUERY"
)
"""Category by error name, else by error type, of Trino, Presto and Athena."""

GRAPH = (
    (r"\.Transaction\.(?:Terminated|LockClientStopped)", _C.UNKNOWN),
    (r"\.AuthorizationExpired", _C.API_TEMPORARY),
    (r"RateLimit", _C.RATE_LIMIT),
    (r"ClientError\.Security\.", _C.AUTHENTICATION),
    (r"\.ConstraintV", _C.INTEGRITY),
    (r"\.DatabaseNotFound|\.ProcedureNotFound|\.IndexNotFound", _C.CONFIGURATION),
    (r"TransientError\.|\.NotALeader|\.DeadlockDetected", _C.DATABASE_BUSY),
    (r"ClientError\.", _C.INVALID_PARAMETERS),
    (r"DatabaseError\.", _C.UNKNOWN),
)
"""Category by part of a Neo4j status code; the first part that matches decides."""

_GENERAL_NAMES = frozenset({"INTERNAL_ERROR", "NOT_FOUND", "SYNTAX_ERROR", "NOT_ALLOWED", "NOT_IMPLEMENTED"})

MAILBOX = parse_names(
    "api_temporary: UNAVAILABLE INUSE IN-USE SYS/TEMP SERVERBUG; rate_limit: THROTTLED LOGIN-DELAY; "
    "quota_exhausted: OVERQUOTA; authentication: AUTHENTICATIONFAILED AUTHORIZATIONFAILED EXPIRED AUTH WEBALERT "
    "NOPERM; configuration: PRIVACYREQUIRED CONTACTADMIN SYS/PERM; not_found: NONEXISTENT TRYCREATE; integrity: "
    "ALREADYEXISTS EXPUNGEISSUED; data: CORRUPTION PARSE BADCHARSET; invalid_parameters: CANNOT CLIENTBUG LIMIT TOOBIG"
)
"""Category by IMAP or POP3 response code (``[UNAVAILABLE]``)."""

MAILBOX_TEXTS = {_C.RATE_LIMIT: r"too many (?:simultaneous|concurrent) |\brate limit\b"}
"""Category by text, without a response code or with one for any limit."""

SEARCH = parse_names(
    "rate_limit: es_rejected_execution_exception rejected_execution_exception circuit_breaking_exception; "
    "database_busy: search_context_missing_exception; api_temporary: master_not_discovered_exception "
    "process_cluster_event_timeout_exception no_shard_available_action_exception unavailable_shards_exception "
    "cluster_manager_not_discovered_exception node_not_connected_exception; authentication: security_exception; "
    "not_found: index_not_found_exception resource_not_found_exception document_missing_exception; configuration: "
    "index_closed_exception; integrity: resource_already_exists_exception; data: mapper_parsing_exception "
    "document_parsing_exception strict_dynamic_mapping_exception; invalid_parameters: parsing_exception "
    "illegal_argument_exception x_content_parse_exception query_shard_exception action_request_validation_exception "
    "invalid_index_name_exception"
)
"""Category by error type of Elasticsearch and OpenSearch."""

NATS = {
    _C.AUTHENTICATION: r"authori[sz]ation (?:violation|failed)|permissions? violation|authentication (?:expired|revoked|error)|"
    r"invalid user credentials|credentials have been revoked|account expired",
    _C.CONFIGURATION: r"secure connection (?:required|not available|- tls required)|attempted to connect to [a-z ]+port|"
    r"invalid (?:connect url|hostname)",
    _C.INVALID_PARAMETERS: r"maximum payload|(?:invalid|bad|malformed) (?:publish )?subject|timeout invalid|invalid fetch timeout",
    _C.DATABASE_BUSY: r"maximum (?:account active )?connections exceeded",
    _C.API_TEMPORARY: r"no responders available|slow consumer|no response from stream",
    _C.NETWORK: r"no servers available|stale connection|connection (?:closed|reconnecting)|outbound buffer limit|unexpected eof|"
    r"\btimeout$|timed out$",
}
"""Category by the text that a NATS server or client sends."""


GATEWAY = parse_numbers("authentication: 4004; configuration: 4010-4014")
"""Category by the private code with which Discord's gateway closes a WebSocket for good."""


def _judge_texts(table: "Mapping[Category, str]", text: str) -> "Code | None":
    found = ((re.search(pattern, text, re.IGNORECASE), category) for category, pattern in table.items())
    return next(((match[0].lower(), category) for match, category in found if match), None)


def _worst(found: "list[Code]") -> "Code | None":
    """Return the first permanent code, else the first one."""
    return min(found, key=lambda pair: pair[1] in RETRYABLE, default=None)


def _library(file: str) -> "Any":
    """Return the file of a described library; it is read only if an error needs it."""
    return import_module(f"outlast.classify.libraries.{file}")


def _resolve_table(table: "Table") -> "Mapping[int, Category]":
    """Return a table, or that of a described library, named like ``pymysql.NUMBERS``."""
    if not isinstance(table, str):
        return table
    file, _, name = table.partition(".")
    found: Mapping[int, Category] = getattr(_library(file), name)
    return found


def _by_number(pattern: str, table: "Table") -> "Callable[[str], Code | None]":
    def read(text: str) -> "Code | None":
        found = re.search(pattern, text)
        number = next(filter(None, found.groups()), "") if found else ""
        category = _resolve_table(table).get(int(number)) if number else None
        return (number, category) if category is not None else None

    return read


def _by_name(pattern: str, table: "Mapping[str, Category]") -> "Callable[[str], Code | None]":
    def read(text: str) -> "Code | None":
        return _worst([(name, table[name]) for name in re.findall(pattern, text)[:20] if name in table])

    return read


def _oracle(text: str) -> "Code | None":
    codes = re.findall(r"\b(ORA|DPY)-(\d{4,5})\b", text)[:20]
    tables = {"DPY": ORACLE_DRIVER, "ORA": ORACLE}
    found = [(f"{prefix}-{each}", tables[prefix].get(int(each))) for prefix, each in codes]
    return _worst([(code, category) for code, category in found if category is not None])


def _sqlstate(text: str) -> "Code | None":
    found = re.search(r"\bSQLSTATE(?:\[|[=:]\s?| )'?([0-9A-Z]{5})\b", text)
    category = judge_sqlstate(found[1], text) if found and found[1] not in {"HY000", "00000"} else None
    return (found[1], category) if found and category else None


def _snowflake(text: str) -> "Code | None":
    found = re.search(r"(?m)^(\d{6}) \(([0-9A-Z]{5}|None)\)", text)
    category = (SNOWFLAKE.get(int(found[1])) or judge_sqlstate(found[2])) if found else None
    if category is _C.NETWORK and re.search(SNOWFLAKE_REFUSAL, text):
        category = _C.AUTHENTICATION
    return (found[1], category) if found and category else None


def _query_engine(text: str) -> "Code | None":
    found = re.search(r"\btype=([A-Z_]+), name=([A-Z_0-9]+)", text)
    category = QUERY_ENGINE.get(found[2], QUERY_ENGINE.get(found[1])) if found else None
    return (found[2], category) if found and category else None


def _graph(text: str) -> "Code | None":
    found = re.search(r"\bNeo\.\w+\.\w+\.\w+", text)
    category = judge_words(found[0], GRAPH) if found else None
    return (found[0], category) if found and category else None


def _search_engine(text: str) -> "Code | None":
    if re.search(r"cluster_block_exception.{0,500}(?:/12/|flood-stage)", text):  # no writes while its disk is full
        return "cluster_block_exception", _C.SYSTEM
    return _by_name(r"\b[a-z_]{4,60}_exception\b", SEARCH)(text)


def _broker(text: str) -> "Code | None":
    found = re.search(r"\b([A-Z]+_[A-Z]+) - ", text)
    replies = {name: number for number, (name, _) in _library("amqp").REPLIES.items()} if found else {}
    if found is None or found[1] not in replies:
        return None
    if found[1] in _GENERAL_NAMES and not re.search(r"\b(?:vhost|queue|exchange|channel|broker|frame)\b", text):
        return None
    return found[1], _library("amqp").judge_reply(replies[found[1]], text)


def _mail(text: str) -> "Code | None":
    """Return the reply code before an enhanced status code (RFC 3463) of the same class, and its category."""
    replies = re.findall(r"(?<![\w.])(([45])[02357]\d)[\s,'\"b:-]{1,5}(\2\.\d{1,3}\.\d{1,3}\b[^'\"\n]{0,200})", text)[
        :20
    ]
    return _worst([(code, _library("mail").judge_reply(int(code), reply).category) for code, _, reply in replies])


def _aws(text: str) -> "Code | None":
    """Return the code in a text of a client of AWS: ``AWS Error SLOW_DOWN``, ``An error occurred (Throttling) when``."""
    found = re.search(r"\bAWS Error ([A-Z_]{4,60})\b|\bAn error occurred \(([\w.]{3,60})\) when calling", text)
    code = (found[1] or found[2]) if found else ""
    category = category_of_reason(code)
    return (code, category) if category else None


def _nats(text: str) -> "Code | None":
    return _judge_texts(NATS, text) if text.startswith("nats: ") else None


TEXT_CODES: "tuple[tuple[str, str, Origin, Callable[[str], Code | None]], ...]" = (
    ("ORA-", "Oracle", Origin.DB, _oracle),
    ("DPY-", "Oracle", Origin.DB, _oracle),
    ("Msg ", "SQL Server", Origin.DB, _by_number(r"\bMsg (\d{3,5}), Level \d", SQL_SERVER)),
    ("[SQL Server]", "SQL Server", Origin.DB, _by_number(r"\((\d{2,5})\) \(SQL", SQL_SERVER)),
    ("SQL", "DB2", Origin.DB, _by_number(r"\bSQL(\d{4,5})N\b|\bSQLCODE\s?[=:]\s?-(\d{3,5})\b", DB2)),
    ("DB::", "ClickHouse", Origin.DB, _by_number(r"\b[Cc]ode:\s(\d{1,4})\b", CLICKHOUSE)),
    ("ERROR ", "MySQL", Origin.DB, _by_number(r"\bERROR (\d{4}) \([0-9A-Z]{5}\)", "pymysql.NUMBERS")),
    (" (", "Snowflake", Origin.DB, _snowflake),
    ("SQLSTATE", "SQLSTATE", Origin.DB, _sqlstate),
    ("Neo.", "Neo4j", Origin.DB, _graph),
    ("name=", "query engine", Origin.DB, _query_engine),
    ("_exception", "search engine", Origin.DB, _search_engine),
    (" - ", "AMQP", Origin.MESSAGING, _broker),
    ("nats: ", "NATS", Origin.MESSAGING, _nats),
    ("StatusCode.", "gRPC", Origin.RPC, _by_name(r"\bstatus(?:_code)? ?[=:] ?<?StatusCode\.([A-Z_]+)\b", RPC_STATUSES)),
    ("closed with ", "WebSocket", Origin.NETWORK, _by_number(r"\bWebSocket closed with (\d{4})\b", GATEWAY)),
    ("curl: (", "curl", Origin.NETWORK, _by_number(r"\bcurl: \((\d{1,3})\)", CURL)),
    ("curlCode: ", "curl", Origin.NETWORK, _by_number(r"\bcurlCode: (\d{1,3})\b", CURL)),
    ("AWS Error ", "AWS", Origin.HTTP, _aws),
    ("An error occurred (", "AWS", Origin.HTTP, _aws),
    ("-32", "JSON-RPC", Origin.RPC, _by_number(r"['\"]code['\"]: ?(-32\d{3})\b", JSON_RPC)),
    (".", "mail reply", Origin.MAIL, _mail),
)
"""What a text must contain, the family's name and origin, and the function that finds its code."""


def code_in_text(text: str) -> "Found | None":
    """Return category, rule and evidence of the first code of a known family in a text, or None."""
    text = text[:TEXT_LIMIT]
    for needle, family, origin, read in TEXT_CODES:
        if needle in text and (found := read(text)) is not None:
            return _finding(family, origin, found)
    return None


def _finding(family: str, origin: Origin, code: "Code") -> "Found":
    evidence = Evidence(origin=origin, category=code[1], code=code[0][:_CODE_LIMIT])
    return code[1], f"{family} {evidence.code}", evidence


def _numbers_in(error: BaseException, names: str) -> "Iterator[int]":
    """Yield the integers in these attributes; ``args`` is the first argument, also inside a tuple or a dictionary."""
    for name in names.split():
        value = safe_getattr(error, name)
        for _ in range(2):
            value = value[0] if isinstance(value, tuple) and value else value
        value = safe_item(value, "result") or value
        if not isinstance(value, int):
            value = safe_int(value, "value")  # of an enum, or of an object that stands for a reason code
        if value is not None and not isinstance(value, bool):
            yield int(value)


def _from_table(names: str, table: "Table") -> "Callable[[BaseException, str], Code | None]":
    def read(error: BaseException, _: str) -> "Code | None":
        numbers = _resolve_table(table)
        return next(((str(each), numbers[each]) for each in _numbers_in(error, names) if each in numbers), None)

    return read


def _ldap(error: BaseException, text: str) -> "Code | None":
    words = set(re.findall(r"\b[a-z]+[A-Z]\w+\b", text))
    by_number = (LDAP[number] for number in _numbers_in(error, "result code args") if number in LDAP)
    return next(by_number, None) or next((pair for pair in LDAP.values() if pair[0] in words), None)


def _mqtt(error: BaseException, text: str) -> "Code | None":
    return _from_table("rc reason_code code args", MQTT)(error, text) or _judge_texts(MQTT_TEXTS, text)


def _mailbox(_: BaseException, text: str) -> "Code | None":
    found = re.match(r"[b\W]{0,6}(?:(?:NO|BAD|BYE|ERR)[b\W]{1,6})?\[([A-Z/-]{4,30})[ \]]", text)
    code = found[1] if found and found[1] in MAILBOX else None
    too_fast = _judge_texts(MAILBOX_TEXTS, text) if code in {None, "LIMIT"} else None
    return too_fast or ((code, MAILBOX[code]) if code else None)


def is_mail_reply(error: BaseException) -> bool:
    """Return whether the text of a reply begins with an enhanced status code of mail (RFC 3463)."""
    return re.match(_ENHANCED_STATUS, _reply_text(error)) is not None


def _reply_text(error: BaseException) -> str:
    for reply in (safe_getattr(error, "message"), safe_getattr(error, "smtp_error"), *error.args[1:2]):
        if isinstance(reply, str | bytes) and reply:
            return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return ""


def _smtp(error: BaseException, text: str) -> "Code | None":
    """Return the code of a mail server's reply and its category; of replies about recipients, of the worst one."""
    refused = safe_getattr(error, "recipients")
    replies = [error, *(refused[:20] if isinstance(refused, list | tuple) else ())]
    found = (
        _library("mail").judge_reply(code, _reply_text(each) or text)
        for each in replies
        if isinstance(each, BaseException)
        for code in _numbers_in(each, "smtp_code code status_code args")
    )
    return _worst([(evidence.code, evidence.category) for evidence in found if evidence])


def _ftp(error: BaseException, text: str) -> "Code | None":
    codes = safe_getattr(error, "received_codes")
    code = codes[0] if isinstance(codes, tuple) and codes and isinstance(codes[0], str) else text[:3]
    if not code.isdigit():
        code = str(next(_numbers_in(error, "code status_code args"), ""))
    general = {"4": _C.API_TEMPORARY, "5": _C.INVALID_PARAMETERS}.get(code[:1]) if len(code) == 3 else None
    category = _library("ftplib").REPLIES.get(code, general)
    return (code, category) if category else None


CLASS_CODES: "tuple[tuple[str, str, Origin, Callable[[BaseException, str], Code | None]], ...]" = (
    ("curl", "curl", Origin.NETWORK, _from_table("code errno args", CURL)),
    ("dnserror", "resolver", Origin.NETWORK, _from_table("args", RESOLVER)),
    ("areserror", "resolver", Origin.NETWORK, _from_table("args", RESOLVER)),
    ("disconnecterror", "SSH", Origin.NETWORK, _from_table("code", SSH)),
    ("sftp", "SFTP", Origin.FILE, _from_table("code", SFTP)),
    ("ftp", "FTP", Origin.FILE, _ftp),
    ("ldap", "LDAP", Origin.NETWORK, _ldap),
    ("mqtt", "MQTT", Origin.MESSAGING, _mqtt),
    ("smtp", "SMTP", Origin.MAIL, _smtp),
    ("lmtp", "SMTP", Origin.MAIL, _smtp),
    ("imap", "IMAP", Origin.MAIL, _mailbox),
    ("mysql", "MySQL", Origin.DB, _from_table("errno args", "pymysql.NUMBERS")),
    ("mariadb", "MySQL", Origin.DB, _from_table("errno args", "pymysql.NUMBERS")),
    ("mssql", "SQL Server", Origin.DB, _from_table("number args", SQL_SERVER)),
    ("clickhouse", "ClickHouse", Origin.DB, _from_table("code args", CLICKHOUSE)),
    (
        "snowflake",
        "Snowflake",
        Origin.DB,
        lambda error, text: _snowflake(text) or _from_table("errno", SNOWFLAKE)(error, text),
    ),
    ("websocket", "WebSocket", Origin.NETWORK, _from_table("code close_code", "websockets.RECEIVED")),
)
"""A word in the class or module of the error, the family's name and origin, and the function that finds its code."""

RELATIVES = (("valkey", "redis"), ("redis", "redis"), ("kafka", "kafka"), ("smtp", "smtplib"))
"""Words in a class or module whose protocol a described library speaks too, with the same class names."""


_NAME_PARTS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
_NAME_AFFIXES = re.compile(r"^(?:aio|async|py|co|a|g)(?=[a-z]{3})|(?:lib|db|lite|client|s)$")


def family_words(kinds: "Iterable[type]") -> set[str]:
    """Return the words in the names of classes and of their packages: ``aiosmtplib.SMTPError`` has ``smtp``.

    A word may be made of two parts (``WebSocket``), and the usual beginnings and endings of package names are left out.
    """
    words: set[str] = set()
    for kind in kinds:
        parts = [part.lower() for part in re.findall(_NAME_PARTS, kind.__name__)]
        parts += kind.__module__.partition(".")[0].lower().strip("_").split("_")
        parts = [part.rstrip("0123456789") for part in parts]
        words.update(parts, map("".join, pairwise(parts)))
    return words | {_NAME_AFFIXES.sub("", word) for word in words}


def read_attributes(error: BaseException) -> "Found | None":
    """Return category, rule and evidence of an error whose family is recognised, or None."""
    text = text_of(error)[:TEXT_LIMIT]
    kinds = [kind for kind in type(error).__mro__ if safe_str(kind, "__module__") not in {None, "builtins"}]
    words = family_words(kinds)
    for word, family, origin, read in CLASS_CODES:
        if word in words and (code := read(error, text)) is not None:
            return _finding(family, origin, code)
    found = _by_shape(error)
    if found is None and safe_getattr(error, "response") is None:  # else the status and the body of the response decide
        found = code_in_text(text)
    return found or _by_sqlstate(error, text) or _by_relatives(error, kinds, words) or read_quota(error, text)


def _by_relatives(error: BaseException, kinds: list[type], words: set[str]) -> "Found | None":
    for package in (package for word, package in RELATIVES if word in words):
        for entry in filter(None, (entry_of(package, kind.__name__) for kind in kinds)):
            evidence = entry.read(error) if entry.read is not None else None
            category = (evidence.category if isinstance(evidence, Evidence) else None) or entry.category
            if category is not None and not (category in RETRYABLE and refusal_in(text_of(error))):
                return _finding("like", entry.origin, (entry.name, category))
    return None


def _by_shape(error: BaseException) -> "Found | None":
    """Return the finding of an error with attributes that only one family has, or None."""
    number = safe_int(error, "number") or safe_int(error, "msg_no")
    if number in SQL_SERVER and safe_int(error, "severity") is not None:
        return _finding("SQL Server", Origin.DB, (str(number), SQL_SERVER[number]))
    number = safe_int(error, "reply_code")
    if number is not None and number in _library("amqp").REPLIES:
        category = _library("amqp").judge_reply(number, safe_str(error, "reply_text") or "")
        return _finding("AMQP", Origin.MESSAGING, (str(number), category))
    if is_mail_reply(error) and (reply := _smtp(error, "")):
        return _finding("mail reply", Origin.MAIL, reply)
    number = safe_int(error, "code") or safe_int(error, "faultCode")
    if number in JSON_RPC:  # the rest of the reserved range has a different meaning for each server
        return _finding("JSON-RPC", Origin.RPC, (str(number), JSON_RPC[number]))
    return None


def _by_sqlstate(error: BaseException, text: str) -> "Found | None":
    state = _odbc_sqlstate(error)
    category = judge_sqlstate(state, text) if state else None
    if category is _C.NETWORK and refusal_in(text):
        category = _C.AUTHENTICATION
    return _finding("SQLSTATE", Origin.DB, (state, category)) if state and category else None


def _odbc_sqlstate(error: BaseException) -> str | None:
    """Return an SQLSTATE in the first argument: alone before a text that repeats it (ODBC), or in a dictionary."""
    arguments = safe_getattr(error, "args")
    if not isinstance(arguments, tuple) or not arguments:
        return None
    state = safe_item(arguments[0], "C") or arguments[0]
    if not isinstance(state, str) or not re.fullmatch(r"[0-9A-Z]{5}", state) or state == "HY000":
        return None
    repeated = len(arguments) > 1 and isinstance(arguments[1], str) and arguments[1].startswith(f"[{state}]")
    return state if repeated or state is not arguments[0] else None
