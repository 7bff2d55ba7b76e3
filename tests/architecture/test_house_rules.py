"""The rules of the house, held by the syntax tree of every module."""

import ast
import re
import statistics
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from additions import RECIPES
from source_tree import (
    PACKAGE,
    Import,
    Source,
    body_lines,
    calls_of,
    functions_of,
    imports_of,
    mutable_state,
    nodes_of,
    sources,
    undocumented,
)

LEAVES = frozenset({"domain", "units", "errors", "doors", "milp"})
STAGES = frozenset({
    *("workload", "cost", "assignment", "placement", "replay", "defragmentation", "export", "report"),
})  # fmt: skip
EVERYTHING = frozenset({source.part for source in sources()})
JUDGES = frozenset({"evaluation", "proposing", "plans"})  # what a layout is worth, which one, and the finished plan
MAY_IMPORT = {
    "units": frozenset(),
    "errors": frozenset(),
    "doors": frozenset(),
    "milp": frozenset({"domain", "errors"}),
    "processes": frozenset({"errors", "processes"}),
    "domain": LEAVES,
    # a workload file may tell marginals to draw sessions from
    "files": LEAVES | {"files", "processes.interrupts", "workload.sessions"},
    **{stage: LEAVES | {stage} for stage in STAGES},
    # the public functions take shipped names, too; measured kernels are tables beside them, read when first asked for
    "cost": LEAVES | {"cost", "files.catalog", "files.kernels"},
    # the rules of engines by name, and how documents are held against schemas
    "export": LEAVES | {"export", "files.catalog", "files.disk.schema_answers"},
    "evaluation": LEAVES | {"evaluation", "cost", "assignment", "placement", "replay", "defragmentation", "processes"},
    "proposing": LEAVES | {"proposing", "evaluation", "cost", "assignment", "workload", "processes.interrupts"},
    "plans": LEAVES | JUDGES | {"cost", "assignment", "workload", "placement"},
    "replanning": LEAVES | JUDGES | {"replanning", "replay", "cost", "assignment", "workload", "processes.interrupts"},
    "pipeline": LEAVES | STAGES | JUDGES | {"replanning"},
    "runs": LEAVES | STAGES | JUDGES | {"replanning", "runs", "pipeline", "files", "processes"},
    "guests": frozenset(),
    "api": EVERYTHING - {"cli", "studies", "__init__", "__main__"},
    "cli": EVERYTHING - {"studies", "__init__", "__main__"},
    "studies": EVERYTHING - {"__main__"},  # guests: they may use all of the core, and nobody imports them
    "__init__": frozenset({"api", "domain", "doors", "errors", "guests", "plans"}),  # plans: which version this is
    "__main__": frozenset({"cli"}),
}

STUDIES = tuple(sorted(path.parent.name for path in PACKAGE.glob("studies/*/__init__.py")))

# library -> the folders and files that may import it
OWNERS = {
    "pulp": (
        "planner/milp.py",
        "planner/assignment/",
        "planner/defragmentation/exact.py",
        "planner/placement/islands/joint_switches.py",
        "planner/placement/islands/second_tries/",
        "planner/studies/spot/exact.py",
    ),
    "dask": ("planner/runs/batches/",),
    "distributed": ("planner/runs/batches/",),
    "kubernetes": ("planner/runs/live/",),
    "urllib3": ("planner/runs/live/",),  # what the Kubernetes client speaks HTTP by: its errors
    "tornado": ("planner/runs/rehearsal/",),
    "mcp": ("planner/cli/assistants/",),
    "mcp_types": ("planner/cli/assistants/",),
    "anyio": ("planner/cli/assistants/",),  # what mcp waits by
    "pyarrow": ("planner/files/",),
    "networkx": ("planner/placement/flextopo.py",),
    "highspy": ("planner/milp.py",),
    "ax": ("planner/proposing/search/experiment.py",),
    "botorch": ("planner/proposing/search/surrogate.py",),
    "gpytorch": ("planner/proposing/search/surrogate.py",),
    "torch": ("planner/proposing/search/surrogate.py", "planner/files/models/built_models.py"),
    "transformers": ("planner/files/models/built_models.py",),
    "huggingface_hub": ("planner/files/models/built_models.py",),
    "scipy": ("planner/proposing/search/", "planner/cost/"),
    "matplotlib": (
        "planner/report/",
        *(f"planner/studies/{study}/{place}" for study in STUDIES for place in ("report/", "panels.py")),
    ),
    "pandas": (
        "planner/workload/",
        "planner/report/",
        "planner/files/",
        "planner/studies/",
        "planner/proposing/search/experiment.py",
    ),
    "yaml": ("planner/files/", "planner/export/"),
    "jinja2": ("planner/export/templating.py",),
    "compression": ("planner/files/disk/opening.py",),  # zstd, of the standard library from Python 3.14 on
    "jsonschema": ("planner/files/", "planner/export/"),
    "referencing": ("planner/export/checking/crds.py",),
    "tqdm": ("planner/api/progress.py",),
    "typer": ("planner/cli/", "planner/studies/"),
    "rich": ("planner/cli/", "planner/studies/"),
    "markdown_it": ("planner/cli/docs/", "planner/report/kit/html/"),
    "numpy": tuple(
        f"planner/{part}/"
        for part in (
            *("workload", "cost", "assignment", "placement", "replay", "files", "report", "studies"),
            *("defragmentation", "replanning", "proposing/search"),
            *("evaluation/buckets", "evaluation/doubts", "evaluation/replay"),
        )
    ),
}
NOTEBOOKS = (
    *("planner/api/", "planner/studies/front.py", "planner/report/plan/figures.py"),
    *(f"planner/studies/{study}/plots.py" for study in STUDIES),
)
"""They hand out frames and figures, whose types they name."""
MUTABLE_BY_DESIGN = {("planner/evaluation/evaluator.py", "_worker")}  # a worker process's own evaluator
DRAWERS = {"util", "utils", "common", "helper", "helpers", "misc", "tools"}


