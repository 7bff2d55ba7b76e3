"""Cluster files: CLUSTER.yaml, or the same document as .json."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from planner.domain import Cluster, InputHash
from planner.errors import InputError
from planner.files.cluster.cluster_documents import cluster_document
from planner.files.cluster.cluster_sections import cluster_from_section
from planner.files.cluster.cluster_writer import cluster_yaml
from planner.files.cluster.row_lines import parse_cluster_yaml
from planner.files.disk.documents import input_hash, parse_json, read_text
from planner.files.disk.mistakes import read_all
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.disk.references import resolve
from planner.files.disk.single_files import refuse_existing, write_file
from planner.files.sections import Section, referred_from

_SUFFIXES = (".yaml", ".yml", ".json")


def load_cluster(path: Path) -> Cluster:
    """The cluster of a file. InputError names the object and the field that is wrong; nothing is half read."""
    _require_suffix(path)
    with without_collection():
        parse = parse_json if _is_json(path) else parse_cluster_yaml
        return read_all(parse(read_text(path, most=MOST_OF_A_LIST), file=str(path)), cluster_from_section)


@contextmanager
def without_collection() -> Iterator[None]:
    """Millions of values are made and none of them is garbage: looking for it takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_cluster(cluster: Cluster, path: Path, force: bool = False) -> None:
    """Write a cluster file, whole or not at all; an existing one only with `force`. Equal clusters give equal bytes.

    InputError where the cluster contradicts itself, or has a name that could not be read back.
    """
    _require_suffix(path)
    refuse_existing(path, force=force)
    write_file(path, cluster_text(cluster, as_json=_is_json(path)).encode(), force=force)


def cluster_text(cluster: Cluster, *, as_json: bool = False) -> str:
    """The text of a cluster file, YAML unless it is to be JSON. InputError as `write_cluster`."""
    document = cluster_document(cluster)
    cluster_from_section(Section(document, file=f"cluster {cluster.name}"))
    return cluster_json(document) if as_json else cluster_yaml(document)


def cluster_json(document: dict[str, object]) -> str:
    """A cluster document as JSON, one line a node and a pod; equal documents give equal texts."""
    encode = json.JSONEncoder(allow_nan=False).encode
    lines = []
    for key, value in document.items():
        rows = [encode(row) for row in value] if isinstance(value, list) else []
        shown = "[\n" + ",\n".join(rows) + "\n]" if rows else encode(value)
        lines.append(f"{json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _require_suffix(path: Path) -> None:
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"{path}: a cluster file must end in {', '.join(_SUFFIXES)}, got {path.suffix or 'no ending'!r}.",
            hint="Unpack it first (gunzip)." if path.suffix.lower() == ".gz" else "Rename it.",
        )


def read_cluster(document: Section, base: Path) -> tuple[Cluster | None, tuple[InputHash, ...]]:
    """The cluster under `cluster:` of a scenario: a path, or the document itself; None where there is none."""
    if document.is_empty("cluster"):
        return None, ()
    if document.holds_section("cluster"):
        return cluster_from_section(document.section("cluster")), ()
    path = resolve(document.text("cluster"), base)
    with referred_from(document, "cluster"):
        return load_cluster(path), (input_hash(path),)
