"""Edits stored arguments with JSON Patch (add, replace, remove) without revealing masked values."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from outlast.errors import PayloadError
from outlast.queue.masking import masked_value
from outlast.queue.payload import DECODER, ENCODER
from outlast.redact import MASK

_OPERATIONS = ("add", "replace", "remove")
_MAX_OPERATIONS = 50  # operations of one patch
_LIST_END = "-"  # the index after the last value of a list
_DIGITS = 9  # of an index


@dataclass(eq=False)
class _Leaf:
    """A text, a number, true, false or null, as an object with an identity, so that a move in the tree is noticed."""

    value: Any


_Node = _Leaf | list[Any] | dict[str, Any]


class _ShownNode(NamedTuple):
    """What people see of a node.

    Attributes:
        node: The node, kept here so that no other object gets its id.
        shown: The shown text or number of a leaf; for a list or object None if its content is shown, else the text that
            is shown instead.
        clear: Whether nothing of the node itself is masked, including the names of an object.
    """

    node: _Node
    shown: Any
    clear: bool


_ShownNodes = dict[int, _ShownNode]


def apply_patch(text: str, patch: object) -> str:
    """Return arguments with all operations of a patch applied.

    A masked value can only be replaced: no operation reads, copies or tests it, and no path leads into it or removes
    it. A patch must not change whether another value is masked, which may depend on the name beside it.

    Args:
        text: The stored arguments as JSON text.
        patch: Operations of RFC 6902: ``[{"op": "replace", "path": "/url", "value": "https://…"}]``.

    Raises:
        PayloadError: If an operation cannot be applied; the message names it.
    """
    if not isinstance(patch, list) or not patch:
        raise PayloadError(
            'a patch must be a list of operations, such as [{"op": "replace", "path": "/url", "value": "…"}]'
        )
    if len(patch) > _MAX_OPERATIONS:
        raise PayloadError(f"the patch has {len(patch)} operations; the limit is {_MAX_OPERATIONS}")
    try:
        changed = _apply_operations(_parse_arguments(text), patch)
        return ENCODER.encode(changed)
    except RecursionError:
        raise PayloadError("the arguments are nested too deeply to be patched") from None
    except ValueError:
        raise PayloadError("the arguments contain a number that JSON cannot represent; replace it") from None


def masked_values(text: str) -> set[str | int | float]:
    """Return the texts and numbers of stored arguments that are masked."""
    try:
        known = _shown_nodes(_box(json.loads(text)))
    except (ValueError, RecursionError):
        return set()
    values = [node.value for node, _, clear in known.values() if isinstance(node, _Leaf) and not clear]
    return {value for value in values if value is not None and not isinstance(value, bool)}


def _parse_arguments(text: str) -> _Node:
    try:
        return _box(DECODER.decode(text))
    except ValueError:
        raise PayloadError(
            "the stored arguments are not valid JSON, so they cannot be patched; discard the dead letter"
        ) from None


def _box(value: Any) -> _Node:
    if isinstance(value, dict):
        return {name: _box(each) for name, each in value.items()}
    return [_box(each) for each in value] if isinstance(value, list) else _Leaf(value)


def _unbox(node: _Node) -> Any:
    if isinstance(node, dict):
        return {name: _unbox(each) for name, each in node.items()}
    return [_unbox(each) for each in node] if isinstance(node, list) else node.value


def _shown_nodes(tree: _Node) -> _ShownNodes:
    """Return what people see of each node of a tree, by id of the node."""
    known: _ShownNodes = {}

    def walk(node: _Node, shown: Any) -> None:
        if isinstance(node, _Leaf):
            known[id(node)] = _ShownNode(node, shown, shown == node.value and type(shown) is type(node.value))
            return
        is_open = type(shown) is type(node) and len(shown) == len(node)  # fewer if two masked names look the same
        names = not isinstance(node, dict) or (is_open and list(shown) == list(node))
        instead = shown if isinstance(shown, str) else MASK
        known[id(node)] = _ShownNode(node, None if is_open else instead, is_open and names)
        within = node.values() if isinstance(node, dict) else node
        beside = (shown.values() if isinstance(shown, dict) else shown) if is_open else [MASK] * len(node)
        for each, its_shown in zip(within, beside, strict=True):
            walk(each, its_shown)

    walk(tree, masked_value(json.dumps(_unbox(tree))))
    return known


def _apply_operations(tree: _Node, patch: list[Any]) -> Any:
    known = _shown_nodes(tree)
    for number, operation in enumerate(patch):
        try:
            _apply_operation(tree, known, operation)
        except _PatchError as error:
            raise PayloadError(f"operation {number}: {error}") from None
    for place, now in _shown_nodes(tree).items():
        before = known.get(place)
        if before is not None and now.shown not in (before.shown, MASK):
            raise PayloadError("the patch would reveal a masked value; replace the masked value too")
    return _unbox(tree)


class _PatchError(Exception):
    """Why one operation cannot be applied."""


def _apply_operation(tree: _Node, known: _ShownNodes, operation: object) -> None:
    if not isinstance(operation, dict):
        raise _PatchError("must be an object")
    name, path = operation.get("op"), operation.get("path")
    if name not in _OPERATIONS:
        raise _PatchError(f"{name!r} is not a valid operation; choose one of: {', '.join(_OPERATIONS)}")
    extra = operation.keys() - ({"op", "path"} if name == "remove" else {"op", "path", "value"})
    if extra or not isinstance(path, str):
        raise _PatchError(f"{min(map(str, extra))!r} is not a valid key of {name}" if extra else "has no path")
    if name != "remove":
        _check_value(operation)
    holder, key = _find_holder(tree, known, path)
    if name == "remove":
        _remove_value(holder, key, known, path)
    else:
        _put_value(holder, key, operation)


def _check_value(operation: dict[str, Any]) -> None:
    if "value" not in operation:
        raise _PatchError(f"{operation['op']} needs a value")
    try:
        text = json.dumps(operation["value"], ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _PatchError(f"the value is not valid JSON: {error}") from None
    if MASK in text:
        raise _PatchError(f"the value contains {MASK}, which marks masked values; replace only what you want to change")


def _find_holder(tree: _Node, known: _ShownNodes, path: str) -> tuple[list[Any] | dict[str, Any], str]:
    """Return the list or object that contains the value of a path, and the last name of the path."""
    if not path.startswith("/"):
        raise _PatchError(f"the path {path!r} must start with /; the arguments cannot be replaced as a whole")
    names = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    if any(
        list(masked_value(json.dumps({name: None}))) != [name] for name in names
    ):  # else masked names could be guessed
        raise _PatchError("the path contains what looks like a secret; masked names cannot be used")
    node = tree
    for name in [None, *names[:-1]]:
        if name is not None:
            if not _has(node, name):
                raise _PatchError(f"{name!r} in {path} does not exist")
            node = node[int(name)] if isinstance(node, list) else node[name]  # type: ignore[index]  # as _has found
        seen = known.get(id(node))
        if isinstance(node, _Leaf) or (seen is not None and seen.shown is not None):
            raise _PatchError(f"{path} leads into a value that is not a list or object, or is masked")
    assert not isinstance(node, _Leaf)  # noqa: S101  # for the type checker
    return node, names[-1]


def _has(node: _Node, key: str) -> bool:
    if isinstance(node, list):
        return _is_number(key) and int(key) < len(node)
    return isinstance(node, dict) and key in node


def _is_number(key: str) -> bool:
    return key == "0" or (key.isascii() and key.isdigit() and not key.startswith("0") and len(key) <= _DIGITS)


def _put_value(holder: list[Any] | dict[str, Any], key: str, operation: dict[str, Any]) -> None:
    given = _box(operation["value"])
    if operation["op"] == "replace" and not _has(holder, key):
        raise _PatchError(f"{operation['path']} does not exist, so it cannot be replaced")
    if isinstance(holder, dict):
        holder[key] = given
    elif operation["op"] == "replace":
        holder[int(key)] = given
    elif key == _LIST_END or (_is_number(key) and int(key) <= len(holder)):
        holder.insert(len(holder) if key == _LIST_END else int(key), given)
    else:
        raise _PatchError(f"{key!r} is not a valid index of a list of {len(holder)}")


def _remove_value(holder: list[Any] | dict[str, Any], key: str, known: _ShownNodes, path: str) -> None:
    if not _has(holder, key):
        raise _PatchError(f"{path} does not exist, so it cannot be removed")
    node = holder[int(key)] if isinstance(holder, list) else holder[key]
    if not _is_clear(node, known):
        raise _PatchError(f"{path} is masked, or contains masked values; it can be replaced, but not removed")
    if isinstance(holder, list):
        del holder[int(key)]
    else:
        del holder[key]


def _is_clear(node: _Node, known: _ShownNodes) -> bool:
    """Return whether nothing in a node is masked."""
    seen = known.get(id(node))
    if seen is not None and not seen.clear:
        return False
    within = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return all(_is_clear(each, known) for each in within)
