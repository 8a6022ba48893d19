"""Masks secrets in error texts.

The text is truncated first, so that no pattern runs over megabytes, and made safe to store: no NUL, no lone
surrogates, no terminal escapes. `redact` applies the patterns of this module; `Redactor` adds your own.

What has the form of a credential is masked first: private keys, tokens of vendors, URLs with user info. Then come values
after fixed words, such as `Bearer`, and last the values of secret names, in every notation of `name = value`.
"""

import re
from functools import cache

from outlast.patterns import compiled, word_set
from outlast.secret_names import is_secret_name
from outlast.secret_shapes import LINE_BREAK, LONG_TOKENS, LONG_WORD, SHAPES, TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MASK", "MESSAGE_LIMIT", "Redactor", "redact", "safe_text"]

MASK = "***"
MESSAGE_LIMIT = 4096
"""Characters of an error text that are kept."""
_LONGEST_TOKEN = 256  # a cut may leave half a secret; up to this many characters are dropped to reach the last blank
_OVERLAP = 512  # characters beyond the limit that the patterns see, so that a secret at the limit is masked as a whole
_FLAGS = re.IGNORECASE | re.DOTALL
# What follows a secret name and a blank and looks random: letters of both kinds and digits in two places, or hexadecimal digits.
_RANDOM = (
    r"(?-i:(?![/~.]|\w{1,10}://)(?=[^\s=]{0,60}[a-z])(?=[^\s=]{0,60}[A-Z])(?=[^\s=\d]{0,60}\d++[^\s=\d]{1,60}\d)[\w.+/~!@#$%^*:-]{8,}+|(?=[a-f]*\d)(?=\d*[a-f])[\da-f]{24,}+)"
    r"(?=[\s.,;)'\"\]}>|\\]|$)"
)
_BLANKS = r"\s*+(?:(?<!\\)\\{1,8}t\s*+){0,9}+"  # a tab may be escaped
# A name that is quoted or not, and what separates it from a value.
_NAMED_VALUE = (
    r"(?<![\w.-])((?:[\w.]|-(?!>))++)((?:\\*['\"`]|%5D|\]|</\w{1,9}>|\*\*|\[[\d;]{1,9}m){0,9}+)"
    rf"({_BLANKS}(?:[:!?|+.]{{0,2}}=[=>~]{{0,2}}|:(?!:|//)|::(?=[ \t])|[：＝→⇒]|->|<-(?=\s*+\\*['\"])|\)?[ \t]*(?:\|\||\?\?|\?:)(?=\s*+\\*['\"`][^\s'\"`]{{6}})|;s:\d{{1,9}}:(?=\\*\"))|"
    r"\s*+,(?:\s*+(?:default|fallback)=)?(?=\s*+\\*b?['\"])|"
    rf"[\[(<{{|](?={_RANDOM})|(?:[ \t]++|(?<!\\)\\{{1,8}}t){{1,9}}+(?:(?=\\*['\"`])|(?:(?:is|was)[ \t]?:?|(?-i:IN|I?LIKE))[ \t]|(?={_RANDOM})))"
)
# Not the next name of a JSON object, and not the placeholder in a usage text: [--token TOKEN].
_OPTION = (
    r"(?<![\w-])(--?[a-z][\w-]+)()((?:['\"]\s*,\s*|\s+)(?=[^\s-]|-\S*\d)(?!['\"](?:--|[\w.]+['\"]:)|(?-i:[A-Z_]+)\]))"
)
# Each secret name contains one of these words, and where a second one is given also that.
_NAME_HINTS = (
    (
        "pass pw pswd secret token key cred auth cookie sig sess srf jwt pin otp hmac dsn psk pat bearer assertion verifier saml mnemonic phrase "
        "connect.sid senha contrase clave kennw wachtw haslo heslo salasana sifre parola kata_sandi webhook contribsys input_value db_u db-u dbu",
        "",
    ),
    ("database", "ur"),
    ("conn", "str"),
    ("application", "id"),
    *(("code", word) for word in word_set("security recovery backup verification activation access device factor ? &")),
)
_RAREST = "$&~@{[|<>`=(/'_-QZXJKVWBGYFDHULMOPRNSICETA9876543210qzxjkvbwpgfymculdhrsniotae:."
_AFTER_DASH = r"[_-][\w+/=.$-]{10}"
_LABELS = frozenset(["name", "key", "header", "field", "loc", "param", "parameter", "type", "variable"])
_LABELLED = frozenset(["value", "values", "content", "input", "rejected_value", "rejectedvalue"])
_LABEL_REACH = 300  # characters between the name of a secret and its value: {"name": "token", "in": "body", "value": …}
_TWO_WORDS = frozenset(
    ["key", "keys", "string", "url", "id", "code", "phrase", "passe", "khẩu", "السر", "المرور"]
)  # last words of names with a blank: API key
_WHOLE_LINE = r"authori[sz]ation|cookies?"

