"""py-amqp: the reply code with which a broker such as RabbitMQ closed the channel or the connection."""

from outlast.classify.codes import judge_words
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_int, safe_str
from outlast.failure import Category, Evidence, Origin

REPLIES: dict[int, Category] = {
    311: Category.INVALID_PARAMETERS,  # content too large
    312: Category.NOT_FOUND,  # no route
    313: Category.API_TEMPORARY,  # no consumers
    320: Category.API_TEMPORARY,  # connection forced: an operator closed it, or the broker shuts down
    402: Category.CONFIGURATION,  # invalid path: the virtual host does not exist
    403: Category.AUTHENTICATION,
    404: Category.NOT_FOUND,
    405: Category.API_TEMPORARY,  # resource locked: another connection holds it
    406: Category.INVALID_PARAMETERS,  # precondition failed: declared before with other arguments
    501: Category.DATA,  # frame error
    502: Category.INVALID_PARAMETERS,
    503: Category.INVALID_PARAMETERS,
    504: Category.INVALID_PARAMETERS,
    505: Category.INVALID_PARAMETERS,
    506: Category.API_TEMPORARY,  # resource error: the broker lacks a resource
    530: Category.CONFIGURATION,  # not allowed
    540: Category.CONFIGURATION,  # not implemented
    541: Category.API_TEMPORARY,  # internal error
}
"""Category by AMQP reply code."""

_NOT_ALLOWED = (
    (r"\blimit\b.*\breached|\btoo many\b", Category.API_TEMPORARY),
    (r"\brefused for user\b|\baccess\b.*\brefused\b", Category.AUTHENTICATION),
)


def judge_reply(code: int, text: str) -> Category:
    """Return the category of a known reply code; the text of a 530 shows whether it is about permissions or a limit."""
    special = judge_words(text[:1024], _NOT_ALLOWED) if code == 530 else None  # 'not allowed'
    return special or REPLIES[code]


def read_reply(error: object) -> Found:
    """The broker's reply code."""
    code = safe_int(error, "reply_code")
    if code is None or code not in REPLIES:
        return None
    return Evidence(category=judge_reply(code, safe_str(error, "reply_text") or ""), code=str(code))


LIBRARY = Library(
    title="py-amqp",
    packages="amqp",
    origin=Origin.MESSAGING,
    categories={
        Category.NETWORK: "RecoverableConnectionError",
        Category.API_TEMPORARY: "RecoverableChannelError Blocked ConsumerCancelled MessageNacked",
        Category.INVALID_PARAMETERS: "IrrecoverableChannelError IrrecoverableConnectionError",
    },
    readers={
        "AMQPError": read_reply,
    },
    says_nothing="AMQPError ConnectionError ChannelError",
)
