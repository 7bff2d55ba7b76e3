"""Exports beside their records: what is written again is what was written, every wrong edit is named by file, object
and field, and what operators may change passes."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract_plans import single_node_plan
from export_plans import DECODE, PREFILL, example_plan, plan_of

from planner import files
from planner.domain import Plan
from planner.errors import InputError
from planner.export import ROUTERS, TARGETS, ExportOptions, compare
from planner.export.checking.items import lines_of
from planner.export.routers.registry import chosen_router
from planner.runs.deployments import Rendered, render_plan
from planner.runs.exports import check_export, written_again
from planner.runs.replanning.kustomizing import kustomization_files

Exported = tuple[str, str, str]
"""Target, engine, router (empty: the target's own)."""
EDITED: dict[Exported, dict[str, Any]] = {
    tuple(row["export"]): row
    for row in yaml.safe_load(Path(__file__).with_name("checked_edits.yaml").read_text(encoding="utf-8"))
}
_SAID = {chosen_router(TARGETS[target], router) for target, _, router in EDITED}
EXPORTS: dict[Exported, dict[str, Any]] = EDITED | {
    (router.targets[0], engine, name): {}
    for name, router in ROUTERS.items()
    for engine in router.engines[:1]
    if name not in _SAID
}
"""Those of the table, and of each router that it has no edits of."""


def edits(kind: str) -> list[tuple[Exported, list[str]]]:
    """Of all exports, those of a kind, each with its export."""
    return [(key, edit) for key, row in EXPORTS.items() for edit in row.get(kind, ())]


def plan_for(router: str) -> Plan:
    """Ray's own choice is for one pair of pools."""
    return plan_of((PREFILL, DECODE)) if router == "ray" else single_node_plan()


@cache
def exported(key: Exported) -> Rendered:
    """The export, rendered once."""
    target, engine, router = key
    options = ExportOptions(**EXPORTS[key].get("options", {}))
    return render_plan(plan_for(router), target=target, engine=engine, router=router, options=options, cells=2)


def texts_of(key: Exported) -> dict[str, str]:
    """Manifests, their order, and what images are built from."""
    manifests = exported(key).files
    return {**manifests, **kustomization_files(manifests), **exported(key).images}


def edited(key: Exported, file: str, old: str, new: str) -> dict[str, str]:
    text = texts_of(key)[file]
    assert old in text, f"{old!r} is not in {file}"
    return texts_of(key) | {file: text.replace(old, new, 1)}


def test_there_are_sixty_wrong_edits_and_twenty_others_of_every_target_and_router() -> None:
    assert len(edits("wrong")) >= 60
    assert len(edits("harmless")) >= 20
    assert {target for target, _, _ in EXPORTS} == set(TARGETS)
    routers = {chosen_router(TARGETS[target], router) for target, _, router in EXPORTS}
    assert routers == {*ROUTERS, "none"}


@pytest.mark.parametrize("key", EXPORTS, ids="-".join)
def test_an_export_is_written_again_from_its_record(key: Exported) -> None:
    record = files.export_record_of(files.export_record_text(exported(key).record).decode(), "record")
    assert record == exported(key).record
    assert written_again(record, plan_for(key[2]), "folder") == texts_of(key)


@pytest.mark.parametrize(("key", "edit"), edits("wrong"), ids=str)
def test_a_wrong_edit_is_named_by_file_object_and_field(key: Exported, edit: list[str]) -> None:
    *change, place = edit
    faults = compare(edited(key, *change), texts_of(key)).faults
    assert any(fault.where.startswith(change[0]) and place in fault.where for fault in faults), faults
    assert all(fault.expected.startswith("must ") and fault.got for fault in faults)


@pytest.mark.parametrize(("key", "edit"), edits("harmless"), ids=str)
def test_a_harmless_edit_passes(key: Exported, edit: list[str]) -> None:
    changed = edited(key, *edit)
    assert changed != texts_of(key)
    assert compare(changed, texts_of(key)).faults == ()


def test_lines_within_a_command_all_count() -> None:
    """Where a shell and pip read a command over several lines, a comment, an empty line or a blank behind a backslash
    ends it."""
    whole = "#!/bin/sh\n# Starts it.\nserve \\\n  --seed 1\n"
    assert lines_of(whole) == lines_of(whole.replace("#!/bin/sh\n", "#!/bin/sh\n\n# ends in \\\n")), "between commands"
    for cut in ("\\\n\n", "\\\n# more\n", "\\ \n"):
        assert lines_of(whole) != lines_of(whole.replace("\\\n", cut)), cut
    assert "# syntax=mine" in lines_of(f"# syntax=mine\n{whole}"), "docker build reads it"


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


def test_recipes_of_images_are_read_from_the_folder(tmp_path: Path) -> None:
    folder, key = tmp_path / "out", ("lws", "vllm", "vllm")
    files.write_folder(folder, exported(key).folder)
    checked = check_export(folder, single_node_plan())
    assert checked.compared.faults == ()
    assert set(checked.names) == texts_of(key).keys()
    packages = folder / "vllm-router/requirements.txt"
    lines = packages.read_text().splitlines(keepends=True)
    fewer = next(place for place, line in enumerate(lines) if "--hash" in line)
    packages.write_text("".join(lines[:fewer] + lines[fewer + 1 :]))
    (folder / "vllm-router/Dockerfile").unlink()
    places = [fault.where for fault in check_export(folder, single_node_plan()).compared.faults]
    assert "vllm-router/Dockerfile" in places
    assert any(place.startswith('vllm-router/requirements.txt, line "--hash=') for place in places)
    packages.unlink()
    packages.symlink_to(tmp_path.parent / "elsewhere.txt")
    (tmp_path.parent / "elsewhere.txt").write_text("")
    with pytest.raises(InputError, match="must not be a link out of the folder"):
        check_export(folder, single_node_plan())


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


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "metadata: [1]\n"])
def test_a_file_of_another_shape_is_a_difference(folder: Path, text: str) -> None:
    (folder / "routing.yaml").write_text(text)
    faults = check_export(folder, single_node_plan()).compared.faults
    assert any(fault.where.startswith("routing.yaml") for fault in faults)
