"""Cluster files: CLUSTER.yaml, or the same document as .json; and a plan's cluster beside its plan.json.

The digest is SHA-256 over the unpacked text, so that it does not depend on who packed it; the same cluster gives the
same bytes.
"""

import gc
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from planner.domain import Cluster, InputHash
from planner.errors import InputError
from planner.files.cluster.cluster_documents import Row, cluster_document, cluster_yaml
from planner.files.cluster.cluster_sections import cluster_from_section
from planner.files.cluster.quick_rows import parse_cluster_yaml
from planner.files.disk.documents import input_hash, parse_json, read_text
from planner.files.disk.folders import CLUSTER_FILE
from planner.files.disk.mistakes import read_all
from planner.files.disk.names import resolve
from planner.files.disk.opening import MOST_OF_A_LIST, is_there, read_unpacked
from planner.files.disk.single_files import refuse_existing, write_file
from planner.files.sections import Section, referred_from

_SUFFIXES = (".yaml", ".yml", ".json")


def load_cluster(path: Path) -> Cluster:
    """The cluster of a file. InputError names the object and the field that is wrong; nothing is half read."""
    _require_suffix(path)
    with without_collection():
        parse = parse_json if _is_json(path) else parse_cluster_yaml
        return read_all(parse(read_text(path, most_bytes=MOST_OF_A_LIST), file=str(path)), cluster_from_section)


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


_KEYS = frozenset({"file", "sha256"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.json\.gz")
_LEVEL = 6  # zlib's usual: a third smaller than at 1, and a fifth of the time of 9
_REMEDY = "Put the file back as it was written (a run folder is moved and copied whole), or plan again."


def store_cluster(cluster: Cluster) -> tuple[Row, bytes]:
    """The reference that stands in plan.json, and what `CLUSTER_FILE` beside it holds."""
    text = cluster_json(cluster_document(cluster)).encode()
    return _reference(text), gzip.compress(text, _LEVEL, mtime=0)


def cluster_reference(cluster: Cluster) -> Row:
    """The reference alone."""
    return _reference(cluster_json(cluster_document(cluster)).encode())


def _reference(text: bytes) -> Row:
    return {"file": CLUSTER_FILE, "sha256": hashlib.sha256(text).hexdigest()}


def is_reference(document: object) -> bool:
    """Whether what stands for a cluster is the name of its file."""
    return isinstance(document, Mapping) and document.keys() == _KEYS


def read_stored_cluster(reference: Mapping[str, Any], folder: Path, origin: str) -> dict[str, object]:
    """The cluster's document; `origin` is the plan that refers to it.

    Raises InputError where the name would leave the folder, the file is missing or cannot be unpacked, or its text is
    not the one that was written.
    """
    name = reference["file"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{origin}: scenario.cluster.file: must be the name of a .json.gz file beside it, got {name!r:.80}.",
            hint=_REMEDY,
        )
    path = folder / name
    if not is_there(path):
        raise InputError(f"{origin}: scenario.cluster: {path} must be there, is missing.", hint=_REMEDY)
    try:
        data = read_unpacked(path, most_bytes=MOST_OF_A_LIST)
    except InputError as error:
        raise InputError(error.message, hint=_REMEDY) from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != reference["sha256"]:
        raise InputError(
            f"{path}: must be the cluster that {origin} was made for (SHA-256 {reference['sha256']!s:.12}...), got "
            f"another ({digest:.12}...).",
            hint=_REMEDY,
        )
    try:
        section: Section = parse_json(data.decode(), file=str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: must be UTF-8 text.", hint=_REMEDY) from None
    return section.plain()
