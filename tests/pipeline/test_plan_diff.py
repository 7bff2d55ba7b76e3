"""Two plans against each other: changes made by hand, and what must hold of any two."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import PHASES, DeployedIsland, DeployedPlan, DeployedRoute, ParallelConfig, Phase
from planner.domain.deployed import IslandFate, PlanDiff
from planner.plans.diff import compare
from planner.report.comparison.changes import diff_document
from planner.report.comparison.plan_diff import diff_page
from planner.report.kit.markdown import page_text


def diff_text(diff: PlanDiff) -> str:
    return page_text(diff_page(diff))


def island(name: str, gpu: str, phase: Phase, parallel: ParallelConfig, batch_size: int = 8) -> DeployedIsland:
    """An island with round figures."""
    return DeployedIsland(
        id=name,
        phase=phase,
        gpu=gpu,
        parallel=parallel,
        batch_size=batch_size,
        longest_prompt=4095,
        rate_rps=10.0,
        utilisation=0.5,
        price_usd_per_hour=8.0,
    )


def route(
    name: str, phase: Phase, start: int, end: int, share: float = 1.0, probability: float | None = None
) -> DeployedRoute:
    """A cell of the routing table."""
    return DeployedRoute(
        phase=phase, range_start=start, range_end=end, island=name, share=share, probability=probability
    )


P, D1, D2 = (
    island("p", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1, replicas=2)),
    island("d1", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=1)),
    island("d2", "H20", Phase.DECODE, ParallelConfig(tp=4, dp=2)),
)
BASE = DeployedPlan(
    name="base",
    model="m",
    engine="vllm",
    target="lws",
    islands=(P, D1, D2),
    routes=(
        route("p", Phase.PREFILL, 0, 2000),
        route("d1", Phase.DECODE, 0, 1000),
        route("d1", Phase.DECODE, 1000, 2000, 0.25),
        route("d2", Phase.DECODE, 1000, 2000, 0.75),
    ),
    inventory=(("H20", 24), ("H200", 16)),
)


def fates(diff: PlanDiff) -> dict[str, str]:
    """Island -> what happens to it."""
    return {change.id: change.fate.value for change in diff.islands}


def gpus(diff: PlanDiff) -> dict[str, tuple[int, int, int, int | None]]:
    """Type -> started, stopped, peak where the new start first, GPUs that are missing for that."""
    return {c.gpu: (c.started, c.stopped, c.peak_surging, c.missing_to_surge) for c in diff.gpus}


def with_island(one: DeployedIsland, plan: DeployedPlan = BASE) -> DeployedPlan:
    """The plan with `one` in the place of its namesake."""
    return replace(plan, islands=tuple(one if i.id == one.id else i for i in plan.islands))


def test_a_plan_against_itself_is_empty() -> None:
    diff = compare(BASE, BASE)
    assert not diff.differs
    assert set(fates(diff).values()) == {"unchanged"}
    assert gpus(diff) == {"H20": (0, 0, 16, 0), "H200": (0, 0, 16, 0)}
    assert diff.routes == ()
    assert "Nothing changes" in diff_text(diff)


def test_rates_prices_and_utilisation_change_nothing() -> None:
    assert not compare(BASE, with_island(replace(D1, rate_rps=99.0, utilisation=0.9, price_usd_per_hour=1.0))).differs


@pytest.mark.parametrize(
    ("new", "fields", "started", "stopped"),
    [
        (replace(D1, parallel=ParallelConfig(tp=8, dp=2)), {"size", "dp"}, {"H20": 16}, {"H20": 8}),
        (replace(D1, gpu="H200"), {"gpu"}, {"H200": 8}, {"H20": 8}),
        (replace(D1, phase=Phase.PREFILL), {"phase"}, {"H20": 8}, {"H20": 8}),
        (replace(D1, parallel=ParallelConfig(tp=4, dp=2)), {"tp", "dp"}, {"H20": 8}, {"H20": 8}),
        (replace(D1, parallel=ParallelConfig(tp=4, dp=1, pp=2)), {"tp", "pp"}, {"H20": 8}, {"H20": 8}),
        (replace(D1, batch_size=9), {"batch_size"}, {"H20": 8}, {"H20": 8}),
        (replace(D1, longest_prompt=8191), {"longest_prompt"}, {"H20": 8}, {"H20": 8}),
        (replace(D1, host_cache_gb=125.0), {"host_cache_gb"}, {"H20": 8}, {"H20": 8}),
        (replace(D1, disk_cache_gb=500.0), {"disk_cache_gb"}, {"H20": 8}, {"H20": 8}),
    ],
)
def test_what_restarts_an_island(
    new: DeployedIsland, fields: set[str], started: dict[str, int], stopped: dict[str, int]
) -> None:
    diff = compare(BASE, with_island(new))
    change = next(c for c in diff.islands if c.id == "d1")
    assert change.fate is IslandFate.RESTARTED
    assert {c.field for c in change.changes} == fields
    assert {c.gpu: c.started for c in diff.gpus if c.started} == started
    assert {c.gpu: c.stopped for c in diff.gpus if c.stopped} == stopped
    assert fates(diff)["d2"] == fates(diff)["p"] == "unchanged"


@pytest.mark.parametrize(("copies", "expected"), [(3, (8, 0, 24, 8)), (1, (0, 8, 16, 0))])
def test_copies_come_and_go_while_the_others_run(copies: int, expected: tuple[int, int, int, int]) -> None:
    diff = compare(BASE, with_island(replace(P, parallel=replace(P.parallel, replicas=copies))))
    assert fates(diff)["p"] == "scaled"
    assert gpus(diff)["H200"] == expected


def test_added_and_removed_islands_and_the_surge_they_take() -> None:
    new = replace(BASE, islands=(P, D1, island("d3", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=2))))
    diff = compare(BASE, new)
    assert fates(diff) == {"p": "unchanged", "d1": "unchanged", "d2": "removed", "d3": "added"}
    assert gpus(diff) == {"H20": (16, 8, 32, 8), "H200": (0, 0, 16, 0)}
    assert "takes 32 GPUs at once, 8 more than there are" in diff_text(diff)
    roomy = replace(new, inventory=(("H20", 32), ("H200", 16)))
    assert "takes 32 GPUs at once, and there are 32" in diff_text(compare(BASE, roomy))
    untold = compare(replace(BASE, inventory=()), replace(new, inventory=()))
    assert gpus(untold)["H20"] == (16, 8, 32, None)
    assert "how many there are is not told" in diff_text(untold)


def renamed_base() -> DeployedPlan:
    """The base with d1 called x and d2 called a."""
    names = {"d1": "x", "d2": "a", "p": "p"}
    return replace(
        BASE,
        islands=tuple(replace(i, id=names[i.id]) for i in BASE.islands),
        routes=tuple(replace(r, island=names[r.island]) for r in BASE.routes),
    )


def test_renamed_islands_keep_running_and_keep_their_requests() -> None:
    diff = compare(BASE, renamed_base())
    assert fates(diff) == {"p": "unchanged", "x": "renamed", "a": "renamed"}
    assert {(c.old.id, c.new.id) for c in diff.islands if c.renamed and c.old and c.new} == {("d1", "x"), ("d2", "a")}
    assert diff.routes == ()
    assert gpus(diff) == {"H20": (0, 0, 16, 0), "H200": (0, 0, 16, 0)}
    assert diff.differs
    assert "d1 → x" in diff_text(diff)


def test_of_two_that_are_alike_the_one_with_the_same_batch_is_meant() -> None:
    twins = replace(BASE, islands=(P, D1, replace(D1, id="d2", batch_size=16)), routes=())
    new = replace(twins, islands=(P, replace(D1, id="y", batch_size=16), replace(D1, id="z", batch_size=99)))
    diff = compare(twins, new)
    found = {c.old.id: (c.id, c.fate.value) for c in diff.islands if c.old}
    assert found == {"p": ("p", "unchanged"), "d2": ("y", "renamed"), "d1": ("z", "restarted")}


@pytest.mark.parametrize(("field", "restarts"), [("model", True), ("engine", True), ("target", True), ("name", False)])
def test_the_head_of_a_plan(field: str, restarts: bool) -> None:
    diff = compare(BASE, replace(BASE, **{field: "other"}))
    assert [c.field for c in diff.head] == [field]
    assert diff.restart_reasons == ((field,) if restarts else ())
    assert set(fates(diff).values()) == {"restarted" if restarts else "unchanged"}
    assert ("every island restarts" in diff_text(diff)) == restarts
    assert gpus(diff)["H20"][:2] == ((16, 16) if restarts else (0, 0))


@pytest.mark.parametrize("field", ["engine", "target"])
def test_what_one_side_does_not_tell_is_no_difference(field: str) -> None:
    assert not compare(replace(BASE, **{field: ""}), BASE).differs


def test_a_larger_fleet_is_told() -> None:
    diff = compare(BASE, replace(BASE, inventory=(("H20", 24), ("H200", 32))))
    assert [(c.field, c.old, c.new) for c in diff.head] == [("inventory H200", "16", "32")]


def test_requests_that_move_by_range() -> None:
    routes = (
        route("p", Phase.PREFILL, 0, 2000),
        route("d1", Phase.DECODE, 0, 500, 0.6),
        route("d2", Phase.DECODE, 0, 500, 0.4),
        route("d1", Phase.DECODE, 500, 1500),
        route("d2", Phase.DECODE, 1500, 2000),
    )
    found = compare(BASE, replace(BASE, routes=routes)).routes
    assert [(r.phase, r.range_start, r.range_end, r.moved, r.lost, r.gained) for r in found] == [
        (Phase.DECODE, 0, 500, 0.4, (("d1", 0.4),), (("d2", 0.4),)),
        # 500 to 999 stays with d1
        (Phase.DECODE, 1000, 1500, 0.75, (("d2", 0.75),), (("d1", 0.75),)),
        (Phase.DECODE, 1500, 2000, 0.25, (("d1", 0.25),), (("d2", 0.25),)),
    ]


def test_ranges_that_one_plan_alone_routes() -> None:
    longer = replace(BASE, routes=(*BASE.routes[1:], route("p", Phase.PREFILL, 0, 3000)))
    (grown,) = compare(BASE, longer).routes
    assert (grown.range_start, grown.range_end, grown.moved, grown.lost, grown.gained) == (
        2000,
        3000,
        1.0,
        (),
        (("p", 1.0),),
    )
    (shrunk,) = compare(longer, BASE).routes
    assert (shrunk.lost, shrunk.gained) == ((("p", 1.0),), ())


def test_neighbours_that_change_alike_are_one_row_and_a_cut_range_is_no_change() -> None:
    cut = tuple(
        replace(r, range_start=start, range_end=start + 250)
        for r in BASE.routes
        for start in range(r.range_start, r.range_end, 250)
    )
    assert not compare(BASE, replace(BASE, routes=cut)).differs
    swapped = {"d1": "d2", "d2": "d1", "p": "p"}
    found = compare(BASE, replace(BASE, routes=tuple(replace(r, island=swapped[r.island]) for r in cut))).routes
    assert [(r.range_start, r.range_end, r.moved) for r in found] == [(0, 1000, 1.0), (1000, 2000, 0.5)]


def weighted(plan: DeployedPlan, probabilities: dict[int, float]) -> DeployedPlan:
    """The plan whose ranges have these probabilities, by their starts."""
    return replace(plan, routes=tuple(replace(r, probability=probabilities[r.range_start]) for r in plan.routes))


def test_what_moves_is_weighted_by_the_requests_of_its_range() -> None:
    """Nine requests in ten are short, and of the others three in four move: 7.5 % of all, not 75 %."""
    old = weighted(BASE, {0: 0.9, 1000: 0.1})
    new = replace(old, routes=(*old.routes[:2], route("d1", Phase.DECODE, 1000, 2000, 1.0, 0.1)))
    diff = compare(old, new)
    (only,) = diff.routes
    assert (only.moved, only.probability) == (0.75, 0.1)
    assert diff_document(diff)["moved_share_of_all_requests"] == {"prefill": 0.0, "decode": pytest.approx(0.075)}
    assert "Of all requests, 0 % change island in prefill and 8 % change island in decode." in diff_text(diff)
    turned = weighted(new, {0: 0.2, 1000: 0.8})
    assert compare(old, turned).moved_of_all(Phase.DECODE) == pytest.approx(0.6)  # the requests that are to come


def test_without_probabilities_no_share_of_all_is_told() -> None:
    old = weighted(BASE, {0: 0.9, 1000: 0.1})
    bare = replace(BASE, routes=(*BASE.routes[:2], route("d1", Phase.DECODE, 1000, 2000)))
    assert compare(old, bare).moved_of_all(Phase.DECODE) == pytest.approx(0.075)  # the old one's
    untold = compare(BASE, bare)
    assert untold.moved_of_all(Phase.DECODE) is None
    assert diff_document(untold)["moved_share_of_all_requests"] == {"prefill": 0.0, "decode": None}
    assert "Of all requests, 0 % change island in prefill." in diff_text(untold)


PARALLEL = st.builds(
    ParallelConfig, tp=st.sampled_from([1, 2, 4]), dp=st.integers(1, 2), replicas=st.integers(1, 3), pp=st.just(1)
)


@st.composite
def deployed(draw: st.DrawFn) -> DeployedPlan:
    """Up to five islands whose names and shapes often meet, routes over random bounds."""
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=5))
    islands = tuple(
        island(
            n,
            draw(st.sampled_from(["H20", "H200"])),
            draw(st.sampled_from(PHASES)),
            draw(PARALLEL),
            draw(st.integers(1, 2)),
        )
        for n in names
    )
    routes: list[DeployedRoute] = []
    for phase in PHASES:
        serving = [i.id for i in islands if i.phase is phase]
        bounds = sorted(draw(st.sets(st.integers(0, 20), max_size=4))) if serving else []
        for start, end in pairwise(bounds):
            first, probability = draw(st.sampled_from([0.0, 0.3, 1.0])), draw(st.floats(0.0, 0.2))
            routes.append(route(serving[0], phase, start, end, first if len(serving) > 1 else 1.0, probability))
            routes += [route(serving[-1], phase, start, end, 1.0 - first, probability)] if len(serving) > 1 else []
    return DeployedPlan(
        name=draw(st.sampled_from(["one", "two"])),
        model="m",
        engine=draw(st.sampled_from(["vllm", "sglang"])),
        target="lws",
        islands=islands,
        routes=tuple(routes),
        inventory=(("H20", 30), ("H200", 30)),
    )


@given(deployed())
def test_any_plan_against_itself_is_empty(plan: DeployedPlan) -> None:
    assert not compare(plan, plan).differs


@given(deployed(), deployed())
def test_started_less_stopped_is_new_less_old_for_every_type(old: DeployedPlan, new: DeployedPlan) -> None:
    diff = compare(old, new)
    assert {c.gpu: c.started - c.stopped for c in diff.gpus if c.started != c.stopped} == {
        gpu: new.gpus.get(gpu, 0) - old.gpus.get(gpu, 0)
        for gpu in {*old.gpus, *new.gpus}
        if new.gpus.get(gpu, 0) != old.gpus.get(gpu, 0)
    }
    for change in diff.gpus:
        assert 0 <= change.stopped <= change.old
        assert 0 <= change.started <= change.new
        assert change.peak_surging >= change.peak_stopping_first


@given(deployed(), deployed())
def test_every_island_is_told_once_and_the_way_back_mirrors(old: DeployedPlan, new: DeployedPlan) -> None:
    there, back = compare(old, new), compare(new, old)
    assert sorted(c.old.id for c in there.islands if c.old) == sorted(i.id for i in old.islands)
    assert sorted(c.new.id for c in there.islands if c.new) == sorted(i.id for i in new.islands)
    mirrored = {IslandFate.ADDED: IslandFate.REMOVED, IslandFate.REMOVED: IslandFate.ADDED}
    assert Counter(mirrored.get(c.fate, c.fate) for c in back.islands) == Counter(c.fate for c in there.islands)
    assert there.differs == back.differs


@given(deployed(), deployed())
def test_moved_shares_against_counting_token_by_token(old: DeployedPlan, new: DeployedPlan) -> None:
    """Truth: for each prompt length alone, half the sum of the differences (plus half of what only one side routes)."""
    diff = compare(old, new)
    names = {c.old.id: c.new.id for c in diff.islands if c.old and c.new}
    for phase in PHASES:
        moved_of_all = 0.0
        for tokens in range(21):
            was, will = Counter[str](), Counter[str]()
            for plan, shares in ((old, was), (new, will)):
                for r in plan.routes:
                    if r.phase is phase and r.range_start <= tokens < r.range_end:
                        shares[names.get(r.island, r.island) if plan is old else r.island] += r.share  # type: ignore[assignment]  # a Counter of floats
            lost = sum(max(0.0, was[n] - will[n]) for n in was)
            gained = sum(max(0.0, will[n] - was[n]) for n in will)
            told = [r.moved for r in diff.routes if r.phase is phase and r.range_start <= tokens < r.range_end]
            assert sum(told) == pytest.approx(max(lost, gained), abs=1e-9)
            assert len(told) <= 1
            weighing = [r for r in new.routes if r.phase is phase] or [r for r in old.routes if r.phase is phase]
            here = {
                (r.range_end - r.range_start, r.probability) for r in weighing if r.range_start <= tokens < r.range_end
            }
            moved_of_all += sum(max(lost, gained) * (q or 0.0) / width for width, q in here)
        assert diff.moved_of_all(phase) == pytest.approx(moved_of_all, abs=1e-9)


@given(deployed(), deployed())
def test_pages_and_documents_of_any_two(old: DeployedPlan, new: DeployedPlan) -> None:
    diff = compare(old, new)
    page, document = diff_text(diff), diff_document(diff)
    assert page.endswith("\n")
    assert document["differs"] == diff.differs
    assert ("Nothing changes" in page) != diff.differs
