"""dnspython: classes for the resolver's result, with the response of every name server that failed."""

from outlast.classify.codes import parse_named_numbers
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_getattr, safe_int, safe_item, safe_list
from outlast.failure import Category, Evidence, Origin

RCODES = parse_named_numbers("""
    network: 3:NXDOMAIN
    api_temporary: 2:SERVFAIL
    access_denied: 5:REFUSED
    authentication: 9:NOTAUTH
    configuration: 4:NOTIMP 10:NOTZONE
    not_found: 8:NXRRSET
    invalid_parameters: 1:FORMERR 6:YXDOMAIN 7:YXRRSET
""")
"""Name and category by the response code of a name server."""

_RCODE_BITS = 15
_PARTS = 5  # server, whether TCP was used, port, error, response


def _judge_rcode(rcode: int | None) -> Evidence | None:
    name, category = RCODES.get(rcode or 0, (None, None))
    return Evidence(category=category, code=name) if category is not None else None


def read_servers(error: object) -> Found:
    """The response code or connection error of the name servers; a temporary one decides."""
    found: list[Evidence | BaseException] = []
    for each in safe_list(safe_item(safe_getattr(error, "kwargs"), "errors")):
        if not isinstance(each, tuple) or len(each) < _PARTS:
            continue
        flags = safe_int(each[4], "flags")
        answer = _judge_rcode(flags & _RCODE_BITS) if flags is not None else None
        if answer is not None:
            found.append(answer)
        elif isinstance(each[3], BaseException):
            found.append(each[3])
    temporary = (each for each in found if isinstance(each, Evidence) and each.category is Category.API_TEMPORARY)
    return next(temporary, found[0] if found else None)


def read_rcode(error: object) -> Found:
    """The response code of a refused zone transfer."""
    return _judge_rcode(safe_int(error, "rcode"))


LIBRARY = Library(
    title="dnspython",
    packages="dns",
    origin=Origin.NETWORK,
    categories={
        Category.NETWORK: "Timeout NXDOMAIN",
        Category.API_TEMPORARY: "NoNameservers",
        Category.NOT_FOUND: "NoAnswer EmptyHostAnswers NoRootSOA",
        Category.AUTHENTICATION: "PeerError BadSignature BadKey UnknownTSIGKey",
        Category.CONFIGURATION: (
            "NoResolverConfiguration AsyncLibraryNotFoundError NoDOH NoDOQ NoIDNA2008 UnsupportedAlgorithm "
            "DeniedByPolicy BadTime PeerBadTime BadAlgorithm UnsupportedDigestHashAlgorithm UnsupportedDigestScheme"
        ),
        Category.INVALID_PARAMETERS: (
            "SyntaxError NameTooLong IDNAException NotAbsolute NoMetaqueries NoParent AbsoluteConcatenation "
            "NeedAbsoluteNameOrOrigin NeedSubdomainOfOrigin UnknownRdatatype UnknownRdataclass UnknownOpcode "
            "UnknownRcode UnknownHeaderField UnknownScheme UnknownParamKey YXDOMAIN RdatatypeExists "
            "NoRelativeRdataOrdering DifferingCovers IncompatibleTypes TooBig AlreadyEnded DeleteNotExact ReadOnly "
            "TooManyChanges UseTransaction Immutable UseTCP"
        ),
        Category.DATA: (
            "FormError Truncated NotQueryResponse AnswerForNXDOMAIN ChainTooLong UnexpectedSource ValidationFailure "
            "TransferError BadZone DigestVerificationFailure NoDigest CNAMEAndOtherData UnknownOrigin BadSigTime"
        ),
    },
    readers={
        "NoNameservers": read_servers,
        "TransferError": read_rcode,
    },
    says_nothing=(
        "DNSException UngetBufferFull WantReadException WantWriteException SSLWantReadError SSLWantWriteError"
    ),
)
