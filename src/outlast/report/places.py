"""Where a store is, for people: without a password."""

from outlast.redact import redact

__all__ = ["store_told"]


def store_told(store: object) -> str:
    """Return where a store keeps its tables."""
    if getattr(store, "in_process", False):
        return "memory"
    database = getattr(store, "db", None)
    path = getattr(database, "path", None)
    if path is not None:
        return f"sqlite:///{path}"
    parameters = getattr(database, "_parameters", None)  # of libpq, the password among them
    if isinstance(parameters, dict):
        server = ":".join(str(parameters[key]) for key in ("host", "port") if parameters.get(key))
        return redact(f"postgresql://{server}/{parameters.get('dbname', '')}")
    return type(store).__name__.removesuffix("Store").lower()
