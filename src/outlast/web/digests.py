"""What stands for a name in a form or an address: the name, or a digest of one that holds a secret."""

import hashlib

from outlast.queue.masking import masked_text

__all__ = ["DIGEST", "LONGEST_NAME", "key_of"]

DIGEST = "#"
"""A digest begins with it."""
LONGEST_NAME = 500
"""Characters of a name that stands for itself."""


def key_of(name: str) -> str:
    """Return what stands for a name: itself where it can be shown as it is, otherwise a digest."""
    plain = name.isprintable() and name == name.strip() and not name.startswith(DIGEST)
    if plain and len(name) <= LONGEST_NAME and masked_text(name) == name:
        return name
    return DIGEST + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
