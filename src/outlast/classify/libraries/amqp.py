"""py-amqp and pika: the reply code with which a broker such as RabbitMQ closed the channel or the connection."""

import re

from outlast.classify.codes import judge_words, parse_named_numbers
from outlast.classify.libraries.library import Found, Library, wrapped
from outlast.classify.safe_access import safe_int, safe_str, text_of
from outlast.failure import Category, Evidence, Origin

REPLIES = parse_named_numbers("""
    api_temporary: 313:NO_CONSUMERS 320:CONNECTION_FORCED 405:RESOURCE_LOCKED 506:RESOURCE_ERROR 541:INTERNAL_ERROR
    authentication: 403:ACCESS_REFUSED
    not_found: 312:NO_ROUTE 404:NOT_FOUND
    configuration: 402:INVALID_PATH 530:NOT_ALLOWED 540:NOT_IMPLEMENTED
    data: 501:FRAME_ERROR
    invalid_parameters: 311:CONTENT_TOO_LARGE 406:PRECONDITION_FAILED 502:SYNTAX_ERROR 503:COMMAND_INVALID
      504:CHANNEL_ERROR 505:UNEXPECTED_FRAME
""")
"""Name and category by AMQP reply code."""

_NOT_ALLOWED = (
    (r"\blimit\b.*\breached|\btoo many\b", Category.API_TEMPORARY),
    (r"\brefused for user\b|\baccess\b.*\brefused\b", Category.AUTHENTICATION),
)


def judge_reply(code: int, text: str) -> Category:
    """Return the category of a known reply code; the text of a 530 shows whether it is about permissions or a limit."""
    special = judge_words(text[:1024], _NOT_ALLOWED) if code == 530 else None  # 'not allowed'
    return special or REPLIES[code][1]


def read_reply(error: object) -> Found:
    """The broker's reply code."""
    code = safe_int(error, "reply_code")
    if code is None or code not in REPLIES:
        return None
    return Evidence(category=judge_reply(code, safe_str(error, "reply_text") or ""), code=str(code))


_CLOSED_WHILE_OPENING = r"ConnectionClosedByBroker: \((\d{3})\) (.{0,1024})"


def read_opening(error: object) -> Found:
    """The reply code in the text of a connection that the broker closed before it was open; pika guesses the reason."""
    found = re.search(_CLOSED_WHILE_OPENING, text_of(error)[:2048])
    if found is None or int(found[1]) not in REPLIES:
        return None
    return Evidence(category=judge_reply(int(found[1]), found[2]), code=found[1])


def read_protocol(error: object) -> Found:
    """The reply code, or whether the connection was lost before the broker said anything."""
    lost = text_of(error).startswith("StreamLostError")
    return Evidence(category=Category.NETWORK) if lost else read_opening(error)


def read_attempt(error: BaseException) -> Found:
    """The reply code, or the error of the last attempt to connect."""
    last = error.args[0] if error.args else None
    return last if isinstance(last, BaseException) else read_reply(error)


LIBRARY = Library(
    title="py-amqp and pika",
    packages="amqp",
    origin=Origin.MESSAGING,
    categories={
        Category.NETWORK: (
            "RecoverableConnectionError pika.AMQPConnectionError pika.AMQPConnectorStackTimeout "
            "pika.AMQPConnectorPhaseErrorBase pika.AMQPConnectionWorkflowFailed pika.ChannelWrongStateError "
            "pika.RxEndOfFile"
        ),
        Category.API_TEMPORARY: (
            "RecoverableChannelError Blocked ConsumerCancelled MessageNacked pika.ConsumerCancelled pika.NackError "
            "pika.ConnectionBlockedTimeout"
        ),
        Category.AUTHENTICATION: "pika.AuthenticationError pika.ProbableAuthenticationError pika.ProbableAccessDeniedError",
        Category.CONFIGURATION: "pika.IncompatibleProtocolError pika.ProtocolVersionMismatch",
        Category.NOT_FOUND: "pika.UnroutableError",
        Category.DATA: "pika.ProtocolSyntaxError",
        Category.INVALID_PARAMETERS: (
            "IrrecoverableChannelError IrrecoverableConnectionError pika.ChannelError pika.DuplicateConsumerTag "
            "pika.InvalidChannelNumber pika.MethodNotImplemented pika.NoFreeChannels pika.ReentrancyError "
            "pika.ShortStringTooLong pika.UnsupportedAMQPFieldException"
        ),
    },
    readers={
        "AMQPError pika.AMQPError pika.ChannelClosed": read_reply,
        "pika.AMQPConnectionError": read_attempt,
        "pika.IncompatibleProtocolError": read_protocol,
        "pika.ProbableAuthenticationError pika.ProbableAccessDeniedError": read_opening,
        "pika.AMQPConnectorPhaseErrorBase": wrapped("exception"),
    },
    says_nothing=(
        "AMQPError ConnectionError ChannelError pika.AMQPError pika.AMQPChannelError "
        "pika.AMQPConnectorException pika.AMQPConnectorAborted pika.AMQPConnectorWrongState "
        "pika.AMQPConnectionWorkflowAborted pika.AMQPConnectionWorkflowWrongState"
    ),
)
