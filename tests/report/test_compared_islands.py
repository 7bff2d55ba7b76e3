"""What a comparison says of islands, whoever planned them: the share that it tells is that of its own lengths."""

import pytest

from planner.domain import Plan, halves_of
from planner.plans.comparing import pool_figures


@pytest.mark.parametrize("form", ["plan", "crowded_plan"])
def test_a_share_is_of_the_requests_of_its_own_lengths(form: str, request: pytest.FixtureRequest) -> None:
    plan: Plan = request.getfixturevalue(form)
    islands = {island.id: island for island in plan.islands}
    figures = list(pool_figures(plan))
    assert [row.island for row in figures] == [island.id for island in plan.islands if island.phase is not None]
    for row in figures:
        half = halves_of(row.phase)[0]
        chances = {
            route.range_start: route.probability
            for route in plan.routing
            if route.phase is half and route.island == row.island
        }
        due_rps = row.share * sum(chances.values()) * plan.throughput_rps
        assert due_rps == pytest.approx(islands[row.island].rate_rps)


def test_pools_are_told_as_the_plan_has_them(pools_plan: Plan) -> None:
    told = {(row.island, row.phase, row.gpu, row.servers, row.start, row.end, row.share) for row in
            pool_figures(pools_plan)}  # fmt: skip
    assert told == {
        (pool.island, pool.phase, pool.gpu, pool.count, pool.start, pool.end, pool.share)
        for pool in pools_plan.outlook.pools
    }
