"""`import planner` costs next to nothing."""

import ast
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "botorch", "gpytorch", "ax", "pulp", "highspy", "matplotlib", "pandas", "scipy", "typer"}


def _run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def _cpu_s(code: str) -> float:
    """CPU time of a fresh interpreter that runs `code`: the least of several, so that a busy machine matters little."""
    return min(float(_run(f"{code}\nimport time; print(time.process_time())")) for _ in range(4))


def test_importing_takes_under_0_1_s_of_cpu() -> None:
    assert _cpu_s("import planner") - _cpu_s("") < 0.1


FIRST_PLAN = """
import sys, time, planner
question = dict(inventory={"H200": 32, "H20": 32}, workload="normal-500-2000", search={"method": "exact"})
seconds = []
for width in (512, 500):  # ranges of its own for each, as what was priced before is remembered
    begin = time.process_time()
    planner.plan(**question, ranges={"width": width})
    seconds.append(time.process_time() - begin)
print(seconds[0] / seconds[1], *sys.modules)
"""


@cache
def first_plan() -> tuple[float, tuple[str, ...]]:
    """The time of the first plan over that of the second, and the modules."""
    ratio, *modules = _run(FIRST_PLAN).split()
    return float(ratio), tuple(modules)


def test_a_first_plan_loads_what_it_needs() -> None:
    """Tables, pictures, searches and manifests come when they are asked for."""
    _, modules = first_plan()
    assert {name.partition(".")[0] for name in modules} & (HEAVY - {"pulp", "highspy"}) == set()
    assert not {"jsonschema", "tqdm", "networkx"} & set(modules)
    parts = {".".join(name.split(".")[:2]) for name in modules if name.startswith("planner.")}
    assert not parts & {"planner.export", "planner.placement", "planner.replay", "planner.runs", "planner.studies"}


def test_a_first_plan_takes_a_few_times_as_long_as_a_second_one() -> None:
    """What it loads and works out for the first time costs less than five plans of eight nodes. A ratio, as CPU-seconds
    are a machine's; 4 where nobody else uses it, and asked again where somebody does."""
    assert any(float(_run(FIRST_PLAN).split()[0]) < 6.0 for _ in range(3))


def door_files() -> list[Path]:
    """The `__init__` of packages with names that load late."""
    paths = sorted((ROOT / "planner").rglob("__init__.py"))
    return [path for path in paths if "door(__name__, _HOMES)" in path.read_text(encoding="utf-8")]


def under(tree: ast.Module, condition: str) -> list[ast.stmt]:
    """What a module does at its top under `if condition:`."""
    blocks = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == condition)
    return [statement for block in blocks for statement in block.body]


CALLABLE = {ROOT / "planner" / "__init__.py": {"replay", "workload"}}
"""Packages that are functions, too."""


def typed_names(path: Path) -> dict[str, str]:
    """Name -> its module, as a package's `__init__` imports it for type checkers."""
    imports = [n for n in under(ast.parse(path.read_text("utf-8")), "TYPE_CHECKING") if isinstance(n, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def test_names_that_load_late_are_names_of_no_module() -> None:
    """A module of that name, once imported, would stand in the place of the name; some packages are functions, too."""
    for path in door_files():
        late = {*typed_names(path)}
        modules = {child.stem for child in path.parent.iterdir() if child.suffix == ".py" or child.is_dir()}
        assert late, path
        assert late & modules == CALLABLE.get(path, set()), path


@pytest.mark.parametrize("path", door_files(), ids=lambda path: path.parent.name)
def test_names_load_from_where_type_checkers_see_them(path: Path) -> None:
    """Where this fails, the `_HOMES` of the package lack a name, or have one from elsewhere."""
    homes = import_module(".".join(path.relative_to(ROOT).parent.parts))._HOMES
    late = {name: module for module, names in homes.items() for name in names.split()}
    typed = {name: module for name, module in typed_names(path).items() if name not in CALLABLE.get(path, ())}
    assert late == typed


def test_type_checkers_see_the_names_of_a_package_alone() -> None:
    """To mypy a module with a `__getattr__` has every name there is, and a slip of a name is none."""
    assert len(door_files()) >= 4
    for path in (ROOT / "planner").rglob("__init__.py"):
        tree = ast.parse(path.read_text("utf-8"))
        hidden = [node for block in under(tree, "not TYPE_CHECKING") for node in ast.walk(block)]
        every = [node for node in ast.walk(tree) if "__getattr__" in ast.unparse(node) and isinstance(node, ast.stmt)]
        written = [node for node in every if isinstance(node, ast.FunctionDef | ast.Assign)]
        assert {ast.unparse(node) for node in written} <= {ast.unparse(node) for node in hidden}, path


def test_doors_show_their_names_and_no_others() -> None:
    for path in door_files():
        package = import_module(".".join(path.relative_to(ROOT).parent.parts))
        listed = getattr(package, "__all__", ())
        assert [name for name in listed if not hasattr(package, name)] == [], path
        assert set(listed) <= set(dir(package)), path
        with pytest.raises(AttributeError, match=rf"'{package.__name__}' has no attribute 'nothing'"):
            _ = package.nothing


def test_importing_loads_no_heavy_library() -> None:
    loaded = {name.partition(".")[0] for name in _run("import sys, planner; print(*sys.modules)").split()}
    assert "planner" in loaded
    assert loaded & HEAVY == set()


def test_reading_facts_loads_no_solver_and_no_learner() -> None:
    code = "import sys; from planner.cost import prefill_time; from planner import files; files.load_gpu_specs(); "
    loaded = {name.partition(".")[0] for name in _run(code + "print(*sys.modules)").split()}
    assert loaded & {"torch", "botorch", "ax", "pulp", "matplotlib"} == set()


def test_every_door_opens() -> None:
    code = "import planner; print(*[callable(getattr(planner, name)) for name in planner.__all__])"
    assert set(_run(code).split()) == {"True"}
