"""Folders that are sound in every object and are not the plan: each mistake is told, over all targets that it can be
made in; and edits that change nothing of the plan are not."""

import re
from dataclasses import replace
from functools import cache

import pytest
from contract_plans import single_node_plan
from folder_edits import EDITS, MEDDLERS
from plan_edits import CASES, PlanMistake, text
from plan_flag_mistakes import FLAGS
from plan_object_mistakes import DEVICES, MODELS, ROUTES
from plan_scheduling_mistakes import SCHEDULING

from planner.domain import Plan
from planner.export import ENGINES, find_faults, read_manifests, render
from planner.export.checking.commands.engine_rules import RULES
from planner.export.objects.quantities import amount

PLAN_MISTAKES = (*ROUTES, *DEVICES, *MODELS, *FLAGS, *SCHEDULING)
ROWS = [(mistake, case) for mistake in PLAN_MISTAKES for case in mistake.cases]


@cache
def made(case: str) -> tuple[Plan, dict[str, str]]:
    """A case's plan and its sound manifests, rendered once."""
    return CASES[case].plan(), CASES[case].files()


def told(files: dict[str, str], plan: Plan | None) -> str:
    """All faults, one a line."""
    return "\n".join(map(str, find_faults(files, plan)))


def test_no_mistake_is_in_the_table_twice() -> None:
    assert len({mistake.name for mistake in PLAN_MISTAKES}) == len(PLAN_MISTAKES)


@pytest.mark.parametrize("case", CASES)
def test_the_cases_are_sound_before(case: str) -> None:
    plan, files = made(case)
    assert told(files, plan) == told(files, None) == ""


@pytest.mark.parametrize(("mistake", "case"), ROWS, ids=lambda one: getattr(one, "name", one))
def test_a_mistake_is_told(mistake: PlanMistake, case: str) -> None:
    plan, files = made(case)
    edited = mistake.edit(dict(files))
    assert edited != files
    assert mistake.told in told(edited, plan)
    if mistake.folder:
        assert mistake.told in told(edited, None)


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, (cases, _) in EDITS.items() for case in cases])
def test_an_edit_that_changes_nothing_of_the_plan_passes(name: str, case: str) -> None:
    plan, files = made(case)
    edited = EDITS[name][1](dict(files))
    assert edited != files
    assert told(edited, plan) == told(edited, None) == ""


@pytest.mark.parametrize("name", MEDDLERS)
def test_an_unknown_object_that_could_meddle_is_told(name: str) -> None:
    plan, files = made("kubernetes")
    edited = files | {"other.yaml": MEDDLERS[name]}
    for against in (plan, None):
        assert "other.yaml, kind: must be one of" in told(edited, against)


def test_what_was_not_looked_at_is_known() -> None:
    _, files = made("kubernetes")
    edited = EDITS["objects of others"][1](dict(files))
    foreign = read_manifests(edited).foreign
    assert sorted(one.kind for one in foreign) == ["Namespace", "NetworkPolicy", "PodMonitor"]


@pytest.mark.parametrize("file", ["01-h200-0.yaml", "02-h20-0.yaml"])
def test_a_pod_that_lost_its_priority_is_told_alone(file: str) -> None:
    """Whichever it is: nobody is told to take the class from the pods that have it."""
    plan, files = made("placed")
    edited = files | {file: re.sub(r" *priorityClassName: prod\n", "", files[file], count=1)}
    faults = find_faults(edited, plan)
    assert [(fault.expected, fault.got) for fault in faults] == [("must be prod, as in the other pods", "none")]
    assert faults[0].where.startswith(f"{file}, ")


def test_of_one_flag_nothing_is_told_twice() -> None:
    for mistake in FLAGS:
        for case in mistake.cases:
            plan, files = made(case)
            faults = find_faults(mistake.edit(dict(files)), plan)
            found = [(one.where, one.expected.split()[0]) for one in faults if "of the workers" not in one.expected]
            assert len(found) == len(set(found)), f"{mistake.name}, {case}"


def test_a_short_island_takes_no_long_range() -> None:
    """Without a plan an island's own longest prompt bounds what the table may send to it."""
    _, files = made("kubernetes")
    edited = text("planner/longest-prompt: '4095'", "planner/longest-prompt: '1000'")(dict(files))
    assert "prefill 2048-6094: must go to an island that takes such prompts" in told(edited, None)


def test_a_row_may_reach_over_lengths_without_requests() -> None:
    """Where the plan has a gap, rows that are drawn over it are the plan's."""
    plan = single_node_plan()
    apart = tuple(
        replace(route, range_start=route.range_start * 2, range_end=route.range_start * 2 + 2048)
        for route in plan.routing
    )
    islands = tuple(replace(one, longest_prompt=6143) for one in plan.islands)
    plan = replace(plan, routing=apart, islands=islands)
    files = render(plan, target="kubernetes")
    assert '"range_start": 2048, "range_end": 8143' in files["routing.yaml"]
    wide = files["routing.yaml"].replace('"range_start": 2048', '"range_start": 3000')
    wide = wide.replace('"range_end": 2048', '"range_end": 3000')
    assert "as in the plan" not in told(files | {"routing.yaml": wide}, plan)
    moved = re.sub(r'("decode", "range_start": 3000.*?h20-)0', r"\g<1>1", wide, count=1)
    assert "prompts of 8142 tokens must go to" in told(files | {"routing.yaml": moved}, plan)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("512Gi", "524288Mi"),
        (64, "64000m"),
        ("1e3", 1000),
        ("1k", 1000),
        ("0.5", "500m"),
        (".5", "5e-1"),
        ("1Ei", 2**60),
    ],
)
def test_quantities_are_numbers(one: object, other: object) -> None:
    assert amount(one) == amount(other) is not None


@pytest.mark.parametrize("value", ["", "x", -1, True, "1.2.3", "5GB", "1e999999", "9" * 500])
def test_what_is_no_quantity_is_none(value: object) -> None:
    assert amount(value) is None


def test_every_engine_has_rules() -> None:
    assert RULES.keys() == ENGINES.keys()