_END = r"(?=[\s&]|,\\{0,8}['\"]|[.,:;]?(?:(?:\\{0,8}[)\]}'\"]){1,9}(?!\w)|\s|$)|\\{1,8}n)"
_SECRETIVE = r"[a-z_.-]{0,40}(?:pass|pwd|token|secret|key|cred|auth|session|cookie)[a-z_.-]{0,40}"
# Values that are not secrets: constants, placeholders, types, and what errors say about a secret.
_HARMLESS = (
    rf"(?:none|null|nil|true|false|yes|no|undefined|<[\w.]+(?: object)? at 0x\w+>?|%s|%\({_SECRETIVE}\)s|\?|\$\d\d?|:{_SECRETIVE}|@{_SECRETIVE}|"
    rf"\{{\d?\}}|\{{{{?\s*{_SECRETIVE}\s*\}}?\}}|\$\{{[\w.:-]+\}}|\$\(\w+\)|(?-i:\$[A-Z_]+)|<{_SECRETIVE}>){_END}"
)
# The quote after a name may end the text that the name is in: a line of source as a value of JSON.
_END_OF_TEXT = r"\\*['\"](?:\)|[,}](?:\s*\\*['\"][\w.]+\\*['\"]:|\s*$))"
_TYPE = (
    r"(?:(?:typing\.|t\.)?(?:str|bytes|int|float|bool|dict|list|tuple|set|any|object|optional|union|string|number|none|callable|"
    r"type|literal|annotated|final|classvar|secretstr|secretbytes|text|varchar|character varying|uuid|jsonb?)(?>\[[^\n]{0,80}?\])?"
    r"(?:\s*\|\s*[\w.\[\]]{1,40}){0,3}(?:\s*=\s*(?!=)|(?=\s*(?:[,)\]};]|\\{1,8}[n\"]|\"[,}]|$)|\n))|\w+\.(?-i:[A-Z][A-Za-z]+)(?:\s*\|\s*\w+)?(?:\s*=\s*(?!=)|(?=[,)])))"
)
_ABOUT_IT = (
    r"(?:(?:is|was|are|has|have|must|should|cannot|can't|can|could|may|might|does|did|do|not|no|too|the|an?|this|these|that|it|your|you|"
    r"please|set|see|use|check|required|missing|invalid|expired|incorrect|wrong|unknown|malformed|empty|revoked|denied|forbidden|"
    r"unauthorized|unable|failed|failure|errors?|expected|unexpected|timeout|timed|connection|connect|permission|exit|http|status|"
    r"server|request|network|context|deadline|eof|rpc|open|read|write|dial|get|post|put|field|option|flag|argument|value|input|string|"
    rf"at least|already|only|\[errno){_END}|[45]\d\d (?=[a-z])|(?:secret|configmap) (?=\\*['\"])|(?-i:[A-Z]\w*(?:Error|Exception|Timeout|Pool|Failure)\b))"
)
_REMARK = (
    r"\\*['\"][a-z][a-z ,.()-]{0,120}\b(?:required|must|invalid|incorrect|missing|expired|cannot|should|too (?:short|long|common)|not)\b"
    r"[a-z ,.()-]{0,120}\\*['\"]"
)
_ERROR_NAME = (
    r"(?:Invalid|Expired|Missing|Unexpected|Bad|Unknown|Malformed|No|Illegal|Unsupported|Incorrect|Wrong|Revoked)[A-Z]"
)
# Blanks and line breaks before a value, types of YAML, and those that PHP shows.
_BEFORE_VALUE = rf"(?:\*\*(?!\*))?[ \t]*(?:\\\n\s*)?(?:(?:\s|{LINE_BREAK})+(?=\\*['\"{{\[])|(?:!!?\w+|&\w+)[ \t]+(?=\S)|string\(\d{{1,9}}\) )?"
_CODE = r"(?:(?:await|new|not|yield)\s+)?([A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)*)([(\[]?)"
_CODE_ROOTS = word_set(
    "self cls this settings config cfg conf os env environ args options opts request app ctx context kwargs"
)
_CALLS = word_set("str int bytes dict list repr input open getattr next quote getenv hash len Column")
_QUOTED = r"(?<!\\)(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
_OPENING = r"[bruf@$]{0,2}(\\*)([\"'`])((?:\1\2){2})?"
_JOINT = r"[ \t]*(?:(?:[+.][ \t]*\w[\w.]*[ \t]*)?[+.][ \t]*|[ \t])(?:\\+n?\s*)?(?=[bruf]{0,2}\\*(['\"])(?!\1))"
_NEXT_FIELD = r"[,;&](?=\s|$|\\*['\"]|[\w.\-\[\]%][\w.\-\[\]% ]{0,40}=(?!=|\s|$))"
_ESCAPES = r"(?:\x1b|(?<!\\)\\+(?:x1b|u001b|033))\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
# Keys of rows, caches and locks, which are not secret even if they look random.
_OPEN_KEY = r"(?:cache|dedup\w*|dictionary|foreign|group|hash|idempotency|index|item|lock|lookup|object|partition|primary|public|record|routing|row|sort|unique)[_-]?key$"
_ENTITY = r"&(?:quot|apos|lt|gt|amp|shy|zwn?j|#\d{1,7}|#x[0-9a-f]{1,6});"
_ENCODED = r"(?<![\w.~+!*()%/=-])[\w.~+!*()/=-]*%[0-9A-Fa-f]{2}[\w.~+!*()%/=-]*"
_MOST_DECODINGS = 3
_LONGEST_CALL = 300  # characters in the brackets of an expression


