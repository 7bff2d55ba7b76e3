"""Somebody's own runs: what ten of them say of the others of one machine, whose own the built-in paces had not seen."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmark_evidence import given_runs

from planner.cost.benchmarks.fit import Evidence
from planner.cost.benchmarks.own_runs import RunsFit, fit_own_runs
from planner.cost.benchmarks.pace_fit import PacedRun, fit_paces, group_of_run, paced_runs
from planner.cost.benchmarks.prediction import figures
from planner.cost.residuals.pace import BUILT_IN_PACES
from planner.domain import JudgedFigure, NamedRun, Origin, Phase
from planner.errors import InputError

OWN, FEWEST, MOST_OTHERS = 10, 25, 30
Machine = tuple[str, ...]
PLACE = ("DGX-B200", "llama-3.1-70b", "trt")
SLOWER = 1.4
"""How much longer everything takes on a machine of this place that somebody has."""


def machine(entry: NamedRun) -> Machine:
    """GPU type, network and engine."""
    return group_of_run(entry)[:3]


@cache
def sound_runs() -> tuple[NamedRun, ...]:
    return tuple(entry for entry in given_runs() if not entry.reason and not entry.run.doubt)


@cache
def runs_of(chosen: Machine) -> tuple[NamedRun, ...]:
    """Aggregated ones, in an order that nothing in them decides."""

    def drawn(entry: NamedRun) -> str:
        place = f"{entry.run.file.rsplit('/', 1)[-1]} {entry.run.row}"
        return hashlib.sha256(place.encode()).hexdigest()

    return tuple(sorted((e for e in sound_runs() if not e.run.disaggregated and machine(e) == chosen), key=drawn))


def fitted(runs: Sequence[NamedRun]) -> RunsFit:
    return fit_own_runs(Evidence(measurements=(), gpus={}, models={}, runs=tuple(runs)), name="mine")


def error(judged: Iterable[JudgedFigure], kind: str = "aggregated rate") -> float:
    """Mean absolute error of rates."""
    return float(np.mean([min(1.0, abs(figure.rate_error)) for figure in judged if figure.kind == kind]))


@cache
def told() -> tuple[tuple[NamedRun, PacedRun], ...]:
    """What all runs say beside their kernels: the built-in paces are made of the same."""
    return tuple(paced_runs(sound_runs()))


def of_own(chosen: Machine, own: Sequence[PacedRun]) -> float:
    """ln of the pace that somebody's own runs give."""
    group = (*chosen, Phase.DECODE)
    return fit_paces([replace(paced, group=group, version="") for paced in own]).paces[group].ln


def test_ten_own_runs_of_every_machine() -> None:
    """As the guide has it: what TPOT of the other runs is off, by kernels and formulas, and with the pace of ten."""
    errors = []
    for chosen in sorted({machine(entry) for entry in sound_runs()}):
        logs = {id(entry): paced for entry, paced in told()}
        chosen_logs = [logs[id(entry)] for entry in runs_of(chosen) if id(entry) in logs]
        if len(chosen_logs) >= FEWEST:
            pace, others = of_own(chosen, chosen_logs[:OWN]), np.array([paced.log for paced in chosen_logs[OWN:]])
            errors.append([np.minimum(1.0, np.abs(np.exp(p - others) - 1)).mean() for p in (0.0, pace)])
    assert len(errors) == 26
    assert 100 * np.mean(errors, axis=0) == pytest.approx([14.0, 10.2], abs=0.3)


def slowed(entry: NamedRun) -> NamedRun:
    """The run as the slower machine would have made it: as many requests in flight, each takes longer."""
    measured = tuple((m, value * SLOWER if m.is_time else value / SLOWER) for m, value in entry.run.measured)
    return replace(entry, run=replace(entry.run, measured=measured))


def of_somebody(count: int) -> tuple[NamedRun, ...]:
    return tuple(map(slowed, runs_of(PLACE)[:count]))


def test_ten_runs_of_a_slower_machine_tell_the_others() -> None:
    others = [slowed(entry) for entry in runs_of(PLACE)[OWN : OWN + MOST_OTHERS]]
    calibration = fitted(of_somebody(OWN)).calibration
    logs = [paced for _, paced in paced_runs(of_somebody(OWN), BUILT_IN_PACES)]
    assert np.log(calibration.factors[0].value) == pytest.approx(of_own(PLACE, logs))
    before, after = error(figures(others)), error(figures(others, calibration))
    assert before > 0.25
    assert after < 0.4 * before


def test_one_run_moves_less_than_ten() -> None:
    moved = [np.log(fitted(of_somebody(count)).calibration.factors[0].value) for count in (1, OWN)]
    assert -np.log(SLOWER) < moved[1] < moved[0] < 0
    ((_, paced),) = paced_runs(of_somebody(1), BUILT_IN_PACES)
    assert moved[0] > 0.7 * paced.log  # a run is off by itself, and so are its degrees


def test_a_fit_tells_what_it_was_made_of() -> None:
    fit = fitted(of_somebody(OWN))
    (factor,) = fit.calibration.factors
    assert (factor.name, factor.family, factor.origin) == ("pace_decode", " ".join(PLACE), Origin.USER)
    assert factor.source == f"fitted to {OWN} measurements"
    assert {gpu for gpu, _ in factor.measured} == {PLACE[0]}
    assert error(fit.after) < error(fit.left_out) < error(fit.before)
    assert len(fit.left_out) == len(fit.before)


def test_other_machines_stay_as_they_were() -> None:
    calibration = fitted(of_somebody(OWN)).calibration
    for other in ((*PLACE[:2], "vllm"), ("H200", *PLACE[1:])):
        some = runs_of(other)[:4]
        assert len(some) == 4
        for one, before in zip(figures(some, calibration), figures(some), strict=True):
            assert one.predicted == before.predicted


def test_types_without_measured_kernels_have_paces_of_their_own_likewise() -> None:
    ran = [entry for entry in sound_runs() if entry.run.gpu == "MI355X" and entry.run.disaggregated][:OWN]
    fit = fitted([slowed(entry) for entry in ran])
    assert {factor.family.split()[0] for factor in fit.calibration.factors} == {"MI355X"}
    kind = "disaggregated decode TPOT"
    assert error(fit.after, kind) < error(fit.before, kind)


def test_runs_that_tell_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="at least one figure that can be predicted"):
        fitted([])
