"""How big the package is and what stands out in it; fails where the structure is worse than agreed.

Code lines and tokens are counted without blank lines, comments and docstrings.
"""

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "outlast"
MOST_QUERY_FILES = 40
MOST_LINES = 700
MOST_FILES = 350
MOST_CODE = 44_000
MOST_TOKENS = 380_000
MOST_ATTRIBUTES = 15
FIELD_WORDS = frozenset(
    {"paging", "polling", "staging", "testing", "routing", "rendering", "masking", "hashing", "logging", "timing"}
)
"""Module names in -ing that the field uses as nouns."""
_LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.ENCODING,
    }
)


@dataclass
class Module:
    """What was counted in one file."""

    path: Path
    lines: int
    code: int
    tokens: int
    classes: dict[str, int] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The file's path below the package."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def dotted(self) -> str:
        """The name it is imported by."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def measure(path: Path) -> Module:
    """Count the lines, tokens, classes and imports of a file."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    documentation = _docstring_lines(tree)
    tokens, code = 0, set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT and token.start[0] not in documentation:
            tokens += 1
            code.update(range(token.start[0], token.end[0] + 1))
    module = Module(path, len(text.splitlines()), len(code), tokens)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            module.classes[node.name] = len(_attributes(node))
        elif isinstance(node, ast.ImportFrom) and node.module:
            module.imports.add(node.module)
            module.imports.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            module.imports.update(alias.name for alias in node.names)
    return module


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def _attributes(node: ast.ClassDef) -> set[str]:
    """Return the attributes that the methods of a class set on ``self``."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }


def single_importers(modules: list[Module]) -> list[str]:
    """Return the files that one other file of the same folder imports, and no other."""
    by_name = {module.dotted: module for module in modules}
    importers = defaultdict(set)
    for module in modules:
        for name in module.imports & by_name.keys():
            if by_name[name] is not module:
                importers[name].add(module.path)
    return sorted(
        by_name[name].name
        for name, found in importers.items()
        if len(found) == 1
        and next(iter(found)).parent == by_name[name].path.parent
        and "__init__" not in by_name[name].name
    )


def faults(modules: list[Module], queries: int) -> list[str]:
    """Return what is worse than agreed."""
    found = []
    if queries > MOST_QUERY_FILES:
        found.append(f"{queries} query files; at most {MOST_QUERY_FILES}: group statements by subject")
    if len(modules) > MOST_FILES:
        found.append(f"{len(modules)} Python files; at most {MOST_FILES}: fold small files into their only importer")
    for name, most in (("code", MOST_CODE), ("tokens", MOST_TOKENS)):
        count = sum(getattr(each, name) for each in modules)
        if count > most:
            unit = "code lines" if name == "code" else name
            found.append(f"{count:,} {unit}; at most {most:,}: delete what no longer earns its place")
    found += [
        f"class {name} in {each.name} has {count} attributes; at most {MOST_ATTRIBUTES}: group them in a dataclass"
        for each in modules
        for name, count in each.classes.items()
        if count > MOST_ATTRIBUTES
    ]
    found += [
        f"{each.name} has {each.lines} lines; at most {MOST_LINES}" for each in modules if each.lines > MOST_LINES
    ]
    found += [
        f"{each.name} is named by a gerund; use a noun"
        for each in modules
        if each.path.stem.endswith("ing") and each.path.stem.split("_")[-1] not in FIELD_WORDS
    ]
    homes = defaultdict(list)
    for module in modules:
        for name in module.classes:
            if not name.startswith("_"):
                homes[name].append(module.name)
    found += [
        f"class {name} is defined in {' and '.join(where)}; one name, one meaning"
        for name, where in sorted(homes.items())
        if len(where) > 1
    ]
    return found


def main() -> int:
    """Print the figures; return 1 if the structure is worse than agreed."""
    modules = [measure(path) for path in sorted(PACKAGE.rglob("*.py"))]
    queries = sum(1 for path in PACKAGE.rglob("*.sql") if "migrations" not in path.parts)
    migrations = sum(1 for path in PACKAGE.rglob("*.sql")) - queries
    code, tokens = sum(each.code for each in modules), sum(each.tokens for each in modules)
    print("Python files  code lines   tokens  tokens/line  query files  migrations  median file")
    print(
        f"{len(modules):12,}  {code:10,}  {tokens:7,}  {tokens / code:11.1f}  {queries:11}  {migrations:10}"
        f"  {median(each.code for each in modules):11.0f}"
    )
    print("\npackage        files    code   tokens")
    packages = defaultdict(list)
    for module in modules:
        packages[module.name.split("/")[0] if "/" in module.name else "(root)"].append(module)
    for name, members in sorted(packages.items()):
        size, words = sum(each.code for each in members), sum(each.tokens for each in members)
        print(f"{name:14} {len(members):5}  {size:6,}  {words:7,}")
    print("\nlargest files (lines)")
    for module in sorted(modules, key=lambda each: -each.lines)[:8]:
        print(f"  {module.lines:4}  {module.name}")
    print("\nclasses with the most attributes")
    sizes = Counter({f"{name} ({module.name})": count for module in modules for name, count in module.classes.items()})
    for name, count in sizes.most_common(8):
        print(f"  {count:4}  {name}")
    single = single_importers(modules)
    print(f"\nfiles with one importer, in the same folder: {len(single)}")
    print("".join(f"  {name}\n" for name in single), end="")
    worse = faults(modules, queries)
    print("".join(f"\nmake size: {each}" for each in worse))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
