"""Target `disaggregatedset` beyond ten islands: several sets, what each says, and mistakes between them."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import yaml
from contract_plans import placed_plan, two_range_plan, wide_fleet_plan
from export_plans import DECODE, PREFILL, island, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_yaml import load_document, load_documents

from planner.domain import PHASES, Cluster, ParallelConfig, Phase, Plan
from planner.errors import InputError
from planner.export import ExportOptions, find_faults, read_plan, render, summarize_plan
from planner.runs.deployments import render_plan

NODE = ParallelConfig(tp=8, dp=1)
FIRST, SECOND, SERVICES = "disaggregatedset-1.yaml", "disaggregatedset-2.yaml", "services.yaml"
SET, ROLE = "disaggregatedset.x-k8s.io/name", "disaggregatedset.x-k8s.io/role"
LEVELS = ExportOptions(topology_labels=(("asw", "example.com/rack"), ("aggregation", "example.com/block")))


def dset(plan: Plan, options: ExportOptions | None = None, router: str = "") -> dict[str, str]:
    return render(plan, target="disaggregatedset", options=options, router=router)


def sets(files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """File -> the DisaggregatedSet in it."""
    return {name: load_document(text) for name, text in files.items() if name.startswith("disaggregatedset")}


def roles(body: dict[str, Any]) -> list[str]:
    return [role["name"] for role in body["spec"]["roles"]]


def head(text: str) -> list[str]:
    """The comments above those of the first island."""
    lines = text.splitlines()
    return lines[: next(n for n, line in enumerate(lines) if line.startswith("# Island "))]


def lopsided_plan() -> Plan:
    """Ten prefill islands and one that decodes, as a cheap fleet's plan may be."""
    prefill = tuple(island(f"H200-{n}", "H200", Phase.PREFILL, NODE) for n in range(10))
    return plan_of((*prefill, island("H20-0", "H20", Phase.DECODE, NODE)), name="lopsided")


def test_ranges_of_their_own_are_sets_of_their_own() -> None:
    files = dset(two_range_plan())
    shared = ("routing.yaml", "network-policies.yaml", "router.yaml", "disruption-budgets.yaml")
    assert [*files] == [FIRST, SECOND, SERVICES, *shared]
    found = sets(files)
    assert [body["metadata"]["name"] for body in found.values()] == ["two-ranges-1", "two-ranges-2"]
    assert roles(found[FIRST]) == ["h200-4", "h200-5", "h200-6", "h20-2", "h20-3", "h20-4"]
    assert roles(found[SECOND]) == ["h200-0", "h200-1", "h200-2", "h200-3", "h20-0", "h20-1"]


def test_one_set_says_nothing_of_others() -> None:
    files = dset(plan_of((PREFILL, DECODE)))
    assert head(files["disaggregatedset.yaml"]) == [
        "# Plan mixed-fleet: a role for each serving island, rolled out together."
    ]


def test_a_fleet_of_sixty_islands_is_six_sets_of_both_phases() -> None:
    """The table shares all ranges among all: whoever parts them, a sixth of the KV cache stays."""
    plan = wide_fleet_plan()
    files = dset(plan)
    phases = {one.id.lower(): one.phase for one in plan.islands}
    held = [[phases[role] for role in roles(body)] for body in sets(files).values()]
    assert [(part.count(Phase.PREFILL), part.count(Phase.DECODE)) for part in held] == [(5, 5)] * 6
    assert "and 83.3% of the KV cache goes from one set to another" in files[FIRST].splitlines()[0]
    assert read_plan(files) == summarize_plan(plan, engine="vllm", target="disaggregatedset")


def test_the_warnings_reach_the_user() -> None:
    told = render_plan(lopsided_plan(), target="disaggregatedset").warnings
    assert told[:2] == (
        f"{FIRST}: the plan's 11 islands take 2 sets, which roll out each by itself: prefill and decode keep their "
        "ratio within a set and not between sets, and 20.0% of the KV cache goes from one set to another, whose ends "
        "may then be of two revisions.",
        f"{FIRST}: set lopsided-2 serves prefill alone, as the plan has fewer islands of the other phase than sets.",
    )


def test_a_set_of_one_phase_is_sound_and_says_why() -> None:
    files = dset(lopsided_plan())
    assert [len(roles(body)) for body in sets(files).values()] == [9, 2]
    assert "no island of the other phase is left for their set" in head(files[SECOND])[-1]
    assert find_faults(files, lopsided_plan()) == find_faults(files) == ()


def test_services_select_their_role_in_its_set_and_the_table_names_them() -> None:
    files = dset(two_range_plan())
    wanted = {role: body["metadata"]["name"] for body in sets(files).values() for role in roles(body)}
    services = list(load_documents(files[SERVICES]))
    assert {one["spec"]["selector"][ROLE]: one["spec"]["selector"][SET] for one in services} == wanted
    table = json.loads(load_document(files["routing.yaml"])["data"]["routing.json"])
    assert {row["service"] for row in table["services"]} == {one["metadata"]["name"] for one in services}


