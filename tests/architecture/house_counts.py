"""How large the house is: `python tests/architecture/house_counts.py` prints what issue "One planner" counts.

Lines of code are lines that hold a token, without comments, docstrings and imports; comments are whole lines or ends of
lines. A duplicate is a run of six lines of code, as they stand, that is found a second time.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter

from source_tree import Source, imports_of, nodes_of, sources
from test_names import bindings, says_nothing

RUN = 6
ASKS = re.compile(r"^.*\bbuckets is (?:not )?None.*$", re.MULTILINE)
EXPLAINED = ("assignment", "proposing", "cost", "evaluation", "placement", "replay")
"""Rooms where bodies decide, so that comments say why."""
BESIDE_TOKENS = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def code_lines(source: Source) -> tuple[int, ...]:
    """Numbers of the lines of code."""
    lines: set[int] = set()
    for token in _tokens(source):
        if token.type not in BESIDE_TOKENS:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in nodes_of(source.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return tuple(sorted(lines))


def _tokens(source: Source) -> list[tokenize.TokenInfo]:
    text = source.path.read_text(encoding="utf-8")
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def _is_docstring(node: ast.AST) -> bool:
    """A text that stands by itself: of a module, class or function, or below a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def comments(source: Source) -> int:
    """How many comments a module has, those to linters aside."""
    told = (token.string for token in _tokens(source) if token.type == tokenize.COMMENT)
    return sum(not text.lstrip("# ").startswith(("noqa", "type:", "fmt:")) for text in told)


def records(source: Source) -> int:
    """Its dataclasses."""
    classes = (node for node in nodes_of(source.tree) if isinstance(node, ast.ClassDef))
    return sum(any("dataclass" in ast.unparse(word) for word in node.decorator_list) for node in classes)


def duplicates(listed: Iterable[Source]) -> int:
    """Places, each as long as it goes, whose lines of code stand elsewhere, too."""
    found = defaultdict(list)
    for source in listed:
        text, lines = source.path.read_text(encoding="utf-8").splitlines(), code_lines(source)
        stripped = [text[number - 1].strip() for number in lines]
        for k in range(len(stripped) - RUN + 1):
            found["\n".join(stripped[k : k + RUN])].append((source.name, k))
    repeated = {place for places in found.values() if len(places) > 1 for place in places[1:]}
    return sum((name, k - 1) not in repeated for name, k in repeated)


def floors(listed: Sequence[Source]) -> tuple[int, int]:
    """Rooms (folders and modules below `planner`), and floors: a room stands above all that it imports."""
    parts = {source.part for source in listed} - {"__init__", "__main__"}
    graph: dict[str, set[str]] = {part: set() for part in parts}
    for source in (source for source in listed if source.part in parts):
        imported = {found.part for found in imports_of(source.tree) if found.top == "planner"}
        graph[source.part] |= imported & parts - {source.part}
    height: dict[str, int] = {}
    for part in TopologicalSorter(graph).static_order():
        height[part] = 1 + max((height[below] for below in graph[part]), default=0)
    return len(parts), max(height.values())


def empty_names(listed: Iterable[Source]) -> float:
    """The share (%) of bindings that could be those of anything."""
    counts = Counter[bool]()
    for source in listed:
        for name in bindings(source.tree):
            counts[says_nothing(name)] += 1
    return 100 * counts[True] / counts.total()


def table() -> Iterator[tuple[str, float, str]]:
    """What is counted, how many there are, and the aim."""
    studies = [source for source in sources() if source.part == "studies"]
    core = [source for source in sources() if source.part != "studies"]
    explained = [source for source in core if source.part in EXPLAINED]
    yield "lines of code, core", sum(len(code_lines(source)) for source in core), "66000"
    yield "lines of code, studies", sum(len(code_lines(source)) for source in studies), "9500"
    yield "files, core", len(core), ""
    yield "files, studies", len(studies), ""
    yield "files", len(core) + len(studies), "850"
    yield "records, core", sum(map(records, core)), ""
    yield "records, studies", sum(map(records, studies)), ""
    yield "records", sum(map(records, sources())), "580"
    yield from zip(("rooms of the core", "floors"), floors(core), ("24", "11"), strict=True)
    asking = sum(len(ASKS.findall(source.path.read_text(encoding="utf-8"))) for source in core)
    yield "lines that ask which planner made a plan", asking, "10"
    yield f"duplicates of {RUN} lines", duplicates(sources()), "15"
    said = sum(map(comments, explained)) / sum(len(code_lines(source)) for source in explained)
    yield f"comments per 100 lines of code in {', '.join(EXPLAINED)}", 100 * said, "at least 3"
    yield "names that say nothing (%)", empty_names(sources()), "0.3"


if __name__ == "__main__":
    for _name, _count, _aim in table():
        _shown = f"{_count:,}" if isinstance(_count, int) else f"{_count:.2f}"
        sys.stdout.write(f"{_shown:>9}  {_name}{_aim and f' (aim: {_aim})'}\n")
