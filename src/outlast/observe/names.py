"""What a channel is called where everybody may read it: never by its address, which is often the secret."""

import hashlib

__all__ = ["name_of"]

_ROUNDS = 100_000  # an address may hold a weak password; so nobody finds it by trying them against the name


def name_of(service: str, address: str) -> str:
    """Return a name that is the same for the same address, and tells nothing of it.

    Args:
        service: What kind of channel it is.
        address: Its URL.
    """
    digest = hashlib.pbkdf2_hmac("sha256", address.encode("utf-8", "replace"), b"outlast channel", _ROUNDS)
    return f"{service}#{digest.hex()[:8]}"
