"""Dynamo as a router: its grid read back, edits of it found, and what its mode for aggregated pools cannot do.

Upstream's pool selection (ai-dynamo 1.6.1, components/src/dynamo/global_router/pool_selection.py, Apache-2.0) looks at
prompt lengths in mode `disagg`; in mode `agg` the rows of its table are times to the first token, unless `isl_*` are
given, which the planner does not write.
"""

import re

import pytest
from dynamo_plans import CONFIG, FRONT, router_config, two_pool_plan
from routed_plans import bucketed_plan
from router_reading.comparing import router_faults

from planner.domain import Counted, Endpoints, Phase, Plan
from planner.domain.serving.programs import Surroundings
from planner.errors import ExportError
from planner.export import ROUTERS, render
from planner.runs.deployments import render_plan


def cell_of(tokens: int, low: float, high: float, cells: int) -> int:
    """`_clamp_index` of upstream, written anew."""
    return max(0, min(int((tokens - low) / ((high - low) / cells)), cells - 1))


def test_the_grid_that_is_written_is_the_one_that_is_read_back() -> None:
    rendered = render_plan(bucketed_plan(4), target="dynamo")
    config = router_config(rendered.files)
    assert config["mode"] == "disagg"
    strategy = config["prefill_pool_selection_strategy"]
    starts = sorted({r.range_start for r in rendered.plan.routing if r.phase is Phase.PREFILL})
    pools = {
        start: strategy["prefill_pool_mapping"][
            cell_of(start, strategy["isl_min"], strategy["isl_max"], strategy["isl_resolution"])
        ]
        for start in starts
    }
    by_start = {
        start: frozenset(r.island for r in rendered.plan.routing if (r.phase, r.range_start) == (Phase.PREFILL, start))
        for start in starts
    }
    for first in starts:
        for second in starts:
            assert (pools[first] == pools[second]) == (by_start[first] == by_start[second])


def test_swapped_cells_are_found_by_what_the_router_does() -> None:
    files = render(two_pool_plan(), target="dynamo")
    assert not router_faults(files)
    text = files[FRONT]
    wrong = re.sub(r'"prefill_pool_mapping": \[\[0\], \[1\]\]', '"prefill_pool_mapping": [[1], [0]]', text)
    assert wrong != text
    assert CONFIG in text
    faults = [str(fault) for fault in router_faults({**files, FRONT: wrong})]
    assert any("Router dynamo" in fault for fault in faults)


def test_aggregated_pools_of_one_bucket_have_one_front_end() -> None:
    plan = bucketed_plan(7, mixed=True, most=1)
    assert len(plan.islands) > 1
    rendered = render_plan(plan, target="dynamo")
    assert CONFIG not in "".join(rendered.files.values())


@pytest.mark.parametrize("plan", [bucketed_plan(3, mixed=True), bucketed_plan(5, mixed=True)])
def test_aggregated_buckets_are_refused_as_no_router_there_goes_by_length(plan: Plan) -> None:
    with pytest.raises(ExportError, match="by times asked for, not by length") as refusal:
        render_plan(plan, target="dynamo")
    assert refusal.value.hint


def test_it_says_what_it_goes_by() -> None:
    behaviour = ROUTERS["dynamo"].behaviour(two_pool_plan(), Surroundings())
    assert (behaviour.mixed[0].among, behaviour.mixed[0].counts) == (Endpoints.RANK, Counted.TOKENS)
    assert any("cells of one width" in note for note in behaviour.notes)
