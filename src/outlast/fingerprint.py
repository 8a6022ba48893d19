"""Fingerprints that group failures with the same cause.

A fingerprint covers the exception's name, status and code, the message without its variable parts, and the file and
function of the innermost frame in the user's code. It leaves out the line number, which every edit moves.
"""

import hashlib
import re

from outlast.patterns import compiled, word_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_COUNTRY_LIKE_SUFFIXES = "py|js|ts|md|rs|sh|so|gz|db|go|cc|pl|rb|mk|is|as|id|in|no|to|at|do|me|my|am|or|if|of"

_HOST_ENDINGS = (
    "com|org|net|edu|gov|info|dev|app|cloud|internal|local|lan|test|example|invalid|localhost|svc|xyz|tech|online|site|"
    rf"(?!(?:{_COUNTRY_LIKE_SUFFIXES})\b)[a-z]{{2}}"
)

_NAMES_WITH_DIGITS = "md5|sha-?\\d+|utf-?\\d+|latin-?1|oauth2|s3|ec2|http/?2|ipv[46]|base64|x509|k8s|h264|mp[34]"


_DATA_FILES = word_set(
    "csv tsv json jsonl xml txt log pdf png jpg jpeg gif webp mp3 mp4 zip gz tar parquet avro xls xlsx doc docx "
    "htm html tmp bak"
)


def _mark_data_file(match: re.Match[str]) -> str:
    return "<path>" if match[0].rpartition(".")[2].lower() in _DATA_FILES else match[0]


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? )?"
_ZONE = r"(?: ?(?:z|utc|gmt|[ecmp][sd]t|jst|ist|bst|kst|ce?s?t|msk)\b| ?(?<!\d\d-)[+-]\d\d:?\d\d\b){0,2}"
_CLOCK = rf"\d{{1,2}}:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?: ?[ap]\.?m\b\.?)?{_ZONE}"
_DATE = "|".join(
    (
        r"\d{4}-\d\d-\d\d",
        rf"{_DAY}\d{{1,2}}(?:st|nd|rd|th)?[ -]{_MONTH}[ ,-]{{1,2}}\d{{2,4}}",  # RFC 1123, 822 and 850
        rf"{_DAY}{_MONTH} {{1,2}}\d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}",  # Nov 18, 2026
        rf"{_DAY}{_MONTH} {{1,2}}\d{{1,2}} {_CLOCK} \d{{4}}(?: gmt)?",  # asctime
        rf"{_DAY}{_MONTH} {{1,2}}\d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}",
        r"\d{1,4}/\d{1,2}/\d{1,4}|\d{1,2}\.\d{1,2}\.(?:19|20)\d\d",
    )
)

# Quoted words are names (of a column, a module, an argument), and another name is another cause. They are values in
# calls, after words for values and things, and after a colon, unless the word before the colon names such a part.
_QUOTED = r"(?<!\w)(?:'[^'\n]{0,300}'|\"[^\"\n]{0,300}\")(?!\w)"
_CALL = r"\b(?:float\d{0,3}|u?int\d{0,2}|str|bool|bytes|complex|decimal|fraction|uuid|objectid|(?:pure|posix|windows)?path)\(\Z"
_PATH = r"(?:~|\.{1,2}|[a-z]:)?[\\/]|(?!(?:application|text|image|audio|video|font)/)[\w.@+-]+(?:/[\w.@+-]+)+/?\Z"
_TYPES = word_set("number int integer float decimal numeric boolean bool date time uuid url email e-mail")
_VALUES = word_set(
    "value values string literal input text entry character char data date time number word phrase symbol ticker "
    "user username login account customer member author email e-mail phone product item order sku title city "
    "country article video channel playlist document record label tag choice locale currency kid parse convert "
    "cast coerce interpret received got found id"
)
_ABOUT_VALUES = _TYPES | _VALUES | word_set("invalid illegal malformed incorrect bad valid directory file enum")
_PARTS = word_set(
    "column key keys field fields attribute argument arguments parameter parameters param option setting variable "
    "module package table relation function method header name property keyword type class object extension codec "
    "encoding format operator role schema database constraint index required missing error cause reason message "
    "failed plugin task command queue selector template handler event action model metric route"
)


def _mark_quoted(match: re.Match[str]) -> str:
    """Return the mark of a quoted value or path; a quoted name stays, with the values inside it marked."""
    text, quote = match[0][1:-1], match[0][0]
    before = match.string[max(0, match.start() - 80) : match.start()].lower()
    after = match.string[match.end() : match.end() + 30].lower()
    words = re.findall(r"[\w-]+", before.rpartition("\n")[2].rstrip(" :=").rpartition(":")[2])
    last = words[-1] if words else ""
    named = re.match(r" (?:is|was) not an? (?:valid )?([\w-]+)", after)
    if (
        (after[:1] == ")" and re.search(_CALL, before))
        or (before.rstrip(" :=").endswith(last) and last in _VALUES)
        or (
            before.endswith(": ")
            and last not in _PARTS
            and not last.endswith(("error", "exception"))
            and _ABOUT_VALUES.intersection(words)
        )
        or (named and named[1] in _TYPES)
    ):
        return "<value>"
    if re.match(_PATH, text, re.IGNORECASE):
        return "<path>"
    return f"{quote}{re.sub(_QUOTED, _mark_quoted, text, count=_QUOTED_LIMIT // 10)}{quote}"


