"""Text as TOML has it."""

__all__ = ["quoted"]


def quoted(text: str) -> str:
    """Return a basic string of TOML that stands for this text.

    What cannot be seen is escaped, so that no text turns a line around; half a surrogate pair, which TOML has no form
    for, is replaced.
    """
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    number = ord(char)
    if 0xD800 <= number <= 0xDFFF:  # noqa: PLR2004  # surrogates
        return "\ufffd"
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"  # noqa: PLR2004  # four digits
