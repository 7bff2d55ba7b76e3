"""Prompts at the edge: of the model's context, of a range, of memory."""

from dataclasses import replace

import pytest
from pipeline_scenarios import small

from planner.cost import tabulate
from planner.domain import CostMode, CostSettings, LengthProfile, Scenario
from planner.errors import EXIT_BAD_INPUT, EXIT_FAILURE, InfeasibleError, InputError, SolverError
from planner.pipeline import check, plan
from planner.workload import divide


def with_prompts(scenario: Scenario, *lengths: int) -> Scenario:
    profile = LengthProfile(
        name="by-hand",
        input_tokens=lengths,
        probabilities=(1 / len(lengths),) * len(lengths),
        output_tokens=(),
        mean_output_tokens=10.0,
        max_output_tokens=10,
    )
    return replace(scenario, workload=profile)


FLEET = small({"H200": 32})


@pytest.mark.parametrize("action", [plan, check])
@pytest.mark.parametrize("model", ["llama-3.1-70b", "mixtral-8x7b"])
def test_reference_mode_refuses_other_shapes_before_any_search(action, model: str) -> None:  # type: ignore[no-untyped-def]  # two signatures
    scenario = small({"H200": 32}, model=model, cost={"mode": "reference"})
    with pytest.raises(InputError, match=rf"model {model}: reference mode knows DeepSeek's shape only") as caught:
        action(scenario)
    assert caught.value.exit_status == EXIT_BAD_INPUT
    assert "cost.mode default" in caught.value.hint


@pytest.mark.parametrize("action", [plan, check])
def test_prompts_beyond_the_context_are_refused(action) -> None:  # type: ignore[no-untyped-def]  # two signatures
    context = FLEET.model.max_context
    with pytest.raises(
        InputError,
        match=rf"by-hand: prompts must be shorter than .*{context} tokens.* {context}, 50 % of them are too long\.",
    ):
        action(with_prompts(FLEET, 1000, context))


def test_the_last_prompt_within_the_context_is_looked_at() -> None:
    longest = FLEET.model.max_context - 1
    assert check(with_prompts(FLEET, 1000, longest)).longest_prompt == longest


def test_what_fits_is_asked_for_the_longest_prompt_of_a_range() -> None:
    """One wide range and one narrow one around the same prompts hold the same batch; times differ, memory does not."""
    scenario = with_prompts(small({"H200": 6}), 99_000)
    gpu = scenario.inventory.items[0].gpu
    rows = [
        tabulate(gpu, 6, model=scenario.model, workload=divide(scenario.workload, width), settings=scenario.cost)
        for width in (16, 100_000)
    ]
    assert rows[0].decode.batch_sizes == rows[1].decode.batch_sizes
    assert rows[0].prefill.serves == rows[1].prefill.serves


def test_reference_mode_asks_at_the_midpoint() -> None:
    scenario = with_prompts(small({"H200": 16}), 99_000)
    gpu = scenario.inventory.items[0].gpu
    batches = [
        tabulate(
            gpu,
            16,
            model=scenario.model,
            workload=divide(scenario.workload, width),
            settings=CostSettings(mode=CostMode.REFERENCE),
        ).decode.batch_sizes
        for width in (16, 100_000)
    ]
    assert batches[1] > batches[0]


def test_a_range_that_fits_nowhere_is_named_before_the_search() -> None:
    with pytest.raises(InfeasibleError, match=r"no island of theirs can decode prompts of 149504-151551 tokens"):
        check(with_prompts(small({"H20": 9}), 1000, 150_000))


def test_an_unlucky_search_is_not_called_a_small_fleet() -> None:
    one = replace(FLEET.search, iterations=1, batch_size=1, skew=0.1, seed=3)
    with pytest.raises(InfeasibleError, match="none of the 1 layouts tried") as caught:
        plan(replace(FLEET, search=replace(one, min_island_size=32)))
    assert "search.iterations" in caught.value.hint


def test_more_ranges_than_can_be_assigned_are_refused_with_a_width_that_will_do() -> None:
    scenario = with_prompts(FLEET, *range(1, 2001))
    fine = replace(scenario, ranges=replace(scenario.ranges, width=1))
    with pytest.raises(InputError, match=r"ranges\.width: must give at most 1000 ranges, 1 gives 2000") as caught:
        check(fine)
    assert "at least 3" in caught.value.hint
    assert check(replace(scenario, ranges=replace(scenario.ranges, width=3)))


def test_a_solver_without_an_answer_is_no_proof_that_there_is_none() -> None:
    hurried = replace(FLEET, assignment=replace(FLEET.assignment, work_limit=1e-9))
    with pytest.raises(SolverError, match=r"the solver left \d+ of 8 layouts unanswered") as caught:
        plan(hurried)
    assert caught.value.exit_status == EXIT_FAILURE
