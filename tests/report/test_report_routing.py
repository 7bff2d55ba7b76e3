"""Groups and stretches: what is put together loses nothing and hides no difference."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.domain import PHASES, Phase, Plan, PlannedIsland, Route
from planner.report.plan.routing import SIMILAR_SHARE, achieved_mix, groups, intervals, merged, stretches

AB = ("i00", "i03")


def two_island_routing(plan: Plan, first_shares: list[float]) -> Plan:
    """Prefill served by an H200/16 and the H800/32 alone, the first taking the given share of each range."""
    p = 1 / len(first_shares)
    cells = [
        Route(
            phase=Phase.PREFILL,
            range_start=100 * j,
            range_end=100 * (j + 1),
            probability=p,
            island=island,
            share=share,
            rate_rps=plan.throughput_rps * p * share,
            assigned_rps=1.0,
            capacity_rps=1000.0,
            batch_size=1,
            step_ms=1.0,
        )
        for j, first in enumerate(first_shares)
        for island, share in zip(AB, (first, 1 - first), strict=True)
    ]
    return replace(plan, routing=tuple(cells))


def test_a_slow_drift_is_cut_before_it_hides_a_difference(plan):
    drifting = two_island_routing(plan, [0.20 + 0.03 * j for j in range(12)])
    found = stretches(drifting, Phase.PREFILL)
    assert [s.ranges for s in found] == [4, 4, 4]
    assert dict(found[0].shares)["H200/16 ×2"] == pytest.approx(0.245)


def test_another_set_of_groups_starts_a_new_row(plan):
    found = stretches(two_island_routing(plan, [1.0, 1.0, 0.96, 0.96]), Phase.PREFILL)
    assert [(s.start, s.end) for s in found] == [(0, 200), (200, 400)]


def test_a_trace_of_another_group_does_not(plan):
    found = stretches(two_island_routing(plan, [1.0, 0.99, 1.0]), Phase.PREFILL)
    assert [s.ranges for s in found] == [3]
    assert sum(share for _, share in found[0].shares) == pytest.approx(1.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_stretches_tile_the_ranges_and_stay_close_to_them(plan, first_shares):
    changed = two_island_routing(plan, first_shares)
    found = stretches(changed, Phase.PREFILL)
    assert [s.start for s in found][1:] == [s.end for s in found][:-1]
    assert sum(s.ranges for s in found) == len(first_shares)
    assert sum(s.rate_rps for s in found) == pytest.approx(changed.throughput_rps)
    for stretch in found:
        inside = first_shares[stretch.start // 100 : stretch.end // 100]
        told = dict(stretch.shares).get("H200/16 ×2", 0.0)
        assert told == pytest.approx(sum(inside) / len(inside), abs=1e-9)
        assert max(abs(told - share) for share in inside) <= SIMILAR_SHARE + 1e-9


def test_intervals_ascend_and_carry_the_probabilities(plan):
    found = intervals(plan)
    assert len(found) == 25
    assert all(a.end == b.start for a, b in pairwise(found))
    assert sum(i.probability for i in found) == pytest.approx(1.0)


def test_achieved_mix_is_the_targets_where_rates_follow_it(plan):
    target = [i.probability for i in intervals(plan)]
    for phase in PHASES:
        assert achieved_mix(plan, phase) == pytest.approx(target)


def ids(islands) -> list[str]:
    return sorted(i.id for i in islands)


class TestGroups:
    def test_order_is_inventory_phase_size(self, plan):
        labels = [f"{g.phase or 'idle'} {g.label}" for g in groups(plan)]
        assert labels == [
            "prefill H200/16 ×2",
            "decode H200/32 ×1",
            "prefill H800/32 ×1",
            "prefill H800/14 ×1",
            "prefill H800/8 ×2",
            "decode H20/64 ×1",
            "decode H20/24 ×2",
            "decode H20/8 ×1",
            "idle H20/6 ×1",
        ]

    def test_closest_sizes_join_first(self, plan):
        assert "H800/8–14 ×3" in [g.label for g in merged(groups(plan), 8)]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(st.sampled_from(["H200", "H800"]), st.integers(1, 64), st.sampled_from(PHASES)),
            max_size=60,
        ),
        st.integers(1, 12),
    )
    def test_merging_keeps_every_island_and_mixes_no_kind(self, plan, kinds, limit):
        islands = tuple(
            PlannedIsland(
                id=f"n{n}",
                gpu=gpu,
                size=size,
                phase=phase,
                parallel=None,
                batch_size=1,
                longest_prompt=1,
                rate_rps=1.0,
                utilisation=1.0,
                price_usd_per_hour=1.0,
            )
            for n, (gpu, size, phase) in enumerate(kinds)
        )
        found = merged(groups(replace(plan, islands=islands)), limit)
        assert ids(i for g in found for i in g.islands) == ids(islands)
        assert all({(i.gpu, i.phase) for i in g.islands} == {(g.gpu, g.phase)} for g in found)
        assert len(found) <= max(limit, len({(gpu, phase) for gpu, _, phase in kinds}))
