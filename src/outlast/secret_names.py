"""Tells names of secrets from other names: ``api_key``, ``dbPassword``, ``Set-Cookie``, ``contraseña``.

The redactor of texts and the masking of payloads both ask `is_secret_name`, so that they agree.
"""

from functools import lru_cache
from itertools import pairwise

from outlast.patterns import compiled, word_set

_MAX_CHARS = 200  # of a name, from its end
_ACCENT = "[\u0300-\u036f]"
_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+"
# A secret wherever it is in a name.
_MARKED_WORD = (  # a pattern
    r"(?:[a-z]*(?:passwo?r?d|pswd|(?:pass|kenn)w(?:o|oe)rt(?:er)?|passphrase|passcode|passkey|contrasena|senha|wachtwoord|secret|"
    r"token|credential|(?:api|access|account|app|private|secret|auth|ssh|master|encryption|signing|hmac|consumer|client|"
    r"service|session|shared|license|storage|preshared)key|authori[sz]ation|cookie|signature|sess(?:ion)?id|connectionstring|connstr|"
    r"databaseurl|dburl|webhookurl|(?<!old)pwd|pw|schlu(?:e)?ssel|losenord)|contribsys|cred|jwt|csrf|xsrf|t?otp|dsn|psk|masterauth|saml(?:request|response)|mnemonic|haslo|heslo|"
    r"jelszo|salasana|sifre|parola|パスワード|暗証番号|密码|密碼|口令|пароль|비밀번호|סיסמה)(s?)"
)
_COMPOUND_WORD = (  # a pattern
    r"(?!(?:(?:en)?com|by|sur|tres|over|under|low|high|band|multi|single|one|two|first|second)pass$)[a-z]+pass"
)
_MOT_DE_PASSE = r"mots?depasse"
# A secret at the end of a name, where only these words may follow: auth_code, but not auth_service.
_SECRET_LAST = frozenset(
    ["assertion", "auth", "bearer", "clave", "hmac", "pass", "pat", "pin", "pins", "session", "sessions", "sig"]
)
_FOLLOWERS = word_set(
    "base code confirm confirmation confirmed current data encoded encrypted hash header id ids idx key keys live "
    "new old plain prod production raw seed staging str string test text unique uq value values"
)
# Words that make a key secret, as in api_key; others, as in sort_key, do not.
_LOCKED_BY = (
    r"[a-z]*api|access|account|admin|aes|app|application|auth|aws|azure|bot|cipher|client|consumer|crypto|database|db|decryption|deploy|"
    r"encryption|fernet|functions|gcp|gpg|hmac|instrumentation|integration|license|master|pgp|priv|private|role|root|secret|security|sentry|serial|server|service|session|shared|"
    r"signing|ssh|storage|subscription|webhook|write"
)
_PAIRS = frozenset(
    ["session id", "connection string", "conn string", "conn str", "database url", "database uri", "db url", "db uri", "webhook url",
     "pass phrase", "pass word", "pass code", "security code", "recovery code", "verification code", "backup code", "activation code",
     "access code", "device code", "fa code", "mfa code", "otp code", "factor code", "twofactor code", "recovery codes", "backup codes", "seed phrase", "recovery phrase",
     "code verifier", "oauth verifier", "saml response", "saml request", "connect sid", "kata sandi", "mat khau", "كلمة السر", "كلمة المرور"]
)  # fmt: skip
# A name that ends with one of these describes a secret and is not one: token_type, password_changed_at.
_ABOUT = word_set(
    "age alg algorithm at audience backend bucket budget change changed class count counter dir directory domain email enabled endpoint error "
    "errors exception expiration expired expires expiry field file filename format generator handler in issuer "
    "length level lifetime limit manager max method middleware min mode module name names path pattern policy position "
    "provider rate re regex required scope scopes server service size status stdin store strategy timeout ttl type types "
    "uri url user username validator validators version"
)


def is_secret_name(name: str, value: object = "") -> bool:
    """Return whether the value of a name is a secret.

    Args:
        name: In snake_case or camelCase, with dots, or the name of a header or an option.
        value: The value: a number of tokens is not a token, and None, true and false are not secrets.
    """
    if value is None or isinstance(value, bool):
        return False
    return _is_secret(name[-_MAX_CHARS:], is_number=isinstance(value, int | float))


@lru_cache(maxsize=4096)
def _is_secret(name: str, *, is_number: bool) -> bool:
    words = _words(name)
    if not words:
        return False
    pairs = tuple(pairwise(words))
    if any(f"{first} {second}" in _PAIRS for first, second in pairs):
        return True
    if words[-1] in _ABOUT or (is_number and words[-1] == "id"):
        return False
    if any(second in {"key", "keys"} and compiled(_LOCKED_BY).fullmatch(first) for first, second in pairs):
        return True
    if words[-2:] == ["application", "id"]:
        return not is_number
    for word in words:
        found = compiled(_MARKED_WORD).fullmatch(word)
        if (found and not (is_number and found[1])) or compiled(_COMPOUND_WORD).fullmatch(word):
            return True
    if compiled(_MOT_DE_PASSE).search("".join(words)):
        return True
    while words[-1] in _FOLLOWERS and len(words) > 1:
        words.pop()
    return words[-1] in _SECRET_LAST


def _words(name: str) -> list[str]:
    """Return the words of a name in lowercase; of a dotted name those of the last part, `auth.py` is not about auth."""
    words: list[str] = []
    for part in reversed(_without_accents(name).split(".")):
        words = [word.lower() for word in compiled(_WORD).findall(part)] + words
        if not words or any(word not in _FOLLOWERS for word in words):
            break
    return words


def _without_accents(name: str) -> str:
    """Return a name without accents, with fullwidth letters as ASCII."""
    if name.isascii():
        return name
    from unicodedata import normalize  # noqa: PLC0415  # few names need it

    return normalize("NFC", compiled(_ACCENT).sub("", normalize("NFKD", name))).replace("ł", "l")
