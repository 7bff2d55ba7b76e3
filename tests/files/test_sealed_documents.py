"""Documents of folders: refused in words where they were edited, have no seal, or break their schema."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.domain.comparisons import BatchEntry, BatchIndex, SweepEntry, SweepIndex
from planner.errors import InputError
from planner.files.plan.batches import indexes
from planner.files.plan.digests import KEY, read_sealed, sealed, sealed_text, with_seal

ENTRY = BatchEntry(name="a", scenario="a.yaml", settings=(), seed=None, engine="", run="a-1", content="c")
INDEX = BatchIndex(source="jobs.yaml", entries=(ENTRY,))


def resealed(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(sealed(document)))


def test_a_batch_index_is_read_as_it_was_written(tmp_path: Path) -> None:
    indexes.write_index(tmp_path, INDEX)
    assert indexes.read_index(tmp_path) == INDEX


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("name", None, "entries.0.name: None is not of type 'string'"),
        ("seed", "x", "entries.0.seed: 'x' is not of type 'integer', 'null'"),
        ("run", "../a", "entries.0.run: must be the name of a folder"),
        ("more", 1, "entries.0: Additional properties are not allowed"),
    ],
)
def test_an_index_that_breaks_its_schema_is_refused(tmp_path: Path, key: str, value: object, words: str) -> None:
    indexes.write_index(tmp_path, INDEX)
    resealed(tmp_path / "batch.json", lambda document: document["entries"][0].update({key: value}))
    with pytest.raises(InputError) as caught:
        indexes.read_index(tmp_path)
    assert words in caught.value.message


def test_an_edited_sweep_is_refused(tmp_path: Path) -> None:
    entry = SweepEntry(labels=("1",), name="a", content="c")
    indexes.write_sweep_index(tmp_path, SweepIndex(scenario="a.yaml", keys=("k",), entries=(entry,)))
    assert indexes.read_sweep_index(tmp_path).entries == (entry,)
    path = tmp_path / "sweep.json"
    path.write_text(path.read_text().replace("a.yaml", "b.yaml"))
    with pytest.raises(InputError, match="scenario: must be as it was written, got"):
        indexes.read_sweep_index(tmp_path)


@pytest.mark.parametrize(
    ("digests", "words"),
    [
        (None, "digests must be there, is missing"),
        ([], "digests: must be a mapping of digests"),
        ({"plan": 3}, "digests.plan: must be a digest, got 3"),
        ({"plan": "0", "a": None}, "digests.a: must be a digest, got null"),
        ({"plan": "0"}, "a: must be one that was written, was added"),
    ],
)
def test_digests_that_are_none_are_told(tmp_path: Path, digests: object, words: str) -> None:
    document = {"a": 1} | ({} if digests is None else {KEY: digests})
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_sealed(tmp_path / "x.json")
    assert words in caught.value.message


def test_a_key_of_the_name_of_the_whole_is_covered(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(sealed_text({"plan": "mine", "b": [1, 2]}))
    assert read_sealed(path).plain() == {"plan": "mine", "b": [1, 2]}
    path.write_bytes(path.read_bytes().replace(b"mine", b"mind"))
    with pytest.raises(InputError, match="must be as it was written"):
        read_sealed(path)
    assert with_seal({"x.json": b'{"plan": "mine"}'}, "x.json")["x.json"] == sealed_text({"plan": "mine"}, indent=2)
