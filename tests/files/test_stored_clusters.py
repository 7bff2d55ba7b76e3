"""A cluster beside its plan: kept once, found again by name and digest, and never another one."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.domain import Cluster
from planner.errors import InputError
from planner.files import cluster_from_section
from planner.files.cluster.clusters import is_reference, read_stored_cluster, store_cluster
from planner.files.sections import top_level
from planner.placement import synthesize

NAME = "cluster.json.gz"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return synthesize(12, 1, 0.6)


@pytest.fixture
def reference(cluster: Cluster, tmp_path: Path) -> dict[str, Any]:
    """Of the cluster in `tmp_path`."""
    reference, packed = store_cluster(cluster)
    (tmp_path / NAME).write_bytes(packed)
    return reference


def read(reference: dict[str, Any], folder: Path) -> Cluster:
    return cluster_from_section(top_level(read_stored_cluster(reference, folder, "plan.json"), "cluster"))


def test_the_cluster_comes_back_and_equal_ones_are_equal_bytes(
    cluster: Cluster, reference: dict[str, Any], tmp_path: Path
) -> None:
    packed = (tmp_path / NAME).read_bytes()
    assert read(reference, tmp_path) == cluster
    assert store_cluster(synthesize(12, 1, 0.6)) == (reference, packed)
    assert is_reference(reference)
    assert reference == {"file": NAME, "sha256": hashlib.sha256(gzip.decompress(packed)).hexdigest()}
    assert packed[4:8] == bytes(4)  # no time in the head of the file


def test_who_packed_the_text_does_not_matter(cluster: Cluster, reference: dict[str, Any], tmp_path: Path) -> None:
    packed = (tmp_path / NAME).read_bytes()
    again = gzip.compress(gzip.decompress(packed), 1)
    assert again != packed
    (tmp_path / NAME).write_bytes(again)
    assert read(reference, tmp_path) == cluster


def _edited(packed: bytes) -> bytes:
    return gzip.compress(gzip.decompress(packed).replace(b'"asw": "asw-0', b'"asw": "asw-9', 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: None, "must be there, is missing"),
        (_edited, "must be the cluster that plan.json was made for"),
        (lambda packed: packed[:-40], "must be a whole gzip file"),
        (gzip.decompress, "must be a whole gzip file"),
        (lambda _: b"", "must be the cluster that"),
    ],
)
def test_a_file_that_is_not_the_one_is_refused_with_a_remedy(
    change: Callable[[bytes], bytes | None], words: str, reference: dict[str, Any], tmp_path: Path
) -> None:
    after = change((tmp_path / NAME).read_bytes())
    (tmp_path / NAME).unlink()
    if after is not None:
        (tmp_path / NAME).write_bytes(after)
    with pytest.raises(InputError, match=words) as error:
        read_stored_cluster(reference, tmp_path, "plan.json")
    assert NAME in str(error.value)
    assert "Put the file back" in error.value.hint


@pytest.mark.parametrize(
    "name",
    [f"../{NAME}", f"/etc/{NAME}", f"below/{NAME}", f"..\\{NAME}", ".json.gz", "c.json.gz\0", "plan.json", "", 7, None],
)
def test_a_name_never_leads_out_of_the_folder(name: object, reference: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run" / "below").mkdir(parents=True)
    for place in (tmp_path / "run" / "below", tmp_path):
        (place / NAME).write_bytes((tmp_path / NAME).read_bytes())
    with pytest.raises(InputError, match=r"scenario\.cluster\.file: must be the name of a \.json\.gz file beside it"):
        read_stored_cluster({**reference, "file": name}, tmp_path / "run", "plan.json")


def test_what_unpacks_to_more_than_any_cluster_is_refused(
    reference: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.files.cluster.clusters.MOST_OF_A_LIST", 2**20)
    (tmp_path / NAME).write_bytes(gzip.compress(bytes(2**21)))
    with pytest.raises(InputError, match="must have at most 1 MiB unpacked"):
        read_stored_cluster(reference, tmp_path, "plan.json")


def test_a_cluster_document_is_no_reference(cluster: Cluster) -> None:
    assert not is_reference(None)
    assert not is_reference("cluster.yaml")
    assert not is_reference({"file": NAME})
    assert not is_reference(json.loads(gzip.decompress(store_cluster(cluster)[1])))
