"""Texts as every store takes them."""

__all__ = ["storable"]


def storable(text: str, limit: int | None = None) -> str:
    """Return a text without what databases refuse: NUL and lone surrogates are replaced; cut where it is too long."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return clean if limit is None else clean[:limit]
