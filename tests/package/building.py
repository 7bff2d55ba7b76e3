"""Wheel and sdist of the working tree, what is in them, and environments that they are installed into."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTION = "llm_fleet_planner"
MOST_BYTES = 10_800_000
"""Of the wheel; packages of a fitting size install in a second. Measured kernels are 6.6 million of them."""

NEEDED = (
    "planner/py.typed",
    "planner/files/kernels/shipped/H200.vllm.kernels",
    "planner/_shipped/gpu_specs/H200.yaml",
    "planner/_shipped/gpu_specs/prices.yaml",
    "planner/_shipped/workloads/azure-code-2023.yaml",
    "planner/_shipped/workloads/scenarios/quickstart.yaml",
    "planner/files/model_configs.jsonl",
    "planner/files/plan_schema.json",
    "planner/cli/docs/guides/defragmentation.md",
    "planner/files/locks/dependencies.txt",
    "planner/files/locks/torch-cpu.txt",
    "planner/export/routers/vllm_router_image/Dockerfile",
    "planner/export/templates/launch.sh",
)
STRANGERS = ("tests/", "notebooks/", ".ipynb", "__pycache__", ".pyc")


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a command prints; its errors are told where it fails."""
    process = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, f"{' '.join(map(str, words))}\n{process.stdout[-2000:]}\n{process.stderr[-4000:]}"
    return process.stdout


def build(out: Path, *options: str) -> tuple[Path, Path]:
    """Wheel and sdist in the folder `out`; the wheel is built from the sdist, as an index would do."""
    run(sys.executable, "-m", "build", "--outdir", out, *options, ROOT, cwd=ROOT)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def wheel_names(wheel: Path) -> list[str]:
    """Paths of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def sdist_names(sdist: Path) -> list[str]:
    """Paths of the files in an sdist, below its own folder."""
    with tarfile.open(sdist) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def metadata(wheel: Path) -> str:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def faults_of(wheel: Path) -> list[str]:
    """What a wheel lacks, has too much, or that it is too large."""
    names = wheel_names(wheel)
    lacks = [f"lacks {name}" for name in NEEDED if name not in names]
    strange = [f"holds {name}" for name in names if any(part in name for part in STRANGERS)]
    size = wheel.stat().st_size
    return [*lacks, *strange, *([f"{size:,} bytes"] if size > MOST_BYTES else [])]


def environment(folder: Path) -> Path:
    """A fresh environment; the path of its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def plan_elsewhere(python: Path, folder: Path, env: dict[str, str]) -> str:
    """Plan the shipped quickstart from a folder that is not the repository's; what Python then says of the package."""
    folder.mkdir(exist_ok=True)
    program = python.parent / "planner"
    run(program, "plan", "quickstart", "--out", "run", "--quiet", cwd=folder, env=env)
    assert (folder / "run" / "plan.json").is_file()
    studies = "simulate" in run(program, "--help", cwd=folder, env=env)  # a guest, known by its entry point alone
    assert studies == (ROOT / "planner" / "studies").is_dir()
    code = "import planner; print(planner.__version__, planner.load_plan('run').throughput_rps > 0, planner.__file__)"
    return run(python, "-c", code, cwd=folder, env=env)