_Groups = tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]


def _by_character(rows: "Iterable[tuple[str, str, str]]") -> _Groups:
    """Return rows of two hints and a pattern by the rarest character of the first: to look for a character is quicker."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for row in rows:
        groups.setdefault(next(each for each in _RAREST if each in row[0]), []).append(row)
    return tuple((character, tuple(group)) for character, group in groups.items())


@cache
def _token_groups() -> tuple[_Groups, _Groups]:
    """Return the tokens with a dash in their prefix, and the others."""
    rows = [(hint, "", pattern) for _vendor, pattern, hints in TOKENS for hint in hints.split()]
    dashed = [row for row in rows if "_" in row[0] or "-" in row[0]]
    return _by_character(dashed), _by_character(row for row in rows if row not in dashed)


@cache
def _word_groups() -> _Groups:
    """Return the shapes, and names, which have no pattern."""
    shapes = [(hint, "", pattern) for hints, pattern in SHAPES for hint in hints.split("|")]
    return _by_character(shapes + [(hint, second, "") for hints, second in _NAME_HINTS for hint in hints.split()])


def _matching(text: str, groups: _Groups) -> list[str]:
    """Return the patterns whose hints a text contains, in no particular order."""
    found = []
    for character, rows in groups:
        if character in text:
            for hint, second, pattern in rows:
                if hint in text and second in text:
                    found.append(pattern)  # a comprehension over all rows is slower for most texts
    return found


def _mask_tokens(text: str) -> str:
    dashed, others = _token_groups()
    patterns = _matching(text, others)
    if ("_" in text or "-" in text) and compiled(_AFTER_DASH).search(text):
        patterns = _matching(text, dashed) + patterns
    for pattern in patterns:
        text = compiled(rf"(?<![A-Za-z0-9])(?:{pattern})").sub(MASK, text)
    if any(_mask_long_tokens(word) != word for word in text.split() if len(word) >= LONG_WORD):
        text = compiled(rf"(?<!\S)\S{{{LONG_WORD},}}").sub(lambda found: _mask_long_tokens(found[0]), text)
    return text


def _mask_long_tokens(word: str) -> str:
    if not compiled(r"[\w+/-]{22}").search(word):  # each of them has such a part
        return word
    for _vendor, pattern, hint in LONG_TOKENS:
        if hint in word:
            word = compiled(rf"(?<![A-Za-z0-9])(?:{pattern})").sub(MASK, word)
    return word


def _mask_visible(text: str, original: str, decodings: int = 0) -> str:
    """Return the text masked, also where characters are not visible, or escaped as in HTML."""
    is_html = "&" in text and compiled(_ENTITY, re.IGNORECASE).search(text)
    if text is not original or is_html or "\\u" in text or "\\x1b" in text or "\\033" in text:
        visible = original
        if is_html:
            from html import unescape  # noqa: PLC0415  # few texts need it

            visible = compiled(_ENTITY, re.IGNORECASE).sub(lambda found: unescape(found[0]), visible)
        visible = _without_invisible(visible)
        visible = safe_text(visible, len(visible))
        masked = _mask_built_in(visible, decodings)
        if masked != visible:
            return masked
    return _mask_built_in(text, decodings)


def _mask_built_in(text: str, decodings: int) -> str:
    """Return the text without what the built-in patterns find."""
    if "%" in text and decodings < _MOST_DECODINGS:
        text = compiled(_ENCODED).sub(lambda found: _mask_encoded(found[0], decodings + 1), text)
    low = text.lower()
    text = _mask_tokens(text)
    patterns = _matching(low, _word_groups())
    for pattern in patterns:
        if pattern:
            text = _mask_spans(text, _shape_spans(text, pattern))
    if "" in patterns or not low.isascii():
        text = _mask_spans(text, _named_spans(text, _NAMED_VALUE))
        if "-" in text:
            text = _mask_spans(text, _named_spans(text, _OPTION))
    return text


def _mask_encoded(text: str, decodings: int) -> str:
    """Return a part of a URL, masked if it has a secret when it is decoded."""
    from urllib.parse import quote, unquote, unquote_plus  # noqa: PLC0415  # few texts need it

    for decode in (unquote_plus, unquote) if "+" in text else (unquote,):
        decoded = decode(text)
        masked = _mask_visible(safe_text(decoded, len(decoded)), decoded, decodings)
        if MASK in masked:
            text = quote(masked, safe="*()!~+/=")
    return text


def _mask_spans(text: str, spans: "Iterator[tuple[int, int]]") -> str:
    pieces, done = [], 0
    for start, end in spans:
        pieces += [text[done:start], MASK]
        done = end
    return "".join([*pieces, text[done:]])


def _shape_spans(text: str, pattern: str) -> "Iterator[tuple[int, int]]":
    """Yield start and end of the secrets that a pattern finds."""
    position, shape = 0, compiled(pattern, _FLAGS)
    while found := shape.search(text, position):
        position = found.end()
        if "names" in shape.groupindex:
            names = compiled(r"[\w.-]+").findall(found["names"] or "")
            if not any(is_secret_name(name) for name in names):
                continue
        start, end = found.span("secret") if "secret" in shape.groupindex else (position, _value_end(text, position))
        if start < end:
            yield start, end
            position = max(position, end)


def _named_spans(text: str, pattern: str) -> "Iterator[tuple[int, int]]":
    """Yield start and end of the values of secret names."""
    position, label = 0, -_LABEL_REACH
    while found := compiled(pattern, _FLAGS).search(text, position):
        position = found.end()
        name = _full_name(text, found)
        if name.lower() in _LABELS and _has_secret_name(text, position):
            label = position
        is_labelled = name.lower() in _LABELLED and (
            found.start() - label < _LABEL_REACH or _is_named_afterwards(text, position)
        )
        start = _secret_start(text, found, name, is_labelled=is_labelled or _is_input_of_secret(text, found))
        if start is None:
            continue
        end = _block_end(text, found, start) or _line_end(text, found, name, start) or _value_end(text, start)
        if end > start:
            yield start, end
            position = end


def _full_name(text: str, found: "re.Match[str]") -> str:
    """Return a name without the rest of an escape before it, with the words before it that belong to it: API key."""
    name, start = found[1], found.start()
    if text[start - 1 : start] == "\\" and name[0] in "nrt":
        name = name[1:]
    elif text[start - 1 : start] == "%":
        name = name[2:]
    if name.lower() in _TWO_WORDS and (
        words := compiled(r"[^\W\d_]+ (?:key |de )?$", re.IGNORECASE).search(text, max(start - 40, 0), start)
    ):
        name = words[0] + name
    return name


def _has_secret_name(text: str, position: int) -> bool:
    """Return whether the value at a position is a secret name, or a list with one."""
    value = compiled(r"\s*(?:[\[(][^\])\n]{0,200}|\\*b?['\"]?[\w.-]{1,100})").match(text, position)
    return value is not None and any(is_secret_name(name) for name in compiled(r"[\w-]+").findall(value[0]))


def _is_named_afterwards(text: str, position: int) -> bool:
    """Return whether the value at a position has its name after it: {"value": …, "name": "token"}."""
    end = _value_end(text, compiled(r"\s*").match(text, position).end())  # type: ignore[union-attr]  # it matches
    label = compiled(r"\s*,\s*\\*['\"]?(\w{1,20})\\*['\"]?\s*[:=]").match(text, end)
    return label is not None and label[1].lower() in _LABELS and _has_secret_name(text, label.end())


def _is_input_of_secret(text: str, found: "re.Match[str]") -> bool:
    """Return whether this is a value that pydantic shows, unless the line above it names a field that is not secret."""
    if found[1] != "input_value":
        return False
    lines = compiled(LINE_BREAK).split(text[max(found.start() - 600, 0) : found.start()])
    if len(lines) > 1 and compiled(r"[\w.\[\]-]+").fullmatch(lines[-2]):
        return is_secret_name(lines[-2])
    return text[found.end() : found.end() + 1] != "{"


def _secret_start(text: str, found: "re.Match[str]", name: str, *, is_labelled: bool) -> int | None:
    """Return where the value begins, or None if it is not a secret."""
    start = compiled(_BEFORE_VALUE).match(text, found.end()).end()  # type: ignore[union-attr]  # it matches
    separator = found[3].strip().lower()
    is_verb = separator.rstrip(" \t:") in {"is", "was"}
    number = compiled(rf"-?\d+(?:\.\d+)?{_END}").match(text, start)
    if (
        not is_labelled
        and not is_secret_name(name, 0 if number else "")
        and not _is_random_key(text, found, name, start)
    ):
        return None
    if separator == ":" and (type_name := compiled(_TYPE, _FLAGS).match(text, start)):
        start = type_name.end()
        if text[start - 1] not in "= ":
            return None
    is_kept = (
        compiled(rf"{_HARMLESS}|{_END_OF_TEXT}", _FLAGS).match(text, start)
        or compiled(rf"\[?{_REMARK}(?:, {_REMARK})*", _FLAGS).match(text, start)
        or _is_code(text, start, name)
        or (separator == ":" and _is_prose(text, found, start))
        or ((is_verb or separator == "->") and not compiled(r"\\*['\"`]|(?=\S*\d)\S{6}").match(text, start))
        or (separator in {"in", "like", "ilike"} and not compiled(r"\(?\s*\\*['\"]").match(text, start))
        or (separator == "," and not _is_pair(text, found, start))
        or (not separator and not found[1].startswith("-") and not _is_quoted_secret(text, found, start))
    )
    return None if is_kept else start


def _is_random_key(text: str, found: "re.Match[str]", name: str, start: int) -> bool:
    """Return whether the value of a name that ends with key is a secret: in a query, as the code of OAuth, or if it looks random."""
    is_in_query = text[found.start() - 1 : found.start()] in {"?", "&"} and found[3] == "="
    if is_in_query and name.lower() in {"key", "code"}:
        return (
            name.lower() == "key"
            or compiled(r"(?=[\w.~%+/-]*\d)(?=[\w.~%+/-]*[A-Za-z])[\w.~%+/-]{10}").match(text, start) is not None
        )
    if not name.lower().endswith("key"):
        return False
    mixed = r"(?=[\w-]{0,80}[a-z])(?=[\w-]{0,80}[A-Z])(?=[\w-]{0,80}\d)[\w-]{16,}"
    if not compiled(_OPEN_KEY, re.IGNORECASE).search(name):
        mixed += r"|(?=[a-z]{0,80}\d)(?=\d{0,80}[a-z])[\da-z]{24,}"
    if name.isupper() and found[3] == "=":
        mixed = r"(?=[\w-]{0,80}[A-Za-z])(?=[\w-]{0,80}\d)[\w-]{8,}"
    return compiled(rf"\\*['\"`]?(?:{mixed})(?![\w./:+])").match(text, start) is not None


def _is_prose(text: str, found: "re.Match[str]", start: int) -> bool:
    """Return whether a colon after a secret name is followed by something else: a message, a port, a line number."""
    before = text[max(found.start() - 200, 0) : found.start()]
    return (
        (start > found.end() and compiled(_ABOUT_IT, _FLAGS).match(text, start) is not None)
        or compiled(_ERROR_NAME).match(found[1].rpartition(".")[2]) is not None
        or (before.endswith(("//", "@")) and text[start : start + 1].isdigit())
        or compiled(r"(?:\b(?:arn|urn):\S*|\b(?:unexpected|unrecognized|expected) )$", _FLAGS).search(before)
        is not None
    )


def _is_pair(text: str, found: "re.Match[str]", start: int) -> bool:
    """Return whether a text after a comma is a value and not another name."""
    if not found[2]:
        return False
    end = _value_end(text, start)
    value = text[start:end].strip("\\'\"b")
    if text[end : end + 1] == ":" or value.startswith("--"):
        return False
    before = text[max(found.start() - 8, 0) : found.start()]
    is_pair = compiled(r"[(\[]\s*\\*b?\\*['\"]$").search(before) is not None and text[end : end + 1] in {")", "]", ""}
    return (
        (is_pair and not is_secret_name(value))
        or found[1].startswith("-")
        or not compiled(r"[A-Za-z_ -]*").fullmatch(value)
    )


def _is_quoted_secret(text: str, found: "re.Match[str]", start: int) -> bool:
    """Return whether a quoted text after a secret name and a blank is its value, and not what a cluster calls its secret."""
    before = text[max(found.start() - 16, 0) : found.start()].lower()
    end = _value_end(text, start)
    return (
        not found[2]
        and len(text[start:end].strip("\\'\"`")) > 5  # noqa: PLR2004  # shorter ones are the tokens of parsers
        and not before.endswith(("unexpected ", "unrecognized ", "expected "))
        and not compiled(r" (?:not found|is forbidden|already exists|in namespace|does not exist)").match(text, end)
    )


def _is_code(text: str, start: int, name: str) -> bool:
    """Return whether a value is an expression of a line of source code that contains no secret."""
    names = compiled(r"\(([a-z_.]+(?:, [a-z_.]+)+)\)").match(text, start)
    if names and any(is_secret_name(each) for each in names[1].split(", ")):
        return True
    if compiled(r"f\\*(['\"])(?:\{[^{}]*\}|bearer|basic|token|[^\w'\"{}])*+\1", _FLAGS).match(text, start):
        return True
    found = compiled(_CODE).match(text, start)
    if found is None:
        return False
    path, end = found[1], found.end()
    *roots, last = path.split(".")
    if not found[2]:
        is_same = name.lower().rstrip("_s").endswith(last.lower().strip("_").rstrip("s"))
        is_named = is_same or ("_" in last and last.replace("_", "").isalpha())
        ends = not text[end : end + 1].strip(" \t\n,;)]}:\\'\"")
        return ends and (
            roots[0] in _CODE_ROOTS or is_secret_name(last) if roots else is_named and is_secret_name(last)
        )
    if not text[end : end + 1].strip():
        return True
    close = _bracket_end(text, end - 1, end + _LONGEST_CALL)
    if close is None or text[close : close + 1].strip(" \t\n,;)]}.:[(\\'\""):
        return False
    arguments = text[end : close - 1].replace("\\", "")
    literals = [each.strip("'\"") for each in compiled(_QUOTED).findall(arguments)]
    is_lookup = found[2] == "[" or last in {"get", "getenv", "pop"}
    if literals:
        return all(
            not each[2:]  # too short
            or is_secret_name(each)
            or each.isupper()
            or (is_lookup and each.isidentifier() and each.islower())
            for each in literals
        )
    argument = r"(?:[a-z]\w*=)?(?:[a-z][\w.]*|\d{1,4}|True|False|None)"
    is_written_out = compiled(rf"(?=.*[=_]){argument}(?:, {argument})*").fullmatch(arguments)
    return (
        bool(roots or is_written_out)
        or "_" in path
        or last in _CALLS
        or compiled(r"[a-z][A-Z]").search(path) is not None
    )


def _block_end(text: str, found: "re.Match[str]", start: int) -> int | None:
    """Return where a block of YAML ends: the lines after `name: |`, what is indented deeper, or a value in a line of its own."""
    if found[3].strip() not in {":", "="} or not compiled(rf"(?:[|>][-+\d]{{0,2}}[ \t]*)?{LINE_BREAK}").match(
        text, start
    ):
        return None
    line = compiled(LINE_BREAK).split(text[max(found.start() - 300, 0) : found.start()])[-1]
    is_alone = compiled(r"(?:^|['\"])[ \t'\"-]*$").search(line) and compiled(
        rf"{LINE_BREAK} +[^\s\\:()\"]{{6,}}[ \t]*(?:{LINE_BREAK}|\\{{0,8}}\"|$)"
    ).match(text, start)
    if text[start] not in "|>" and (
        line.endswith("class ") or not (is_alone or compiled(rf"{LINE_BREAK} +(?:- |[\w-]+:)").match(text, start))
    ):
        return start  # nothing on this line
    indent = len(line) - len(line.lstrip(" \t-"))
    lines = rf"[|>\d+-]*[ \t]*(?:{LINE_BREAK}(?:[ \t]{{{indent + 1},}}|(?=[ \t]*(?:{LINE_BREAK}|$)))(?:(?!\\{{1,8}}n)[^\n])*)+"
    block = re.compile(lines).match(text, start)
    return block.end() if block else None


def _line_end(text: str, found: "re.Match[str]", name: str, start: int) -> int | None:
    """Return the end of the value of a header that may contain blanks."""
    if not compiled(rf"(?:.*[-_])?(?:{_WHOLE_LINE})", _FLAGS).fullmatch(name) or compiled(r"\\*b?['\"(\[{]").match(
        text, start
    ):
        return None
    quote = text[found.start() - 1 : found.start()]
    if quote in {"'", '"'} and not found[2] and (closing := compiled(rf"(?<!\\){quote}").search(text, start)):
        return closing.start()
    rest = compiled(LINE_BREAK + r"|['\"](?=\s*(?:[}\])]|,\s*\\*['\"{\[]|$))").search(text, start)
    return rest.start() if rest else len(text)


def _value_end(text: str, start: int) -> int:
    """Return the end of a value, also of one that is joined from quoted parts: "a" + "b"."""
    end = _part_end(text, start)
    while text[end - 1] in {"'", '"'} and (joint := compiled(_JOINT, re.IGNORECASE).match(text, end)):
        end = _part_end(text, joint.end())
    return end


def _part_end(text: str, start: int) -> int:
    """Return the end of the quotes or brackets at a position, otherwise of the run up to the next blank or closing bracket."""
    if found := compiled(_OPENING, re.IGNORECASE).match(text, start):
        escape, quote, triple = found.groups()
        if not escape and not triple:  # it may contain doubled quotes
            closing = compiled(rf"[^{quote}\\]*+(?:(?:\\.|{quote}{quote})[^{quote}\\]*+)*+{quote}", re.DOTALL).match(
                text, found.end()
            )
            end = closing.end() if closing else len(text)
        else:
            end = _delimiter_end(text, found.end(), escape + quote + (triple or ""))
        if compiled(r"\w|\\['\"]\w").match(text, end):
            return _run_end(text, end)
        return start if end - found.end() == len(escape + quote) else end
    if text[start : start + 1] in {"{", "[", "("}:
        if found := compiled(r"\{(?:[^{}'\":]|\}\})*\}").match(text, start):  # of ODBC, where a bracket is doubled
            return found.end()
        return _bracket_end(text, start, len(text)) or len(text)
    return _run_end(text, start)


def _delimiter_end(text: str, position: int, delimiter: str) -> int:
    """Return the end of the next delimiter that is not escaped once more, or of the text."""
    while (position := text.find(delimiter, position)) >= 0:
        if text[position - 1] != "\\":
            return position + len(delimiter)
        position += 1
    return len(text)


def _bracket_end(text: str, start: int, limit: int) -> int | None:
    """Return the end of a bracket, or None if it is not closed."""
    depth = 0
    for found in compiled(rf"[()\[\]{{}}]|{_QUOTED}", re.DOTALL).finditer(text, start, limit):
        if found[0] in {"(", "[", "{"}:
            depth += 1
        elif found[0] in {")", "]", "}"}:
            depth -= 1
            if depth == 0:
                return found.end()
    return None


def _run_end(text: str, position: int) -> int:
    may_close = True  # one bracket that is not closed is enough: each costs a search
    while position < len(text):
        position = compiled(r"[^\s\\'\"`()\[\]{}<,;&]*").match(text, position).end()  # type: ignore[union-attr]  # it matches
        character, after = text[position : position + 1], text[position + 1 : position + 2]
        if not character.strip():
            break
        if character in "([{":
            end = _bracket_end(text, position, position + _LONGEST_CALL) if may_close else None
            may_close, position = end is not None, end or position + 1
        elif (
            (character in ",;&" and compiled(_NEXT_FIELD).match(text, position))
            or (character == "<" and after == "/")
            or (character == "\\" and after in {"'", '"'} and not text[position + 2 : position + 3].isalnum())
            or (character in ")]}'\"`" and not after.isalnum())
        ):
            break
        else:
            position += 1
    return position


def safe_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a text cut to `limit` characters, without characters that break databases, logs or terminals."""
    if len(text) > limit:
        text = f"{text[:limit]} … ({len(text)} characters)"
    if text.replace("\n", "").replace("\t", "").isprintable():  # most texts, and much quicker than by character
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def _without_invisible(text: str) -> str:
    """Return the text without terminal escapes and characters of no width, which may be inside a name."""
    from unicodedata import category  # noqa: PLC0415  # few texts need it

    text = compiled(_ESCAPES).sub("", text)
    text = compiled(r"(?<!\\)\\+u((?!d[89a-f])[0-9a-f]{4})", re.IGNORECASE).sub(
        lambda found: chr(int(found[1], 16)), text
    )
    return "".join(char for char in text if category(char) != "Cf")


