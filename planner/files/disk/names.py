"""Names of what is shipped, without regard to case and separators; else paths relative to a scenario's folder."""

import gzip
import json
import lzma
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from planner.errors import InputError, PlannerError
from planner.files.sections import Section, nearest_hint

_SEPARATORS = re.compile(r"[\s._\-/]+")


def folded(name: str) -> str:
    """The name in small letters, without blanks, points, hyphens and underscores."""
    return _SEPARATORS.sub("", name.casefold())


def same_names(name: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are written like `name` but for case and separators; itself alone where it is there."""
    names = list(names)
    if name in names:
        return [name]
    folded_name = folded(name)
    return [candidate for candidate in names if folded(candidate) == folded_name] if folded_name else []


def canonical(name: str, names: Collection[str]) -> str:
    """The one of `names` that is meant; `name` itself where none is. InputError where it may be any of several."""
    meant = same_names(name, names)
    if len(meant) > 1:
        raise InputError(f"{name!r} may be {' or '.join(meant)}.", hint="Write it as one of them.")
    return meant[0] if meant else name


def canonical_keys(section: Section, names: Collection[str], *, rule: str, noun: str) -> dict[str, str]:
    """Key as it is written -> the one of `names` that is meant, in the section's order. InputError where a key is none
    of them, may be several, or two keys are the same (`rule`: what is then said, with {key}; `noun`: what the
    names are)."""
    meant: dict[str, str] = {}
    for key in section:
        candidates = same_names(key, names)
        if not candidates:
            raise section.refusal(key, rule.format(key=key), hint=nearest_hint(key, tuple(names), noun=noun))
        if len(candidates) > 1:
            raise section.refusal(key, f"may be {' or '.join(candidates)}", hint="Write it as one of them.")
        if candidates[0] in meant.values():
            raise section.refusal(key, f"is {candidates[0]} once more", hint="Give each type once.")
        meant[key] = candidates[0]
    return meant


def is_path(name_or_path: str, *suffixes: str) -> bool:
    """Whether the text means a file: it holds a slash or ends in one of `suffixes`."""
    return "/" in name_or_path or "\\" in name_or_path or name_or_path.lower().endswith(suffixes)


def resolve(path: str, base: Path | None) -> Path:
    """The path, relative to `base` (None: the current folder)."""
    try:
        target = Path(path).expanduser()
    except RuntimeError:  # ~name of nobody
        raise InputError(
            f"{path}: must begin with the name of a user who has a home.", hint="Write the path out."
        ) from None
    return target if base is None else base / target


_PACKAGE = Path(__file__).resolve().parents[2]
_MODEL_CONFIGS = _PACKAGE / "files" / "model_configs.jsonl"


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


@cache
def shipped_models() -> Mapping[str, str]:
    """The text of each shipped model's config.json by name, in order of name."""
    lines = _MODEL_CONFIGS.read_text(encoding="utf-8").splitlines()
    return MappingProxyType(dict(sorted((json.loads(line)["_planner"]["name"], line) for line in lines)))


@cache
def hub_ids() -> Mapping[str, str]:
    """Names of shipped models by their ids on the hub, ORG/NAME."""
    uris = ((json.loads(text)["_planner"]["uri"], name) for name, text in shipped_models().items())
    return MappingProxyType({uri.removeprefix("hf://"): name for uri, name in uris})


@cache
def chart_script() -> bytes:
    """plotly.js, compressed by gzip, as `report.html_page` takes it: what browsers unpack. It is shipped by xz, which
    takes a fifth less."""
    packed = (_PACKAGE / "files" / "chart_library" / "plotly-cartesian-4.1.1.min.js.xz").read_bytes()
    return gzip.compress(lzma.decompress(packed), mtime=0)
