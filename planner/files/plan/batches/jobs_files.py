"""Jobs files: which scenarios are planned, with which keys set, at which values.

    defaults: {scenario: base.yaml, set: {slo.tpot_ms: 60}}
    jobs:
      - {name: night, grid: {inventory.H20: 64..256:64}, seeds: [0, 1]}
      - {name: day, traces: [monday.csv, tuesday.csv], inventories: [{H200: 16}, {H200: 8, H20: 64}]}

A job is planned at every combination of the values of its lists. Paths are relative to the jobs file, but for those
within `set` and `grid`: what is set there stands in the scenario, and is relative to that.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.documents import read_yaml
from planner.files.disk.mistakes import read_all
from planner.files.disk.names import is_path, resolve
from planner.files.disk.opening import is_folder
from planner.files.scenario.scenarios import scenario_path
from planner.files.scenario.settings import Setting, SweptKey, is_key, set_over, stretched, swept_key
from planner.files.sections import Section
from planner.files.tables.traces.forms import TRACES

SCENARIOS = (".yaml", ".yml", ".json")
SEED, ENGINE = "seed", "engine"
"""Axes that are no keys of a scenario."""
_SHARED = ("scenario", "set", "grid", "traces", "inventories", "seeds", "engines")
_LARGEST_SEED = 2**32 - 1
_MOST_GPUS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobs:
    """`scenario` with `settings`, at every combination of the values of `axes` (the last changes first); `place` is
    where it is listed."""

    name: str
    place: str
    scenario: Path
    settings: tuple[Setting, ...] = ()
    axes: tuple[SweptKey, ...] = ()


def load_listed_jobs(source: Path) -> tuple[ListedJobs, ...]:
    """The jobs of a jobs file, or of a folder: each of its scenario files is one. Raises InputError, with all mistakes
    of the file."""
    if is_folder(source):
        return _of_folder(source)
    return read_all(read_yaml(source), lambda document: jobs_from_section(document, source.parent))


def _of_folder(folder: Path) -> tuple[ListedJobs, ...]:
    paths = sorted(path for path in folder.iterdir() if path.suffix in SCENARIOS and not path.name.startswith("."))
    if not paths:
        raise InputError(
            f"{folder}: must hold scenario files ({', '.join(SCENARIOS)}), holds none.",
            hint="Name a folder of scenarios, or a jobs file.",
        )
    return tuple(ListedJobs(name=path.stem, place=str(path), scenario=path) for path in paths)


def jobs_from_section(document: Section, base: Path) -> tuple[ListedJobs, ...]:
    """The jobs of a document, whose paths are relative to `base`."""
    document.allow_only("defaults", "jobs")
    defaults = document.section("defaults", optional=True)
    defaults.allow_only(*_SHARED)
    rows = document.sections("jobs")
    if not rows:
        raise document.fault("jobs", "a list of at least one job")
    return tuple(_listed(row, defaults, base) for row in rows)


def _listed(row: Section, defaults: Section, base: Path) -> ListedJobs:
    row.allow_only("name", *_SHARED)
    name = row.name("name") if "name" in row else ""
    settings = set_over(_settings(defaults), _settings(row))
    scenario = _scenario(row if "scenario" in row or "scenario" not in defaults else defaults, base)
    lists = {key: (row if key in row else defaults) for key in _SHARED[2:] if key in row or key in defaults}
    return ListedJobs(
        name=name or _stem(row, scenario),
        place=row.path,
        scenario=scenario,
        settings=settings,
        axes=tuple(axis for key, section in lists.items() for axis in _axes(section, key, scenario, base)),
    )


def _stem(row: Section, scenario: Path) -> str:
    return Section({"name": scenario.stem}, file=row.file, path=row.path).name("name")


def _scenario(section: Section, base: Path) -> Path:
    text = section.text("scenario")
    try:
        path = resolve(text, base) if is_path(text, *SCENARIOS) else scenario_path(Path(text))
    except InputError as error:
        raise section.refusal("scenario", f"names no scenario: {error.message}".rstrip("."), hint=error.hint) from None
    if not path.is_file():
        raise section.refusal(
            "scenario",
            f"must be a scenario file or the name of a shipped scenario, got {text}: there is no such file",
            hint="Paths are relative to the jobs file.",
        )
    return path


def _settings(section: Section) -> tuple[Setting, ...]:
    values = section.section("set", optional=True)
    return tuple(Setting(_key(values, key), value) for key, value in values.plain().items())


def _key(section: Section, key: str) -> str:
    if not is_key(key):
        raise section.refusal(key, "must be a key of the scenario", hint="Write slo.tpot_ms or inventory.H20.")
    return key


def _axes(section: Section, key: str, scenario: Path, base: Path) -> Iterator[SweptKey]:
    """The axes of one list of a job, `grid` has several."""
    if key == "grid":
        grid = section.section("grid")
        if not len(grid):
            raise section.fault("grid", "a mapping of at least one key to its values")
        yield from (_axis(grid, name, _key(grid, name), _values(grid, name)) for name in grid)
    elif key == "traces":
        yield _axis(section, key, "workload", (_workload(text, scenario, base) for text in section.texts("traces")))
    elif key == "inventories":
        yield _axis(section, key, "inventory", (_inventory(row) for row in section.sections("inventories")))
    elif key == "seeds":
        yield _axis(section, key, SEED, _seeds(section))
    else:
        yield _axis(section, key, ENGINE, section.texts("engines"))


def _axis(section: Section, key: str, axis: str, values: Iterable[object]) -> SweptKey:
    try:
        return swept_key(axis, values)
    except InputError as error:
        reason = error.message.partition(": ")[2].rstrip(".")
        raise section.refusal(key, reason, hint="Mend the list, or leave the key out.") from None


def _values(section: Section, key: str) -> Iterator[object]:
    """The values of a list, ranges `a..b:step` among them, or of one range."""
    listed = (section.text(key),) if section.holds_text(key) else section.entries(key)
    for item in listed:
        yield from stretched(key, item)


def _seeds(section: Section) -> Iterator[int]:
    for number, value in enumerate(_values(section, "seeds")):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST_SEED:
            raise section.refusal(
                "seeds",
                f"must be whole numbers of 0 to {_LARGEST_SEED}, got {value!r} (item {number})",
                hint="Mend it.",
            )
        yield value


def _workload(text: str, scenario: Path, base: Path) -> str:
    """A shipped name as it is; a path as it stands in the scenario, which it will be relative to."""
    if not is_path(text, ".yaml", ".yml", *TRACES):
        return text
    target = resolve(text, base)
    return str(target) if Path(text).expanduser().is_absolute() else f"./{os.path.relpath(target, scenario.parent)}"


def _inventory(row: Section) -> dict[str, int]:
    return {gpu: row.integer(gpu, low=0, high=_MOST_GPUS) for gpu in row}
