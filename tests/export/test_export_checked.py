"""Exports beside their records: what is written again is what was written, every wrong edit is named by file, object
and field, and what operators may change passes."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from checked_edits import HARMLESS, OPTIONS, WRONG, Exported
from contract_plans import single_node_plan
from export_plans import example_plan

from planner import files
from planner.errors import InputError
from planner.export import ROUTERS, TARGETS, ExportOptions, compare
from planner.export.routers.registry import chosen_router
from planner.runs.deployments import Rendered, render_plan
from planner.runs.exports import check_export, written_again


@cache
def exported(key: Exported) -> Rendered:
    """The export, rendered once."""
    target, engine, router = key
    options = OPTIONS.get(key, ExportOptions())
    return render_plan(single_node_plan(), target=target, engine=engine, router=router, options=options, cells=2)


def rows(table: dict[Exported, tuple[tuple[str, ...], ...]]) -> Iterator[tuple[Exported, tuple[str, ...]]]:
    for key, edits in table.items():
        yield from ((key, edit) for edit in edits)


def edited(key: Exported, file: str, old: str, new: str) -> dict[str, str]:
    text = exported(key).files[file]
    assert old in text, f"{old!r} is not in {file}"
    return {**exported(key).files, file: text.replace(old, new, 1)}


def test_there_are_sixty_wrong_edits_and_twenty_others_of_every_target_and_router() -> None:
    assert len(list(rows(WRONG))) >= 60
    assert len(list(rows(HARMLESS))) >= 20
    assert {target for target, _, _ in WRONG} == set(TARGETS)
    routers = {chosen_router(TARGETS[target], router) for target, _, router in WRONG}
    assert routers == {*ROUTERS, "none"}


@pytest.mark.parametrize("key", WRONG, ids="-".join)
def test_an_export_is_written_again_from_its_record(key: Exported) -> None:
    made = exported(key)
    record = files.export_record_of(files.export_record_text(made.record).decode(), "record")
    assert record == made.record
    assert written_again(record, single_node_plan(), "folder") == made.files


@pytest.mark.parametrize(("key", "row"), list(rows(WRONG)), ids=str)
def test_a_wrong_edit_is_named_by_file_object_and_field(key: Exported, row: tuple[str, str, str, str]) -> None:
    file, old, new, told = row
    faults = compare(edited(key, file, old, new), exported(key).files).faults
    assert any(fault.where.startswith(file) and told in fault.where for fault in faults), faults
    assert all(fault.expected.startswith("must ") and fault.got for fault in faults)


@pytest.mark.parametrize(("key", "row"), list(rows(HARMLESS)), ids=str)
def test_a_harmless_edit_passes(key: Exported, row: tuple[str, str, str]) -> None:
    changed = edited(key, *row)
    assert changed != exported(key).files
    assert compare(changed, exported(key).files).faults == ()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An export on disk."""
    files.write_folder(tmp_path / "out", exported(("lws", "vllm", "")).folder)
    return tmp_path / "out"


def test_a_folder_of_no_run_needs_one(folder: Path) -> None:
    assert check_export(folder, single_node_plan()).compared.faults == ()
    with pytest.raises(InputError, match="must be held against the plan that it was exported from"):
        check_export(folder, None)
    with pytest.raises(InputError, match="must have been exported from the plan mixed-fleet"):
        check_export(folder, example_plan())


def test_a_folder_of_before_records_is_refused_with_what_to_do(folder: Path) -> None:
    (folder / files.EXPORT_RECORD_FILE).unlink()
    with pytest.raises(InputError, match="an earlier version of the planner wrote them") as told:
        check_export(folder, single_node_plan())
    assert "planner export RUN --out" in told.value.hint


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"engine": "vllm"', '"engine": "sglang"', "engine: must be as it was written"),
        ('"shared_memory_gib": 16', '"shared_memory_gib": 8', "options.shared_memory_gib"),
        ('"schema_version": 1', '"schema_version": 2', "schema_version"),
        ('"digests"', '"digest"', "digests"),
        ("{", "[", "readable JSON"),
    ],
)
def test_a_record_that_was_edited_is_refused(folder: Path, old: str, new: str, told: str) -> None:
    path = folder / files.EXPORT_RECORD_FILE
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=told):
        check_export(folder, single_node_plan())
