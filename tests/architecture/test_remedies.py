"""Every error that a user can cause says what to do about it."""

import ast

from source_tree import nodes_of, sources

WITH_REMEDY = {"InputError", "InfeasibleError", "ExportError", "SolverError"}


def without_remedy(tree: ast.AST) -> list[int]:
    """Lines where such an error is made without a hint, or with an empty one."""
    return [
        node.lineno
        for node in nodes_of(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WITH_REMEDY
        if not any(word.arg == "hint" and ast.unparse(word.value) not in ("''", "None") for word in node.keywords)
    ]


def test_every_error_has_a_remedy() -> None:
    found = {source.name: without_remedy(source.tree) for source in sources()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_check_sees_what_it_looks_for() -> None:
    text = "raise InputError('a')\nraise InputError('a', hint='')\nraise ExportError('a', hint='b')\nKeyError('a')"
    assert without_remedy(ast.parse(text)) == [1, 2]
