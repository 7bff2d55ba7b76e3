"""Draws of factors: their spread is that of the table, families without measurements stray by the hierarchy."""

from dataclasses import replace

import numpy as np
import pytest

from planner.cost import BUILT_IN
from planner.cost.benchmarks.draws import STRUCTURE, USER_SPREAD, Draw, draws_of
from planner.cost.benchmarks.factor_spread import CORRELATION, SPREAD
from planner.cost.benchmarks.fit import BENCHMARK_FREE
from planner.cost.efficiency import FACTOR_NAMES, efficiency_of
from planner.domain import PHASES, Calibration, GpuSpec, Origin
from planner.domain.efficiency import BOUNDS
from planner.files import load_gpu_specs

COUNT = 400


@pytest.fixture(scope="module")
def gpus() -> dict[str, GpuSpec]:
    return load_gpu_specs()


def _logs(draws: tuple[Draw, ...], name: str, gpu: GpuSpec) -> np.ndarray:
    return np.log([getattr(efficiency_of(gpu, draw.calibration), name) for draw in draws])


def test_the_table_has_a_row_for_every_free_factor() -> None:
    assert [(name, family) for name, family, _ in SPREAD] == [(f.name, f.family) for f in BENCHMARK_FREE]
    assert [len(row) for row in CORRELATION] == list(range(len(SPREAD)))
    assert all(-100 <= percent <= 100 for row in CORRELATION for percent in row)
    assert all(0 < sd < 2 for _, _, sd in SPREAD)


def test_what_was_measured_is_known_better_than_the_hierarchy_says() -> None:
    """Not by more than the prior's own spread: of a family that of its vendor and that of any come on top."""
    prior = {(f.name, f.family): f.sigma for f in BENCHMARK_FREE}
    assert sum(sd < prior[name, family] for name, family, sd in SPREAD) > 0.8 * len(SPREAD)


def test_draws_have_the_spread_of_the_table(gpus: dict[str, GpuSpec]) -> None:
    spread = {(name, family): sd for name, family, sd in SPREAD}
    draws = draws_of([gpus["MI300X"]], None, count=COUNT, seed=0)
    assert _logs(draws, "kernels_decode", gpus["MI300X"]).std() == pytest.approx(
        spread["kernels_decode", "cdna3"], rel=0.15
    )
    assert _logs(draws, "expert_power", gpus["MI300X"]).std() == pytest.approx(spread["expert_power", "any"], rel=0.15)


def test_draws_stay_within_bounds_and_are_complete(gpus: dict[str, GpuSpec]) -> None:
    for draw in draws_of(list(gpus.values()), None, count=20, seed=1):
        for factor in draw.calibration.factors:
            low, high = BOUNDS[factor.name]
            assert low <= factor.value <= high
        for gpu in gpus.values():
            assert efficiency_of(gpu, draw.calibration)
            assert set(FACTOR_NAMES) <= {factor.name for factor in draw.calibration.factors}


def test_a_family_that_nothing_was_measured_of_strays_farther(gpus: dict[str, GpuSpec]) -> None:
    ada, hopper = gpus["L40S"], gpus["H100"]
    assert not any(family == ada.family for _, family, _ in SPREAD)
    draws = draws_of([ada, hopper], None, count=COUNT, seed=0)
    assert _logs(draws, "kernels_prefill", ada).std() > 1.3 * _logs(draws, "kernels_prefill", hopper).std()


def test_two_families_without_measurements_stray_apart(gpus: dict[str, GpuSpec]) -> None:
    ada, other = gpus["L40S"], gpus["A10G"]
    if ada.family == other.family:
        other = gpus["RTX-PRO-6000"]
    draws = draws_of([ada, other], None, count=COUNT, seed=0)
    together = np.corrcoef(_logs(draws, "expert", ada), _logs(draws, "expert", other))[0, 1]
    assert 0.1 < together < 0.95


def test_a_users_own_measurement_is_trusted(gpus: dict[str, GpuSpec]) -> None:
    gpu = gpus["H20"]
    measured = replace(BUILT_IN.factor("kernels_prefill", gpu.family), value=0.5, origin=Origin.USER)
    draws = draws_of([gpu], Calibration(name="mine", factors=(measured,)), count=COUNT, seed=0)
    logs = _logs(draws, "kernels_prefill", gpu)
    assert logs.std() == pytest.approx(USER_SPREAD, rel=0.15)
    assert logs.mean() == pytest.approx(np.log(0.5), abs=0.02)


def test_the_structure_errs_by_type_and_phase(gpus: dict[str, GpuSpec]) -> None:
    draws = draws_of([gpus["H20"], gpus["H200"]], None, count=COUNT, seed=0)
    kinds = [(gpu, phase) for gpu in ("H20", "H200") for phase in PHASES]
    logs = np.log([[draw.multiple(*kind) for kind in kinds] for draw in draws])
    assert logs.std(axis=0) == pytest.approx([STRUCTURE] * 4, rel=0.15)
    assert np.abs(np.corrcoef(logs.T) - np.eye(4)).max() < 0.2


def test_the_structure_of_a_pace_that_a_user_measured_hardly_errs(gpus: dict[str, GpuSpec]) -> None:
    own = replace(BUILT_IN.factor("pace_decode"), family="H20 deepseek-r1 vllm", origin=Origin.USER, gpus=("H20",))
    draws = draws_of([gpus["H20"]], Calibration(name="mine", factors=(own,)), count=COUNT, seed=0)
    logs = np.log([[draw.multiple("H20", phase) for phase in PHASES] for draw in draws])
    assert logs.std(axis=0) == pytest.approx([STRUCTURE, USER_SPREAD], rel=0.15)


def test_a_seed_gives_the_same_draws_and_another_others(gpus: dict[str, GpuSpec]) -> None:
    first, again, other = (draws_of([gpus["H20"]], None, count=2, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_bench_shows_nothing_of_a_routers_pool(gpus: dict[str, GpuSpec]) -> None:
    gpu = gpus["H20"]
    draws = draws_of([gpu], None, count=20, seed=0)
    assert {efficiency_of(gpu, draw.on_bench).prefill_pool for draw in draws} == {efficiency_of(gpu, None).prefill_pool}
    assert len({efficiency_of(gpu, draw.calibration).prefill_pool for draw in draws}) > 10
