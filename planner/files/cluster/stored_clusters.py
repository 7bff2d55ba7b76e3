"""A plan's cluster in its run folder: one file beside plan.json, which refers to it by name and digest.

The digest is SHA-256 over the unpacked text, so that it does not depend on who packed it; the same cluster gives the
same bytes.
"""

import gzip
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.domain import Cluster
from planner.errors import InputError
from planner.files.cluster.cluster_documents import Row, cluster_document
from planner.files.cluster.clusters import cluster_json
from planner.files.disk.documents import parse_json
from planner.files.disk.folders import CLUSTER_FILE
from planner.files.disk.opening import MOST_OF_A_LIST, is_there, read_unpacked
from planner.files.sections import Section

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
        data = read_unpacked(path, most=MOST_OF_A_LIST)
    except InputError as error:
        raise InputError(error.message, hint=_REMEDY) from None
    came = hashlib.sha256(data).hexdigest()
    if came != reference["sha256"]:
        raise InputError(
            f"{path}: must be the cluster that {origin} was made for (SHA-256 {reference['sha256']!s:.12}...), got "
            f"another ({came:.12}...).",
            hint=_REMEDY,
        )
    try:
        section: Section = parse_json(data.decode(), file=str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: must be UTF-8 text.", hint=_REMEDY) from None
    return section.plain()
