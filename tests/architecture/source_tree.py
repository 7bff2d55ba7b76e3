"""The planner's sources as syntax trees: who imports whom, how long functions are, what is documented."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "planner"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Source:
    """One module. `part` is the package or module below `planner` that it belongs to."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), filename=str(self.path))

    @cached_property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def module(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def part(self) -> str:
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported name, dotted: `planner.files.load_run` for `from planner.files import load_run`."""

    target: str
    line: int
    typing_only: bool = False

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]

    @property
    def part(self) -> str:
        """The part of the planner that is imported; the package itself is `__init__`."""
        return [*self.target.split("."), "__init__"][1]


@cache
def sources() -> tuple[Source, ...]:
    """Every module of the package."""
    return tuple(Source(path=path) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a tree, walked once for all rules."""
    return tuple(ast.walk(tree))


@cache
def imports_of(tree: ast.AST) -> tuple[Import, ...]:
    """Every import at any depth; a relative one is given as `.` and what follows."""
    return tuple(_imports_below(tree))


def _imports_below(tree: ast.AST, *, typing_only: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(target=a.name, line=node.lineno, typing_only=typing_only) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (
                Import(target=f"{base}.{a.name}", line=node.lineno, typing_only=typing_only) for a in node.names
            )
        elif isinstance(node, ast.If) and _asks_for_typing(node.test):
            for child in node.body:
                yield from _imports_below(ast.Module(body=[child], type_ignores=[]), typing_only=True)
            for child in node.orelse:
                yield from _imports_below(ast.Module(body=[child], type_ignores=[]), typing_only=typing_only)
        else:
            yield from _imports_below(node, typing_only=typing_only)


def _asks_for_typing(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def functions_of(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    return (node for node in nodes_of(tree) if isinstance(node, Function))


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public classes, functions and methods without a docstring; the module itself is `<module>`."""
    if not ast.get_docstring(tree):
        yield "<module>"
    yield from _undocumented_below(tree, "")


def _undocumented_below(tree: ast.Module | ast.ClassDef, above: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield above + node.name
            if isinstance(node, ast.ClassDef):
                yield from _undocumented_below(node, f"{above}{node.name}.")


_MUTABLE_NODES = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MUTABLE_CALLS = frozenset({"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray"})


def mutable_state(tree: ast.Module) -> Iterator[str]:
    """Names in lower case that a module binds to a list, dict or set."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        mutable = isinstance(value, _MUTABLE_NODES) or (
            isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _MUTABLE_CALLS
        )
        for target in targets:
            if mutable and isinstance(target, ast.Name) and not target.id.isupper() and target.id != "__all__":
                yield target.id


def calls_of(tree: ast.AST, name: str) -> Iterator[int]:
    """Lines where a plain name is called."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node.lineno
