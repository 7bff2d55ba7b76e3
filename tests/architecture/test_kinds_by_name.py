"""A target or a router is named by its own files and by one row that others ask: nobody else decides by its name."""

import ast
from collections.abc import Mapping

import pytest
from source_tree import sources

from planner.export import ENGINES, ROUTERS, TARGETS

ROWS = {"planner/domain/serving/targets.py", "planner/domain/serving/programs.py"}
"""What pricing, targets and routers may ask of each other."""
ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "lws": {
        "planner/export/manifests.py": "the target of who names none",
        "planner/runs/deployments.py": "the same, for run folders",
    },
    "kubernetes": {
        "planner/cli/facts/doctor.py": "the Python package of that name",
        "planner/runs/live/kubernetes.py": "the same",
    },
    "llm-d": {"planner/export/engines/started.py": "what its images are called"},
    "kueue": {"planner/export/targets/fleets/queues.py": "a fleet's queues are its objects"},
    "script": {
        "planner/export/manifests.py": "routers' programs as that target starts them",
        "planner/runs/rehearsal/rehearsing.py": "rehearsals start these",
    },
    "haproxy": {
        "planner/export/targets/fleets/front.py": "its program, before a fleet",
        "planner/runs/rehearsal/naming.py": "where its program comes from",
    },
}
KINDS = sorted({*TARGETS, *ROUTERS} - {*ENGINES})


def own_files(kind: str) -> set[str]:
    """The modules that hold its target, its router, and what they write."""
    stem = kind.replace("-", "_")
    named = {source.name for source in sources() if stem in source.name.removesuffix(".py").split("/")}
    registered = {row.render.__module__ for row in ROUTERS.values() if row.name == kind}
    return {name for name in named if name.startswith("planner/export/")} | {
        f"{module.replace('.', '/')}.py" for module in registered
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_named_in_its_own_files_and_in_one_row(kind: str) -> None:
    naming = {
        source.name
        for source in sources()
        if any(isinstance(node, ast.Constant) and node.value == kind for node in ast.walk(source.tree))
    }
    assert naming - own_files(kind) - ROWS == set(ELSEWHERE.get(kind, {}))