def under_switches(rows: dict[str, tuple[str, str]]) -> Plan:
    """`two_range_plan` on real nodes: id -> access and aggregation switch."""
    plan, made = two_range_plan(), placed_plan()
    node, part = made.scenario.cluster.nodes[0], made.placement.parts[0]
    nodes = tuple(
        replace(node, name=f"n{number}", gpu=one.gpu, asw=rows[one.id][0], aggregation=rows[one.id][1])
        for number, one in enumerate(plan.islands)
    )
    parts = tuple(
        replace(part, island=one.id, replica=0, node=at.name, asw=at.asw, tp=8)
        for one, at in zip(plan.islands, nodes, strict=True)
    )
    scenario = replace(plan.scenario, cluster=Cluster(name="room", nodes=nodes))
    return replace(plan, scenario=scenario, placement=replace(made.placement, parts=parts))


def policies(plan: Plan) -> list[dict[str, str] | None]:
    return [body["spec"].get("placementPolicy") for body in sets(dset(plan, LEVELS)).values()]


def test_each_set_asks_for_the_switch_that_its_islands_share() -> None:
    """Long prompts lie in one rack, short ones in two racks of another block."""
    ids = [one.id for one in two_range_plan().islands]
    long = {"H200-4", "H200-5", "H200-6", "H20-2", "H20-3", "H20-4"}
    plan = under_switches({i: ("r0", "left") if i in long else (f"r{1 + n % 2}", "right") for n, i in enumerate(ids)})
    rack, block = ({"type": "ExclusiveSlice", "topology": f"example.com/{level}"} for level in ("rack", "block"))
    assert policies(plan) == [rack, block]
    assert not any("one switch; each set" in text for text in dset(plan, LEVELS).values())


def test_one_switch_above_all_sets_is_asked_for_by_each_and_the_rest_is_told() -> None:
    ids = [one.id for one in two_range_plan().islands]
    plan = under_switches({i: (f"r{n % 3}", "all") for n, i in enumerate(ids)})
    assert policies(plan) == [{"type": "ExclusiveSlice", "topology": "example.com/block"}] * 2
    assert head(dset(plan, LEVELS)[FIRST])[1] == (
        "# WARNING: the placement has all islands under one switch; each set asks for one, and nothing says that it is "
        "the same."
    )
    assert policies(under_switches({i: (f"r{n}", f"b{n}") for n, i in enumerate(ids)})) == [None, None]


@given(
    name=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=70).filter(
        lambda text: any(c.isalnum() for c in text)
    ),
    stem=st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True),
    count=st.integers(11, 24),
    replicas=st.sampled_from([1, 11, 120]),
)
@settings(max_examples=8, deadline=None)
def test_names_are_unique_and_leave_room_whatever_plan_and_islands_are_called(
    name: str, stem: str, count: int, replicas: int
) -> None:
    parallel = ParallelConfig(tp=8, dp=1, replicas=replicas)
    parts = tuple(island(f"{stem}{n}", "H200", tuple(PHASES)[n % 2], parallel) for n in range(count))
    try:
        found = sets(dset(plan_of(parts, name=name)))
    except InputError as error:
        assert "must have at most" in error.message  # noqa: PT017  # an id too long; the others are looked at below
        return
    names = [body["metadata"]["name"] for body in found.values()]
    assert len(set(names)) == len(names) == -(-count // 10)
    made = [f"{body['metadata']['name']}-0-{'f' * 8}-{role}" for body in found.values() for role in roles(body)]
    assert len(set(made)) == count
    assert max(len(f"{one}-{replicas - 1}-{'h' * 10}") for one in made) <= 63


def test_a_long_name_is_cut_for_sets_and_their_numbers() -> None:
    """Whatever the plan's name, short ids leave room."""
    plan = replace(lopsided_plan(), scenario=replace(lopsided_plan().scenario, name="a-fleet-" * 12))
    names = [body["metadata"]["name"] for body in sets(dset(plan)).values()]
    assert [name[-2:] for name in names] == ["-1", "-2"]
    assert max(len(name) for name in names) + len("-0-ffffffff-h200-9-0-hhhhhhhhhh") in (62, 63)


def moved(files: dict[str, str], count: int) -> dict[str, str]:
    """The first `count` roles of the first set are in the second."""
    first, second = sets(files)[FIRST], sets(files)[SECOND]
    gone = first["spec"]["roles"][:count]
    first["spec"]["roles"] = first["spec"]["roles"][count:]
    second["spec"]["roles"] += gone
    return {**files, FIRST: yaml.safe_dump(first), SECOND: yaml.safe_dump(second)}


def edited(file: str, old: str, new: str, count: int = 1) -> Callable[[dict[str, str]], dict[str, str]]:
    """One text becomes another in one file."""

    def edit(files: dict[str, str]) -> dict[str, str]:
        assert old in files[file]
        return {**files, file: files[file].replace(old, new, count)}

    return edit


def test_a_role_moved_with_its_service_is_no_fault() -> None:
    """Who rolls out with whom is for its owner to change; the plan does not say it."""
    files = moved(dset(two_range_plan(), router="none"), 1)
    old = f"{SET}: two-ranges-1\n    {ROLE}: h200-4\n"
    files = edited(SERVICES, old, old.replace("-1", "-2"))(files)
    assert find_faults(files, two_range_plan()) == find_faults(files) == ()
    assert re.search(r"h200-4", files[SECOND])