# A number after these words is a code, and another code is another cause.
_CODES = (
    r"\b(?:errno|winerror|exit code|exit status|signal|sqlstate|status(?: code)?|(?<!status )(?<!exit )code)['\"]?[ :=#]{1,3}-?\d{1,5}\b|"
    r"\b(?:http(?:/\d(?:\.\d)?)?|smtp|ftp)(?: error)?[ :]{1,2}\d{3}\b|\berror[ #](?:code[ :=]{1,3})?\d{1,5}(?=\s?(?:[:.,)\]( ]|\Z)(?! \w))|"
    r"\b(?:got|returned|with) [45]\d\d(?=\s?(?:[.,;:)]|from\b|for\b|\Z))|\b(?:ora|tns|dp[yi]|aadsts)-?\d{4,6}\b|"
    r"(?<![\w.])[45]\d\d (?:client|server) error\b|\bcurl:? \(\d{1,2}\)"
)
_UNITS = r"(?: ?(?:[kmgt]i?b|bytes?|ms|us|ns|milliseconds?|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?)\b| ?%)?"
_IDS = r"(?:request|trace|correlation|incident|event|message|session|transaction|span|job|task)[ _-]?id"

_DIGITS = "0123456789"
_QUOTES = "'\""

# Repetitions are bounded and anchored at their start, so that no text makes a pattern slow.
_VARIABLE_PARTS: "tuple[tuple[str, str, str | Callable[[re.Match[str]], str]], ...]" = (
    (":", r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>)\]]+", "<url>"),
    ("@", r"(?<![\w.+-])[\w.+-]{1,80}@[\w.-]+", "<mail>"),
    (
        "(",
        r"\b(?:datetime\.)?(?:datetime|date|time|timedelta|timestamp)\((?:[^()\n]|\([^()\n]{0,60}\)){0,120}\)",
        "<time>",
    ),
    (
        _DIGITS,
        rf"(?<![\w.])(?=[\da-z])(?:{_DATE})(?:(?:[t ,]| at |, ){_CLOCK})?(?!\w)|"
        rf"(?<![\w:.])(?:{_CLOCK}|\d{{1,6}}:\d{{1,6}})(?![\w:])",
        "<time>",
    ),
    (_DIGITS, r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?:/\d{1,2}\b)?(?::\d+)?", "<host>"),
    ("[", r"\[(?:[0-9a-f]{0,4}:){2,7}[0-9a-f.]{0,15}(?:%\w{1,15})?\](?::\d+)?", "<host>"),
    (":-.", r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b|\b[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}\b", "<host>"),
    (":", r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", "<host>"),
    ("l", r"\blocalhost\b(?::\d+)?", "<host>"),
    (".", rf"(?<![\w.-])(?:[a-z0-9-]{{1,63}}\.){{1,8}}(?:{_HOST_ENDINGS})\b(?::\d+)?", "<host>"),
    (":", r"(?<![\w.:/-])[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){1,5}:\d{2,5}\b(?!:)", "<host>"),
    ("=", r"(?<=host=)['\"]?[\w.-]+['\"]?", "<host>"),
    (_QUOTES, _QUOTED, _mark_quoted),
    ("=", r"(?P<kept>\binput_value=|\bvalue=)[^\s,\]]{1,200}", r"\g<kept><value>"),
    ("(", r"(?P<kept>\)=|\brow contains )\([^()\n]{0,300}\)", r"\g<kept><value>"),
    ("dD", rf"(?P<kept>\b{_IDS}['\"]?[ :=]{{1,3}})['\"]?[\w.:-]{{6,80}}['\"]?", r"\g<kept><n>"),
    ("\\/", r"(?<![\w.\\/])(?:~|\.{1,2}|[a-z]:)?(?:[\\/][\w.@+-]+)+[\\/]?(?:\?[^\s'\")]{0,300})?", "<path>"),
    (".", r"(?<![\w.\\/@+-])[\w@+-][\w.@+\\/-]{0,200}\.[a-z0-9]{2,7}\b", _mark_data_file),
    ("", r"\b[a-f]{8,64}\b|(?P<kept>\b(?:sha\d{1,3}|md5):)[a-z0-9+/=]{6,90}", r"\g<kept><n>"),
    (
        _DIGITS,
        rf"(?P<kept>{_CODES})|(?<![\w-])(?!(?:{_NAMES_WITH_DIGITS})\b)[\w-]{{0,80}}?\d[\w-]*(?:[.,]\d+)*"
        rf"(?:e[+-]?\d{{1,4}}\b)?{_UNITS}",
        lambda match: match["kept"] or "<n>",
    ),
    ("<", r"(?P<kept><n>|<host>)(?:, ?(?P=kept))+", r"\g<kept>"),
)
"""Characters of which a text must have one, for speed; a pattern; what replaces it."""
_MESSAGE_LIMIT = 1000
"""Characters of a normalised message that are used."""
_QUOTED_LIMIT = 256
"""Quoted parts that are read; more of them do not fit into the characters that are used."""


def normalise(message: str) -> str:
    """Return the text with URLs, hosts, paths, ids, times, numbers and values replaced by marks such as ``<n>``."""
    for needed, pattern, mark in _VARIABLE_PARTS:
        if not needed or any(character in message for character in needed):
            limit = _QUOTED_LIMIT if pattern is _QUOTED else 0
            message = compiled(pattern, re.IGNORECASE).sub(mark, message, limit)
    return " ".join(message.split())[:_MESSAGE_LIMIT]


def fingerprint(name: str, status: int | None, code: str | None, message: str, location: str) -> str:
    """Return sixteen hex digits, the same for every failure with the same cause.

    Args:
        name: Name of the exception class.
        status: HTTP status.
        code: SQLSTATE, errno name or API error code.
        message: Text of the error; its variable parts are ignored.
        location: File and function in the user's code.
    """
    parts = (name, str(status or ""), code or "", normalise(message), location)
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=8, usedforsecurity=False).hexdigest()
