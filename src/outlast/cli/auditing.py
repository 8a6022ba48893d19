"""The audit log of what is typed: who asks for what is written down before it is done."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.app import App

__all__ = ["write_down"]


def write_down(app: "App", action: str, subject: str, why: str = "", **detail: Any) -> None:
    """Write down that the user of this process asks for something.

    Args:
        app: In whose store.
        action: What, such as ``cancel_task``; the dashboard calls it the same.
        subject: To what, such as ``task:42``.
        why: Why, in their words.
        detail: More.
    """
    from outlast.queue import auditing  # noqa: PLC0415  # not for --help

    auditing.write_down(app.store, action, subject, detail, why=why)