Check = Callable[[Source], None]


def each_source(check: Check) -> Callable[[], None]:
    """One test of all modules that names each module that breaks the rule: a test a module would be thousands."""

    def of_all() -> None:
        broken = {source.name: told for source in sources() if (told := _broken(check, source))}
        assert broken == {}

    of_all.__name__, of_all.__doc__ = check.__name__, check.__doc__
    return of_all


def _broken(check: Check, source: Source) -> str:
    """What the check says against a module."""
    try:
        check(source)
    except AssertionError as error:
        return str(error) or "breaks the rule"
    return ""


def test_every_module_that_breaks_a_rule_is_named() -> None:
    @each_source
    def check(source: Source) -> None:
        assert source.part != "units", "no units"

    with pytest.raises(AssertionError, match=r"planner/units\.py.*no units"):
        check()


def test_every_part_has_a_rule() -> None:
    assert set(MAY_IMPORT) - {"studies"} == EVERYTHING - {"studies"}
    assert [part for part, allowed in MAY_IMPORT.items() if "studies" in allowed] in ([], ["studies"])


@each_source
def test_imports_of_ours_follow_the_table(source: Source) -> None:
    allowed = MAY_IMPORT[source.part]
    ours = [found for found in imports_of(source.tree) if found.top == "planner"]
    broken = [f"line {found.line}: {found.target}" for found in ours if not _may(found, allowed)]
    assert not broken, f"{source.name} may import {sorted(allowed)} of ours only"


def _may(imported: Import, allowed: frozenset[str]) -> bool:
    """Whether the part, or the piece of it that a rule names with a dot, may be imported."""
    pieces = {rule for rule in allowed if "." in rule}
    return imported.part in allowed or any(f"{imported.target}.".startswith(f"planner.{rule}.") for rule in pieces)


BUILT_ON = {"papers": {*STUDIES}, "asi": {"spot"}}
"""Studies that others serve: the documents' claims come from all, a made-up trace is placed by the spot simulation."""


@each_source
def test_studies_do_not_know_each_other(source: Source) -> None:
    if source.part != "studies":
        return
    study = source.module.split(".")[2:3]
    if not {*study} <= {*STUDIES}:  # what they share, and the lists of them all
        return
    named = {i.target.split(".")[2] for i in imports_of(source.tree) if i.part == "studies"}
    assert named & {*STUDIES} <= {*study, "papers"}.union(*(BUILT_ON.get(name, set()) for name in study))
    assert named & {"groups", "guest", "named"} == set()


@each_source
def test_imports_are_absolute(source: Source) -> None:
    assert [found for found in imports_of(source.tree) if found.target.startswith(".")] == []


@each_source
def test_libraries_stay_with_their_owners(source: Source) -> None:
    stdlib = __import__("sys").stdlib_module_names
    strangers = []
    for found in imports_of(source.tree):
        if found.top in stdlib or found.top == "planner":
            continue
        owned = source.name.startswith(OWNERS.get(found.top, ()))
        shown = source.name.startswith(NOTEBOOKS) and found.typing_only
        if not owned and not (shown and found.top in ("pandas", "matplotlib")):
            strangers.append(f"line {found.line}: {found.target}")
    assert strangers == []


def test_only_the_doors_import_by_name() -> None:
    users = {s.name for s in sources() if list(calls_of(s.tree, "import_module")) or "importlib" in _attributes(s)}
    users.discard("planner/studies/papers/study.py")  # a guest, which may be gone
    assert users == {"planner/__init__.py", "planner/doors.py", "planner/cli/app.py"}
    assert not any(list(calls_of(s.tree, "__import__")) for s in sources())


