"""Where the data that comes with the planner lies: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

from planner.errors import PlannerError

_PACKAGE = Path(__file__).resolve().parents[2]
MODEL_CONFIGS = _PACKAGE / "files" / "model_configs"


def shipped_folder(name: str) -> Path:
    """The folder `gpu_specs` or `workloads`."""
    for folder in (_PACKAGE / "_shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise PlannerError(f"The planner's own folder {name}/ is missing.", hint="Install the package again.")


def tested_versions() -> dict[str, str]:
    """Version of each library that the planner is tested with, by the name of its distribution; none where that is not
    told."""
    paths = (_PACKAGE / "_shipped" / "constraints.txt", _PACKAGE.parent / "constraints.txt")
    path = next((path for path in paths if path.is_file()), None)
    lines = [] if path is None else path.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("==") for line in lines if not line.startswith("#"))
    return {name.strip().lower(): version.partition(";")[0].strip() for name, sign, version in pairs if sign}


def files_by_stem(folder: Path, suffix: str) -> dict[str, Path]:
    """The files of `folder` that end in `suffix`, by name without it, in order of name."""
    paths = {path.name.removesuffix(suffix): path for path in folder.glob(f"*{suffix}")}
    return dict(sorted(paths.items()))


def shipped_workloads() -> dict[str, Path]:
    """Shipped workload files by name."""
    return files_by_stem(shipped_folder("workloads"), ".yaml")


def shipped_rate_curves() -> dict[str, Path]:
    """Shipped rate curves by name."""
    return files_by_stem(shipped_folder("workloads") / "rates", ".yaml")


def shipped_scenarios() -> dict[str, Path]:
    """Shipped scenario files by name."""
    return files_by_stem(shipped_folder("workloads") / "scenarios", ".yaml")


def shipped_models() -> dict[str, Path]:
    """Shipped model configurations by name."""
    return files_by_stem(MODEL_CONFIGS, ".json")


def chart_script() -> bytes:
    """plotly.js, compressed by gzip, as `report.html_page` takes it."""
    return (_PACKAGE / "files" / "chart_library" / "plotly-cartesian-4.1.1.min.js.gz").read_bytes()
