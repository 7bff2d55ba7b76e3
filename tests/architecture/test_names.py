"""Variables are named by what they hold: `assignment`, `trial`, `manifest`, not `found`, `told` or `one`."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from source_tree import PACKAGE, functions_of, nodes_of, sources

EMPTY = frozenset({
    *("found", "one", "told", "known", "held", "own", "whole", "asked", "given", "said", "named", "seen", "kept"),
    *("taken", "made", "left", "rest", "what", "who", "it", "that", "most", "least", "wanted", "mine", "came", "there"),
})  # fmt: skip
MOST_SHARE = 0.003
CLOCK = re.compile(r"\btime[ _\\]+limit|in the time given|(?:found|known) in time\b|solver more time", re.IGNORECASE)
"""Words of a solver that is stopped by the clock, where limits are amounts of work."""


def bindings(tree: ast.AST) -> Iterator[str]:
    """Every name that an assignment, a loop, a comprehension, `with`, `except`, `match` or a parameter binds."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def says_nothing(name: str) -> bool:
    """Whether the name, underscores around it aside, could be that of anything."""
    return name.strip("_").lower() in EMPTY


def folder_of(part: str) -> str:
    """The folder of a part, or `root` for modules that lie loose."""
    return part if (PACKAGE / part).is_dir() else "root"


def test_variables_are_named_by_what_they_hold() -> None:
    total, empty = Counter[str](), Counter[str]()
    for source in sources():
        names = list(bindings(source.tree))
        total[folder_of(source.part)] += len(names)
        empty[folder_of(source.part)] += sum(map(says_nothing, names))
    assert {folder: count for folder, count in empty.items() if count > MOST_SHARE * total[folder]} == {}


def test_functions_say_what_they_give() -> None:
    unclear = {
        f"{source.name} {function.name}"
        for source in sources()
        for function in functions_of(source.tree)
        if says_nothing(function.name)
    }
    assert unclear == {
        "planner/domain/preemption.py whole",  # a whole number
        "planner/files/disk/csv_rows.py whole",
        "planner/files/models/model_documents.py whole",
        "planner/placement/islands/fleet.py taken",  # the GPUs that a group's placement takes
        "planner/report/kit/quantities.py whole",  # a whole number in words
        "planner/proposing/search/outer_loop.py given",  # the record of a layout that is given, not searched for
    }


def test_the_check_sees_what_it_looks_for() -> None:
    code = "def f(a, *b, c=1, **d):\n    e = [g for g in (h := a)]\n    with a as i:\n        for j in b: pass\n"
    code += "try:\n    pass\nexcept E as k:\n    l: int = 1\nlambda m: m"
    assert sorted(bindings(ast.parse(code))) == list("abcdeghijklm")
    assert [name for name in ("_told", "found", "found_pod", "one", "Held", "only") if says_nothing(name)] == [
        "_told",
        "found",
        "one",
        "Held",
    ]


def test_no_word_says_that_a_solver_is_stopped_by_the_clock() -> None:
    """The published studies, whose methods had such limits, and who calls a solver's own option aside."""
    said = {
        f"{path.relative_to(PACKAGE)}: {found.group()}"
        for path in sorted(PACKAGE.rglob("*.*"))
        if path.suffix in {".py", ".md", ".yaml"} and "studies" not in path.parts
        for found in CLOCK.finditer(path.read_text(encoding="utf-8"))
    }
    assert said == set()
