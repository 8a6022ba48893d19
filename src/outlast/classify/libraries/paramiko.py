"""paramiko: classes for SSH refusals, texts for connection problems, operating-system errors for SFTP."""

from outlast.classify.codes import parse_named_numbers, read_words
from outlast.classify.libraries.library import Found, Library
from outlast.classify.safe_access import safe_getattr, safe_int, text_of
from outlast.failure import Category, Evidence, Origin

CHANNEL = parse_named_numbers("""
    access_denied: 1:ADMINISTRATIVELY_PROHIBITED
    network: 2:CONNECT_FAILED
    configuration: 3:UNKNOWN_CHANNEL_TYPE
    api_temporary: 4:RESOURCE_SHORTAGE
""")
"""Name and category by a server's reason for refusing a channel."""

# SSHException alone means nothing; these are its texts.
_WORDS = (
    (r"not found in known_hosts|[Nn]o authentication methods available|private key file|[Ii]ncompatible ssh|"
     r"public_blob|[Uu]nknown host key|unable to parse (?:the )?key|[Cc]ipher .* not", Category.CONFIGURATION),
    (r"[Tt]ime(?:d )?out|SSH protocol banner|[Ss]ession not active|[Nn]o existing session|[Nn]egotiation failed|"
     r"[Cc]hannel closed|[Cc]onnection (?:lost|dropped|closed)|[Ss]ocket is closed|EOF", Category.NETWORK),
    (r"(?:[Cc]hannel|[Rr]equest) .*(?:rejected|denied|refused)", Category.ACCESS_DENIED),
)  # fmt: skip


def read_text(error: object) -> Found:
    """The text about the connection or the keys; the class alone means nothing."""
    return read_words(text_of(error)[:1024], _WORDS)


def read_authentication(error: object) -> Found:
    """Whether the server did not respond in time, which is not a refusal."""
    return Evidence(category=Category.NETWORK) if "imeout" in text_of(error)[:1024] else None


def read_channel(error: object) -> Found:
    """The server's reason for refusing a channel."""
    name, category = CHANNEL.get(safe_int(error, "code") or 0, (None, None))
    return Evidence(category=category, code=name) if category is not None else None


def read_attempts(error: object) -> Found:
    """The error of the first address that was tried."""
    errors = safe_getattr(error, "errors")
    tried = list(errors.values()) if isinstance(errors, dict) else []
    return tried[0] if tried and isinstance(tried[0], BaseException) else None


LIBRARY = Library(
    title="paramiko",
    packages="paramiko",
    origin=Origin.NETWORK,
    categories={
        Category.NETWORK: "NoValidConnectionsError PipeTimeout ProxyCommandFailure CouldNotCanonicalize",
        Category.AUTHENTICATION: "AuthenticationException",
        Category.CONFIGURATION: (
            "BadHostKeyException PasswordRequiredException IncompatiblePeer ConfigParseError InvalidHostKey "
            "UnknownKeyType"
        ),
        Category.DATA: "MessageOrderError SFTPError BERException",
    },
    readers={
        "SSHException": read_text,
        "AuthenticationException": read_authentication,
        "ChannelException": read_channel,
        "NoValidConnectionsError": read_attempts,
    },
    says_nothing="SSHException ChannelException NeedRekeyException",
)