def _attributes(source: Source) -> set[str]:
    """Modules on which `import_module` is called by attribute."""
    return {
        node.value.id
        for node in nodes_of(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "import_module" and isinstance(node.value, ast.Name)
    }


def _sorted(graph: dict[str, set[str]]) -> list[str]:
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"an import cycle: {' -> '.join(error.args[1])}")


def test_no_cycle_between_packages() -> None:
    graph: dict[str, set[str]] = {part: set() for part in EVERYTHING}
    for source in sources():
        graph[source.part] |= {f.part for f in imports_of(source.tree) if f.top == "planner"} - {source.part}
    order = _sorted(graph)
    assert order.index("domain") < order.index("pipeline") < order.index("cli")


def test_no_cycle_between_modules() -> None:
    modules = {source.module: source for source in sources()}
    graph: dict[str, set[str]] = {}
    for name, source in modules.items():
        found = {_module(f.target, modules) for f in imports_of(source.tree) if f.top == "planner"}
        graph[name] = found - {name, "planner"}
    assert len(_sorted(graph)) >= len(modules)


def _module(target: str, modules: dict[str, Source]) -> str:
    while target not in modules:
        target = target.rpartition(".")[0]
    return target


def test_functions_are_short() -> None:
    lengths = {
        f"{source.name}:{function.lineno} {function.name}": body_lines(function)
        for source in sources()
        for function in functions_of(source.tree)
    }
    longest = sorted(lengths, key=lambda name: -lengths[name])
    assert len(lengths) > 300
    assert statistics.median(lengths.values()) <= 8
    assert sum(length <= 30 for length in lengths.values()) >= 0.9 * len(lengths)
    assert lengths[longest[0]] <= 60, longest[0]


@each_source
def test_files_are_short(source: Source) -> None:
    assert len(source.path.read_text(encoding="utf-8").splitlines()) <= 400


@each_source
def test_no_drawers(source: Source) -> None:
    assert not DRAWERS & set(source.path.with_suffix("").parts[-2:])


@each_source
def test_what_is_public_is_documented(source: Source) -> None:
    assert list(undocumented(source.tree)) == []


@each_source
def test_errors_derive_from_ours(source: Source) -> None:
    known = {"PlannerError", "InputError", "InfeasibleError", "SolverError", "InconsistentPlanError", "ExportError"}
    for node in nodes_of(source.tree):
        if isinstance(node, ast.ClassDef):
            bases = {base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases}
            raised = {b for b in bases if b.endswith(("Error", "Exception", "Warning")) or b in ("Exit", "Abort")}
            assert raised <= known or (node.name, source.name) == ("PlannerError", "planner/errors.py")


@each_source
def test_only_the_command_line_prints(source: Source) -> None:
    if source.part == "cli":
        return
    assert list(calls_of(source.tree, "print")) == []
    streams = [n for n in nodes_of(source.tree) if isinstance(n, ast.Attribute) and n.attr in ("stdout", "stderr")]
    assert streams == []


@each_source
def test_no_module_holds_state(source: Source) -> None:
    found = {(source.name, name) for name in mutable_state(source.tree)}
    assert found <= MUTABLE_BY_DESIGN
    assert not any(isinstance(node, ast.Global) for node in nodes_of(source.tree))


UNSAFE = {"eval", "exec", "compile"}


@each_source
def test_nothing_evaluates_text(source: Source) -> None:
    assert [line for name in UNSAFE for line in calls_of(source.tree, name)] == []
    assert {f.top for f in imports_of(source.tree)} & {"pickle", "marshal", "shelve", "dill", "joblib"} == set()


def test_the_checks_see_what_they_look_for() -> None:
    hidden = ast.parse("if TYPE_CHECKING:\n    from planner.files import load_run\ndef f():\n    import torch.nn")
    assert [(f.target, f.part, f.typing_only) for f in imports_of(hidden) if f.top == "planner"] == [
        ("planner.files.load_run", "files", True)
    ]
    assert [f.top for f in imports_of(hidden)] == ["planner", "torch"]
    assert [f.part for f in imports_of(ast.parse("from planner import runs, cli\nimport planner"))] == [
        "runs",
        "cli",
        "__init__",
    ]
    assert list(undocumented(ast.parse('"""m"""\nclass A:\n    def b(self): ...\n    def _c(self): ...'))) == [
        "A",
        "A.b",
    ]
    assert list(mutable_state(ast.parse("LIMITS = [1]\nseen = []\nknown: dict[str, int] = dict()\n"))) == [
        "seen",
        "known",
    ]
    assert [body_lines(f) for f in functions_of(ast.parse('def f():\n    """d"""\n    a = 1\n\n    return a'))] == [3]


