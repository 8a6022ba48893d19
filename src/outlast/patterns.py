"""Patterns that are compiled when a text first contains one of their words.

Compiling all patterns that classify errors takes 10 ms; looking for a few words takes less than a microsecond. So the
first error of a program is classified nearly as fast as the others, and most patterns are never compiled.
"""

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


@cache
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return the compiled pattern, from a cache that never drops one."""
    return re.compile(pattern, flags)


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text that are separated by blanks."""
    return frozenset(words.split())


def has_word(text: str, words: str) -> bool:
    """Return whether a text contains one of these words, which are separated by blanks."""
    for word in _split(words):  # noqa: SIM110  # any() costs four times as much, and each text has a hundred of these checks
        if word in text:
            return True
    return False


def first_match(text: str, phrases: "Mapping[str, str]") -> re.Match[str] | None:
    """Return the match of the first of these phrases that occurs in a lowercase text, or None.

    Args:
        text: The text.
        phrases: Patterns by words; a text that matches has one of the words. ASCII patterns match whole words only.
    """
    for words, pattern in phrases.items():
        if has_word(text, words):
            whole = compiled(rf"(?<!\w)(?:{pattern})(?!\w)", re.ASCII) if pattern.isascii() else compiled(pattern)
            match = whole.search(text)
            if match is not None:
                return match
    return None