def _cut_at_last_blank(text: str) -> str:
    """Return a cut text without its last word, which may be half a secret."""
    start = max(len(text) - _LONGEST_TOKEN, 0)
    last = max(text.rfind(blank, start + 1) for blank in " \n\t,;&|")
    return text[: max(last, start)]


class Redactor:
    """Masks secrets in text.

    Args:
        patterns: Additional regular expressions, case-insensitive. The match is masked, except for the first group if
            there is one.
        limit: Characters to keep; the text is cut before any pattern runs.

    Raises:
        ValueError: If a pattern is not a valid regular expression.
    """

    def __init__(self, patterns: "Iterable[str]" = (), limit: int = MESSAGE_LIMIT) -> None:
        self.limit = limit
        self._own = []
        for pattern in patterns:
            try:
                compiled_pattern = re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a valid regular expression: {error}") from None
            self._own.append((compiled_pattern, rf"\1{MASK}" if compiled_pattern.groups else MASK))

    def __call__(self, text: str) -> str:
        """Return the text truncated, safe to store, and without secrets."""
        size = len(text)
        if size > self.limit:
            text = _cut_at_last_blank(text[: self.limit + _OVERLAP])
        text = _mask_visible(safe_text(text, len(text)), text)
        for pattern, replacement in self._own:
            text = pattern.sub(replacement, text)
        if size <= self.limit:
            return text
        return f"{_cut_at_last_blank(text[: self.limit]) if len(text) > self.limit else text} … ({size} characters)"


redact = Redactor()
"""The redactor with the built-in patterns."""