# kinds that describe themselves: class -> the module of their rows
ROWS = {
    "ObjectiveKind": "planner/domain/objective.py",
    "SearchMethod": "planner/domain/scenario.py",
}


ENGINES = ("vllm", "sglang")  # told apart by their rows: planner/export/engines, and a target's own table


def _members(node: ast.AST) -> set[str]:
    """Kinds whose members are named in an expression or a pattern."""
    named = (part.value for part in ast.walk(node) if isinstance(part, ast.Attribute))
    return {value.id for value in named if isinstance(value, ast.Name) and value.id in ROWS}


def _asked(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Kind and line of every comparison with a member, and of every case of one."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Compare | ast.MatchValue):
            yield from ((kind, node.lineno) for kind in _members(node))


def test_questions_for_a_kind_are_seen() -> None:
    asked = "if a.kind is ObjectiveKind.RATE or m not in (SearchMethod.GRID,):\n    pass\n"
    case = "match kind:\n    case ObjectiveKind.RATE | ObjectiveKind.WATTS:\n        pass\n"
    assert sorted(_asked(ast.parse(asked))) == [("ObjectiveKind", 1), ("SearchMethod", 1)]
    assert list(_asked(ast.parse(case))) == [("ObjectiveKind", 2)] * 2
    assert list(_asked(ast.parse("a = ObjectiveSettings(kind=ObjectiveKind.RATE)"))) == []


def _engines(tree: ast.AST) -> Iterator[int]:
    """Lines of comparisons with the name of an engine."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Compare | ast.MatchValue):
            names = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            yield from [node.lineno] * bool(names & set(ENGINES))


def test_engines_describe_themselves() -> None:
    assert list(_engines(ast.parse('if engine.name == "vllm" or a in ("sglang",):\n    pass\n'))) == [1, 1]
    assert {f"{source.name}:{line}" for source in sources() for line in _engines(source.tree)} == set()


def test_kinds_describe_themselves() -> None:
    """Nobody asks which kind it is: what is particular to one stands in its row."""
    asked = {
        f"{source.name}:{line}": kind
        for source in sources()
        for kind, line in _asked(source.tree)
        if source.name != ROWS[kind]
    }
    assert asked == {}


MOST_ENTRIES = 17
CROWDED = {
    "planner": 31,  # the pipeline's table of contents, what finishes its plans, doors to names, solvers, guests; typed
    "planner/cli": 18,  # a folder a group of commands
    "planner/domain": 45,  # a file a kind of record, which every stage reads from one place
    "planner/cost": 40,  # a file a kind of a step's work, and the fitted factors as a table of their own
    "planner/files": 21,  # what is shipped with it lies there, too: models, measurements, engines, plotly.js, locks
    "planner/placement/islands": 18,
    "planner/report/plan": 18,  # a file a subject of a plan's report, for the summary and the page alike
    "planner/files/disk": 18,
    "planner/files/plan": 18,  # a file a kind of document, and what is common to them
    "planner/export": 18,  # a file a sort of what is written, and a batch's objects, which are of no plan
    "planner/runs": 20,  # a file a job of the command line
    "planner/studies": 18,  # a folder a study, and what all of them share
    "planner/api": 20,  # a file a subject of notebooks
    "planner/studies/serving": 19,  # a file a kind of input or answer, and what is told of the thesis from raw results
}


def _entries(folder: Path) -> int:
    """Files and folders that hold files, caches left out."""
    return sum(path.is_file() or any(path.glob("*.*")) for path in folder.iterdir() if path.name != "__pycache__")


def test_no_folder_shows_too_many_entries() -> None:
    folders = {source.path.parent for source in sources()}
    entries = {folder.relative_to(PACKAGE.parent).as_posix(): _entries(folder) for folder in folders}
    assert {name: n for name, n in entries.items() if n > CROWDED.get(name, MOST_ENTRIES)} == {}


PATH = re.compile(r"`((?:planner|tests|notebooks|gpu_specs|workloads)/[^` ]*)`")


def test_contributing_names_files_that_exist() -> None:
    """NAME stands for what somebody adds, and the recipes' own files for what they add. Guests may be gone."""
    root = PACKAGE.parent
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    added = {path for recipe in RECIPES for path in recipe.edits}
    named = {path for path in PATH.findall(text) if "NAME" not in path} - added
    paths = {path for path in named if STUDIES or not path.startswith("planner/studies/")}
    assert {path for path in paths if not (root / path).exists()} == set()
    files = {f"/{source.name}" for source in sources()}
    short = {name for name in re.findall(r"`([\w/]+\.py)`", text) if "NAME" not in name} - added
    assert {name for name in short - named if not any(file.endswith(f"/{name}") for file in files)} == set()


def test_contributing_leads_through_every_part() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {f"`planner/{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {folder for folder in folders if folder not in text} == set()
