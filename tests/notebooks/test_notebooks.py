"""Every notebook runs from top to bottom, and is kept without outputs."""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
import plain_pictures
import pytest
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

import planner

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
_FLEET = '{"H200": 64, "H800": 64, "H20": 128}'
SIMPLER = 'serving="split", ranges={"width": 2048}, routing={"most": 1}'
SMALLER = {
    "00_quickstart": {_FLEET: f'{{"H200": 16, "H20": 32}}, {SIMPLER}', '"demand_rps": 200': '"demand_rps": 20'},
    "01_our_trace_our_fleet": {
        "workload=workload,": f"workload=workload, {SIMPLER},",
        "[40, 24, 16]": "[16, 16, 8]",
        "requests=1500, seeds=2": "requests=400, seeds=1",
    },
    "02_cost": {"cost.judged_runs(runs)": 'cost.judged_runs([r for r in runs if r.run.gpu in ("H100", "MI300X")])'},
    "03_512_usd_an_hour": {
        '"H800": {"usd_per_hour": 2}, ': "",
        'workload="azure-conv-2023"': 'workload="normal-500-2000"',
        "slo=levels": f"slo=levels, {SIMPLER}",
        "buy(512": "buy(64",
        _FLEET: '{"H200": 16, "H20": 32}',
        "points=4": "points=2",
        "cheapest(100": "cheapest(10",
    },
    "04_search": {"iterations=2, batch_size=4": "iterations=1, batch_size=2"},
    "05_placement": {'"iterations": 2, "batch_size": 8': '"iterations": 1, "batch_size": 4'},
    "07_preemption": {
        "nodes=60, days=4": "nodes=30, days=2",
        "nodes=(100, 1000)": "nodes=(100, 200)",
        "repetitions=10": "repetitions=2",
        "(0.0, 0.5, 0.9, 0.999, 1.0)": "(0.5,)",
    },
    "08_replay": {
        '{"H200": 32, "H20": 32}': f'{{"H200": 32, "H20": 32}}, {SIMPLER}',
        "requests=2000, seeds=3": "requests=400, seeds=2",
        "requests=1000, seeds=2": "requests=300, seeds=1",
        "requests=3000": "requests=600",
    },
    "09_serving": {"machines=20": "machines=6"},
    "11_load_doubles": {
        "slo=LEVELS": f"slo=LEVELS, {SIMPLER}",
        'FLEET = {"H800": 48, "H20": 48}': 'FLEET = {"H800": 16, "H20": 16}',
        '{"H20": 80}': '{"H20": 32}',
        '{"H800": 40}': '{"H800": 16}',
        '    "24 H800, 32 H20": {"H800": 24, "H20": 32},\n': "",
        "requests=1000": "requests=300",
    },
    "12_compare": {
        "workload: azure-code-2023": "workload: normal-500-2000",
        "{H200: 32, H20: 64}": "{H200: 16, H20: 32}\nserving: split\nranges: {width: 2048}",
        "(32, 96)": "(48,)",
        "(40, 60)": "(60,)",
        ": 96}": ": 48}",
    },
    "14_fleet_week": {
        '"H200": 40, "H20": 64': '"H200": 16, "H20": 32',
        "deepseek-v3": "gpt-oss-120b",
        "qwen3-235b-a22b-fp8": "gpt-oss-20b",
        "days=7": "days=1",
        "(1.0, 1.25, 1.5, 2.0)": "(1.0, 2.0)",
    },
    "15_how_sure": {'{"H20": 16, "H200": 8}': '{"H20": 4}', "draws=256": "draws=16"},
    "13_models_of_2026": {"for name in MODELS}": "for name in MODELS[5::6]}"},
}
"""Sizes that take long, and those that the tests take: every cell runs all the same."""

DATA = str(Path(plain_pictures.__file__).parent)
PICTURES = "plain_pictures.entered = plain_pictures.copied_pictures()\nplain_pictures.entered.__enter__()"
MAY_IMPORT = {"planner", "pandas", "numpy", "matplotlib", "IPython"} | sys.stdlib_module_names


@pytest.fixture(scope="module")
def kernel() -> Iterator[AsyncKernelManager]:
    """One kernel for all, emptied in between: what they load takes seconds of each. Figures are built, and copied."""
    manager = AsyncKernelManager(kernel_name="python3")
    _executed(manager, [f"import sys\nsys.path.append({DATA!r})\nimport plain_pictures", PICTURES])
    yield manager
    run_sync(manager.shutdown_kernel)(now=True)


def test_the_numbers_have_no_gap() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(len(NOTEBOOKS))]


def _executed(kernel: AsyncKernelManager, sources: Sequence[str]) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, km=kernel, timeout=300)
    client.execute()
    client.kc.stop_channels()
    return notebook


def sources_of(path: Path) -> list[str]:
    """The code cells, as small as the tests want them."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    text = "\0".join(cell.source for cell in cells)
    for size, smaller in SMALLER.get(path.stem, {}).items():
        assert text.count(size) >= 1, size
        text = text.replace(size, smaller)
    return text.split("\0")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_needs_no_deep_package(path: Path) -> None:
    modules = set()
    for source in sources_of(path):
        tree = ast.parse("\n".join(line for line in source.splitlines() if not line.startswith("%")))
        for node in ast.walk(tree):
            modules |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            modules |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
    assert {
        name for name in modules if name.partition(".")[0] not in MAY_IMPORT or name.startswith("planner.")
    } == set()


def shown_texts(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Text and HTML of all outputs; data frames and Markdown that a cell asks for aside."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "<style scoped>" not in data.get("text/html", "") and "text/markdown" not in data:
                yield from (data[kind] for kind in ("text/html", "text/plain") if kind in data)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, kernel: AsyncKernelManager) -> None:
    if not hasattr(planner, "study") and any("planner.study(" in source for source in sources_of(path)):
        pytest.skip("the studies are guests, and not here")
    notebook = _executed(kernel, [f"%reset -f\n%cd -q {tmp_path}", *sources_of(path)])
    assert not any(len(text) > 20_000 for text in shown_texts(notebook))
    assert any(cell.get("outputs") for cell in notebook.cells[1:] if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
