"""Edits stored arguments with JSON Patch (add, replace, remove) without revealing masked values."""

import json
from typing import Any, NamedTuple, NoReturn

from outlast.errors import PayloadError
from outlast.queue.masking import masked_value
from outlast.redact import MASK

_OPERATIONS = ("add", "replace", "remove")
_MAX_OPERATIONS = 50  # operations of one patch
_LIST_END = "-"  # of a list, as a place to add
_DIGITS = 9  # of a place in a list


class _Leaf:
    """A text, a number, true, false or null; an object of its own, so that it is known again wherever it stands."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_Node = _Leaf | list[Any] | dict[str, Any]


class _ShownNode(NamedTuple):
    """What was shown of a node before the patch.

    Attributes:
        node: Kept here, so that no other gets its place in memory.
        shown: Of a leaf its text or number; of a list or an object None if it could be looked into, else what stood
            there instead.
        clear: Whether nothing of the node itself was masked; the names of an object are its own.
    """

    node: _Node
    shown: Any
    clear: bool


_ShownNodes = dict[int, _ShownNode]


def apply_patch(text: str, patch: object) -> str:
    """Return arguments with a patch applied; all of its operations or none.

    A masked value can be replaced, and nothing else: there is no operation that reads, copies or tests, and no path
    leads into or removes one. What is shown of a value that stays does not change, for the name beside it decides
    whether it is masked.

    Args:
        text: The arguments as JSON text, as they are stored.
        patch: Operations as RFC 6902 has them: ``[{"op": "replace", "path": "/url", "value": "https://…"}]``.

    Raises:
        PayloadError: If an operation cannot be applied; the message names it.
    """
    if not isinstance(patch, list) or not patch:
        message = 'a patch must be a list of operations, such as [{"op": "replace", "path": "/url", "value": "…"}]'
        raise PayloadError(message)
    if len(patch) > _MAX_OPERATIONS:
        message = f"the patch has {len(patch)} operations; the limit is {_MAX_OPERATIONS}"
        raise PayloadError(message)
    try:
        return _to_json(_apply_operations(_parse_arguments(text), patch))
    except RecursionError:
        message = "the arguments are nested too deeply to be patched"
        raise PayloadError(message) from None


def masked_values(text: str) -> set[str | int | float]:
    """Return the texts and numbers of stored arguments that are not shown as they are."""
    try:
        tree = _box(json.loads(text))
        known = _shown_nodes(tree)
    except (ValueError, RecursionError):
        return set()
    leaves = [each for each in known.values() if isinstance(each.node, _Leaf) and not each.clear]
    values = [each.node.value for each in leaves if isinstance(each.node, _Leaf)]
    return {value for value in values if value is not None and not isinstance(value, bool)}


def _parse_arguments(text: str) -> _Node:
    try:
        return _box(json.loads(text, parse_constant=_refuse_constant))
    except ValueError:
        message = "the stored arguments are not valid JSON, so they cannot be patched; discard the dead letter"
        raise PayloadError(message) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        message = "the arguments contain a number that JSON cannot represent; replace it"
        raise PayloadError(message) from None


def _box(value: Any) -> _Node:
    if isinstance(value, dict):
        return {name: _box(each) for name, each in value.items()}
    return [_box(each) for each in value] if isinstance(value, list) else _Leaf(value)


def _unbox(node: _Node) -> Any:
    if isinstance(node, dict):
        return {name: _unbox(each) for name, each in node.items()}
    return [_unbox(each) for each in node] if isinstance(node, list) else node.value


def _shown_nodes(tree: _Node) -> _ShownNodes:
    """Return what is shown of each node of a tree."""
    known: _ShownNodes = {}

    def walk(node: _Node, shown: Any) -> None:
        if isinstance(node, _Leaf):
            known[id(node)] = _ShownNode(node, shown, shown == node.value and type(shown) is type(node.value))
            return
        is_open = type(shown) is type(node) and len(shown) == len(node)  # two masked names may look the same
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
            message = f"operation {number}: {error}"
            raise PayloadError(message) from None
    for place, now in _shown_nodes(tree).items():
        before = known.get(place)
        if before is not None and now.shown not in (before.shown, MASK):
            message = "the patch would reveal a masked value; replace the masked value too"
            raise PayloadError(message)
    return _unbox(tree)


class _PatchError(Exception):
    """Why one operation cannot be applied."""


def _apply_operation(tree: _Node, known: _ShownNodes, operation: object) -> None:
    if not isinstance(operation, dict):
        message = "must be an object"
        raise _PatchError(message)
    name, path = operation.get("op"), operation.get("path")
    if name not in _OPERATIONS:
        message = f"{name!r} is not a valid operation; choose one of: {', '.join(_OPERATIONS)}"
        raise _PatchError(message)
    extra = operation.keys() - ({"op", "path"} if name == "remove" else {"op", "path", "value"})
    if extra or not isinstance(path, str):
        message = f"{min(map(str, extra))!r} is not a valid key of {name}" if extra else "has no path"
        raise _PatchError(message)
    if name != "remove":
        _check_value(operation)
    holder, key = _find_holder(tree, known, path)
    if name == "remove":
        _remove_value(holder, key, known, path)
    else:
        _put_value(holder, key, operation)


def _check_value(operation: dict[str, Any]) -> None:
    if "value" not in operation:
        message = f"{operation['op']} needs a value"
        raise _PatchError(message)
    try:
        text = json.dumps(operation["value"], ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        message = f"the value is not valid JSON: {error}"
        raise _PatchError(message) from None
    if MASK in text:
        message = f"the value contains {MASK}, which marks masked values; replace only what you want to change"
        raise _PatchError(message)


def _find_holder(tree: _Node, known: _ShownNodes, path: str) -> tuple[list[Any] | dict[str, Any], str]:
    """Follow a pointer to what holds the value that it names; return that and the name."""
    if not path.startswith("/"):
        message = f"the path {path!r} must start with /; the arguments cannot be replaced as a whole"
        raise _PatchError(message)
    names = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    if any(list(masked_value(json.dumps({name: None}))) != [name] for name in names):  # else names could be guessed
        message = "the path contains what looks like a secret; masked names cannot be used"
        raise _PatchError(message)
    node = tree
    for name in [None, *names[:-1]]:
        if name is not None:
            if not _has(node, name):
                message = f"{name!r} in {path} does not exist"
                raise _PatchError(message)
            node = node[int(name)] if isinstance(node, list) else node[name]  # type: ignore[index]  # as _has found
        seen = known.get(id(node))
        if isinstance(node, _Leaf) or (seen is not None and seen.shown is not None):
            message = f"{path} leads into a value that is not a list or object, or is masked"
            raise _PatchError(message)
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
        message = f"{operation['path']} does not exist, so it cannot be replaced"
        raise _PatchError(message)
    if isinstance(holder, dict):
        holder[key] = given
    elif operation["op"] == "replace":
        holder[int(key)] = given
    elif key == _LIST_END or (_is_number(key) and int(key) <= len(holder)):
        holder.insert(len(holder) if key == _LIST_END else int(key), given)
    else:
        message = f"{key!r} is not a valid index of a list of {len(holder)}"
        raise _PatchError(message)


def _remove_value(holder: list[Any] | dict[str, Any], key: str, known: _ShownNodes, path: str) -> None:
    if not _has(holder, key):
        message = f"{path} does not exist, so it cannot be removed"
        raise _PatchError(message)
    node = holder[int(key)] if isinstance(holder, list) else holder[key]
    if not _is_clear(node, known):
        message = f"{path} is masked, or contains masked values; it can be replaced, but not removed"
        raise _PatchError(message)
    if isinstance(holder, list):
        del holder[int(key)]
    else:
        del holder[key]


def _is_clear(node: _Node, known: _ShownNodes) -> bool:
    """Tell whether nothing of a node, and of what is in it, is masked."""
    seen = known.get(id(node))
    if seen is not None and not seen.clear:
        return False
    within = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return all(_is_clear(each, known) for each in within)
