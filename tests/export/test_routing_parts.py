"""Routing tables that no object holds whole: in parts that `kubectl apply` takes, read back as the one table."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from export_plans import DECODE, PREFILL, plan_of, route

from planner.domain import Phase, Plan
from planner.errors import ExportError
from planner.export import ExportOptions, find_faults, read_plan, render
from planner.export.objects import router_objects
from planner.export.reading import summarize_plan
from planner.export.routers import routing

ANNOTATIONS = 262_144
"""Kubernetes' limit on all annotations of an object together; kubectl apply keeps the object in one of them."""


def wide(ranges: int) -> Plan:
    rows = tuple(
        route(name, phase, start, 1.0, width=1)
        for start in range(ranges)
        for name, phase in ((PREFILL.id, Phase.PREFILL), (DECODE.id, Phase.DECODE))
    )
    return plan_of((PREFILL, DECODE), routing=rows)


RANGES = 200
PLAN = wide(RANGES)
SMALL = 20_000
"""A bound that a small table, too, is beyond."""


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "MOST_BYTES", SMALL)
        return render(PLAN, router="none")


def config_maps(text: str) -> list[dict[str, Any]]:
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))  # a safe loader


def tables(text: str) -> list[dict[str, Any]]:
    return [json.loads(config_map["data"]["routing.json"]) for config_map in config_maps(text)]


def quoted_bytes(part: dict[str, Any]) -> int:
    return len(json.dumps(part["data"]["routing.json"]))


def test_each_part_is_small_enough_for_kubectl_apply() -> None:
    parts = config_maps(render(wide(1500), router="none")["routing.yaml"])
    assert len(parts) >= 2
    assert all(len(json.dumps(part)) < ANNOTATIONS for part in parts)
    assert all(quoted_bytes(part) <= routing.MOST_BYTES for part in parts)


def test_parts_are_as_few_as_it_takes(files: dict[str, str]) -> None:
    parts = config_maps(files["routing.yaml"])
    assert len(parts) >= 3
    assert all(SMALL - 1000 < quoted_bytes(part) <= SMALL for part in parts[:-1])
    names = [part["metadata"]["name"] for part in parts]
    assert names == [names[0], *(f"{names[0]}-{number}" for number in range(2, len(parts) + 1))]


def test_the_parts_are_the_table(files: dict[str, str]) -> None:
    parts = tables(files["routing.yaml"])
    assert [part["part"] for part in parts] == [{"number": k, "of": len(parts)} for k in range(1, len(parts) + 1)]
    assert all(part["plan"] == parts[0]["plan"] for part in parts)
    rows = [(row["phase"], row["range_start"], row["share"]) for part in parts for row in part["routes"]]
    assert sorted(rows) == sorted((phase, start, 1.0) for phase in ("prefill", "decode") for start in range(RANGES))
    assert len([row for part in parts for row in part["services"]]) == 2


def test_they_are_checked_and_read_back_as_one_table(files: dict[str, str]) -> None:
    assert find_faults(files, PLAN) == ()
    assert read_plan(files).routes == summarize_plan(PLAN).routes


def test_a_table_that_fits_is_one_object_without_parts() -> None:
    (table,) = tables(render(PLAN, router="none")["routing.yaml"])
    assert table.keys() == {"plan", "services", "routes"}


def _with(files: dict[str, str], change: Callable[[list[dict[str, Any]]], object]) -> dict[str, str]:
    parts = config_maps(files["routing.yaml"])
    change(parts)
    return {**files, "routing.yaml": yaml.safe_dump_all(parts)}


def _table_edit(number: int, old: str, new: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(parts: list[dict[str, Any]]) -> None:
        data = parts[number - 1]["data"]
        assert re.search(old, data["routing.json"])
        data["routing.json"] = re.sub(old, new, data["routing.json"], count=1)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda parts: parts.pop(1), r"must have all \d+ parts beside it, got no part 2"),
        (lambda parts: parts.pop(0), r"must have all \d+ parts beside it, got no part 1"),
        (_table_edit(2, '"number": 2', '"number": 1'), r"numbered from 1, each once, got {'number': 1"),
        (_table_edit(2, '"number": 2', '"number": 9999'), r"numbered from 1, each once"),
        (_table_edit(2, '"number": 2', '"number": "2"'), r"numbered from 1, each once"),
        (_table_edit(2, '"part": {[^}]*}', '"part": 2'), r"numbered from 1, each once"),
        (_table_edit(2, '"of": ', '"of": 1'), r"numbered from 1, each once"),
        (_table_edit(2, '"name": "[a-z-]*"', '"name": "other"'), r"plan: must be the same in all parts of the table"),
        (
            _table_edit(2, '"routes": ', '"routes": 5, "rest": '),
            r"must hold JSON rows of phase, range, service",
        ),
        (_table_edit(3, '"share": 1.0', '"share": 0.5'), r"shares must sum to 1"),
        (_table_edit(1, '"part": {[^}]*},', ""), r"exactly one routing table"),
    ],
)
def test_parts_that_are_no_whole_table_are_told(
    change: Callable[[list[dict[str, Any]]], object], words: str, files: dict[str, str]
) -> None:
    faults = "\n".join(map(str, find_faults(_with(files, change), PLAN)))
    assert re.search(words, faults), faults


def test_an_object_that_kubernetes_would_refuse_is_a_fault(files: dict[str, str]) -> None:
    def grown(parts: list[dict[str, Any]]) -> None:
        parts[0]["data"]["more"] = "x" * 2**20

    faults = [str(fault) for fault in find_faults(_with(files, grown), PLAN)]
    assert any("data: must have at most 1,048,576 bytes together" in fault for fault in faults)


def test_a_router_whose_configuration_fits_no_object_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = wide(2)
    assert "router.yaml" in render(plan)
    monkeypatch.setattr(router_objects, "MOST_OF_A_CONFIG_MAP", 500)
    files = render(plan)
    assert "router.yaml" not in files
    assert "must fit a ConfigMap's 500 bytes" in files["routing.yaml"]
    with pytest.raises(ExportError, match="must fit a ConfigMap's 500 bytes"):
        render(plan, router="haproxy", options=ExportOptions())
