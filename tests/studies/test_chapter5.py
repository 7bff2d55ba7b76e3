"""The experiments as data are the paper's."""

from dataclasses import replace

import pytest
from study_outcomes import experiment

from planner.domain import Candidates, CostMode, SearchMethod, Surrogate
from planner.errors import InputError
from planner.studies.chapter5.experiments import FIGURES, Request, document, experiments, island_cases
from planner.studies.chapter5.trials import searches


def test_figures_are_those_of_the_chapter() -> None:
    assert ("4.8", "table5.1", *(f"5.{k}" for k in range(1, 14))) == FIGURES
    shown = {figure for one in experiments(Request()) for figure in one.figures}
    assert shown | {"4.8", "5.1", "5.2", "5.3", "5.4", "5.13"} == set(FIGURES)


def test_table_5_1() -> None:
    found = experiment("inventories")
    rows = [
        (
            tuple(n for _, n in case.setup.gpus),
            case.setup.workload,
            case.published.rate_rps,
            case.published.deviation_rps,
        )
        for case in found.cases
    ]
    assert rows == [
        ((64, 64, 128), "azure-code-2023", 176, 18),
        ((64, 64, 128), "azure-conv-2023", 138, 5),
        ((32, 128, 128), "azure-code-2023", 199, 22),
        ((32, 128, 128), "azure-conv-2023", 126, 45.5),
        ((128,), "azure-code-2023", 139, 25),
        ((128,), "azure-conv-2023", 114, 7),
    ]
    assert [case.published.rate_spread_rps for case in found.cases] == [20, 16, 21, 12, 46, 5]
    assert [case.published.deviation_spread_rps for case in found.cases] == [18, 9, 15, 46, 22, 10]
    assert found.trials == 5
    for case in found.cases:
        assert [gpu for gpu, _ in case.setup.gpus] == ["H200", "H800", "H20"][: len(case.setup.gpus)]
        search = case.search
        assert (search.batch_size, search.iterations, search.min_island_size, search.skew) == (16, 15, 2, 5.0)
        prices = dict(case.setup.prices)
        assert sum(prices[gpu] * count for gpu, count in case.setup.gpus) == 512


def test_table_5_2() -> None:
    cases = island_cases(Request())
    assert [case.label for case in cases] == ["(a)", "(b)", "(c)", "(d)"]
    assert [case.layout.label for case in cases] == [
        "DGX-B300 32x8",
        "DGX-B300 4x16 8x8 16x4 32x2",
        "DGX-B300 32x2, H20 32x2, H800 32x2, Rubin-NVL144 32x2",
        "DGX-B300 4x2 8x1 16x1 32x1, H20 4x8 8x4, H200 4x8 8x4, Rubin-NVL144 4x2 8x1 16x1 32x1",
    ]
    assert [sum(n for _, n in case.setup.gpus) for case in cases] == [256, 256, 256, 256]


@pytest.mark.parametrize(
    ("name", "trials", "iterations", "method", "surrogate", "fixed"),
    [
        ("batch size", 10, 20, SearchMethod.DIVIDER, Surrogate.GP, {"min_island_size": 2, "skew": 5.0}),
        ("skew range", 10, 20, SearchMethod.DIVIDER, Surrogate.GP, {"batch_size": 8, "min_island_size": 2}),
        ("least island size", 10, 20, SearchMethod.DIVIDER, Surrogate.GP, {"batch_size": 8, "skew": 5.0}),
        ("direct, batch size, SAASBO", 5, 10, SearchMethod.DIRECT, Surrogate.SAASBO, {"slots": 16}),
        ("direct, batch size, BO", 5, 10, SearchMethod.DIRECT, Surrogate.GP, {"slots": 16}),
        ("direct, slots, SAASBO", 5, 10, SearchMethod.DIRECT, Surrogate.SAASBO, {"batch_size": 4}),
    ],
)
def test_outer_loop_experiments(
    name: str, trials: int, iterations: int, method: SearchMethod, surrogate: Surrogate, fixed: dict[str, float]
) -> None:
    found = experiment(name)
    assert found.trials == trials
    for case in found.cases:
        assert dict(case.setup.gpus) == {"DGX-B300": 128, "H200": 256}
        assert case.setup.workload == "normal-500-2000"
        assert (case.search.iterations, case.search.method, case.search.surrogate) == (iterations, method, surrogate)
        assert {field: getattr(case.search, field) for field in fixed} == fixed


def test_every_search_is_the_papers_loop() -> None:
    """Section 4.9: every candidate is one where the acquisition function is highest."""
    chosen = {case.search.candidates for one in experiments(Request()) for case in one.cases}
    assert chosen == {Candidates.ACQUISITION}


@pytest.mark.parametrize("mode", CostMode)
def test_documents_name_the_setup(mode: CostMode) -> None:
    setup = experiment("batch size").cases[0].setup
    found = document(setup, mode)
    assert (found["inventory"], found["workload"]) == ({"DGX-B300": 128, "H200": 256}, "normal-500-2000")
    assert found["cost"] == {"mode": mode.value}


def test_numbers_asked_for_stand_over_the_papers() -> None:
    asked = {one.name: one for one in experiments(Request(trials=2, iterations=3, batch_size=5, seed=7))}
    assert {one.trials for one in asked.values()} == {2}
    assert {case.search.iterations for one in asked.values() for case in one.cases} == {3}
    assert {case.search.batch_size for case in asked["skew range"].cases} == {5}
    assert [case.search.batch_size for case in asked["batch size"].cases] == [2, 4, 8, 16]
    seeds = [search.seed for _, (_, search) in searches(asked["skew range"])]
    assert seeds == [7, 8] * 3


def test_the_small_form_is_a_part_of_the_papers() -> None:
    whole = {one.name: one for one in experiments(Request())}
    for one in experiments(Request(small=True)):
        values = [case.value for case in one.cases]
        assert len(values) >= 2
        assert set(values) <= {case.value for case in whole[one.name].cases}
        assert one.trials < whole[one.name].trials
        assert replace(one.cases[0].search, iterations=1, batch_size=1) == replace(
            next(case.search for case in whole[one.name].cases if case.value == values[0]), iterations=1, batch_size=1
        )


def test_figures_are_chosen_in_the_papers_order() -> None:
    request = Request(figures=("5.6", "table5.1"))
    assert request.chosen() == ("table5.1", "5.6")
    assert [one.name for one in experiments(request)] == ["inventories", "batch size"]
    assert island_cases(request) == ()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(figures=("5.14",)), "figure: must be one of 4.8, table5.1, 5.1"),
        (Request(trials=0), "trials: must lie in 1..1000, got 0"),
        (Request(iterations=0), "iterations"),
        (Request(batch_size=5000), "batch_size"),
    ],
)
def test_what_cannot_be_is_refused(request_: Request, said: str) -> None:
    with pytest.raises(InputError) as caught:
        experiments(request_)
    assert said in caught.value.message
